// The native twin of kernels/ngrams.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ngrams.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include <cmath>

#include "backend/cpu/affine_rows-inl.h"
#include "backend/cpu/native.h"
#include "kernels/ngrams.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

template <typename T>
HWY_INLINE void lookup_rows_of(const Lookup<T>& args, std::uint32_t first, std::uint32_t last) {
    const std::size_t columns = args.columns;
    for (std::size_t row = first; row < last; ++row) {
        const std::size_t part = args.picked[row] / args.part_rows, at = args.picked[row] % args.part_rows;
        widen(args.parts[part].weight + at * columns, columns, args.y + row * columns);
    }
}

template <typename Scale>
HWY_INLINE void lookup_affine_rows_of(const LookupAffine<Scale>& args, std::uint32_t first,
                                      std::uint32_t last, Scratch& scratch) {
    float* room = scratch.floats(2 * (args.columns / args.group));
    for (std::size_t row = first; row < last; ++row) {
        const auto& part = args.parts[args.picked[row] / args.part_rows];
        widen_affine_row(part.codes, part.scales, part.biases, args.picked[row] % args.part_rows,
                         args.columns, args.group, args.bits, room, args.y + row * args.columns);
    }
}

void lookup_rows_f32(const Lookup<float>& a, std::uint32_t first, std::uint32_t last) {
    lookup_rows_of(a, first, last);
}
void lookup_rows_f16(const Lookup<half>& a, std::uint32_t first, std::uint32_t last) {
    lookup_rows_of(a, first, last);
}
void lookup_rows_bf16(const Lookup<bfloat>& a, std::uint32_t first, std::uint32_t last) {
    lookup_rows_of(a, first, last);
}
void lookup_codes_f32(const LookupAffine<float>& a, std::uint32_t first, std::uint32_t last,
                      Scratch& scratch) {
    lookup_affine_rows_of(a, first, last, scratch);
}
void lookup_codes_f16(const LookupAffine<half>& a, std::uint32_t first, std::uint32_t last,
                      Scratch& scratch) {
    lookup_affine_rows_of(a, first, last, scratch);
}
void lookup_codes_bf16(const LookupAffine<bfloat>& a, std::uint32_t first, std::uint32_t last,
                       Scratch& scratch) {
    lookup_affine_rows_of(a, first, last, scratch);
}

/// A unit is a stream of a row.
void gate_by_match_units(const GateByMatch& args, std::uint32_t first, std::uint32_t last) {
    const F d;
    const std::size_t width = args.width;
    for (std::size_t unit = first; unit < last; ++unit) {
        const float match =
            dot(args.key + unit * width, args.query + unit * width, width) / std::sqrt(float(width));
        const float root = std::sqrt(HWY_MAX(std::fabs(match), 1e-6f));
        const float opened = match == 0.0f ? 0.0f : std::copysign(root, match);
        const auto gate = hn::Set(d, 1.0f / (1.0f + std::exp(-opened)));
        const float* value = args.value + unit / args.streams * width;
        for (std::size_t i = 0; i < width; i += hn::Lanes(d))
            store_first(hn::Mul(gate, load_first(d, value + i, width - i)), d, args.y + unit * width + i,
                        width - i);
    }
}

/// What the taps of a row see, oldest first.
HWY_INLINE void inputs_of(const DilatedConv& args, std::size_t row, const float** inputs) {
    const std::size_t kept = std::size_t(args.taps - 1) * args.dilation;
    const float* tail = args.tails + std::size_t(args.sequences[row]) * kept * args.channels;
    int at = int(row);
    std::size_t tail_left = kept;
    for (std::size_t back = 0; back <= kept; ++back) {
        const float* input =
            at != no_row ? args.u + std::size_t(at) * args.channels : tail + --tail_left * args.channels;
        if (back % args.dilation == 0) inputs[args.taps - 1 - back / args.dilation] = input;
        if (at != no_row) at = args.parents[at];
    }
}

void dilated_conv_rows(const DilatedConv& args, std::uint32_t first, std::uint32_t last) {
    const F d;
    const std::size_t channels = args.channels;
    for (std::size_t row = first; row < last; ++row) {
        const float* inputs[dilated_conv_most_taps];
        inputs_of(args, row, inputs);
        for (std::size_t c = 0; c < channels; c += hn::Lanes(d)) {
            const std::size_t left = channels - c, at = row * channels + c;
            auto total = hn::Zero(d);
            for (std::size_t tap = 0; tap < args.taps; ++tap)
                total = hn::MulAdd(load_first(d, args.weight + tap * channels + c, left),
                                   load_first(d, inputs[tap] + c, left), total);
            const auto said = hn::Add(load_first(d, args.direct + at, left), silu(total));
            store_first(hn::Add(load_first(d, args.y + at, left), said), d, args.y + at, left);
        }
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(lookup_rows_f32);
HWY_EXPORT(lookup_rows_f16);
HWY_EXPORT(lookup_rows_bf16);
HWY_EXPORT(lookup_codes_f32);
HWY_EXPORT(lookup_codes_f16);
HWY_EXPORT(lookup_codes_bf16);
HWY_EXPORT(gate_by_match_units);
HWY_EXPORT(dilated_conv_rows);

namespace {

template <typename Args>
std::uint32_t rows_of(const Args& args) {
    return args.rows;
}
std::uint32_t streams_of(const GateByMatch& args) { return args.rows * args.streams; }

void pick_row(const NgramRows& args, std::size_t row) {
    const std::size_t kept = args.order - 1, of_each = args.heads / kept;
    const float* tail = args.tails + args.sequences[row] * kept;
    args.marks[row] = float(args.tokens[row]) + 1.0f;
    std::uint64_t hash = std::uint64_t(args.tokens[row]) * args.multipliers[0];
    int at = args.parents[row];
    std::size_t tail_left = kept;
    bool cut = false;  // everything from here on back counts as `reset`
    for (std::size_t n = 1; n <= kept; ++n) {
        int token = args.reset;
        if (at != no_row) {
            token = args.tokens[at];
            at = args.parents[at];
        } else if (const float mark = tail[--tail_left]; mark > 0.0f) {
            token = int(mark - 1.0f);
        }
        cut = cut || token == args.reset;
        hash ^= std::uint64_t(cut ? args.reset : token) * args.multipliers[n];
        for (std::size_t head = (n - 1) * of_each; head < n * of_each; ++head)
            args.picked[row * args.heads + head] =
                std::uint32_t(hash % args.sizes[head] + args.offsets[head]);
    }
}
void run_ngrams(const NgramRows& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    for (std::size_t row = first; row < last; ++row) pick_row(args, row);
}

void run_f32(const Lookup<float>& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(lookup_rows_f32)(args, first, last);
}
void run_f16(const Lookup<half>& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(lookup_rows_f16)(args, first, last);
}
void run_bf16(const Lookup<bfloat>& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(lookup_rows_bf16)(args, first, last);
}
void run_codes_f32(const LookupAffine<float>& args, std::uint32_t first, std::uint32_t last,
                   Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(lookup_codes_f32)(args, first, last, scratch);
}
void run_codes_f16(const LookupAffine<half>& args, std::uint32_t first, std::uint32_t last,
                   Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(lookup_codes_f16)(args, first, last, scratch);
}
void run_codes_bf16(const LookupAffine<bfloat>& args, std::uint32_t first, std::uint32_t last,
                    Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(lookup_codes_bf16)(args, first, last, scratch);
}
void run_gate(const GateByMatch& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(gate_by_match_units)(args, first, last);
}
void run_conv(const DilatedConv& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(dilated_conv_rows)(args, first, last);
}

constexpr Native natives[] = {
    native<rows_of<NgramRows>, run_ngrams>(ngram_rows),
    native<rows_of<Lookup<float>>, run_f32>(lookup_f32),
    native<rows_of<Lookup<half>>, run_f16>(lookup_f16),
    native<rows_of<Lookup<bfloat>>, run_bf16>(lookup_bf16),
    native<rows_of<LookupAffine<float>>, run_codes_f32>(lookup_affine_f32),
    native<rows_of<LookupAffine<half>>, run_codes_f16>(lookup_affine_f16),
    native<rows_of<LookupAffine<bfloat>>, run_codes_bf16>(lookup_affine_bf16),
    native<streams_of, run_gate>(gate_by_match_f32),
    native<rows_of<DilatedConv>, run_conv>(dilated_conv_f32),
};

}  // namespace

std::span<const Native> ngrams_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif
