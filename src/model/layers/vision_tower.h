// A vision transformer over patches: learned positions stretched over the picture's grid, rotation by row and
// column, attention over the whole picture, and a merger that makes each block of patches one token. Source:
// the reference implementation of Qwen3.5; checked by tests/golden.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/tower.h"
#include "model/weights.h"

namespace kapitsa {

class VisionTower final : public Tower {
public:
    struct Numbers {
        TowerShape shape;
        std::uint32_t layers = 0, width = 0, inner = 0, heads = 0;
        std::uint32_t table_side = 0;  // of the square of learned positions
        float epsilon = 0;
        double rope_theta = 0;
        std::uint32_t head_width() const { return width / heads; }
    };

    /// The tensors of `module` ("model.visual").
    static Result<std::unique_ptr<Tower>> load(Weights& weights, const std::string& module,
                                               const Numbers& numbers);

    const TowerShape& shape() const override { return numbers_.shape; }
    Tensor forward(const PictureBatch& picture, Recorder& r) const override;

private:
    struct Norm {
        Tensor weight, bias;
    };
    struct Linear {
        Weight weight;
        Tensor bias;
    };
    struct Layer {
        Norm attention_norm, mlp_norm;
        Linear q, k, v, o, up, down;
    };
    struct Angles {
        Tensor cosines, sines;  // [patches, head_width / 2]
    };

    static Result<Norm> load_norm(Weights& weights, const std::string& module, std::uint32_t width);
    static Result<Linear> load_linear(Weights& weights, const std::string& module, std::uint32_t outputs,
                                      std::uint32_t inputs);
    /// The kernel of the patches, [width, 3, frames, side, side], however it is stored.
    Result<std::vector<float>> read_patches(Weights& weights, const std::string& name) const;
    Status load_patches(Weights& weights, const std::string& module);
    static Status load_qkv(Weights& weights, const std::string& module, std::uint32_t width, Layer& layer);
    Status load_layer(Weights& weights, const std::string& module);
    Status load_rotation(Weights& weights);

    Tensor norm(Tensor x, const Norm& norm, Recorder& r) const;
    static Tensor apply(const Linear& linear, Tensor x, Recorder& r);
    static void add(const Linear& linear, Tensor x, Tensor y, Recorder& r);
    Tensor embed(const PictureBatch& picture, Recorder& r) const;
    Angles angles(const PictureBatch& picture, Recorder& r) const;
    Tensor attend(const Layer& layer, Tensor x, const Angles& angles, const PictureBatch& picture,
                  Recorder& r) const;

    Numbers numbers_;
    Linear patches_;  // of [3, frames, side, side] values
    Tensor positions_;
    Tensor frequencies_;  // [1, head_width / 2]
    Address axes_;        // of each frequency: the row's, then the column's
    std::vector<Layer> layers_;
    Norm merger_norm_;
    Linear merger_up_, merger_down_;
};

}  // namespace kapitsa
