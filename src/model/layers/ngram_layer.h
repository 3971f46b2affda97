// What a layer with a table of n-grams adds to residual streams: rows of the table that the last few tokens
// pick make a key for each stream and one value; the value, gated by how key and stream match, and its
// convolution over time are added. kernels/ngrams.h.
//
// It remembers the last tokens, and the last inputs of the convolution: two places of recurrent memory.
#pragma once

#include <array>
#include <string>

#include "model/layers/ngram_hash.h"
#include "model/memory.h"
#include "model/recorder.h"

namespace kapitsa {

class NgramLayer {
public:
    struct Numbers {
        NgramNumbers ngrams;
        std::uint32_t parts = 1;               // tensors of the table
        std::uint32_t embedding = 0;           // columns of all rows picked
        std::uint32_t width = 0, streams = 0;  // of the residual streams
        std::uint32_t taps = 0;                // of the convolution, each `order` tokens apart
        std::int32_t reset = 0;                // the token before which nothing counts
        float epsilon = 0;
        float norm_shift = 0;
    };

    /// The tensors of `module` ("model.layers.1.ple"). `place` is the number of the first of its two places
    /// in ModelMemory::recurrent.
    static Result<NgramLayer> load(Weights& weights, const std::string& module, const Numbers& numbers,
                                   std::uint32_t place);

    std::array<RecurrentShape, 2> shapes() const;
    std::uint64_t bytes() const;  // read for one row

    /// Which rows of the table the step looks up, known by its tokens alone: asked for before the first layer
    /// computes, so that what is not in memory is read meanwhile. The last tokens move on in this pass.
    /// @return uint [rows, heads]
    Address pick(const Batch& batch, const ModelMemory& memory, Recorder& r) const;
    /// x += the layer of x, [rows, streams * width]. Chains move on in this pass; of drafts the inputs are
    /// kept.
    void add(Tensor x, Address picked, const Batch& batch, const ModelMemory& memory, Recorder& r) const;
    void commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const;

private:
    Status load_table(Weights& weights, const std::string& module);
    Tensor embed(const Batch& batch, Address picked, Recorder& r) const;

    Numbers numbers_;
    std::uint32_t place_ = 0;
    std::uint32_t part_rows_ = 0;
    ExpertWeights table_;                    // a part is a matrix
    Address multipliers_, sizes_, offsets_;  // ulong
    Weight key_, value_;
    Tensor key_norm_, query_norm_, conv_norm_;  // [1, streams * width]
    Tensor conv_;                               // [taps, streams * width]
};

}  // namespace kapitsa
