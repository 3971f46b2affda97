// The numbers of a model of the family, from its config.json.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "model/layers/delta_net.h"
#include "model/layers/experts.h"
#include "model/layers/hyper_connection.h"
#include "model/layers/ngram_layer.h"
#include "model/layers/sparse_attention.h"

namespace kapitsa::qwen4 {

struct Numbers {
    std::uint32_t vocabulary = 0, layers = 0, context = 0;
    HyperConnection::Numbers streams;
    SparseAttention::Numbers attention;
    DeltaNet::Numbers delta_net;
    Experts::Numbers experts;
    NgramLayer::Numbers ngrams;
    std::vector<bool> attends;                // [layers] sparse attention, or the delta net
    std::vector<std::uint32_t> ngram_layers;  // counted from 0, ascending
    double rope_theta = 0;
    float epsilon = 0;
    bool tied = false;    // the head is the embedding
    bool drafts = false;  // the head for multi-token prediction is the known one, if its tensors are there

    std::uint32_t width() const { return streams.width; }
    std::uint32_t wide() const { return streams.width * streams.streams; }
};

/// A setting that is not known, or whose sources contradict each other, is refused by its name.
Result<Numbers> read_numbers(const Json& config);

}  // namespace kapitsa::qwen4
