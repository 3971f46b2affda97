// The quantised matrices of a checkpoint that lie in blocks (kernels/blocks/): of MLX's fp modes, ModelOpt,
// compressed-tensors, FP8 and GGUF. What is stored decides; what the configuration says must agree.
// Activations are not quantised here, so what a file holds for that is set aside.
#include <algorithm>
#include <cmath>

#include "model/weights.h"

namespace kapitsa {
namespace {

using Kind = QuantizedForm::Kind;

QuantizedForm form_of(BlockForm form) {
    switch (form) {
        case BlockForm::nvfp4: return {Kind::nvfp4, 16, 4};
        case BlockForm::mxfp4: return {Kind::mxfp4, 32, 4};
        case BlockForm::mxfp8: return {Kind::mxfp8, 32, 8};
        case BlockForm::fp8: return {Kind::fp8, 0, 8};
        default: CHECK(false && "a form with scales apart");
    }
    return {};
}

BlockForm block_form_of(Kind kind) {
    switch (kind) {
        case Kind::mxfp4: return BlockForm::mxfp4;
        case Kind::mxfp8: return BlockForm::mxfp8;
        case Kind::nvfp4: return BlockForm::nvfp4;
        case Kind::fp8: return BlockForm::fp8;
        case Kind::affine: break;
    }
    CHECK(false && "a form in blocks");
}

/// The form of GGUF's blocks, which go by the same names.
BlockForm block_form_of(ElementType type) {
    switch (type) {
#define SAME_NAME(name) \
    case ElementType::name: return BlockForm::name;
        SAME_NAME(q4_0)
        SAME_NAME(q4_1)
        SAME_NAME(q5_0)
        SAME_NAME(q5_1)
        SAME_NAME(q8_0)
        SAME_NAME(q1_0)
        SAME_NAME(q2_0)
        SAME_NAME(q2_k)
        SAME_NAME(q3_k)
        SAME_NAME(q4_k)
        SAME_NAME(q5_k)
        SAME_NAME(q6_k)
        SAME_NAME(iq2_xxs)
        SAME_NAME(iq2_xs)
        SAME_NAME(iq2_s)
        SAME_NAME(iq3_xxs)
        SAME_NAME(iq3_s)
        SAME_NAME(iq4_nl)
        SAME_NAME(iq4_xs)
        SAME_NAME(tq1_0)
        SAME_NAME(tq2_0)
#undef SAME_NAME
        case ElementType::mxfp4: return BlockForm::gguf_mxfp4;
        case ElementType::nvfp4: return BlockForm::gguf_nvfp4;
        default: CHECK(false && "a type of blocks");
    }
    return {};
}

/// Without the extents of 1 that some exports keep.
Shape squeezed(Shape shape) {
    std::erase(shape, 1u);
    return shape;
}

bool is_e8m0(const TensorEntry& scales) {
    return scales.type == ElementType::u8 || scales.type == ElementType::f8_e8m0;
}

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

Weight weight_in(BlockForm form, std::uint32_t rows, std::uint32_t columns) {
    Weight weight;
    weight.form = Weight::Form::blocks;
    weight.block_form = form;
    weight.rows = rows;
    weight.columns = columns;
    return weight;
}

}  // namespace

Status Weights::expect_groups(const std::string& module, std::uint32_t columns, std::uint32_t group) {
    if (columns % group == 0) return Done{};
    return fail(Fault::corrupt_file, module + " has " + std::to_string(columns) +
                                         " columns, which groups of " + std::to_string(group) +
                                         " do not divide");
}

Status Weights::take_companions(const std::string& module) {
    for (const char* name : {".pre_quant_scale", ".weight_zero_point", ".weight_g_idx", ".svdquant_lora_a"})
        if (has(module + name))
            return fail(Fault::unsupported,
                        module + name + " changes what the weights mean; files without it are supported");
    for (const char* name : {".input_scale", ".input_global_scale"})  // of quantised activations
        if (has(module + name)) static_cast<void>(TRY(take(module + name)));
    return Done{};
}

Result<Weight> Weights::with_scales(const std::string& module, BlockForm form, const TensorEntry& codes,
                                    const TensorEntry& scales, const Shape& outer, std::uint32_t columns) {
    TRY(layers_.expect(module, form_of(form)));
    TRY(take_companions(module));
    const std::uint32_t group = shape_of(form).values;
    TRY(expect_groups(module, columns, group));
    TRY(expect_shape(scales, with_columns(outer, columns / group)));
    Weight weight = weight_in(form, TRY(rows_of(codes, outer)), columns);
    weight.data = TRY(place(codes, 1));
    weight.scales = TRY(place(scales, 1));
    return weight;
}

Result<Weight> Weights::mlx_blocks(const std::string& module, const QuantizedForm& form, const Shape& outer,
                                   std::uint32_t columns) {
    const TensorEntry& codes = *TRY(take(tensor_of(module)));
    const TensorEntry& scales = *TRY(take(module + ".scales"));
    TRY(expect_type(codes, ElementType::u32));
    TRY(expect_type(scales, ElementType::u8));
    TRY(expect_shape(codes, with_columns(outer, std::uint64_t(columns) * form.bits / 32)));
    return with_scales(module, block_form_of(form.kind), codes, scales, outer, columns);
}

Result<Weight> Weights::packed(const std::string& module, const Shape& outer, std::uint32_t columns) {
    const TensorEntry& codes = *TRY(take(module + ".weight_packed"));
    const TensorEntry& scales = *TRY(take(module + ".weight_scale"));
    TRY(expect_type(codes, ElementType::u8));
    TRY(expect_shape(codes, with_columns(outer, columns / 2)));
    if (is_e8m0(scales)) return with_scales(module, BlockForm::mxfp4, codes, scales, outer, columns);
    TRY(expect_type(scales, ElementType::f8_e4m3));
    Weight weight = TRY(with_scales(module, BlockForm::nvfp4, codes, scales, outer, columns));
    TRY(set_factor(weight, *TRY(take(module + ".weight_global_scale")), outer, true));
    return weight;
}

Result<Weight> Weights::nvfp4(const std::string& module, const TensorEntry& codes, const Shape& outer,
                              std::uint32_t columns) {
    const TensorEntry& scales = *TRY(take(module + ".weight_scale"));
    TRY(expect_shape(codes, with_columns(outer, columns / 2)));
    TRY(expect_type(scales, ElementType::f8_e4m3));
    Weight weight = TRY(with_scales(module, BlockForm::nvfp4, codes, scales, outer, columns));
    TRY(set_factor(weight, *TRY(take(module + ".weight_scale_2")), outer, false));
    return weight;
}

Result<Weight> Weights::fp8(const std::string& module, const TensorEntry& codes, const Shape& outer,
                            std::uint32_t columns) {
    TRY(expect_shape(codes, with_columns(outer, columns)));
    const bool inverse = has(module + ".weight_scale_inv");  // by its name; it is multiplied all the same
    const TensorEntry& scales = *TRY(take(module + (inverse ? ".weight_scale_inv" : ".weight_scale")));
    if (is_e8m0(scales) && scales.shape == with_columns(outer, columns / 32))
        return with_scales(module, BlockForm::mxfp8, codes, scales, outer, columns);

    TRY(layers_.expect(module, form_of(BlockForm::fp8)));
    TRY(take_companions(module));
    Weight weight = weight_in(BlockForm::fp8, TRY(rows_of(codes, outer)), columns);
    weight.data = TRY(place(codes, 1));
    const Shape shape = squeezed(scales.shape), whole = squeezed({outer.begin(), outer.end() - 1});
    if (shape == whole) {
        TRY(set_factor(weight, scales, outer, false));
        return weight;
    }
    Shape tiles = outer;
    tiles.back() = divide_up(tiles.back(), layers_.tile_rows());
    tiles.push_back(divide_up(columns, layers_.tile_columns()));
    if (shape == squeezed(outer)) {
        weight.tile = {1, 0};
    } else if (shape == squeezed(tiles)) {
        weight.tile = {layers_.tile_rows(), layers_.tile_columns()};
        if (outer.size() > 1 && outer.back() % layers_.tile_rows() != 0)
            return fail(Fault::unsupported, scales.name + ": experts of " + std::to_string(outer.back()) +
                                                " rows are no whole number of tiles of " +
                                                std::to_string(layers_.tile_rows()));
    } else {
        return fail(Fault::corrupt_file, scales.name + " has the shape " + shape_text(scales.shape) +
                                             "; one scale, one a row " + shape_text(outer) +
                                             " or one a tile " + shape_text(tiles) + " are known");
    }
    TRY(upload_factors(weight, scales, TRY(floats_of(scales))));
    return weight;
}

Result<Weight> Weights::fp8_by_factor(const std::string& module, const std::string& factor,
                                      std::uint32_t rows, std::uint32_t columns) {
    const TensorEntry& codes = *TRY(take(tensor_of(module)));
    TRY(expect_type(codes, ElementType::f8_e4m3));
    TRY(expect_shape(codes, {rows, columns}));
    Weight weight = weight_in(BlockForm::fp8, rows, columns);
    weight.data = TRY(place(codes, 1));
    TRY(set_factor(weight, *TRY(take(factor)), {rows}, false));
    return weight;
}

Result<Weight> Weights::gguf_blocks(const std::string& module, const TensorEntry& blocks, const Shape& outer,
                                    std::uint32_t columns) {
    TRY(expect_shape(blocks, with_columns(outer, columns)));
    const BlockForm form = block_form_of(blocks.type);
    TRY(expect_groups(module, columns, shape_of(form).values));
    Weight weight = weight_in(form, TRY(rows_of(blocks, outer)), columns);
    weight.data = TRY(place(blocks, 1));
    if (form == BlockForm::gguf_nvfp4 && has(module + ".scale"))
        TRY(set_factor(weight, *TRY(take(module + ".scale")), outer, false));
    return weight;
}

Result<std::array<Weight, 2>> Weights::side_by_side(const std::string& module, std::uint32_t rows,
                                                    std::uint32_t columns) {
    const TensorEntry& both = *TRY(take(tensor_of(module)));
    const ElementForm form = element_form(both.type);
    TRY(expect_shape(both, {rows, 2 * std::uint64_t(columns)}));
    TRY(expect_groups(module, columns, form.values));
    Weight weight;
    if (form.values == 1) {
        weight.form = TRY(dense_form(both));
        weight.rows = rows;
        weight.columns = columns;
    } else {
        weight = weight_in(block_form_of(both.type), rows, columns);
        if (has(module + ".scale")) TRY(set_factor(weight, *TRY(take(module + ".scale")), {rows}, false));
    }
    std::array<Weight, 2> halves{weight, weight};
    const std::size_t half_bytes = both.bytes.size() / rows / 2;
    std::vector<std::byte> half(rows * half_bytes);
    for (std::size_t number = 0; number < 2; ++number) {
        for (std::size_t row = 0; row < rows; ++row)
            std::ranges::copy(both.bytes.subspan((2 * row + number) * half_bytes, half_bytes),
                              half.begin() + std::ptrdiff_t(row * half_bytes));
        halves[number].data = TRY(upload_bytes(half));
    }
    bytes_ += both.bytes.size();
    return halves;
}

Status Weights::set_factor(Weight& weight, const TensorEntry& entry, const Shape& outer, bool reciprocal) {
    std::vector<float> values = TRY(floats_of(entry));
    const std::uint64_t experts = outer.size() > 1 ? outer.front() : 1;
    if (values.size() != 1 && values.size() != experts)
        return fail(Fault::corrupt_file, entry.name + " has the shape " + shape_text(entry.shape) +
                                             "; it must hold one number" +
                                             (experts > 1 ? ", or one an expert" : ""));
    if (reciprocal)
        for (float& value : values) value = float(1.0 / double(value));
    if (values.size() > 1) weight.tile.rows = std::uint32_t(outer.back());
    return upload_factors(weight, entry, std::move(values));
}

Status Weights::upload_factors(Weight& weight, const TensorEntry& entry, std::vector<float> values) {
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
        return fail(Fault::corrupt_file, entry.name + " holds a scale that is no finite number");
    bytes_ += entry.bytes.size();
    const Bytes bytes = std::as_bytes(std::span(values));
    weight.factors = TRY(small_room(bytes.size()));
    backend_->write(weight.factors, bytes);
    return Done{};
}

Result<Address> Weights::small_room(std::size_t bytes) {
    constexpr std::size_t together = 1u << 16, alignment = 16;
    if (bytes > together) return backend_->allocate(bytes);
    if (bytes > small_left_) {
        small_ = TRY(backend_->allocate(together));
        small_left_ = together;
    }
    const Address at = small_;
    const std::size_t taken = std::min(small_left_, (bytes + alignment - 1) / alignment * alignment);
    small_ = small_ + taken;
    small_left_ -= taken;
    return at;
}

}  // namespace kapitsa
