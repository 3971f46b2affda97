// The weight format of matrices in blocks, for the loops of multiply_rows-inl.h. A piece of each row is made
// floats in the room, then meets every row's x; which form it is only its decoder knows. So these loops are
// compiled once for all forms.
#if defined(KAPITSA_BLOCKS_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAPITSA_BLOCKS_INL_
#undef KAPITSA_BLOCKS_INL_
#else
#define KAPITSA_BLOCKS_INL_
#endif

#include "backend/cpu/decode.h"
#include "backend/cpu/multiply_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

/// A MultiplyBlocks and what reads its rows.
struct DecodedBlocks : MultiplyBlocks {
    Decode decode;
};

class BlockWeights {
    static constexpr std::size_t piece = 2 * decode_columns;

public:
    using Args = DecodedBlocks;

    BlockWeights(const Args::Part& part, const Args& args, float* room)
        : matrix_(part.blocks, part.scales, part.factors, args.row_bytes, args.scale_bytes, args.tile,
                  args.columns),
          decode_(args.decode),
          columns_(args.columns),
          room_(room) {}
    static std::size_t floats(const Args&) { return stream_outputs * piece + HWY_MAX_BYTES / sizeof(float); }

    void unpack(std::size_t output, float* to) const { decode_(matrix_.row(output), 0, columns_, to); }

    template <std::size_t outputs, std::size_t rows>
    HWY_INLINE void stream(std::size_t first, const float* x, float (&totals)[outputs][rows]) const {
        const F d;
        FloatVec sums[outputs][rows];
        for (auto& of_output : sums)
            for (auto& s : of_output) s = hn::Zero(d);
        BlockRow row[outputs];
        for (std::size_t o = 0; o < outputs; ++o) row[o] = matrix_.row(first + o);

        for (std::size_t at = 0; at < columns_; at += piece) {
            const std::size_t count = HWY_MIN(piece, columns_ - at);
            for (std::size_t o = 0; o < outputs; ++o) {
                decode_(row[o], at, count, room_ + o * piece);
                hn::StoreU(hn::Zero(d), d, room_ + o * piece + count);  // what the last vector has too many
            }
            add_piece(x + at, count, sums);
        }
        for (std::size_t o = 0; o < outputs; ++o)
            for (std::size_t r = 0; r < rows; ++r) totals[o][r] = sum(sums[o][r]);
    }

private:
    /// The columns of the room against as many of each row's x.
    template <std::size_t outputs, std::size_t rows>
    HWY_INLINE void add_piece(const float* x, std::size_t count, FloatVec (&sums)[outputs][rows]) const {
        const F d;
        const std::size_t lanes = hn::Lanes(d);
        const auto add = [&](std::size_t i, auto load) HWY_ATTR {
            FloatVec xs[rows];
            for (std::size_t r = 0; r < rows; ++r) xs[r] = load(x + r * columns_ + i);
            for (std::size_t o = 0; o < outputs; ++o) {
                const auto w = hn::LoadU(d, room_ + o * piece + i);
                for (std::size_t r = 0; r < rows; ++r) sums[o][r] = hn::MulAdd(xs[r], w, sums[o][r]);
            }
        };
        std::size_t i = 0;
        for (; i + lanes <= count; i += lanes)
            add(i, [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); });
        if (i < count) add(i, [&](const float* from) HWY_ATTR { return load_first(d, from, count - i); });
    }

    BlockMatrix matrix_;
    Decode decode_;
    std::size_t columns_;
    float* room_;  // [stream_outputs, piece], and a vector
};

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
