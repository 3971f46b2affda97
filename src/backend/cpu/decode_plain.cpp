// Decoders for a processor without vectors: the functions of kernels/blocks/ as they are.
#include "backend/cpu/decode.h"

namespace kapitsa::cpu {
namespace {

template <class Block>
float value_of(const BlockRow& row, std::size_t column) {
    const std::size_t number = column / Block::values;
    const uchar* block = row.blocks + number * Block::bytes;
    const auto i = uint(column % Block::values);
    if constexpr (Block::scales != 0)
        return Block::value(block, row.scales[number], row.factors[0], i);
    else if constexpr (std::is_same_v<Block, blocks::FP8>)
        return Block::value(block, 0, row.factors[column / row.factor_columns], i);
    else
        return Block::value(block, i) * row.factors[0];
}

template <class Block>
void decode_plain(const BlockRow& row, std::size_t first, std::size_t count, float* to) {
    for (std::size_t i = 0; i < count; ++i) to[i] = value_of<Block>(row, first + i);
}

}  // namespace

Decode plain_decoder(BlockForm form) {
    static constexpr Decode decoders[] = {
#define BLOCK_DECODER(form, Type) decode_plain<blocks::Type>,
        BLOCK_FORMS(BLOCK_DECODER)
#undef BLOCK_DECODER
    };
    return decoders[uint(form)];
}

}  // namespace kapitsa::cpu
