#include "make_checkpoint/forms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/blocks/scalars.h"
#include "support/gguf_writer.h"

namespace kapitsa::random_checkpoint {
namespace {

using Kind = Form::Kind;

constexpr std::array forms{
    Form{"f32", Kind::plain, ElementType::f32},
    Form{"f16", Kind::plain, ElementType::f16},
    Form{"bf16", Kind::plain},
    Form{"affine2", Kind::affine, ElementType::bf16, 2, 64, "affine"},
    Form{"affine3", Kind::affine, ElementType::bf16, 3, 64, "affine"},
    Form{"affine4", Kind::affine, ElementType::bf16, 4, 64, "affine"},
    Form{"affine5", Kind::affine, ElementType::bf16, 5, 64, "affine"},
    Form{"affine6", Kind::affine, ElementType::bf16, 6, 64, "affine"},
    Form{"affine8", Kind::affine, ElementType::bf16, 8, 64, "affine"},
    Form{"nvfp4", Kind::fp_blocks, ElementType::bf16, 4, 16, "nvfp4"},
    Form{"mxfp4", Kind::fp_blocks, ElementType::bf16, 4, 32, "mxfp4"},
    Form{"mxfp8", Kind::fp_blocks, ElementType::bf16, 8, 32, "mxfp8"},
    Form{"fp8", Kind::fp8, ElementType::bf16, 8, 128},
};

constexpr std::size_t table_values = 4096;  // different values of a plain tensor
constexpr std::uint64_t fp8_tile = 128;

/// Evenly from low to high.
std::vector<std::byte> even_table(ElementType type, float low, float high) {
    std::vector<float> values(table_values);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = low + (high - low) * (static_cast<float>(i) + 0.5f) / static_cast<float>(table_values);
    return narrowed(type, values);
}
/// Around a value, so that no two groups have the same scale.
std::vector<std::byte> scale_table(ElementType type, double value) {
    return even_table(type, float(0.9 * value), float(1.1 * value));
}
std::vector<std::byte> one_byte(std::uint32_t code) { return {std::byte(code)}; }

/// The codes of e4m3 but the two that are no number; the zero of either sign stands in for them.
std::vector<std::byte> e4m3_codes() {
    std::vector<std::byte> codes;
    for (std::uint32_t code = 0; code < 256; ++code)
        codes.push_back(std::byte((code & 127) == 127 ? code & 128 : code));
    return codes;
}

double rms_of_e4m3() {
    double sum = 0;
    for (std::uint32_t code = 0; code < 127; ++code) sum += std::pow(double(blocks::e4m3(code)), 2);
    return std::sqrt(sum / 128);
}
double rms_of_e2m1() {
    double sum = 0;
    for (std::uint32_t code = 0; code < 8; ++code) sum += std::pow(double(blocks::e2m1(code)), 2);
    return std::sqrt(sum / 8);
}

std::uint32_t nearest_e4m3(double value) {
    std::uint32_t best = 1;
    for (std::uint32_t code = 1; code < 127; ++code)
        if (std::fabs(double(blocks::e4m3(code)) - value) < std::fabs(double(blocks::e4m3(best)) - value))
            best = code;
    return best;
}
std::uint32_t nearest_e8m0(double value) { return std::uint32_t(std::lround(std::log2(value))) + 127; }

std::vector<std::uint64_t> with_columns(std::vector<std::uint64_t> shape, std::uint64_t columns) {
    shape.back() = columns;
    return shape;
}

Piece piece(std::string name, ElementType type, std::vector<std::uint64_t> shape,
            std::vector<std::byte> table) {
    std::uint64_t bytes = element_bytes(type);
    for (const auto extent : shape) bytes *= extent;
    return {std::move(name), type, std::move(shape), bytes, std::move(table)};
}

/// A matrix of columns c multiplies without growing where its elements spread by 1 / sqrt(c).
double spread_of(const PlannedTensor& tensor) { return 1 / std::sqrt(double(tensor.shape.back())); }

Piece plain_piece(const PlannedTensor& tensor, ElementType type) {
    float low = tensor.low, high = tensor.high;
    if (low == 0 && high == 0)
        high = float(std::sqrt(3) * spread_of(tensor)), low = -high;  // of a uniform one
    return piece(tensor.name, type, tensor.shape, even_table(type, low, high));
}

std::vector<Piece> affine_pieces(const PlannedTensor& tensor, const Form& form, const std::string& module) {
    const std::uint64_t columns = tensor.shape.back();
    const double most = double((1u << form.bits) - 1);
    const double scale = spread_of(tensor) * std::sqrt(12 / ((most + 1) * (most + 1) - 1));
    const auto groups = with_columns(tensor.shape, columns / form.group);
    return {piece(tensor.name, ElementType::u32, with_columns(tensor.shape, columns * form.bits / 32), {}),
            piece(module + ".scales", form.base, groups, scale_table(form.base, scale)),
            piece(module + ".biases", form.base, groups, scale_table(form.base, -scale * most / 2))};
}

std::vector<Piece> block_pieces(const PlannedTensor& tensor, const Form& form, const std::string& module) {
    const std::uint64_t columns = tensor.shape.back();
    const double scale = spread_of(tensor) / (form.bits == 8 ? rms_of_e4m3() : rms_of_e2m1());
    const std::uint32_t code = form.mode == "nvfp4" ? nearest_e4m3(scale) : nearest_e8m0(scale);
    return {piece(tensor.name, ElementType::u32, with_columns(tensor.shape, columns * form.bits / 32),
                  form.bits == 8 ? e4m3_codes() : std::vector<std::byte>()),
            piece(module + ".scales", ElementType::u8, with_columns(tensor.shape, columns / form.group),
                  one_byte(code))};
}

std::vector<Piece> fp8_pieces(const PlannedTensor& tensor, const std::string& module) {
    const auto tiles = [](std::uint64_t extent) { return (extent + fp8_tile - 1) / fp8_tile; };
    return {piece(tensor.name, ElementType::f8_e4m3, tensor.shape, e4m3_codes()),
            piece(module + ".weight_scale_inv", ElementType::f32,
                  {tiles(tensor.shape[0]), tiles(tensor.shape[1])},
                  scale_table(ElementType::f32, spread_of(tensor) / rms_of_e4m3()))};
}

std::uint64_t hash(std::string_view text) {  // FNV-1a
    std::uint64_t value = 0xcbf29ce484222325;
    for (const char c : text) value = (value ^ std::uint8_t(c)) * 0x100000001b3;
    return value;
}

}  // namespace

std::optional<Form> form_named(std::string_view name) {
    const auto found = std::ranges::find(forms, name, &Form::name);
    return found == forms.end() ? std::nullopt : std::optional(*found);
}

std::string form_names() {
    std::string names;
    for (const Form& form : forms) names += (names.empty() ? "" : ", ") + std::string(form.name);
    return names;
}

std::vector<Piece> pieces_of(const PlannedTensor& tensor, const Form& form) {
    using Role = PlannedTensor::Role;
    if (tensor.role == Role::f32) return {plain_piece(tensor, ElementType::f32)};
    const bool quantised =
        tensor.role == Role::matrix || (tensor.role == Role::vocabulary && form.kind != Kind::fp8);
    if (!quantised || form.kind == Kind::plain ||
        (form.kind != Kind::fp8 && tensor.shape.back() % form.group != 0))
        return {plain_piece(tensor, form.base)};
    CHECK(tensor.name.ends_with(".weight"));
    const std::string module = tensor.name.substr(0, tensor.name.size() - 7);
    if (form.kind == Kind::affine) return affine_pieces(tensor, form, module);
    return form.kind == Kind::fp8 ? fp8_pieces(tensor, module) : block_pieces(tensor, form, module);
}

void describe(const Form& form, Json& config) {
    const char* types[] = {"float32", "float16", "bfloat16"};
    config["torch_dtype"] = types[form.base == ElementType::f32 ? 0 : form.base == ElementType::f16 ? 1 : 2];
    if (form.kind == Kind::affine || form.kind == Kind::fp_blocks)
        config["quantization"] = {{"group_size", form.group}, {"bits", form.bits}, {"mode", form.mode}};
    if (form.kind == Kind::fp8)
        config["quantization_config"] = {{"quant_method", "fp8"},
                                         {"weight_block_size", {fp8_tile, fp8_tile}}};
}

ExpertLayout expert_layout(const Form& form) {
    return form.kind == Kind::affine || form.kind == Kind::fp_blocks ? ExpertLayout::stacked
                                                                     : ExpertLayout::one_by_one;
}

Draw::Draw(const Piece& piece, std::uint64_t seed)
    : piece_(piece), state_(seed * 0x9e3779b97f4a7c15 ^ hash(piece.name)) {}

std::uint64_t Draw::random() {  // splitmix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

template <std::size_t width>
void Draw::pick(std::span<std::byte> to) {
    const std::size_t mask = piece_.table.size() / width - 1;
    CHECK((mask & (mask + 1)) == 0 && mask < table_values && to.size() % width == 0);
    constexpr int picks = 5;  // 12 bits each
    for (std::size_t at = 0; at < to.size();) {
        std::uint64_t word = random();
        for (int i = 0; i < picks && at < to.size(); ++i, at += width, word >>= 12)
            std::memcpy(&to[at], &piece_.table[(word & mask) * width], width);
    }
}

void Draw::next(std::span<std::byte> to) {
    if (piece_.table.empty()) {
        for (std::size_t at = 0; at < to.size(); at += 8) {
            const std::uint64_t word = random();
            std::memcpy(&to[at], &word, std::min<std::size_t>(8, to.size() - at));
        }
        return;
    }
    // Codes of a byte are stored as words of four.
    const bool bytes = piece_.type == ElementType::u32 || element_bytes(piece_.type) == 1;
    if (bytes) return pick<1>(to);
    if (element_bytes(piece_.type) == 2) return pick<2>(to);
    pick<4>(to);
}

}  // namespace kapitsa::random_checkpoint
