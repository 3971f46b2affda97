// The native twin of kernels/blocks.h: products with weights in blocks, and their embeddings.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/multiply_blocks.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include "backend/cpu/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

void multiply_decoded(const MultiplyBlocks& args, Decode decode, std::uint32_t first, std::uint32_t last,
                      Scratch& scratch) {
    multiply_blocks<BlockWeights>(DecodedBlocks{args, decode}, first, last, scratch);
}

void multiply_decoded_experts(const MultiplyExperts<MultiplyBlocks>& args, Decode decode, std::uint32_t first,
                              std::uint32_t last, Scratch& scratch) {
    multiply_expert_blocks<BlockWeights>(args, DecodedBlocks{args.matrix, decode}, first, last, scratch);
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(multiply_decoded);
HWY_EXPORT(multiply_decoded_experts);

Decode decoder(BlockForm form) {
    for (const auto of_file : {small_decoder, k_decoder, codebook_decoder, apart_decoder})
        if (const Decode decode = of_file(form)) return decode;
    return plain_decoder(form);
}

namespace {

template <BlockForm form>
void multiply(const MultiplyBlocks& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(multiply_decoded)(args, decoder(form), first, last, scratch);
}

template <BlockForm form>
void multiply_experts(const MultiplyExperts<MultiplyBlocks>& args, std::uint32_t first, std::uint32_t last,
                      Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(multiply_decoded_experts)(args, decoder(form), first, last, scratch);
}

template <BlockForm form>
void embed(const EmbedBlocks& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    const BlockMatrix table(args.blocks, args.scales, args.factors, args.row_bytes, args.scale_bytes,
                            args.tile, args.columns);
    const Decode decode = decoder(form);
    for (std::size_t row = first; row < last; ++row)
        decode(table.row(std::size_t(args.tokens[row])), 0, args.columns, args.y + row * args.columns);
}

template <BlockForm form>
void look_up(const LookupBlocks& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    const Decode decode = decoder(form);
    for (std::size_t row = first; row < last; ++row) {
        const auto& part = args.parts[args.picked[row] / args.part_rows];
        const BlockMatrix table(part.blocks, part.scales, part.factors, args.row_bytes, args.scale_bytes,
                                args.tile, args.columns);
        decode(table.row(args.picked[row] % args.part_rows), 0, args.columns, args.y + row * args.columns);
    }
}

template <typename Args>
std::uint32_t rows_of(const Args& args) {
    return args.rows;
}

constexpr Native natives[] = {
#define BLOCK_NATIVES(form, Type)                                                                          \
    native<multiply_units<MultiplyBlocks>, multiply<BlockForm::form>>(multiply_##form),                    \
        native<multiply_expert_units<MultiplyExperts<MultiplyBlocks>>, multiply_experts<BlockForm::form>>( \
            multiply_experts_##form),                                                                      \
        native<rows_of<EmbedBlocks>, embed<BlockForm::form>>(embed_##form),                                \
        native<rows_of<LookupBlocks>, look_up<BlockForm::form>>(lookup_##form),
    BLOCK_FORMS(BLOCK_NATIVES)
#undef BLOCK_NATIVES
};

}  // namespace

std::span<const Native> multiply_blocks_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif
