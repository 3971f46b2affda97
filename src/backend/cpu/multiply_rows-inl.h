// The loops of a matrix product, over any weight format that can give lanes of f32.
//
// Few rows: weights stream through registers once, and each vector of them meets every row's x.
// Many rows: a block of outputs is unpacked into scratch, then a register tile of outputs x rows runs over
// it. Both take a row's sum as one accumulator of lanes over ascending columns, reduced at the end; so the
// result of a row is the same to the bit in both, with any number of rows beside it.
//
// Both also have a slow twin with sums in f64 (Scratch::wide_sums), which takes the unpacked weights.
//
// A weight format is a class with
//     Weights(part, args, room), which may keep `floats(args)` floats in the room,
//     unpack(output, to): one row of weights as floats,
//     stream<outputs, rows>(first, x, totals): the sums of neighbouring outputs with the rows of x.
#if defined(KAPITSA_MULTIPLY_ROWS_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAPITSA_MULTIPLY_ROWS_INL_
#undef KAPITSA_MULTIPLY_ROWS_INL_
#else
#define KAPITSA_MULTIPLY_ROWS_INL_
#endif

#include "backend/cpu/native.h"
#include "backend/cpu/vectors-inl.h"
#include "kernels/multiply_experts.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

// Accumulators must fit the registers: 32 of them on AVX-512 and NEON, 16 elsewhere.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM
constexpr std::size_t stream_outputs = 4, tile_rows = 6, tile_outputs = 4;
#else
constexpr std::size_t stream_outputs = 2, tile_rows = 3, tile_outputs = 4;
#endif
constexpr std::size_t stream_rows = 4;  // more rows than this take the path of many rows
constexpr std::uint32_t block_outputs = multiply_block_outputs;

/// Where the results of one part go.
struct Results {
    const float* add;
    float* y;
    std::size_t outputs;

    HWY_INLINE void put(std::size_t row, std::size_t output, float value) const {
        const std::size_t at = row * outputs + output;
        y[at] = add ? add[at] + value : value;
    }
};

/// tile_outputs unpacked weight rows against `rows` rows of x. The stride of `weights` is a whole number of
/// vectors, zero beyond the columns.
template <std::size_t rows>
HWY_INLINE void multiply_tile(const float* weights, std::size_t stride, const float* x, std::size_t columns,
                              std::size_t first_row, std::size_t first_output, std::size_t outputs,
                              const Results& results) {
    const F d;
    const std::size_t lanes = hn::Lanes(d);
    FloatVec sums[tile_outputs][rows];
    for (auto& of_output : sums)
        for (auto& s : of_output) s = hn::Zero(d);

    std::size_t i = 0;
    for (; i + lanes <= columns; i += lanes) {
        FloatVec w[tile_outputs];
        for (std::size_t o = 0; o < tile_outputs; ++o) w[o] = hn::LoadU(d, weights + o * stride + i);
        for (std::size_t r = 0; r < rows; ++r) {
            const auto xs = hn::LoadU(d, x + r * columns + i);
            for (std::size_t o = 0; o < tile_outputs; ++o) sums[o][r] = hn::MulAdd(xs, w[o], sums[o][r]);
        }
    }
    if (i < columns) {
        for (std::size_t r = 0; r < rows; ++r) {
            const auto xs = load_first(d, x + r * columns + i, columns - i);
            for (std::size_t o = 0; o < tile_outputs; ++o)
                sums[o][r] = hn::MulAdd(xs, hn::LoadU(d, weights + o * stride + i), sums[o][r]);
        }
    }
    for (std::size_t o = 0; o < outputs; ++o)
        for (std::size_t r = 0; r < rows; ++r) results.put(first_row + r, first_output + o, sum(sums[o][r]));
}

/// Outputs [first, first + count), at most block_outputs of them, for many rows.
template <class Weights>
void multiply_many_rows(const Weights& weights, const float* x, std::size_t rows, std::size_t columns,
                        std::size_t first, std::size_t count, const Results& results, float* room) {
    const std::size_t stride = hwy::RoundUpTo(columns, hn::Lanes(F()));
    for (std::size_t o = 0; o < count; ++o) {
        weights.unpack(first + o, room + o * stride);
        std::memset(room + o * stride + columns, 0, (stride - columns) * sizeof(float));
    }
    // A tile past the last output computes on what the room holds; its sums are not used.
    for (std::size_t r = 0; r < rows;) {
        const std::size_t left = rows - r, now = left < tile_rows ? 1 : tile_rows;
        for (std::size_t o = 0; o < count; o += tile_outputs) {
            const std::size_t outputs = HWY_MIN(tile_outputs, count - o);
            if (now == tile_rows)
                multiply_tile<tile_rows>(room + o * stride, stride, x + r * columns, columns, r, first + o,
                                         outputs, results);
            else
                multiply_tile<1>(room + o * stride, stride, x + r * columns, columns, r, first + o, outputs,
                                 results);
        }
        r += now;
    }
}

/// Outputs [first, first + count) for one to stream_rows rows.
template <class Weights, std::size_t rows>
void multiply_few_rows(const Weights& weights, const float* x, std::size_t first, std::size_t count,
                       const Results& results) {
    std::size_t o = 0;
    for (; o + stream_outputs <= count; o += stream_outputs) {
        float totals[stream_outputs][rows];
        weights.template stream<stream_outputs, rows>(first + o, x, totals);
        for (std::size_t i = 0; i < stream_outputs; ++i)
            for (std::size_t r = 0; r < rows; ++r) results.put(r, first + o + i, totals[i][r]);
    }
    for (; o < count; ++o) {
        float totals[1][rows];
        weights.template stream<1, rows>(first + o, x, totals);
        for (std::size_t r = 0; r < rows; ++r) results.put(r, first + o, totals[0][r]);
    }
}

/// Outputs [from, to) with sums in f64, one at a time: this is measured with, and not waited for.
template <class Weights>
void multiply_wide(const Weights& weights, const float* x, std::size_t rows, std::size_t columns,
                   std::size_t from, std::size_t to, const Results& results, float* room) {
    for (std::size_t o = from; o < to; ++o) {
        weights.unpack(o, room);
        for (std::size_t r = 0; r < rows; ++r) results.put(r, o, wide_dot(room, x + r * columns, columns));
    }
}

/// Outputs [from, to) for any number of rows.
template <class Weights>
void multiply_outputs(const Weights& weights, const float* x, std::size_t rows, std::size_t columns,
                      std::size_t from, std::size_t to, const Results& results, float* room, bool wide) {
    if (rows == 0) return;  // a step of which no logits are wanted; there is no room for weights either
    if (wide) return multiply_wide(weights, x, rows, columns, from, to, results, room);
    switch (rows) {
        case 1: return multiply_few_rows<Weights, 1>(weights, x, from, to - from, results);
        case 2: return multiply_few_rows<Weights, 2>(weights, x, from, to - from, results);
        case 3: return multiply_few_rows<Weights, 3>(weights, x, from, to - from, results);
        case 4: return multiply_few_rows<Weights, 4>(weights, x, from, to - from, results);
        default: break;
    }
    for (std::size_t o = from; o < to; o += block_outputs)
        multiply_many_rows(weights, x, rows, columns, o, HWY_MIN(to - o, std::size_t(block_outputs)), results,
                           room);
}

/// The floats that a product of this many rows needs: the weights' own, then a block of them unpacked.
template <class Weights, class Args>
HWY_INLINE std::size_t multiply_room(const Args& args, std::size_t rows, bool wide) {
    const std::size_t stride = hwy::RoundUpTo(std::size_t(args.columns), hn::Lanes(F()));
    return Weights::floats(args) + (rows > stream_rows || wide ? block_outputs * stride : 0);
}

/// Units [first, last) of these parts: blocks of outputs, the parts one behind the other.
template <class Weights, class Args>
void multiply_parts_of(const typename Args::Part* parts, const Args& args, const float* x, std::size_t rows,
                       std::uint32_t first, std::uint32_t last, float* room, bool wide) {
    std::uint32_t before = 0;
    for (uint p = 0; p < args.count && before < last; ++p) {
        const auto& part = parts[p];
        const std::uint32_t blocks = divide_up(part.outputs, block_outputs);
        const std::uint32_t begin = HWY_MAX(first, before), end = HWY_MIN(last, before + blocks);
        if (begin < end) {
            const Weights weights(part, args, room);
            const std::size_t from = std::size_t(begin - before) * block_outputs;
            const std::size_t to =
                HWY_MIN(std::size_t(end - before) * block_outputs, std::size_t(part.outputs));
            multiply_outputs(weights, x, rows, args.columns, from, to, {part.add, part.y, part.outputs},
                             room + Weights::floats(args), wide);
        }
        before += blocks;
    }
}

template <class Weights, class Args>
HWY_INLINE void multiply_blocks(const Args& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    float* room = scratch.floats(multiply_room<Weights>(args, args.rows, scratch.wide_sums()));
    multiply_parts_of<Weights>(args.parts, args, args.x, args.rows, first, last, room, scratch.wide_sums());
}

/// The same with experts: units are the blocks of the first group, then those of the second, and so on.
/// @param args experts.matrix as the class of weights takes it
template <class Weights, class Args, class Matrix>
HWY_INLINE void multiply_expert_blocks(const MultiplyExperts<Matrix>& experts, const Args& args,
                                       std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    float* room = scratch.floats(multiply_room<Weights>(args, args.rows, scratch.wide_sums()));
    const std::uint32_t blocks = multiply_units(args);
    if (blocks == 0) return;
    for (std::uint32_t unit = first; unit < last;) {
        const ExpertGroup group = experts.groups[unit / blocks];
        if (group.rows == 0) return;  // and so have all behind it
        const std::uint32_t begin = unit % blocks, end = HWY_MIN(blocks, begin + (last - unit));
        typename Args::Part parts[multiply_parts];
        for (uint p = 0; p < args.count; ++p) {
            const auto& whole = args.parts[p];
            const std::size_t skipped = std::size_t(group.first) * whole.outputs;
            parts[p] = experts.experts[p][group.expert];
            parts[p].add = whole.add ? whole.add + skipped : nullptr;
            parts[p].y = whole.y + skipped;
            parts[p].outputs = whole.outputs;
        }
        multiply_parts_of<Weights>(parts, args, args.x + std::size_t(group.first) * args.columns, group.rows,
                                   begin, end, room, scratch.wide_sums());
        unit += end - begin;
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
