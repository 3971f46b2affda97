// How a layer reads from residual streams side by side and writes to them: kernels/streams.h.
#pragma once

#include <string>

#include "model/recorder.h"
#include "model/weights.h"

namespace kapitsa {

class HyperConnection {
public:
    struct Numbers {
        std::uint32_t width = 0, streams = 0;  // of one stream, and how many
        std::uint32_t rank = 0;                // of the matrices that make the gates
        float epsilon = 0;
        float norm_shift = 0;  // 1 where the checkpoint stores w of (1 + w)
    };

    /// The tensors of `module` ("model.layers.0.attn_hyper_connection"). `writes`: it has weights for what
    /// its layer says; the last one, which makes the model's output, has not.
    static Result<HyperConnection> load(Weights& weights, const std::string& module, const Numbers& numbers,
                                        bool writes);

    std::uint64_t bytes() const { return down_.bytes() + up_.bytes() + (writes_ ? inject_.bytes() : 0); }

    /// What a layer gets of x, and the logits of what its answer weighs.
    struct Reading {
        Tensor h;       // [rows, width]
        Tensor logits;  // [rows, streams], or none
    };
    /// @param x [rows, streams * width]
    Reading read(Tensor x, Recorder& r) const;
    /// Adds what the layer said, [rows, width], to the streams.
    void write(Tensor said, const Reading& reading, Tensor x, Recorder& r) const;

private:
    Numbers numbers_;
    bool writes_ = false;
    Tensor norm_;  // [1, streams * width]
    Weight down_, up_, inject_;
};

/// The norm of each stream of x on its own.
Tensor stream_norms(Tensor x, Tensor weight, std::uint32_t streams, float epsilon, Recorder& r);
/// y added to every stream of x.
void add_to_streams(Tensor y, Tensor x, Recorder& r);
/// [rows, width] of zeros, for a layer that adds to it.
Tensor zeros(std::uint32_t rows, std::uint32_t width, Recorder& r);

}  // namespace kapitsa
