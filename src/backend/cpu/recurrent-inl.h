// How the rules with a state of columns go over rows: delta_net.cpp and mamba2.cpp say what one row does. The
// columns of a state do not meet, so a unit is a head and a block of its columns, whose part of the state
// stays in the first cache while the rows go by. Included once an instruction set.
#if defined(KAPITSA_RECURRENT_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAPITSA_RECURRENT_INL_
#undef KAPITSA_RECURRENT_INL_
#else
#define KAPITSA_RECURRENT_INL_
#endif

#include "backend/cpu/native.h"
#include "backend/cpu/vectors-inl.h"
#include "kernels/segments.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

constexpr std::size_t block_vectors = 4;  // of a unit's columns: four chains of additions at once

/// The states of a launch: [sequences, heads, depth, width].
struct States {
    float* at;
    std::size_t heads, depth, width;
};

/// A block of columns of one state: [depth, stride] floats, `width` of each row in use.
struct StateBlock {
    float* at;
    std::size_t depth, stride, width;
};

/// The unit's place: which segment or path, which head, which columns.
struct StatePlace {
    std::size_t item, head, column, width, stride;

    HWY_INLINE StatePlace(const States& states, std::size_t unit) {
        stride = block_vectors * hn::Lanes(F());
        const std::size_t blocks = (states.width + stride - 1) / stride;
        item = unit / (states.heads * blocks);
        head = unit / blocks % states.heads;
        column = unit % blocks * stride;
        width = HWY_MIN(stride, states.width - column);
    }
    HWY_INLINE float* state(const States& states, std::size_t sequence) const {
        return states.at + (sequence * states.heads + head) * states.depth * states.width + column;
    }
};

/// Blocks of columns of a state.
HWY_INLINE std::size_t column_blocks(std::size_t width) {
    const std::size_t stride = block_vectors * hn::Lanes(F());
    return (width + stride - 1) / stride;
}

/// Copies a block between a sequence's state (rows of `state_width`) and scratch.
HWY_INLINE void fetch(const StateBlock& block, const float* state, std::size_t state_width) {
    for (std::size_t i = 0; i < block.depth; ++i) {
        std::memcpy(block.at + i * block.stride, state + i * state_width, block.width * sizeof(float));
        std::memset(block.at + i * block.stride + block.width, 0,
                    (block.stride - block.width) * sizeof(float));
    }
}
HWY_INLINE void put_back(const StateBlock& block, float* state, std::size_t state_width) {
    for (std::size_t i = 0; i < block.depth; ++i)
        std::memcpy(state + i * state_width, block.at + i * block.stride, block.width * sizeof(float));
}

/// Units [first, last) of a launch over segments. Rule::step(args, row, place, block, o) moves a block one
/// row on and puts the row's output where `o` points, unless it is null.
template <class Rule, class Args>
HWY_INLINE void walk_segments(const Args& args, const States& states, std::uint32_t first, std::uint32_t last,
                              Scratch& scratch) {
    for (std::size_t unit = first; unit < last; ++unit) {
        const StatePlace place(states, unit);
        const SegmentRows& segment = args.segments[place.item];
        const std::size_t block_floats = states.depth * place.stride;
        float* room = scratch.floats(block_floats * (segment.commit ? 1 : segment.rows));
        float* committed = place.state(states, segment.sequence);
        const std::size_t end = std::size_t(segment.first_row) + segment.rows;
        float* o = args.o + (segment.first_row * states.heads + place.head) * states.width + place.column;
        const std::size_t o_stride = states.heads * states.width;
        if (segment.commit) {
            const StateBlock state{room, states.depth, place.stride, place.width};
            fetch(state, committed, states.width);
            for (std::size_t row = segment.first_row; row < end; ++row, o += o_stride)
                Rule::step(args, row, place, state, o);
            put_back(state, committed, states.width);
            continue;
        }
        // A draft: each row's state from its parent's, none written back.
        for (std::size_t row = segment.first_row; row < end; ++row, o += o_stride) {
            const StateBlock state{room + (row - segment.first_row) * block_floats, states.depth,
                                   place.stride, place.width};
            const int parent = args.parents[row];
            if (parent == no_row)
                fetch(state, committed, states.width);
            else
                std::memcpy(state.at, room + (std::size_t(parent) - segment.first_row) * block_floats,
                            block_floats * sizeof(float));
            Rule::step(args, row, place, state, o);
        }
    }
}

/// Units [first, last) of a launch that replays the rows of paths into states.
template <class Rule, class Args>
HWY_INLINE void replay_paths(const Args& args, const States& states, std::uint32_t first, std::uint32_t last,
                             Scratch& scratch) {
    for (std::size_t unit = first; unit < last; ++unit) {
        const StatePlace place(states, unit);
        const CommitPath& path = args.paths[place.item];
        const StateBlock state{scratch.floats(states.depth * place.stride), states.depth, place.stride,
                               place.width};
        float* committed = place.state(states, path.sequence);
        fetch(state, committed, states.width);
        for (std::size_t i = 0; i < path.rows; ++i)
            Rule::step(args, args.path_rows[path.first + i], place, state, nullptr);
        put_back(state, committed, states.width);
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
