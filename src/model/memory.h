// What sequences own on the device, a row a layer: pages of keys and values, recurrent states and convolution
// tails, and the inputs that recurrent layers keep of draft rows until a path of them is committed.
#pragma once

#include <array>
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

/// The shape of what one recurrent layer remembers of a sequence: its state and the last inputs of its short
/// convolution. And of what it keeps of the rows of drafts: the inputs from which a commit replays them.
struct RecurrentShape {
    std::size_t state_floats = 0;
    std::uint32_t taps = 1, channels = 0;  // of the convolution
    std::array<std::uint32_t, 4> kept =
        {};  // columns of each kind of input it keeps; 0: there is no such kind
    std::size_t tail_floats() const { return std::size_t(taps - 1) * channels; }
};

struct AttentionMemory {
    AttentionShape shape;
    Address keys, values;  // [pages, kv_heads, ...], see kernels/attend.h
};

struct RecurrentMemory {
    RecurrentShape shape;
    Address states;  // [sequences, state_floats]
    Address tails;   // [sequences, taps - 1, channels] raw inputs of the convolution
    std::array<Address, 4>
        kept;  // [kept, columns] each, of draft rows, in the places that the step gave them
};

struct ModelMemory {
    std::vector<AttentionMemory> attention;  // by number among the attention layers
    std::vector<RecurrentMemory> recurrent;  // by number among the recurrent layers
};

}  // namespace kapitsa
