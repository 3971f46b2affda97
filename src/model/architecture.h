// What a model file (arch/*.cpp) gives to the rest of the house: one Architecture, which makes Models.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/batch.h"
#include "model/drafter.h"
#include "model/memory.h"
#include "model/recorder.h"
#include "model/weights.h"

namespace kapitsa {

/// What a model needs and is, in numbers that no family owns.
struct ModelShape {
    std::uint32_t vocabulary = 0;
    std::uint32_t width = 0;  // of what taps copy: the stream, or all streams together
    std::uint32_t layers = 0;
    std::uint32_t context = 0;  // tokens it was made for
    std::vector<AttentionShape> attention;
    std::vector<RecurrentShape> recurrent;
    std::uint64_t decode_bytes = 0;  // weights read to compute one token
};

/// Copies of the stream for whoever asked: after each layer in `layers`, counted from 0; the number of layers
/// itself stands for what a drafter reads: the output of the final norm over all rows, where the model's file
/// says nothing else.
struct Taps {
    std::vector<std::uint32_t> layers;
    std::vector<Address> places;  // [rows, width] each

    /// Copies x, the stream after `layer`, to who asked for it.
    void copy(std::uint32_t layer, Tensor x, Recorder& r) const {
        for (std::size_t i = 0; i < layers.size(); ++i)
            if (layers[i] == layer) r.copy_rows(x, Address{}, Address{}, x.rows, places[i]);
    }
};

class Model {
public:
    virtual ~Model() = default;
    virtual const ModelShape& shape() const = 0;
    /// Records one step. @return [wanted, vocabulary] logits on the scratch stack.
    virtual Tensor forward(const Batch& batch, const ModelMemory& memory, const Taps& taps,
                           Recorder& r) const = 0;
    /// Records what accepting paths of draft rows changes, but for the moves of keys and values.
    virtual void commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const = 0;
    /// The drafter that the checkpoint holds beside the model, which must outlive it; null where there is
    /// none. The model itself has set its tensors aside.
    virtual Result<std::unique_ptr<Drafter>> load_drafter(Weights&) const { return nullptr; }
};

struct Architecture {
    std::string_view name;                          // of the file in arch/
    std::span<const std::string_view> model_types;  // what config.json calls it
    Result<std::unique_ptr<Model>> (*load)(const Json& config, Weights& weights);
};

/// Fault::unsupported in one sentence, with the list of what is supported.
Result<const Architecture*> find_architecture(const Json& config);

}  // namespace kapitsa
