// Products of small matrices in scratch, as the chunked forms of the recurrent rules need them. The order of
// a sum depends on its depth alone. Included once an instruction set.
#if defined(KAPITSA_PRODUCTS_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAPITSA_PRODUCTS_INL_
#undef KAPITSA_PRODUCTS_INL_
#else
#define KAPITSA_PRODUCTS_INL_
#endif

#include "backend/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

constexpr std::size_t tile_vectors = 4, tile_rows = 4;

/// Columns of a matrix in scratch: whole tiles.
HWY_INLINE std::size_t padded(std::size_t columns) {
    return hwy::RoundUpTo(columns, tile_vectors * hn::Lanes(F()));
}

/// A matrix in memory: rows of floats, `stride` apart.
struct Matrix {
    float* at;
    std::size_t stride;
    HWY_INLINE float* row(std::size_t i) const { return at + i * stride; }
};

template <std::size_t rows>
HWY_INLINE void product_tile(const float* x, std::size_t x_stride, std::size_t depth, Matrix b, Matrix y,
                             bool add) {
    const F d;
    const std::size_t lanes = hn::Lanes(d);
    FloatVec sums[rows][tile_vectors];
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t j = 0; j < tile_vectors; ++j)
            sums[r][j] = add ? hn::LoadU(d, y.row(r) + j * lanes) : hn::Zero(d);
    for (std::size_t i = 0; i < depth; ++i) {
        FloatVec bs[tile_vectors];
        for (std::size_t j = 0; j < tile_vectors; ++j) bs[j] = hn::LoadU(d, b.row(i) + j * lanes);
        for (std::size_t r = 0; r < rows; ++r) {
            const auto xs = hn::Set(d, x[r * x_stride + i]);
            for (std::size_t j = 0; j < tile_vectors; ++j) sums[r][j] = hn::MulAdd(xs, bs[j], sums[r][j]);
        }
    }
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t j = 0; j < tile_vectors; ++j) hn::StoreU(sums[r][j], d, y.row(r) + j * lanes);
}

/// y = x b, or y += x b. x is [rows, depth], b [depth, columns] and y [rows, columns], both padded in their
/// columns.
HWY_INLINE void product(const float* x, std::size_t x_stride, std::size_t rows, std::size_t depth, Matrix b,
                        Matrix y, std::size_t columns, bool add) {
    const std::size_t tile_columns = tile_vectors * hn::Lanes(F());
    for (std::size_t c = 0; c < columns; c += tile_columns) {
        const Matrix b_part{b.at + c, b.stride}, y_part{y.at + c, y.stride};
        std::size_t r = 0;
        for (; r + tile_rows <= rows; r += tile_rows)
            product_tile<tile_rows>(x + r * x_stride, x_stride, depth, b_part, {y_part.row(r), y.stride},
                                    add);
        for (; r < rows; ++r)
            product_tile<1>(x + r * x_stride, x_stride, depth, b_part, {y_part.row(r), y.stride}, add);
    }
}

HWY_INLINE void scale_row(float* row, float factor, std::size_t columns) {
    const F d;
    for (std::size_t c = 0; c < columns; c += hn::Lanes(d))
        hn::StoreU(hn::Mul(hn::Set(d, factor), hn::LoadU(d, row + c)), d, row + c);
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
