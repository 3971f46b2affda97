// The native twin of kernels/streams.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/streams.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include <cmath>

#include "backend/cpu/native.h"
#include "backend/cpu/vectors-inl.h"
#include "kernels/streams.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

/// A unit is a group of a row.
void grouped_norm_units(const GroupedRmsNorm& args, std::uint32_t first, std::uint32_t last) {
    const F d;
    const std::size_t width = args.width;
    for (std::size_t unit = first; unit < last; ++unit) {
        const float *x = args.x + unit * width, *weight = args.weight + unit % args.groups * width;
        const auto scale = hn::Set(d, 1.0f / std::sqrt(dot(x, x, width) / float(width) + args.epsilon));
        for (std::size_t i = 0; i < width; i += hn::Lanes(d)) {
            const auto v = hn::Mul(load_first(d, x + i, width - i), scale);
            store_first(hn::Mul(v, load_first(d, weight + i, width - i)), d, args.y + unit * width + i,
                        width - i);
        }
    }
}

void scaled_silu_range(const ScaledSilu& args, std::size_t begin, std::size_t end) {
    const F d;
    for (std::size_t i = begin; i < end; i += hn::Lanes(d)) {
        const auto x = hn::Mul(load_first(d, args.x + i, end - i), hn::Set(d, args.scale));
        store_first(silu(x), d, args.y + i, end - i);
    }
}

void mix_streams_rows(const MixStreams& args, std::uint32_t first, std::uint32_t last) {
    const F d;
    const std::size_t width = args.width;
    const auto share = hn::Set(d, 1.0f / float(args.streams));
    for (std::size_t row = first; row < last; ++row) {
        for (std::size_t i = 0; i < width; i += hn::Lanes(d)) {
            auto total = hn::Zero(d);
            for (std::size_t s = 0; s < args.streams; ++s) {
                const std::size_t at = (row * args.streams + s) * width + i;
                const auto gate = sigmoid(load_first(d, args.gate + at, width - i));
                total = hn::MulAdd(gate, load_first(d, args.x + at, width - i), total);
            }
            store_first(hn::Mul(total, share), d, args.y + row * width + i, width - i);
        }
    }
}

/// A unit is a stream of a row.
void inject_streams_units(const InjectStreams& args, std::uint32_t first, std::uint32_t last) {
    const F d;
    const std::size_t width = args.width;
    for (std::size_t unit = first; unit < last; ++unit) {
        const float* y = args.y + unit / args.streams * width;
        float* x = args.x + unit * width;
        const float weight = args.logits ? 2.0f / (1.0f + std::exp(-args.scale * args.logits[unit])) : 1.0f;
        for (std::size_t i = 0; i < width; i += hn::Lanes(d))
            store_first(hn::MulAdd(hn::Set(d, weight), load_first(d, y + i, width - i),
                                   load_first(d, x + i, width - i)),
                        d, x + i, width - i);
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace kapitsa::cpu {

HWY_EXPORT(grouped_norm_units);
HWY_EXPORT(scaled_silu_range);
HWY_EXPORT(mix_streams_rows);
HWY_EXPORT(inject_streams_units);

namespace {

constexpr std::uint32_t block = 1024;  // elements of one unit; a whole number of vectors

std::uint32_t groups_of(const GroupedRmsNorm& args) { return args.rows * args.groups; }
std::uint32_t blocks_of(const ScaledSilu& args) { return divide_up(args.elements, block); }
std::uint32_t rows_of(const MixStreams& args) { return args.rows; }
std::uint32_t streams_of(const InjectStreams& args) { return args.rows * args.streams; }

void run_norm(const GroupedRmsNorm& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(grouped_norm_units)(args, first, last);
}
void run_silu(const ScaledSilu& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(scaled_silu_range)
    (args, std::size_t(first) * block, std::min(std::size_t(last) * block, std::size_t(args.elements)));
}
void run_mix(const MixStreams& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(mix_streams_rows)(args, first, last);
}
void run_inject(const InjectStreams& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(inject_streams_units)(args, first, last);
}

constexpr Native natives[] = {
    native<groups_of, run_norm>(grouped_rms_norm_f32),
    native<blocks_of, run_silu>(scaled_silu_f32),
    native<rows_of, run_mix>(mix_streams_f32),
    native<streams_of, run_inject>(inject_streams_f32),
};

}  // namespace

std::span<const Native> streams_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif
