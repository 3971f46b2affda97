// The quantised matrices of tests/data/goldens/quant, as a kernel takes them.
#pragma once

#include <cstring>
#include <nlohmann/json.hpp>

#include "kernels/affine.h"
#include "support/golden.h"

namespace kapitsa {

/// An array as it lies in the file.
template <typename T>
std::vector<T> stored_array(const Golden& golden, const std::string& name) {
    const Bytes bytes = golden.entry(name).bytes;
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
}

/// Calls body(name, matrix, values) with every affine matrix, whatever its scales are stored as.
/// @return how many there were
template <typename Body>
std::size_t for_each_affine_golden(Body body) {
    const Golden golden("quant/mlx.safetensors");
    const Json manifest = read_golden_json("quant/manifest.json");
    std::size_t cases = 0;
    for (const auto& [name, said] : manifest.at("cases").items()) {
        if (said.value("mode", "") != "affine") continue;
        const auto values = golden.floats(name + ".values").values;
        const auto with_scales_of = [&]<typename Scale>(Scale) {
            body(name,
                 AffineMatrix<Scale>{said.at("rows"), said.at("cols"), said.at("group_size"), said.at("bits"),
                                     stored_array<uint>(golden, name + ".weight"),
                                     stored_array<Scale>(golden, name + ".scales"),
                                     stored_array<Scale>(golden, name + ".biases")},
                 values);
        };
        if (said.at("scale_dtype") == "BF16") with_scales_of(bfloat());
        if (said.at("scale_dtype") == "F16") with_scales_of(half());
        if (said.at("scale_dtype") == "F32") with_scales_of(float());
        ++cases;
    }
    return cases;
}

}  // namespace kapitsa
