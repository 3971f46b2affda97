// The native twin of kernels/embed.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/embed.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include "backend/cpu/affine_rows-inl.h"
#include "backend/cpu/native.h"
#include "kernels/embed.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

template <typename T>
void embed_rows_of(const Embed<T>& args, std::uint32_t first, std::uint32_t last) {
    for (std::size_t row = first; row < last; ++row)
        widen(args.table + std::size_t(args.tokens[row]) * args.columns, args.columns,
              args.y + row * args.columns);
}

template <typename Scale>
void embed_affine_rows_of(const EmbedAffine<Scale>& args, std::uint32_t first, std::uint32_t last,
                          Scratch& scratch) {
    float* room = scratch.floats(2 * (args.columns / args.group));
    for (std::size_t row = first; row < last; ++row)
        widen_affine_row(args.codes, args.scales, args.biases, std::size_t(args.tokens[row]), args.columns,
                         args.group, args.bits, room, args.y + row * args.columns);
}

void embed_rows_f32(const Embed<float>& a, std::uint32_t first, std::uint32_t last) {
    embed_rows_of(a, first, last);
}
void embed_rows_f16(const Embed<half>& a, std::uint32_t first, std::uint32_t last) {
    embed_rows_of(a, first, last);
}
void embed_rows_bf16(const Embed<bfloat>& a, std::uint32_t first, std::uint32_t last) {
    embed_rows_of(a, first, last);
}
void affine_rows_f32(const EmbedAffine<float>& a, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    embed_affine_rows_of(a, first, last, scratch);
}
void affine_rows_f16(const EmbedAffine<half>& a, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    embed_affine_rows_of(a, first, last, scratch);
}
void affine_rows_bf16(const EmbedAffine<bfloat>& a, std::uint32_t first, std::uint32_t last,
                      Scratch& scratch) {
    embed_affine_rows_of(a, first, last, scratch);
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(embed_rows_f32);
HWY_EXPORT(embed_rows_f16);
HWY_EXPORT(embed_rows_bf16);
HWY_EXPORT(affine_rows_f32);
HWY_EXPORT(affine_rows_f16);
HWY_EXPORT(affine_rows_bf16);

namespace {

template <typename Args>
std::uint32_t rows_of(const Args& args) {
    return args.rows;
}
void run_f32(const Embed<float>& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(embed_rows_f32)(args, first, last);
}
void run_f16(const Embed<half>& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(embed_rows_f16)(args, first, last);
}
void run_bf16(const Embed<bfloat>& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(embed_rows_bf16)(args, first, last);
}
void run_affine_f32(const EmbedAffine<float>& args, std::uint32_t first, std::uint32_t last,
                    Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(affine_rows_f32)(args, first, last, scratch);
}
void run_affine_f16(const EmbedAffine<half>& args, std::uint32_t first, std::uint32_t last,
                    Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(affine_rows_f16)(args, first, last, scratch);
}
void run_affine_bf16(const EmbedAffine<bfloat>& args, std::uint32_t first, std::uint32_t last,
                     Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(affine_rows_bf16)(args, first, last, scratch);
}

constexpr Native natives[] = {
    native<rows_of<Embed<float>>, run_f32>(embed_f32),
    native<rows_of<Embed<half>>, run_f16>(embed_f16),
    native<rows_of<Embed<bfloat>>, run_bf16>(embed_bf16),
    native<rows_of<EmbedAffine<float>>, run_affine_f32>(embed_affine_f32),
    native<rows_of<EmbedAffine<half>>, run_affine_f16>(embed_affine_f16),
    native<rows_of<EmbedAffine<bfloat>>, run_affine_bf16>(embed_affine_bf16),
};

}  // namespace

std::span<const Native> embed_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif
