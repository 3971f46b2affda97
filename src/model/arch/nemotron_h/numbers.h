// The numbers of a Nemotron-H model, from its config.json. Every number that may differ from layer to layer
// is a number of its layer.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace kapitsa::nemotron {

enum class Kind : std::uint8_t { mamba, attention, mlp, experts };

/// A layer that chooses among experts.
struct ExpertNumbers {
    std::uint32_t experts = 0, used = 0;
    std::uint32_t inner = 0, shared_inner = 0;
    std::uint32_t latent = 0;  // the experts' own width; 0: they work at that of the stream
};

struct LayerNumbers {
    Kind kind = Kind::mlp;
    ExpertNumbers experts = {};
};

struct Numbers {
    std::uint32_t vocabulary = 0, width = 0, context = 0;
    std::uint32_t inner = 0;  // of the plain feed-forward layers
    std::uint32_t heads = 0, kv_heads = 0, head_width = 0;
    std::uint32_t mamba_heads = 0, mamba_head_width = 0, groups = 0, state_width = 0, taps = 0;
    bool conv_biased = true;
    float least_step = 0, most_step = 0;  // the bounds of a step of time
    float epsilon = 0;                    // of every norm
    bool tied = false;                    // the head is the embedding
    // Routing, in every layer alike:
    std::uint32_t expert_groups = 1, groups_used = 1;
    bool normed_weights = true;
    float expert_scale = 1;

    std::vector<LayerNumbers> layers;
    std::vector<LayerNumbers> draft_layers;  // of the module that drafts a token; empty: there is none
};

/// Fault::unsupported where the file asks for arithmetic that is not known here.
Result<Numbers> read_numbers(const Json& config);

}  // namespace kapitsa::nemotron
