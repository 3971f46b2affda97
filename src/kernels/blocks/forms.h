// The list of quantised forms that lie in blocks of whole bytes: what a kernel's name, a message and the code
// that decodes them go by. ROW(form, type): the type has `values` and `bytes` of a block, and `scales`, the
// bytes of scales that a block has in another tensor; `apart` says that it has the value() of apart.h.
#pragma once

#include "kernels/blocks/apart.h"
#include "kernels/blocks/codebook.h"
#include "kernels/blocks/k_quants.h"
#include "kernels/blocks/small.h"

#define BLOCK_FORMS(ROW)       \
    ROW(q4_0, Q4_0)            \
    ROW(q4_1, Q4_1)            \
    ROW(q5_0, Q5_0)            \
    ROW(q5_1, Q5_1)            \
    ROW(q8_0, Q8_0)            \
    ROW(q1_0, Q1_0)            \
    ROW(q2_0, Q2_0)            \
    ROW(iq4_nl, IQ4_NL)        \
    ROW(gguf_mxfp4, GgufMXFP4) \
    ROW(gguf_nvfp4, GgufNVFP4) \
    ROW(q2_k, Q2_K)            \
    ROW(q3_k, Q3_K)            \
    ROW(q4_k, Q4_K)            \
    ROW(q5_k, Q5_K)            \
    ROW(q6_k, Q6_K)            \
    ROW(tq1_0, TQ1_0)          \
    ROW(tq2_0, TQ2_0)          \
    ROW(iq4_xs, IQ4_XS)        \
    ROW(iq2_xxs, IQ2_XXS)      \
    ROW(iq2_xs, IQ2_XS)        \
    ROW(iq2_s, IQ2_S)          \
    ROW(iq3_xxs, IQ3_XXS)      \
    ROW(iq3_s, IQ3_S)          \
    ROW(nvfp4, NVFP4)          \
    ROW(mxfp4, MXFP4)          \
    ROW(mxfp8, MXFP8)          \
    ROW(fp8, FP8)

namespace kapitsa {

enum class BlockForm : uchar {
#define BLOCK_FORM(form, Type) form,
    BLOCK_FORMS(BLOCK_FORM)
#undef BLOCK_FORM
};

/// What a row of so many columns takes up; the columns are a multiple of `values`.
struct BlockShape {
    uint values, bytes, scales;
};
#ifdef KERNEL_HOST
constexpr BlockShape block_shapes[] = {
#define BLOCK_SHAPE(form, Type) {blocks::Type::values, blocks::Type::bytes, blocks::Type::scales},
    BLOCK_FORMS(BLOCK_SHAPE)
#undef BLOCK_SHAPE
};
constexpr const char* block_names[] = {
#define BLOCK_NAME(form, Type) #form,
    BLOCK_FORMS(BLOCK_NAME)
#undef BLOCK_NAME
};
constexpr uint block_form_count = sizeof(block_shapes) / sizeof(block_shapes[0]);

constexpr BlockShape shape_of(BlockForm form) { return block_shapes[uint(form)]; }
constexpr const char* name_of(BlockForm form) { return block_names[uint(form)]; }
#endif

}  // namespace kapitsa
