#include "model/recorder.h"

#include <algorithm>

#include "kernels/all.h"

namespace kapitsa {
namespace {

template <typename Scale>
Kernel<MultiplyAffine<Scale>> pick(std::uint32_t bits,
                                   const std::array<Kernel<MultiplyAffine<Scale>>, 6>& of_bits) {
    constexpr std::array<std::uint32_t, 6> widths{2, 3, 4, 5, 6, 8};
    const auto at = std::ranges::find(widths, bits);
    CHECK(at != widths.end());
    return of_bits[std::size_t(at - widths.begin())];
}

/// Calls `then` with a null pointer of the storage type of a form.
template <typename Then>
void with_type(Weight::Form form, Then then) {
    switch (form) {
        case Weight::Form::f32: return then(static_cast<float*>(nullptr));
        case Weight::Form::f16: return then(static_cast<half*>(nullptr));
        case Weight::Form::bf16: return then(static_cast<bfloat*>(nullptr));
        case Weight::Form::affine: break;
    }
    CHECK(false && "a storage type of floats");
}

Kernel<MultiplyDense<float>> dense_kernel(const float*) { return multiply_f32; }
Kernel<MultiplyDense<half>> dense_kernel(const half*) { return multiply_f16; }
Kernel<MultiplyDense<bfloat>> dense_kernel(const bfloat*) { return multiply_bf16; }

Kernel<MultiplyAffine<float>> affine_kernel(const float*, std::uint32_t bits) {
    return pick<float>(bits, {multiply_affine2_f32, multiply_affine3_f32, multiply_affine4_f32,
                              multiply_affine5_f32, multiply_affine6_f32, multiply_affine8_f32});
}
Kernel<MultiplyAffine<half>> affine_kernel(const half*, std::uint32_t bits) {
    return pick<half>(bits, {multiply_affine2_f16, multiply_affine3_f16, multiply_affine4_f16,
                             multiply_affine5_f16, multiply_affine6_f16, multiply_affine8_f16});
}
Kernel<MultiplyAffine<bfloat>> affine_kernel(const bfloat*, std::uint32_t bits) {
    return pick<bfloat>(bits, {multiply_affine2_bf16, multiply_affine3_bf16, multiply_affine4_bf16,
                               multiply_affine5_bf16, multiply_affine6_bf16, multiply_affine8_bf16});
}

Kernel<Embed<float>> embed_kernel(const float*) { return embed_f32; }
Kernel<Embed<half>> embed_kernel(const half*) { return embed_f16; }
Kernel<Embed<bfloat>> embed_kernel(const bfloat*) { return embed_bf16; }
Kernel<EmbedAffine<float>> embed_affine_kernel(const float*) { return embed_affine_f32; }
Kernel<EmbedAffine<half>> embed_affine_kernel(const half*) { return embed_affine_f16; }
Kernel<EmbedAffine<bfloat>> embed_affine_kernel(const bfloat*) { return embed_affine_bf16; }

/// Matrices that one launch can take together.
bool alike(const Weight& a, const Weight& b) {
    return a.form == b.form && a.scale_form == b.scale_form && a.bits == b.bits && a.group == b.group;
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
    if (table.form == Weight::Form::affine) {
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
    return y;
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
        for (end = begin;
             end < weights.size() && end - begin < multiply_parts && alike(*weights[begin], *weights[end]);
             ++end) {
            CHECK(weights[end]->columns == x.columns && y[end].rows == x.rows &&
                  y[end].columns == weights[end]->rows);
        }
        const auto fill = [&](auto& args) {
            args.x = in(x);
            args.count = std::uint32_t(end - begin);
            args.rows = x.rows;
            args.columns = x.columns;
            for (std::size_t i = begin; i < end; ++i) {
                auto& part = args.parts[i - begin];
                part.add = add.empty() ? nullptr : in(add[i]);
                part.y = out(y[i]);
                part.outputs = weights[i]->rows;
            }
        };
        const Weight& first = *weights[begin];
        if (first.form == Weight::Form::affine) {
            with_type(first.scale_form, [&]<typename S>(S* type) {
                MultiplyAffine<S> args{};
                fill(args);
                args.group = first.group;
                for (std::size_t i = begin; i < end; ++i) {
                    args.parts[i - begin].codes = in<uint>(weights[i]->data);
                    args.parts[i - begin].scales = in<S>(weights[i]->scales);
                    args.parts[i - begin].biases = in<S>(weights[i]->biases);
                }
                launch(affine_kernel(type, first.bits), args);
            });
        } else {
            with_type(first.form, [&]<typename T>(T* type) {
                MultiplyDense<T> args{};
                fill(args);
                for (std::size_t i = begin; i < end; ++i)
                    args.parts[i - begin].weight = in<T>(weights[i]->data);
                launch(dense_kernel(type), args);
            });
        }
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

void Recorder::copy_rows(Tensor x, Address from, Address to, std::uint32_t rows, Address y) {
    launch(copy_rows_f32, {in(x), in<uint>(from), in<uint>(to), out<float>(y), rows, x.columns});
}

}  // namespace kapitsa
