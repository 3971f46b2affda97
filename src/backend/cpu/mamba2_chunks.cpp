// The native twin of kernels/mamba2.h's chunked form, for prompts.
//
// With G the running sum of -rate dt in a chunk of n rows and S the state before it,
//     Y = A X + exp(G) C S + skip X,   A_ij = exp(G_i - G_j) dt_j (c_i . b_j)  for j <= i
//     S = exp(G_n) S + B^T (exp(G_n - G) dt X).
// Only differences G_i - G_j with j <= i are exponentiated: they are never positive. G is summed in f64,
// since after strong decays its differences would lose their last places in f32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/mamba2_chunks.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include "backend/cpu/native.h"
#include "backend/cpu/products-inl.h"
#include "kernels/mamba2.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

constexpr std::size_t n_max = recurrent_chunk_rows;

/// Where one head works. All matrices are padded in their columns, with zeros where it matters.
struct Workshop {
    std::size_t width, chunk;  // padded head width, padded chunk length
    Matrix state;              // [state_width, width]
    Matrix keys;               // [state_width, chunk]: B, a column a row of the chunk
    Matrix attention;          // [n_max, chunk]: A
    Matrix x, output;          // [n_max, width]
    float dt[n_max] = {};
    double sums[n_max] = {};  // G

    static std::size_t floats(const Mamba2Chunks& args) {
        const std::size_t w = padded(args.head_width), c = padded(n_max);
        return args.state_width * (w + c) + n_max * c + 2 * n_max * w;
    }
    Workshop(const Mamba2Chunks& args, float* room) : width(padded(args.head_width)), chunk(padded(n_max)) {
        const auto take = [&](std::size_t rows, std::size_t columns) {
            const Matrix m{room, columns};
            room += rows * columns;
            return m;
        };
        state = take(args.state_width, width);
        keys = take(args.state_width, chunk);
        attention = take(n_max, chunk);
        x = take(n_max, width);
        output = take(n_max, width);
    }
};

/// The inputs of one chunk of one head: rows of x, b and c are `stride` apart, those of dt `heads`.
struct Chunk {
    const float *x, *b, *c, *dt;
    std::size_t stride, heads, rows;
    float rate, skip;
};

/// Factors of the rows of a chunk.
struct Factors {
    HWY_ALIGN float of[n_max] = {};

    /// exp(after - before), which is at most 1, for the first `count`; past 104 below zero it is nothing.
    HWY_INLINE void decay(double after, const double* before, std::size_t count) {
        const F d;
        for (std::size_t j = 0; j < count; ++j) of[j] = float(after - before[j]);
        for (std::size_t j = 0; j < count; j += hn::Lanes(d))
            hn::StoreU(hn::Exp(d, hn::Max(hn::LoadU(d, of + j), hn::Set(d, -104.0f))), d, of + j);
    }
};
static_assert(n_max % (HWY_MAX_BYTES / sizeof(float)) == 0);

/// Steps, their sums, x, and the keys as columns.
HWY_INLINE void gather(const Mamba2Chunks& args, const Chunk& in, Workshop& work) {
    double total = 0;
    for (std::size_t i = 0; i < in.rows; ++i) {
        work.dt[i] = in.dt[i * in.heads];
        work.sums[i] = total -= double(in.rate) * work.dt[i];
    }
    for (std::size_t i = 0; i < in.rows; ++i) {
        std::memset(work.x.row(i), 0, work.width * sizeof(float));
        std::memcpy(work.x.row(i), in.x + i * in.stride, args.head_width * sizeof(float));
    }
    std::memset(work.keys.at, 0, args.state_width * work.chunk * sizeof(float));
    for (std::size_t i = 0; i < in.rows; ++i)
        for (std::size_t k = 0; k < args.state_width; ++k) work.keys.row(k)[i] = in.b[i * in.stride + k];
}

/// One chunk: outputs to `o` (rows `o_stride` apart), and the state moved on.
void mamba2_chunk(const Mamba2Chunks& args, const Chunk& in, float* o, std::size_t o_stride, Workshop& work) {
    const F d;
    constexpr double start = 0;
    Factors factors;
    gather(args, in, work);

    product(in.c, in.stride, in.rows, args.state_width, work.keys, work.attention, work.chunk, false);
    product(in.c, in.stride, in.rows, args.state_width, work.state, work.output, work.width, false);
    for (std::size_t i = 0; i < in.rows; ++i) {
        float* row = work.attention.row(i);
        factors.decay(work.sums[i], work.sums, i + 1);
        for (std::size_t j = 0; j <= i; ++j) row[j] *= factors.of[j] * work.dt[j];
        std::memset(row + i + 1, 0, (in.rows - i - 1) * sizeof(float));

        factors.decay(work.sums[i], &start, 1);
        const auto decay = hn::Set(d, factors.of[0]), skip = hn::Set(d, in.skip);
        for (std::size_t c = 0; c < work.width; c += hn::Lanes(d)) {
            float* y = work.output.row(i) + c;
            const auto x = hn::LoadU(d, work.x.row(i) + c);
            hn::StoreU(hn::MulAdd(skip, x, hn::Mul(decay, hn::LoadU(d, y))), d, y);
        }
    }
    product(work.attention.at, work.chunk, in.rows, in.rows, work.x, work.output, work.width, true);
    for (std::size_t i = 0; i < in.rows; ++i)
        std::memcpy(o + i * o_stride, work.output.row(i), args.head_width * sizeof(float));

    const double end = work.sums[in.rows - 1];
    factors.decay(end, &start, 1);
    for (std::size_t k = 0; k < args.state_width; ++k)
        scale_row(work.state.row(k), factors.of[0], work.width);
    factors.decay(end, work.sums, in.rows);
    for (std::size_t i = 0; i < in.rows; ++i)
        scale_row(work.x.row(i), factors.of[i] * work.dt[i], work.width);
    product(work.keys.at, work.chunk, args.state_width, in.rows, work.x, work.state, work.width, true);
}

/// A unit is one head of one segment.
void mamba2_chunks_units(const Mamba2Chunks& args, std::uint32_t first, std::uint32_t last,
                         Scratch& scratch) {
    const std::size_t inner = std::size_t(args.heads) * args.head_width,
                      keys = std::size_t(args.groups) * args.state_width, stride = inner + 2 * keys;
    for (std::size_t unit = first; unit < last; ++unit) {
        const SegmentRows& segment = args.segments[unit / args.heads];
        const std::size_t head = unit % args.heads, group = head / (args.heads / args.groups);
        Workshop work(args, scratch.floats(Workshop::floats(args)));
        float* committed =
            args.states + (segment.sequence * args.heads + head) * args.state_width * args.head_width;
        for (std::size_t k = 0; k < args.state_width; ++k) {
            std::memset(work.state.row(k), 0, work.width * sizeof(float));
            std::memcpy(work.state.row(k), committed + k * args.head_width, args.head_width * sizeof(float));
        }
        for (std::size_t done = 0; done < segment.rows;) {
            const std::size_t to_grid = n_max - (segment.committed + done) % n_max;
            const std::size_t rows = HWY_MIN(to_grid, segment.rows - done), row = segment.first_row + done;
            const float* x = args.xbc + row * stride;
            const float* b = x + inner + group * args.state_width;
            const Chunk chunk{x + head * args.head_width,
                              b,
                              b + keys,
                              args.dt + row * args.heads + head,
                              stride,
                              args.heads,
                              rows,
                              args.rate[head],
                              args.skip[head]};
            mamba2_chunk(args, chunk, args.o + row * inner + head * args.head_width, inner, work);
            done += rows;
        }
        for (std::size_t k = 0; k < args.state_width; ++k)
            std::memcpy(committed + k * args.head_width, work.state.row(k), args.head_width * sizeof(float));
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(mamba2_chunks_units);

namespace {

std::uint32_t units(const Mamba2Chunks& args) { return args.count * args.heads; }
void run(const Mamba2Chunks& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(mamba2_chunks_units)(args, first, last, scratch);
}

constexpr Native natives[] = {native<units, run>(mamba2_chunks_f32)};

}  // namespace

std::span<const Native> mamba2_chunks_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif
