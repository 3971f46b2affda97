// The native twin of kernels/mamba2.h: the rule row by row. (mamba2_chunks.cpp has the chunked form.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/mamba2.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include "backend/cpu/recurrent-inl.h"
#include "kernels/mamba2.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

void mamba2_steps_rows(const Mamba2Steps& args, std::uint32_t first, std::uint32_t last) {
    for (std::size_t row = first; row < last; ++row)
        for (std::size_t head = 0; head < args.heads; ++head) {
            const std::size_t at = row * args.heads + head;
            const float dt = softplus(args.raw[at] + args.bias[head]);
            // Written so that NaN stays what it is.
            args.dt[at] = dt < args.least ? args.least : dt > args.most ? args.most : dt;
        }
}

struct Mamba2Rule {
    template <typename Args>
    static HWY_INLINE void step(const Args& args, std::size_t row, const StatePlace& place,
                                const StateBlock& state, float* o) {
        const F d;
        const std::size_t lanes = hn::Lanes(d), inner = std::size_t(args.heads) * args.head_width,
                          group = place.head / (args.heads / args.groups);
        const float* x = args.xbc + row * (inner + 2 * std::size_t(args.groups) * args.state_width);
        const float* b = x + inner + group * args.state_width;
        const float* c = b + std::size_t(args.groups) * args.state_width;
        const float dt = args.dt[row * args.heads + place.head];
        const auto decay = hn::Set(d, std::exp(-args.rate[place.head] * dt));

        FloatVec change[block_vectors], out[block_vectors];
        for (std::size_t j = 0; j < block_vectors; ++j) {
            const std::size_t done = j * lanes;
            const auto mine = done < state.width
                                  ? load_first(d, x + place.head * args.head_width + place.column + done,
                                               state.width - done)
                                  : hn::Zero(d);
            change[j] = hn::Mul(hn::Set(d, dt), mine);
            out[j] = hn::Mul(hn::Set(d, args.skip[place.head]), mine);
        }
        for (std::size_t i = 0; i < state.depth; ++i) {
            const auto bs = hn::Set(d, b[i]), cs = hn::Set(d, c[i]);
            for (std::size_t j = 0; j < block_vectors; ++j) {
                float* s = state.at + i * state.stride + j * lanes;
                const auto next = hn::MulAdd(bs, change[j], hn::Mul(decay, hn::LoadU(d, s)));
                hn::StoreU(next, d, s);
                out[j] = hn::MulAdd(cs, next, out[j]);
            }
        }
        if (!o) return;
        for (std::size_t j = 0; j < block_vectors && j * lanes < state.width; ++j)
            store_first(out[j], d, o + j * lanes, state.width - j * lanes);
    }
};

template <typename Args>
HWY_INLINE States states_of(const Args& args) {
    return {args.states, args.heads, args.state_width, args.head_width};
}

std::uint32_t mamba2_blocks(std::uint32_t head_width) { return std::uint32_t(column_blocks(head_width)); }

void mamba2_rows_units(const Mamba2Rows& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    walk_segments<Mamba2Rule>(args, states_of(args), first, last, scratch);
}

void mamba2_commit_units(const Mamba2Commit& args, std::uint32_t first, std::uint32_t last,
                         Scratch& scratch) {
    replay_paths<Mamba2Rule>(args, states_of(args), first, last, scratch);
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(mamba2_steps_rows);
HWY_EXPORT(mamba2_blocks);
HWY_EXPORT(mamba2_rows_units);
HWY_EXPORT(mamba2_commit_units);

namespace {

std::uint32_t steps_units(const Mamba2Steps& args) { return args.rows; }
template <typename Args>
std::uint32_t state_units(const Args& args) {
    return args.count * args.heads * HWY_DYNAMIC_DISPATCH(mamba2_blocks)(args.head_width);
}
void run_steps(const Mamba2Steps& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(mamba2_steps_rows)(args, first, last);
}
void run_rows(const Mamba2Rows& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(mamba2_rows_units)(args, first, last, scratch);
}
void run_commit(const Mamba2Commit& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(mamba2_commit_units)(args, first, last, scratch);
}

constexpr Native natives[] = {
    native<steps_units, run_steps>(mamba2_steps_f32),
    native<state_units<Mamba2Rows>, run_rows>(mamba2_rows_f32),
    native<state_units<Mamba2Commit>, run_commit>(mamba2_commit_f32),
};

}  // namespace

std::span<const Native> mamba2_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif
