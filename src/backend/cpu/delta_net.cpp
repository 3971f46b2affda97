// The native twin of kernels/delta_net.h: the rule row by row. (delta_chunks.cpp has the chunked form.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/delta_net.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include <cmath>

#include "backend/cpu/recurrent-inl.h"
#include "kernels/delta_net.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

HWY_INLINE void make_unit(float* x, std::size_t width, float scale) {
    const F d;
    const auto factor = hn::Set(d, scale / std::sqrt(dot(x, x, width) + 1e-6f));
    for (std::size_t i = 0; i < width; i += hn::Lanes(d))
        store_first(hn::Mul(load_first(d, x + i, width - i), factor), d, x + i, width - i);
}

void delta_inputs_rows(const DeltaInputs& args, std::uint32_t first, std::uint32_t last) {
    const std::size_t keys = std::size_t(args.key_heads) * args.key_width;
    const std::size_t columns = 2 * keys + std::size_t(args.value_heads) * args.value_width;
    const float scale = 1.0f / std::sqrt(float(args.key_width));
    for (std::size_t row = first; row < last; ++row) {
        for (std::size_t head = 0; head < args.key_heads; ++head) {
            float* q = args.qkv + row * columns + head * args.key_width;
            make_unit(q, args.key_width, scale);
            make_unit(q + keys, args.key_width, 1.0f);
        }
        for (std::size_t head = 0; head < args.value_heads; ++head) {
            const std::size_t at = row * args.value_heads + head;
            args.beta[at] = 1.0f / (1.0f + std::exp(-args.b[at]));
            args.g[at] = -args.rate[head] * softplus(args.a[at] + args.dt_bias[head]);
        }
    }
}

/// One head's columns of one row, and where its inputs stand.
struct RowInputs {
    const float *q, *k, *v;
    float decay, beta;

    template <typename Args>
    HWY_INLINE RowInputs(const Args& args, std::size_t row, std::size_t head, std::size_t column) {
        const std::size_t keys = std::size_t(args.key_heads) * args.key_width;
        const std::size_t columns = 2 * keys + std::size_t(args.value_heads) * args.value_width;
        const std::size_t key_head = key_head_of(uint(head), args.key_heads, args.value_heads, args.tiled);
        const float* x = args.qkv + row * columns;
        q = x + key_head * args.key_width;
        k = q + keys;
        v = x + 2 * keys + head * args.value_width + column;
        const std::size_t at = row * args.value_heads + head;
        decay = std::exp(args.g[at]);
        beta = args.beta[at];
    }
};

/// Moves the block one row on. `o` gets the row's output, or is null.
HWY_INLINE void step(const StateBlock& state, const RowInputs& in, float* o) {
    const F d;
    const std::size_t lanes = hn::Lanes(d);
    FloatVec predicted[block_vectors], change[block_vectors], out[block_vectors];
    for (auto& v : predicted) v = hn::Zero(d);
    for (std::size_t i = 0; i < state.depth; ++i) {
        const auto k = hn::Set(d, in.k[i]);
        for (std::size_t j = 0; j < block_vectors; ++j)
            predicted[j] = hn::MulAdd(k, hn::LoadU(d, state.at + i * state.stride + j * lanes), predicted[j]);
    }
    const auto decay = hn::Set(d, in.decay), beta = hn::Set(d, in.beta);
    for (std::size_t j = 0; j < block_vectors; ++j) {
        const std::size_t done = j * lanes;
        const auto v = done < state.width ? load_first(d, in.v + done, state.width - done) : hn::Zero(d);
        change[j] = hn::Mul(beta, hn::NegMulAdd(decay, predicted[j], v));
        out[j] = hn::Zero(d);
    }
    for (std::size_t i = 0; i < state.depth; ++i) {
        const auto k = hn::Set(d, in.k[i]), q = hn::Set(d, in.q[i]);
        for (std::size_t j = 0; j < block_vectors; ++j) {
            float* s = state.at + i * state.stride + j * lanes;
            const auto next = hn::MulAdd(k, change[j], hn::Mul(decay, hn::LoadU(d, s)));
            hn::StoreU(next, d, s);
            out[j] = hn::MulAdd(q, next, out[j]);
        }
    }
    if (!o) return;
    for (std::size_t j = 0; j < block_vectors && j * lanes < state.width; ++j)
        store_first(out[j], d, o + j * lanes, state.width - j * lanes);
}

struct DeltaRule {
    template <typename Args>
    static HWY_INLINE void step(const Args& args, std::size_t row, const StatePlace& place,
                                const StateBlock& state, float* o) {
        kapitsa::cpu::HWY_NAMESPACE::step(state, RowInputs(args, row, place.head, place.column), o);
    }
};

template <typename Args>
HWY_INLINE States states_of(const Args& args) {
    return {args.states, args.value_heads, args.key_width, args.value_width};
}

std::uint32_t delta_blocks(std::uint32_t value_width) { return std::uint32_t(column_blocks(value_width)); }

void delta_rows_units(const DeltaRows& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    walk_segments<DeltaRule>(args, states_of(args), first, last, scratch);
}

void delta_commit_units(const DeltaCommit& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    replay_paths<DeltaRule>(args, states_of(args), first, last, scratch);
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(delta_inputs_rows);
HWY_EXPORT(delta_blocks);
HWY_EXPORT(delta_rows_units);
HWY_EXPORT(delta_commit_units);

namespace {

std::uint32_t inputs_units(const DeltaInputs& args) { return args.rows; }
template <typename Args>
std::uint32_t state_units(const Args& args) {
    return args.count * args.value_heads * HWY_DYNAMIC_DISPATCH(delta_blocks)(args.value_width);
}
void run_inputs(const DeltaInputs& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(delta_inputs_rows)(args, first, last);
}
void run_rows(const DeltaRows& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(delta_rows_units)(args, first, last, scratch);
}
void run_commit(const DeltaCommit& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(delta_commit_units)(args, first, last, scratch);
}

constexpr Native natives[] = {
    native<inputs_units, run_inputs>(delta_inputs_f32),
    native<state_units<DeltaRows>, run_rows>(delta_rows_f32),
    native<state_units<DeltaCommit>, run_commit>(delta_commit_f32),
};

}  // namespace

std::span<const Native> delta_net_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif
