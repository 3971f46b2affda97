// The native twin of kernels/delta_net.h's chunked form, for prompts.
//
// With G the running sum of g in a chunk of n rows and S the state before it, the changes V' of all rows
// solve
//     (I + L) V' = beta (V - exp(G) K S),   L_ij = beta_i exp(G_i - G_j) (k_i . k_j)  for j < i,
// a unit lower triangular system (the WY form, with U and W S taken together, since a head's chunks go one
// after the other here). Then
//     O = exp(G) Q S + A V',   A_ij = exp(G_i - G_j) (q_i . k_j)  for j <= i
//     S = exp(G_n) S + K^T (exp(G_n - G) V').
// Only differences G_i - G_j with j <= i are exponentiated: they are never positive. Everything is f32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/delta_chunks.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include <cmath>

#include "backend/cpu/native.h"
#include "backend/cpu/products-inl.h"
#include "kernels/delta_net.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

constexpr std::size_t n_max = recurrent_chunk_rows;

/// Where one head works. All matrices are padded in their columns, with zeros where it matters.
struct Workshop {
    std::size_t width, chunk;  // padded value width, padded chunk length
    Matrix state;              // [key_width, width]
    Matrix keys;               // [key_width, chunk]: a column a row of the chunk
    Matrix weighted;           // [key_width, chunk]: those times exp(G_n - G)
    Matrix lower, attention;   // [n_max, chunk]: L and A
    Matrix change, output;     // [n_max, width]: V' and O
    float sums[n_max] = {};    // G

    static std::size_t floats(const DeltaChunks& args) {
        const std::size_t w = padded(args.value_width), c = padded(n_max);
        return args.key_width * (w + 2 * c) + 2 * n_max * c + 2 * n_max * w;
    }
    Workshop(const DeltaChunks& args, float* room) : width(padded(args.value_width)), chunk(padded(n_max)) {
        const auto take = [&](std::size_t rows, std::size_t columns) {
            const Matrix m{room, columns};
            room += rows * columns;
            return m;
        };
        state = take(args.key_width, width);
        keys = take(args.key_width, chunk);
        weighted = take(args.key_width, chunk);
        lower = take(n_max, chunk);
        attention = take(n_max, chunk);
        change = take(n_max, width);
        output = take(n_max, width);
    }
};

/// The inputs of one chunk of one head. q and k have the rows' own stride.
struct Chunk {
    const float *q, *k, *v, *beta;
    std::size_t stride, heads;  // of a row of qkv, and of a row of beta
    std::size_t rows;
};

/// G, the keys as columns, and L and A with their decays.
HWY_INLINE void relate_rows(const DeltaChunks& args, const Chunk& in, const float* g, Workshop& work) {
    float total = 0;
    for (std::size_t i = 0; i < in.rows; ++i) work.sums[i] = total += g[i * in.heads];

    std::memset(work.keys.at, 0, args.key_width * work.chunk * sizeof(float));
    for (std::size_t i = 0; i < in.rows; ++i)
        for (std::size_t d = 0; d < args.key_width; ++d) work.keys.row(d)[i] = in.k[i * in.stride + d];
    for (std::size_t d = 0; d < args.key_width; ++d)
        for (std::size_t i = 0; i < in.rows; ++i)
            work.weighted.row(d)[i] = work.keys.row(d)[i] * std::exp(total - work.sums[i]);

    product(in.k, in.stride, in.rows, args.key_width, work.keys, work.lower, work.chunk, false);
    product(in.q, in.stride, in.rows, args.key_width, work.keys, work.attention, work.chunk, false);
    for (std::size_t i = 0; i < in.rows; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
            const float decay = std::exp(work.sums[i] - work.sums[j]);
            work.lower.row(i)[j] *= in.beta[i * in.heads] * decay;
            work.attention.row(i)[j] *= decay;
        }
        std::memset(work.attention.row(i) + i + 1, 0, (in.rows - i - 1) * sizeof(float));
    }
}

/// V' by forward substitution.
HWY_INLINE void solve(const DeltaChunks& args, const Chunk& in, Workshop& work) {
    const F d;
    const std::size_t lanes = hn::Lanes(d);
    product(in.k, in.stride, in.rows, args.key_width, work.state, work.change, work.width, false);
    for (std::size_t i = 0; i < in.rows; ++i) {
        const auto decay = hn::Set(d, std::exp(work.sums[i])), beta = hn::Set(d, in.beta[i * in.heads]);
        for (std::size_t c = 0; c < work.width; c += tile_vectors * lanes) {
            FloatVec change[tile_vectors];
            for (std::size_t t = 0; t < tile_vectors; ++t) {
                const std::size_t at = c + t * lanes;
                const auto v = at < args.value_width
                                   ? load_first(d, in.v + i * in.stride + at, args.value_width - at)
                                   : hn::Zero(d);
                change[t] = hn::Mul(beta, hn::NegMulAdd(decay, hn::LoadU(d, work.change.row(i) + at), v));
            }
            for (std::size_t j = 0; j < i; ++j) {
                const auto l = hn::Set(d, work.lower.row(i)[j]);
                for (std::size_t t = 0; t < tile_vectors; ++t)
                    change[t] = hn::NegMulAdd(l, hn::LoadU(d, work.change.row(j) + c + t * lanes), change[t]);
            }
            for (std::size_t t = 0; t < tile_vectors; ++t)
                hn::StoreU(change[t], d, work.change.row(i) + c + t * lanes);
        }
    }
}

/// One chunk: outputs to `o` (rows `o_stride` apart), and the state moved on.
void delta_chunk(const DeltaChunks& args, const Chunk& in, const float* g, float* o, std::size_t o_stride,
                 Workshop& work) {
    relate_rows(args, in, g, work);
    solve(args, in, work);

    product(in.q, in.stride, in.rows, args.key_width, work.state, work.output, work.width, false);
    for (std::size_t i = 0; i < in.rows; ++i)
        scale_row(work.output.row(i), std::exp(work.sums[i]), work.width);
    product(work.attention.at, work.chunk, in.rows, in.rows, work.change, work.output, work.width, true);
    for (std::size_t i = 0; i < in.rows; ++i)
        std::memcpy(o + i * o_stride, work.output.row(i), args.value_width * sizeof(float));

    const float decay = std::exp(work.sums[in.rows - 1]);
    for (std::size_t d = 0; d < args.key_width; ++d) scale_row(work.state.row(d), decay, work.width);
    product(work.weighted.at, work.chunk, args.key_width, in.rows, work.change, work.state, work.width, true);
}

/// A unit is one head of one segment.
void delta_chunks_units(const DeltaChunks& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    const std::size_t keys = std::size_t(args.key_heads) * args.key_width;
    const std::size_t stride = 2 * keys + std::size_t(args.value_heads) * args.value_width;
    for (std::size_t unit = first; unit < last; ++unit) {
        const SegmentRows& segment = args.segments[unit / args.value_heads];
        const std::size_t head = unit % args.value_heads;
        const std::size_t key_head = key_head_of(uint(head), args.key_heads, args.value_heads, args.tiled);
        Workshop work(args, scratch.floats(Workshop::floats(args)));
        float* committed =
            args.states + (segment.sequence * args.value_heads + head) * args.key_width * args.value_width;
        for (std::size_t d = 0; d < args.key_width; ++d) {
            std::memset(work.state.row(d), 0, work.width * sizeof(float));
            std::memcpy(work.state.row(d), committed + d * args.value_width,
                        args.value_width * sizeof(float));
        }
        for (std::size_t done = 0; done < segment.rows;) {
            const std::size_t to_grid = n_max - (segment.committed + done) % n_max;
            const std::size_t rows = HWY_MIN(to_grid, segment.rows - done), row = segment.first_row + done;
            const float* x = args.qkv + row * stride;
            const std::size_t at = row * args.value_heads + head;
            const Chunk chunk{x + key_head * args.key_width,
                              x + keys + key_head * args.key_width,
                              x + 2 * keys + head * args.value_width,
                              args.beta + at,
                              stride,
                              args.value_heads,
                              rows};
            delta_chunk(args, chunk, args.g + at, args.o + at * args.value_width,
                        std::size_t(args.value_heads) * args.value_width, work);
            done += rows;
        }
        for (std::size_t d = 0; d < args.key_width; ++d)
            std::memcpy(committed + d * args.value_width, work.state.row(d),
                        args.value_width * sizeof(float));
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(delta_chunks_units);

namespace {

std::uint32_t units(const DeltaChunks& args) { return args.count * args.value_heads; }
void run(const DeltaChunks& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(delta_chunks_units)(args, first, last, scratch);
}

constexpr Native natives[] = {native<units, run>(delta_chunks_f32)};

}  // namespace

std::span<const Native> delta_chunks_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif
