#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/entries.h"
#include "model/products.h"

namespace kapitsa {
namespace {

/// Scales of a cache in FP8, which ours is not.
bool belongs_to_cache(std::string_view name) {
    return name.ends_with(".k_scale") || name.ends_with(".v_scale");
}

}  // namespace

Result<Weights> Weights::of(const Checkpoint& checkpoint, Backend& backend, DiskMemory* disk) {
    Quantization by_mlx = TRY(Quantization::read(*checkpoint.config));
    QuantizedLayers by_others =
        TRY(QuantizedLayers::read(*checkpoint.config, checkpoint.hf_quant_config.get()));
    Weights weights(checkpoint, backend, std::move(by_mlx), std::move(by_others));
    weights.disk_ = disk;
    return weights;
}

std::vector<std::uint64_t> Weights::shape(std::string_view tensor) const {
    const auto found = checkpoint_->tensors.find(std::string(tensor));
    return found == checkpoint_->tensors.end() ? std::vector<std::uint64_t>{} : found->second.shape;
}

std::optional<ElementType> Weights::type(std::string_view tensor) const {
    const auto found = checkpoint_->tensors.find(std::string(tensor));
    if (found == checkpoint_->tensors.end()) return {};
    return found->second.type;
}

Result<const TensorEntry*> Weights::take(const std::string& name) {
    const auto found = checkpoint_->tensors.find(name);
    if (found == checkpoint_->tensors.end())
        return fail(Fault::corrupt_file, "the tensor " + name + " is missing from " + checkpoint_->path);
    taken_.insert(name);
    return &found->second;
}

std::string Weights::tensor_of(const std::string& module) const {
    const std::string named = module + ".weight";
    return has(named) || !has(module) ? named : module;
}

Result<Address> Weights::place(const TensorEntry& entry, std::size_t alignment) {
    bytes_ += entry.bytes.size();
    if (reinterpret_cast<std::uintptr_t>(entry.bytes.data()) % alignment == 0)
        return backend_->import(entry.bytes);
    // A file may put a tensor at any byte. Kernels read whole elements, so this one is copied to where it may
    // lie.
    const Address copy = TRY(backend_->allocate(entry.bytes.size()));
    backend_->write(copy, entry.bytes);
    return copy;
}

Result<Weight> Weights::matrix(const std::string& module, std::uint32_t rows, std::uint32_t columns) {
    return matrix_of(module, {rows}, columns);
}

Result<std::vector<Weight>> Weights::stack(const std::string& module, std::uint32_t experts,
                                           std::uint32_t rows, std::uint32_t columns) {
    const Weight all = TRY(matrix_of(module, {experts, rows}, columns));
    std::vector<Weight> each(experts);
    for (std::uint32_t e = 0; e < experts; ++e) each[e] = all.slice(e * rows, rows);
    return each;
}

Result<ExpertWeights> Weights::experts(const std::string& layer, std::span<const Weight> matrices) {
    ExpertWeights weights = TRY(together("the experts of a layer", matrices));
    if (disk_) weights.stack = disk_->experts.add(layer, matrices, weights.parts, weights.part_bytes);
    return weights;
}

Result<ExpertWeights> Weights::table(std::span<const Weight> parts, std::uint32_t picks) {
    for (const Weight& part : parts) bytes_ -= std::min(bytes_, part.bytes());
    ExpertWeights table = TRY(together("the parts of a table", parts));
    if (disk_) table.stack = disk_->rows.add(parts, picks, table.part_bytes);
    return table;
}

Result<ExpertWeights> Weights::together(const char* all, std::span<const Weight> matrices) {
    CHECK(!matrices.empty());
    ExpertWeights weights{.one = matrices.front(),
                          .experts = std::uint32_t(matrices.size()),
                          .parts = {},
                          .part_bytes = 0,
                          .stack = 0};
    for (const Weight& matrix : matrices)
        if (!matrix.alike(weights.one))
            return fail(Fault::unsupported, std::string(all) + " are not all stored in the same form; " +
                                                checkpoint_->path + " mixes them");
    std::vector<std::byte> parts;
    with_product(weights.one, [&]<typename Args>(const Product<Args>& product) {
        for (const Weight& matrix : matrices) {
            typename Args::Part part{};
            set_weight(product.args, part, matrix);
            const Bytes bytes = std::as_bytes(std::span(&part, 1));
            parts.insert(parts.end(), bytes.begin(), bytes.end());
        }
    });
    weights.parts = TRY(upload_bytes(parts));
    weights.part_bytes = parts.size() / matrices.size();
    return weights;
}

Result<Weight> Weights::matrix_of(const std::string& module, const Shape& outer, std::uint32_t columns) {
    if (has(module + ".scales")) return by_mlx(module, outer, columns);
    if (has(module + ".weight_packed")) return packed(module, outer, columns);
    const TensorEntry& entry = *TRY(take(tensor_of(module)));
    if (element_form(entry.type).values != 1) return gguf_blocks(module, entry, outer, columns);
    if (entry.type == ElementType::u8) return nvfp4(module, entry, outer, columns);
    if (entry.type == ElementType::f8_e4m3) return fp8(module, entry, outer, columns);
    TRY(expect_shape(entry, with_columns(outer, columns)));
    Weight weight;
    weight.form = TRY(dense_form(entry));
    weight.rows = TRY(rows_of(entry, outer));
    weight.columns = columns;
    weight.data = TRY(place(entry, element_bytes(entry.type)));
    return weight;
}

Result<Weight> Weights::by_mlx(const std::string& module, const Shape& outer, std::uint32_t columns) {
    const auto form = TRY(quantization_.of(module));
    if (!form)
        return fail(Fault::unsupported,
                    module + ".scales exists, but config.json does not say how it is quantised");
    TRY(expect_groups(module, columns, form->group_size));
    return form->kind == QuantizedForm::Kind::affine ? affine(module, *form, outer, columns)
                                                     : mlx_blocks(module, *form, outer, columns);
}

Result<Weight> Weights::affine(const std::string& module, const QuantizedForm& form, const Shape& outer,
                               std::uint32_t columns) {
    const TensorEntry& codes = *TRY(take(tensor_of(module)));
    const TensorEntry& scales = *TRY(take(module + ".scales"));
    const TensorEntry& biases = *TRY(take(module + ".biases"));
    TRY(expect_type(codes, ElementType::u32));
    TRY(expect_shape(codes, with_columns(outer, std::uint64_t(columns) * form.bits / 32)));
    TRY(expect_shape(scales, with_columns(outer, columns / form.group_size)));
    TRY(expect_shape(biases, with_columns(outer, columns / form.group_size)));
    if (scales.type != biases.type)
        return fail(Fault::corrupt_file, module + " stores its scales as " + element_name(scales.type) +
                                             " and its biases as " + element_name(biases.type));
    Weight weight;
    weight.form = Weight::Form::affine;
    weight.scale_form = TRY(dense_form(scales));
    weight.bits = form.bits;
    weight.group = form.group_size;
    weight.rows = TRY(rows_of(codes, outer));
    weight.columns = columns;
    weight.data = TRY(place(codes, 4));
    weight.scales = TRY(place(scales, element_bytes(scales.type)));
    weight.biases = TRY(place(biases, element_bytes(biases.type)));
    return weight;
}

Result<std::vector<float>> Weights::floats(const std::string& tensor,
                                           const std::vector<std::uint64_t>& shape) {
    if (!stores_exponentials(tensor)) return stored_floats(tensor, shape);
    auto values = TRY(exponentials(tensor, shape));
    for (float& value : values) value = std::log(value);
    return values;
}

Result<std::vector<float>> Weights::exponentials(const std::string& tensor,
                                                 const std::vector<std::uint64_t>& shape) {
    auto values = TRY(stored_floats(tensor, shape));
    const bool ready = stores_exponentials(tensor);
    for (float& value : values) {
        value = ready ? -value : std::exp(value);
        if (!(value >= 0))
            return fail(Fault::corrupt_file, tensor + " holds " + std::to_string(-value) +
                                                 " where -exp(w) must stand, which is never above 0");
    }
    return values;
}

Result<std::vector<std::uint64_t>> Weights::whole_numbers(const std::string& tensor,
                                                          const std::vector<std::uint64_t>& shape) {
    const TensorEntry& entry = *TRY(take(tensor));
    TRY(expect_shape(entry, shape));
    if (entry.type != ElementType::i64)
        return fail(Fault::corrupt_file,
                    entry.name + " is stored as " + element_name(entry.type) + "; it must be I64");
    std::vector<std::uint64_t> values(entry.bytes.size() / sizeof(std::int64_t));
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::int64_t value;
        std::memcpy(&value, entry.bytes.data() + i * sizeof(value), sizeof(value));
        if (value < 0)
            return fail(Fault::corrupt_file, entry.name + " holds " + std::to_string(value) +
                                                 "; it must hold no negative numbers");
        values[i] = std::uint64_t(value);
    }
    return values;
}

Result<Address> Weights::upload_bytes(Bytes bytes) {
    const Address address = TRY(backend_->allocate(bytes.size()));
    backend_->write(address, bytes);
    return address;
}

bool Weights::stores_exponentials(const std::string& tensor) const {
    const auto found = checkpoint_->tensors.find(tensor);
    return found != checkpoint_->tensors.end() && found->second.stored == Stored::as_negated_exponential;
}

Result<std::vector<float>> Weights::stored_floats(const std::string& tensor,
                                                  const std::vector<std::uint64_t>& shape) {
    const TensorEntry& entry = *TRY(take(tensor));
    TRY(expect_shape(entry, shape));
    return floats_of(entry);
}

Result<Tensor> Weights::upload(std::span<const float> values, std::uint32_t rows, std::uint32_t columns) {
    CHECK(values.size() == std::size_t(rows) * columns);
    return Tensor{TRY(upload_bytes(std::as_bytes(values))), rows, columns};
}

Result<Address> Weights::upload(std::span<const std::uint32_t> words) {
    const Address address = TRY(backend_->allocate(words.size_bytes()));
    backend_->write(address, std::as_bytes(words));
    return address;
}

void Weights::set_aside(std::string_view prefix) { aside_.emplace_back(prefix); }

Status Weights::finish() const {
    return all_taken([&](const std::string& name) {
        return std::ranges::none_of(aside_,
                                    [&](const std::string& prefix) { return name.starts_with(prefix); });
    });
}

Status Weights::finish(std::string_view prefix) const {
    return all_taken([&](const std::string& name) { return name.starts_with(prefix); });
}

template <typename Concerns>
Status Weights::all_taken(Concerns concerns) const {
    std::vector<std::string> left;
    for (const auto& [name, entry] : checkpoint_->tensors)
        if (concerns(name) && !taken_.contains(name) && !belongs_to_cache(name)) left.push_back(name);
    if (left.empty()) return Done{};
    std::ranges::sort(left);
    return fail(Fault::unsupported, "the checkpoint has " + std::to_string(left.size()) +
                                        (left.size() == 1 ? " tensor" : " tensors") +
                                        " that this model does not know, the first of them " + left.front() +
                                        "; computing without it would be a guess");
}

Result<Weight> cut(const Weight& matrix, const std::string& module, std::uint32_t first,
                   std::uint32_t count) {
    if (matrix.begins_tile(first)) return matrix.slice(first, count);
    return fail(Fault::unsupported, module + " is cut at row " + std::to_string(first) +
                                        ", inside one of its tiles of " + std::to_string(matrix.tile.rows) +
                                        " rows that share a scale");
}

}  // namespace kapitsa
