// Matrices in blocks, as a kernel takes them: random ones, and those of tests/data/goldens/quant.
#pragma once

#include <cmath>

#include "kernels/blocks.h"
#include "kernels/products.h"
#include "kernels/quant_golden.h"

namespace kapitsa {

struct BlockMatrix {
    BlockForm form;
    std::size_t rows, columns;
    std::vector<uchar> blocks;   // [rows, row_bytes]
    std::vector<uchar> scales;   // [rows, scale_bytes]
    std::vector<float> factors;  // by `tile`; empty: 1
    FactorTile tile{0, 0};

    std::size_t row_blocks() const { return columns / shape_of(form).values; }
    std::size_t row_bytes() const { return row_blocks() * shape_of(form).bytes; }
    std::size_t scale_bytes() const { return row_blocks() * shape_of(form).scales; }

    float factor(std::size_t row, std::size_t column) const {
        if (factors.empty()) return 1;
        const std::size_t tile_columns = tile.columns ? tile.columns : columns;
        const std::size_t down = tile.rows ? row / tile.rows : 0, along = column / tile_columns;
        return factors.at(down * ((columns + tile_columns - 1) / tile_columns) + along);
    }

    template <class Block>
    float value_of(std::size_t row, std::size_t column) const {
        const std::size_t number = column / Block::values;
        const uchar* block = &blocks.at(row * row_bytes() + number * Block::bytes);
        const auto i = uint(column % Block::values);
        if constexpr (requires { Block::value(block, 0u, 1.0f, i); })
            return Block::value(block, Block::scales ? scales.at(row * scale_bytes() + number) : 0u,
                                factor(row, column), i);
        else
            return Block::value(block, i) * factor(row, column);
    }
    float value(std::size_t row, std::size_t column) const {
        switch (form) {
#define BLOCK_VALUE(name, Type) \
    case BlockForm::name: return value_of<blocks::Type>(row, column);
            BLOCK_FORMS(BLOCK_VALUE)
#undef BLOCK_VALUE
        }
        return NAN;
    }
    /// [rows, columns]
    std::vector<float> floats() const {
        std::vector<float> all;
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < columns; ++c) all.push_back(value(r, c));
        return all;
    }
    std::vector<double> values() const {
        const auto all = floats();
        return {all.begin(), all.end()};
    }

    static BlockMatrix random(BlockForm form, std::size_t rows, std::size_t columns, std::uint32_t seed);
};

/// Random bytes, block by block until its values are numbers of a sane size: any byte may be a code, not any
/// byte a scale.
inline BlockMatrix BlockMatrix::random(BlockForm form, std::size_t rows, std::size_t columns,
                                       std::uint32_t seed) {
    const BlockShape shape = shape_of(form);
    BlockMatrix one{form, 1, shape.values, {}, {}, {}}, all{form, rows, columns, {}, {}, {}};
    for (std::size_t number = 0; number < rows * all.row_blocks();) {
        const auto words = random_words((shape.bytes + 7) / 4, seed++);
        const auto* bytes = reinterpret_cast<const uchar*>(words.data());
        one.blocks.assign(bytes, bytes + shape.bytes);
        one.scales.assign(bytes + shape.bytes, bytes + shape.bytes + shape.scales);
        float largest = 0;
        for (const float value : one.floats())
            largest = std::fmax(largest, std::isfinite(value) ? std::fabs(value) : 1e9f);
        if (largest > 1e4f || (largest < 1e-4f && shape.values > 1)) continue;
        all.blocks.insert(all.blocks.end(), one.blocks.begin(), one.blocks.end());
        all.scales.insert(all.scales.end(), one.scales.begin(), one.scales.end());
        ++number;
    }
    return all;
}

inline Kernel<MultiplyBlocks> kernel_of(const BlockMatrix& matrix) {
    return multiply_blocks[uint(matrix.form)];
}

inline void set_weights(Lab& lab, MultiplyBlocks& args, MultiplyBlocks::Part& part,
                        const BlockMatrix& matrix) {
    part.blocks = lab.give(matrix.blocks);
    part.scales = matrix.scales.empty() ? nullptr : lab.give(matrix.scales);
    part.factors = matrix.factors.empty() ? nullptr : lab.give(matrix.factors);
    args.columns = uint(matrix.columns);
    args.row_bytes = uint(matrix.row_bytes());
    args.scale_bytes = uint(matrix.scale_bytes());
    args.tile = matrix.tile;
}

/// Calls body(name, matrix, values) with every golden matrix in blocks. Blocks of GGUF become a matrix of as
/// few rows as there are.
/// @return how many there were
template <typename Body>
std::size_t for_each_block_golden(Body body) {
    std::size_t cases = 0;
    const auto call = [&](const std::string& name, const BlockMatrix& matrix, const Array<float>& values) {
        ASSERT_EQ(values.values.size(), matrix.rows * matrix.columns) << name;
        body(name, matrix, values.values);
        ++cases;
    };

    const Golden gguf("quant/gguf.safetensors");
    for (uint number = 0; number < uint(BlockForm::nvfp4); ++number) {
        const auto form = BlockForm(number);
        std::string name = name_of(form);
        if (name.starts_with("gguf_")) name = name.substr(5);
        if (name.ends_with("_k")) name.back() = 'K';
        for (const char* suffix : {"", "_rtn"}) {
            if (!gguf.has(name + suffix + ".blocks")) continue;
            const auto values = gguf.floats(name + suffix + ".values");
            const std::size_t rows = values.values.size() % 3 == 0 ? 3 : 5;
            call(name + suffix,
                 {form,
                  rows,
                  values.values.size() / rows,
                  stored_array<uchar>(gguf, name + suffix + ".blocks"),
                  {},
                  {}},
                 values);
        }
    }

    const Golden mlx("quant/mlx.safetensors");
    for (const auto& [form, name] :
         {std::pair{BlockForm::nvfp4, "nvfp4"}, {BlockForm::mxfp4, "mxfp4"}, {BlockForm::mxfp8, "mxfp8"}})
        call(std::string("mlx ") + name,
             {form,
              6,
              256,
              stored_array<uchar>(mlx, std::string(name) + ".weight"),
              stored_array<uchar>(mlx, std::string(name) + ".scales"),
              {}},
             mlx.floats(std::string(name) + ".values"));

    const Golden other("quant/nvfp4_fp8.safetensors");
    for (const std::string name : {"nvfp4", "nvfp4_all", "experts.0.up_proj", "experts.1.up_proj"}) {
        const auto values = other.floats(name + ".values");
        call(
            name,
            {BlockForm::nvfp4, values.shape[0], values.shape[1], stored_array<uchar>(other, name + ".weight"),
             stored_array<uchar>(other, name + ".weight_scale"),
             other.floats(name + ".weight_scale_2").values},
            values);
    }
    for (const auto& [name, scale, tile] : {std::tuple{"fp8_tensor", ".weight_scale", FactorTile{0, 0}},
                                            {"fp8_channel", ".weight_scale", FactorTile{1, 0}},
                                            {"fp8_block", ".weight_scale_inv", FactorTile{128, 128}}})
        call(name,
             {BlockForm::fp8,
              160,
              200,
              stored_array<uchar>(other, std::string(name) + ".weight"),
              {},
              other.floats(std::string(name) + scale).values,
              tile},
             other.floats(std::string(name) + ".values"));
    return cases;
}

}  // namespace kapitsa
