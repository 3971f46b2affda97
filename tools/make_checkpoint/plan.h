// What a checkpoint with random weights holds, before any of it is drawn: its config.json, and its tensors by
// role.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kapitsa::random_checkpoint {

struct PlannedTensor {
    enum class Role : std::uint8_t {
        matrix,      // stored in the checkpoint's form, where its columns are whole groups of it
        vocabulary,  // an embedding or a head: the same, but for forms that leave those plain
        plain,       // never quantised: routers, convolutions, norms
        f32,         // the same, always stored as f32
    };
    std::string name;  // with its ".weight", where it has one
    std::vector<std::uint64_t> shape;
    Role role = Role::matrix;
    /// Uniform in [low, high]; of matrices low = high = 0: a spread that keeps the size of what they
    /// multiply.
    float low = 0, high = 0;

    std::uint64_t elements() const;
};

struct Plan {
    Json config;
    std::vector<PlannedTensor> tensors;

    void matrix(const std::string& module, std::vector<std::uint64_t> shape,
                PlannedTensor::Role role = PlannedTensor::Role::matrix) {
        tensors.push_back({module + ".weight", std::move(shape), role});
    }
    /// Also of matrices that are never quantised, with low = high = 0.
    void plain(const std::string& name, std::vector<std::uint64_t> shape, float low, float high) {
        tensors.push_back({name, std::move(shape), PlannedTensor::Role::plain, low, high});
    }
    void f32(const std::string& name, std::vector<std::uint64_t> shape, float low, float high) {
        tensors.push_back({name, std::move(shape), PlannedTensor::Role::f32, low, high});
    }
};

/// How the experts of a layer are stored.
enum class ExpertLayout : std::uint8_t {
    one_by_one,  // a tensor an expert
    stacked,     // MLX's switch_mlp: a tensor for all
};

/// Shapes that go by a name: "qwen3.5-0.8b".
struct Shape {
    std::string_view name, family, note;
    std::uint64_t parameters;  // about
};
const std::vector<Shape>& shapes();

/// @param layers this many of them in place of all, from the first on; 0: all
/// @return nothing for a name that is none
std::optional<Plan> plan_of(std::string_view shape, std::uint32_t layers, ExpertLayout experts);

// One file a family.
std::optional<Plan> plan_qwen3_5(std::string_view shape, std::uint32_t layers, ExpertLayout experts);
std::optional<Plan> plan_qwen4_exp(std::string_view shape, std::uint32_t layers, ExpertLayout experts);
std::optional<Plan> plan_nemotron_h(std::string_view shape, std::uint32_t layers, ExpertLayout experts);
std::optional<Plan> plan_dory(std::string_view shape, std::uint32_t layers);
std::optional<Plan> plan_flint(std::string_view shape, std::uint32_t layers, ExpertLayout experts);

/// The matrices of experts, [rows, columns] each, in the layout: "module.experts.7.name", or a stack.
void add_experts(Plan& plan, const std::string& module, const std::string& name,
                 const std::string& stacked_name, ExpertLayout layout, std::uint32_t experts,
                 std::uint64_t rows, std::uint64_t columns);

}  // namespace kapitsa::random_checkpoint
