// A matrix of weights as a value: its shape, how it is stored, where its bytes lie. Above
// `Recorder::multiply` nobody looks at the format.
#pragma once

#include <array>
#include <cstdint>

#include "backend/tensor.h"
#include "kernels/blocks.h"

namespace kapitsa {

struct Weight {
    enum class Form : std::uint8_t {
        f32,
        f16,
        bf16,
        affine,  // MLX: w = scale * q + bias, see kernels/multiply.h
        blocks,  // what kernels/blocks/ has, see `block_form`
    };

    Form form = Form::f32;
    Form scale_form = Form::f32;             // of an affine weight: what its scales and biases are stored as
    std::uint32_t bits = 0;                  // of an affine weight
    std::uint32_t group = 0;                 // of an affine weight: columns to a scale
    BlockForm block_form = BlockForm::q8_0;  // of a weight in blocks
    FactorTile tile{0, 0};                   // of a weight in blocks: what a factor is for
    std::uint32_t rows = 0, columns = 0;     // outputs, inputs
    Address data, scales, biases;
    Address factors;  // of a weight in blocks: f32 by tile, or null

    /// Neighbouring bytes that are stored, but for factors.
    struct Range {
        Address Weight::* place;
        std::uint64_t bytes;  // 0: there are none
    };
    std::array<Range, 3> ranges() const {
        const std::uint64_t elements = std::uint64_t(rows) * columns;
        if (form == Form::blocks)
            return {{{&Weight::data, std::uint64_t(rows) * row_bytes()},
                     {&Weight::scales, std::uint64_t(rows) * scale_bytes()},
                     {&Weight::biases, 0}}};
        const std::uint64_t scales_bytes = form == Form::affine ? elements / group * bytes_of(scale_form) : 0;
        return {{{&Weight::data, form == Form::affine ? elements * bits / 8 : elements * bytes_of(form)},
                 {&Weight::scales, scales_bytes},
                 {&Weight::biases, scales_bytes}}};
    }
    /// Read when the matrix is multiplied once.
    std::uint64_t bytes() const {
        std::uint64_t sum = 0;
        for (const Range& range : ranges()) sum += range.bytes;
        return sum;
    }
    static std::uint64_t bytes_of(Form form) { return form == Form::f32 ? 4 : 2; }

    /// Of one row of a weight in blocks, whose columns are whole blocks.
    std::uint32_t row_bytes() const {
        return columns / shape_of(block_form).values * shape_of(block_form).bytes;
    }
    std::uint32_t scale_bytes() const {
        return columns / shape_of(block_form).values * shape_of(block_form).scales;
    }

    /// Whether `slice` can begin there: a weight in blocks with tiles of rows is not cut inside one.
    bool begins_tile(std::uint32_t first) const {
        return form != Form::blocks || tile.rows == 0 || first % tile.rows == 0;
    }
    /// Rows [first, first + count), of which `first` begins a tile.
    Weight slice(std::uint32_t first, std::uint32_t count) const {
        CHECK(first <= rows && count <= rows - first);
        const std::uint64_t skipped = std::uint64_t(first) * columns;
        Weight part = *this;
        part.rows = count;
        if (form == Form::blocks) {
            CHECK(begins_tile(first));
            part.data = data + std::uint64_t(first) * row_bytes();
            if (scales) part.scales = scales + std::uint64_t(first) * scale_bytes();
            if (tile.rows != 0)
                part.factors = factors + std::uint64_t(first / tile.rows) * row_tiles() * sizeof(float);
            return part;
        }
        if (form != Form::affine) {
            part.data = data + skipped * bytes_of(form);
            return part;
        }
        part.data = data + skipped * bits / 8;
        part.scales = scales + skipped / group * bytes_of(scale_form);
        part.biases = biases + skipped / group * bytes_of(scale_form);
        return part;
    }
    /// A row as a matrix of its own.
    Weight row(std::uint32_t at) const {
        const std::uint32_t ahead = begins_tile(at) ? 0 : at % tile.rows;  // in its tile
        Weight one = slice(at - ahead, ahead + 1);
        one.rows = 1;
        if (ahead == 0) return one;
        one.data = one.data + std::uint64_t(ahead) * row_bytes();
        if (one.scales) one.scales = one.scales + std::uint64_t(ahead) * scale_bytes();
        return one;
    }
    /// Whether one launch can take both.
    bool alike(const Weight& other) const {
        return form == other.form && scale_form == other.scale_form && bits == other.bits &&
               group == other.group &&
               (form != Form::blocks || (block_form == other.block_form && tile.rows == other.tile.rows &&
                                         tile.columns == other.tile.columns));
    }
    /// Factors to one row.
    std::uint32_t row_tiles() const {
        return tile.columns == 0 ? 1 : (columns + tile.columns - 1) / tile.columns;
    }
};

/// One matrix of each expert of a layer: alike in shape and form, each in its own place.
struct ExpertWeights {
    Weight one;  // what all have in common; the addresses are the first's
    std::uint32_t experts = 0;
    Address parts;               // [experts] Parts of the product, as kernels/multiply_experts.h reads them
    std::size_t part_bytes = 0;  // of one of them
    std::uint32_t stack = 0;     // its number in ExpertMemory, or that of a table in RowMemory
};

}  // namespace kapitsa
