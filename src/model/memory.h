// What sequences own on the device, a row a layer: pages of keys and values, recurrent states and convolution
// tails, and the inputs that recurrent layers keep of draft rows until a path of them is committed.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/tensor.h"
#include "cache/page.h"

namespace kapitsa {

/// The shape of what one attention layer remembers.
struct AttentionShape {
    std::uint32_t kv_heads = 0, width = 0;
    std::size_t page_floats() const {
        return std::size_t(kv_heads) * width * page_tokens;
    }  // of keys; as many of values
};

/// The shape of what one delta-net layer remembers.
struct DeltaNetShape {
    std::uint32_t key_heads = 0, value_heads = 0, key_width = 0, value_width = 0, taps = 0;
    std::uint32_t channels() const { return 2 * key_heads * key_width + value_heads * value_width; }
    std::size_t state_floats() const { return std::size_t(value_heads) * key_width * value_width; }
    std::size_t tail_floats() const { return std::size_t(taps - 1) * channels(); }
};

struct AttentionMemory {
    AttentionShape shape;
    Address keys, values;  // [pages, kv_heads, ...], see kernels/attend.h
};

struct DeltaNetMemory {
    DeltaNetShape shape;
    Address states;  // [sequences, value_heads, key_width, value_width]
    Address tails;   // [sequences, taps - 1, channels]
    // Of draft rows, in the places that the step gave them:
    Address kept_u;             // [kept, channels] before the convolution
    Address kept_qkv;           // [kept, channels] as the delta rule takes them
    Address kept_g, kept_beta;  // [kept, value_heads]
};

struct ModelMemory {
    std::vector<AttentionMemory> attention;  // by number among the attention layers
    std::vector<DeltaNetMemory> delta_net;   // by number among the delta-net layers
};

}  // namespace kapitsa
