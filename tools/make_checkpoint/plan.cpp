#include "make_checkpoint/plan.h"

#include <algorithm>

namespace kapitsa::random_checkpoint {

std::uint64_t PlannedTensor::elements() const {
    std::uint64_t product = 1;
    for (const auto extent : shape) product *= extent;
    return product;
}

const std::vector<Shape>& shapes() {
    static const std::vector<Shape> all{
        {"qwen3.5-0.8b", "qwen3_5", "as published", 750'000'000},
        {"qwen3.5-2b", "qwen3_5", "as published", 1'900'000'000},
        {"qwen3.5-4b", "qwen3_5", "as published", 4'200'000'000},
        {"qwen3.5-9b", "qwen3_5", "as published", 9'000'000'000},
        {"qwen3.5-27b", "qwen3_5", "as published", 27'000'000'000},
        {"qwen3.5-35b-a3b", "qwen3_5_moe", "as published, without the head that drafts", 34'700'000'000},
        {"qwen3.8-flash-next", "qwen4_exp", "as published, without the head that drafts", 174'000'000'000},
        {"qwen3.8-flash-table", "qwen4_exp", "a toy but for its table of n-grams", 530'000'000},
        {"nemotron-nano-9b-v2", "nemotron_h", "as published", 8'900'000'000},
        {"nemotron-3-nano-4b", "nemotron_h", "as published", 4'000'000'000},
        {"nemotron-3-nano-30b-a3b", "nemotron_h", "as published", 31'600'000'000},
        {"dory-4b", "dory", "as publicly described, two loops", 3'980'000'000},
        {"flint-40b-a2.5b", "flint", "as publicly described", 39'800'000'000},
        {"qwen3.5-tiny", "qwen3_5", "for tests", 0},
        {"qwen3.5-moe-tiny", "qwen3_5_moe", "for tests", 0},
        {"qwen3.8-flash-tiny", "qwen4_exp", "for tests", 0},
        {"nemotron-tiny", "nemotron_h", "for tests", 0},
        {"nemotron-moe-tiny", "nemotron_h", "for tests", 0},
        {"dory-tiny", "dory", "for tests", 0},
        {"flint-tiny", "flint", "for tests", 0},
    };
    return all;
}

std::optional<Plan> plan_of(std::string_view shape, std::uint32_t layers, ExpertLayout experts) {
    if (shape.starts_with("qwen3.8-flash")) return plan_qwen4_exp(shape, layers, experts);
    if (shape.starts_with("qwen")) return plan_qwen3_5(shape, layers, experts);
    if (shape.starts_with("nemotron")) return plan_nemotron_h(shape, layers, experts);
    if (shape.starts_with("dory")) return plan_dory(shape, layers);
    if (shape.starts_with("flint")) return plan_flint(shape, layers, experts);
    return std::nullopt;
}

void add_experts(Plan& plan, const std::string& module, const std::string& name,
                 const std::string& stacked_name, ExpertLayout layout, std::uint32_t experts,
                 std::uint64_t rows, std::uint64_t columns) {
    if (layout == ExpertLayout::stacked) {
        plan.matrix(module + ".switch_mlp." + stacked_name, {experts, rows, columns});
        return;
    }
    for (std::uint32_t e = 0; e < experts; ++e)
        plan.matrix(module + ".experts." + std::to_string(e) + "." + name, {rows, columns});
}

}  // namespace kapitsa::random_checkpoint
