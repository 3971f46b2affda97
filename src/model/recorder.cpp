#include "model/recorder.h"

#include <algorithm>

#include "kernels/all.h"
#include "model/products.h"

namespace kapitsa {
namespace {

/// Calls `then` with a null pointer of the storage type of a form.
template <typename Then>
void with_type(Weight::Form form, Then then) {
    switch (form) {
        case Weight::Form::f32: return then(static_cast<float*>(nullptr));
        case Weight::Form::f16: return then(static_cast<half*>(nullptr));
        case Weight::Form::bf16: return then(static_cast<bfloat*>(nullptr));
        case Weight::Form::affine:
        case Weight::Form::blocks: break;
    }
    CHECK(false && "a storage type of floats");
}

Kernel<Embed<float>> embed_kernel(const float*) { return embed_f32; }
Kernel<Embed<half>> embed_kernel(const half*) { return embed_f16; }
Kernel<Embed<bfloat>> embed_kernel(const bfloat*) { return embed_bf16; }
Kernel<EmbedAffine<float>> embed_affine_kernel(const float*) { return embed_affine_f32; }
Kernel<EmbedAffine<half>> embed_affine_kernel(const half*) { return embed_affine_f16; }
Kernel<EmbedAffine<bfloat>> embed_affine_kernel(const bfloat*) { return embed_affine_bf16; }
Kernel<Lookup<float>> lookup_kernel(const float*) { return lookup_f32; }
Kernel<Lookup<half>> lookup_kernel(const half*) { return lookup_f16; }
Kernel<Lookup<bfloat>> lookup_kernel(const bfloat*) { return lookup_bf16; }
Kernel<LookupAffine<float>> lookup_affine_kernel(const float*) { return lookup_affine_f32; }
Kernel<LookupAffine<half>> lookup_affine_kernel(const half*) { return lookup_affine_f16; }
Kernel<LookupAffine<bfloat>> lookup_affine_kernel(const bfloat*) { return lookup_affine_bf16; }

template <typename Args>
void set_rows(Args& args, Tensor x, std::uint32_t count) {
    args.x = in(x);
    args.count = count;
    args.rows = x.rows;
    args.columns = x.columns;
}

template <typename Part>
void set_part(Part& part, std::uint32_t outputs, std::uint32_t columns, Tensor x, Tensor y) {
    CHECK(columns == x.columns && y.rows == x.rows && y.columns == outputs);
    part.y = out(y);
    part.outputs = outputs;
}

}  // namespace

Tensor Recorder::place(std::uint32_t rows, std::uint32_t columns) {
    constexpr std::size_t alignment = 256;
    const Tensor tensor{scratch_ + used_, rows, columns};
    used_ += (tensor.bytes() + alignment - 1) / alignment * alignment;
    CHECK(used_ <= capacity_);
    peak_ = std::max(peak_, used_);
    return tensor;
}

Tensor Recorder::embed(const Weight& table, const Batch& batch) {
    const Tensor y = place(batch.rows, table.columns);
    if (table.form == Weight::Form::blocks) {
        launch(
            embed_blocks[std::size_t(table.block_form)],
            {in<uchar>(table.data), in<uchar>(table.scales), in<float>(table.factors), in<int>(batch.tokens),
             out(y), batch.rows, table.columns, table.row_bytes(), table.scale_bytes(), table.tile});
    } else if (table.form == Weight::Form::affine) {
        with_type(table.scale_form, [&]<typename S>(S* type) {
            launch(embed_affine_kernel(type),
                   {in<uint>(table.data), in<S>(table.scales), in<S>(table.biases), in<int>(batch.tokens),
                    out(y), batch.rows, table.columns, table.group, table.bits});
        });
    } else {
        with_type(table.form, [&]<typename T>(T* type) {
            launch(embed_kernel(type),
                   {in<T>(table.data), in<int>(batch.tokens), out(y), batch.rows, table.columns});
        });
    }
    if (batch.given > 0)
        copy_rows({batch.given_values, batch.given, table.columns}, Address{}, batch.given_rows, batch.given,
                  y.address);
    return y;
}

void Recorder::begin_lookup(const ExpertWeights& parts, Address picked, std::uint32_t count) {
    if (disk_ && disk_->rows.started()) disk_->rows.begin(backend_, parts.stack, picked, count);
}

void Recorder::lookup(const ExpertWeights& parts, std::uint32_t part_rows, Address picked, Tensor y) {
    const Weight& one = parts.one;
    CHECK(one.rows == part_rows && one.columns == y.columns);
    Address places = parts.parts;
    if (disk_ && disk_->rows.started())
        if (const auto rows = disk_->rows.before_lookup(backend_, parts.stack, picked, y.rows)) {
            places = rows->parts;
            picked = rows->picked;
            part_rows = 1;
        }
    if (one.form == Weight::Form::blocks) {
        launch(lookup_blocks[std::size_t(one.block_form)],
               {in<MultiplyBlocks::Part>(places), in<uint>(picked), out(y), y.rows, y.columns, part_rows,
                one.row_bytes(), one.scale_bytes(), one.tile});
    } else if (one.form == Weight::Form::affine) {
        with_type(one.scale_form, [&]<typename S>(S* type) {
            launch(lookup_affine_kernel(type),
                   {in<typename MultiplyAffine<S>::Part>(places), in<uint>(picked), out(y), y.rows, y.columns,
                    part_rows, one.group, one.bits});
        });
    } else {
        with_type(one.form, [&]<typename T>(T* type) {
            launch(lookup_kernel(type), {in<typename MultiplyDense<T>::Part>(places), in<uint>(picked),
                                         out(y), y.rows, y.columns, part_rows});
        });
    }
}

Tensor Recorder::rms_norm(Tensor x, Tensor weight, float epsilon) {
    return rms_norm_of(x, Address{}, x.rows, weight, epsilon);
}

Tensor Recorder::rms_norm_of(Tensor x, Address picked, std::uint32_t rows, Tensor weight, float epsilon) {
    CHECK(weight.rows == 1 && weight.columns == x.columns);
    const Tensor y = place(rows, x.columns);
    launch(rms_norm_f32, {in(x), in(weight), in<uint>(picked), out(y), rows, x.columns, epsilon});
    return y;
}

Tensor Recorder::multiply(const Weight& w, Tensor x) {
    const Tensor y = place(x.rows, w.rows);
    const Weight* const weights[] = {&w};
    multiply_into(weights, {}, x, {&y, 1});
    return y;
}

void Recorder::multiply_add(const Weight& w, Tensor x, Tensor y) {
    const Weight* const weights[] = {&w};
    multiply_into(weights, {&y, 1}, x, {&y, 1});
}

void Recorder::multiply_into(std::span<const Weight* const> weights, std::span<const Tensor> add, Tensor x,
                             std::span<const Tensor> y) {
    for (std::size_t begin = 0, end; begin < weights.size(); begin = end) {
        end = begin + 1;
        while (end < weights.size() && end - begin < multiply_parts && weights[begin]->alike(*weights[end]))
            ++end;
        with_product(*weights[begin], [&](auto product) {
            auto& args = product.args;
            set_rows(args, x, std::uint32_t(end - begin));
            for (std::size_t i = begin; i < end; ++i) {
                auto& part = args.parts[i - begin];
                set_part(part, weights[i]->rows, weights[i]->columns, x, y[i]);
                part.add = add.empty() ? nullptr : in(add[i]);
                set_weight(args, part, *weights[i]);
            }
            launch(product.plain, args);
        });
    }
}

void Recorder::multiply_experts_into(std::span<const ExpertWeights* const> weights, Tensor x,
                                     const ExpertGroups& groups, std::span<const Tensor> y) {
    for (std::size_t begin = 0, end; begin < weights.size(); begin = end) {
        end = begin + 1;
        while (end < weights.size() && end - begin < multiply_parts &&
               weights[begin]->one.alike(weights[end]->one))
            ++end;
        with_product(weights[begin]->one, [&]<typename Args>(Product<Args> product) {
            MultiplyExperts<Args> args{.matrix = product.args,
                                       .experts = {},
                                       .groups = in<ExpertGroup>(groups.address),
                                       .group_count = groups.count,
                                       .unused = 0};
            set_rows(args.matrix, x, std::uint32_t(end - begin));
            for (std::size_t i = begin; i < end; ++i) {
                const Weight& one = weights[i]->one;
                set_part(args.matrix.parts[i - begin], one.rows, one.columns, x, y[i]);
                args.experts[i - begin] = in<typename Args::Part>(weights[i]->parts);
            }
            if (disk_ && disk_->experts.started()) {
                std::array<std::uint32_t, multiply_parts> stacks{};
                for (std::size_t i = begin; i < end; ++i) stacks[i - begin] = weights[i]->stack;
                disk_->experts.before_launch(backend_, std::span(stacks).first(end - begin), groups.address,
                                             groups.count);
            }
            launch(product.of_experts, args);
        });
    }
}

Tensor Recorder::swiglu(Tensor gate, Tensor up) {
    CHECK(gate.rows == up.rows && gate.columns == up.columns);
    const Tensor y = place(gate.rows, gate.columns);
    launch(swiglu_f32, {in(gate), in(up), out(y), gate.rows * gate.columns});
    return y;
}

Tensor Recorder::squared_relu(Tensor x) {
    const Tensor y = place(x.rows, x.columns);
    launch(squared_relu_f32, {in(x), out(y), x.rows * x.columns});
    return y;
}

Tensor Recorder::join(Tensor left, Tensor right) {
    CHECK(left.rows == right.rows);
    const Tensor y = place(left.rows, left.columns + right.columns);
    launch(join_rows_f32, {in(left), in(right), out(y), left.rows, left.columns, right.columns});
    return y;
}

void Recorder::copy_rows(Tensor x, Address from, Address to, std::uint32_t rows, Address y) {
    launch(copy_rows_f32, {in(x), in<uint>(from), in<uint>(to), out<float>(y), rows, x.columns});
}

}  // namespace kapitsa
