#include "model/arch/dory/plan.h"

#include "base/check.h"

namespace kapitsa::looped {

Plan make_plan(const Blocks& blocks, const std::vector<bool>& attends) {
    CHECK(blocks.recurrent > 0 && blocks.loops > 0 && attends.size() == blocks.layers());
    Plan plan;
    const auto add = [&](std::uint32_t layer) -> PlanStep& {
        plan.steps.push_back({.layer = layer, .place = plan.places});
        if (attends[layer]) ++plan.places;
        return plan.steps.back();
    };
    const std::uint32_t first = blocks.input, last = blocks.input + blocks.recurrent;
    for (std::uint32_t layer = 0; layer < first; ++layer) add(layer);
    for (std::uint32_t loop = 0; loop < blocks.loops; ++loop)
        for (std::uint32_t layer = first; layer < last; ++layer) {
            PlanStep& step = add(layer);
            step.begins_loop = layer == first;
            step.begins_block = step.begins_loop && loop == 0;
            step.ends_loop = layer + 1 == last;
        }
    for (std::uint32_t layer = last; layer < blocks.layers(); ++layer) add(layer);
    return plan;
}

}  // namespace kapitsa::looped
