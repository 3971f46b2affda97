// A matrix of weights as a value: its shape, how it is stored, where its bytes lie. Above
// `Recorder::multiply` nobody looks at the format.
#pragma once

#include <cstdint>

#include "backend/tensor.h"

namespace kapitsa {

struct Weight {
    enum class Form : std::uint8_t {
        f32,
        f16,
        bf16,
        affine,  // MLX: w = scale * q + bias, see kernels/multiply.h
    };

    Form form = Form::f32;
    Form scale_form = Form::f32;          // of an affine weight: what its scales and biases are stored as
    std::uint32_t bits = 0;               // of an affine weight
    std::uint32_t group = 0;              // of an affine weight: columns to a scale
    std::uint32_t rows = 0, columns = 0;  // outputs, inputs
    Address data, scales, biases;

    /// Read when the matrix is multiplied once.
    std::uint64_t bytes() const {
        const std::uint64_t elements = std::uint64_t(rows) * columns;
        if (form == Form::affine) return elements * bits / 8 + 2 * (elements / group) * bytes_of(scale_form);
        return elements * bytes_of(form);
    }
    static std::uint64_t bytes_of(Form form) { return form == Form::f32 ? 4 : 2; }

    /// Rows [first, first + count).
    Weight slice(std::uint32_t first, std::uint32_t count) const {
        CHECK(first <= rows && count <= rows - first);
        const std::uint64_t skipped = std::uint64_t(first) * columns;
        Weight part = *this;
        part.rows = count;
        if (form != Form::affine) {
            part.data = data + skipped * bytes_of(form);
            return part;
        }
        part.data = data + skipped * bits / 8;
        part.scales = scales + skipped / group * bytes_of(scale_form);
        part.biases = biases + skipped / group * bytes_of(scale_form);
        return part;
    }
    /// Whether one launch can take both.
    bool alike(const Weight& other) const {
        return form == other.form && scale_form == other.scale_form && bits == other.bits &&
               group == other.group;
    }
};

/// One matrix of each expert of a layer: alike in shape and form, each in its own place.
struct ExpertWeights {
    Weight one;  // what all have in common; the addresses are the first's
    std::uint32_t experts = 0;
    Address parts;  // [experts] Parts of the product, as kernels/multiply_experts.h reads them
};

}  // namespace kapitsa
