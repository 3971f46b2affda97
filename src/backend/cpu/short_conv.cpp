// The native twin of kernels/short_conv.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/short_conv.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include "backend/cpu/native.h"
#include "backend/cpu/vectors-inl.h"
#include "kernels/short_conv.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

constexpr std::size_t block_channels = 512;  // of one unit
constexpr std::size_t most_taps = 8;

/// What the taps of a row see, oldest first: ancestors in the step, and before them the sequence's tail.
HWY_INLINE void inputs_of(const ShortConv& args, std::size_t row, const float* (&inputs)[most_taps]) {
    const std::size_t channels = args.channels, taps = args.taps;
    const float* tail = args.tails + args.sequences[row] * (taps - 1) * channels;
    int at = int(row);
    std::size_t tail_left = taps - 1;
    for (std::size_t tap = taps; tap-- > 0;) {
        if (at != no_row) {
            inputs[tap] = args.u + std::size_t(at) * channels;
            at = args.parents[at];
        } else {
            inputs[tap] = tail + --tail_left * channels;
        }
    }
}

void short_conv_blocks(const ShortConv& args, std::uint32_t first, std::uint32_t last) {
    const F d;
    const std::size_t channels = args.channels, taps = args.taps;
    const std::size_t blocks = (channels + block_channels - 1) / block_channels;
    for (std::size_t unit = first; unit < last; ++unit) {
        const std::size_t row = unit / blocks, begin = unit % blocks * block_channels;
        const std::size_t end = HWY_MIN(begin + block_channels, channels);
        const float* inputs[most_taps];
        inputs_of(args, row, inputs);
        for (std::size_t c = begin; c < end; c += hn::Lanes(d)) {
            const std::size_t left = end - c;
            auto total = args.bias ? load_first(d, args.bias + c, left) : hn::Zero(d);
            for (std::size_t tap = 0; tap < taps; ++tap)
                total = hn::MulAdd(load_first(d, args.weight + tap * channels + c, left),
                                   load_first(d, inputs[tap] + c, left), total);
            store_first(silu(total), d, args.y + row * channels + c, left);
        }
    }
}

/// A unit is one path. The new tail is the last taps - 1 of (old tail, rows of the path); places move towards
/// the front only, so they can be filled in order.
void short_conv_commit_paths(const ShortConvCommit& args, std::uint32_t first, std::uint32_t last) {
    const std::size_t channels = args.channels, kept = args.taps - 1;
    for (std::size_t unit = first; unit < last; ++unit) {
        const CommitPath& path = args.paths[unit];
        float* tail = args.tails + path.sequence * kept * channels;
        for (std::size_t i = 0; i < kept; ++i) {
            const std::size_t from = i + path.rows;  // in the tail followed by the rows
            const float* source = from < kept ? tail + from * channels
                                              : args.u + args.path_rows[path.first + from - kept] * channels;
            if (source != tail + i * channels)
                std::memcpy(tail + i * channels, source, channels * sizeof(float));
        }
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(short_conv_blocks);
HWY_EXPORT(short_conv_commit_paths);

namespace {

std::uint32_t blocks_of(const ShortConv& args) { return args.rows * divide_up(args.channels, 512); }
std::uint32_t paths_of(const ShortConvCommit& args) { return args.count; }
void run(const ShortConv& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(short_conv_blocks)(args, first, last);
}
void run_commit(const ShortConvCommit& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(short_conv_commit_paths)(args, first, last);
}

constexpr Native natives[] = {
    native<blocks_of, run>(short_conv_f32),
    native<paths_of, run_commit>(short_conv_commit_f32),
};

}  // namespace

std::span<const Native> short_conv_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif
