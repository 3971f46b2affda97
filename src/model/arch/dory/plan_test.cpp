#include "model/arch/dory/plan.h"

#include <gtest/gtest.h>

#include <string>

namespace kapitsa::looped {
namespace {

std::vector<std::uint32_t> layers_of(const Plan& plan) {
    std::vector<std::uint32_t> layers;
    for (const PlanStep& step : plan.steps) layers.push_back(step.layer);
    return layers;
}

TEST(Plan, RunsTheRecurrentBlockAsOftenAsThereAreLoops) {
    const std::vector<bool> attends{true, false, true, false, true, false};
    EXPECT_EQ(layers_of(make_plan({.input = 2, .recurrent = 2, .output = 2, .loops = 1}, attends)),
              (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(layers_of(make_plan({.input = 2, .recurrent = 2, .output = 2, .loops = 3}, attends)),
              (std::vector<std::uint32_t>{0, 1, 2, 3, 2, 3, 2, 3, 4, 5}));
}

TEST(Plan, GivesEachAttendingStepAPlaceOfItsOwn) {
    const Plan plan =
        make_plan({.input = 1, .recurrent = 3, .output = 1, .loops = 2}, {true, false, true, true, true});
    std::vector<std::uint32_t> places;
    for (const PlanStep& step : plan.steps)
        if (step.layer != 1) places.push_back(step.place);
    EXPECT_EQ(places, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(plan.places, 6u);
}

TEST(Plan, MarksTheEdgesOfTheLoops) {
    const Plan plan =
        make_plan({.input = 1, .recurrent = 2, .output = 1, .loops = 2}, {false, false, false, false});
    std::string edges;
    for (const PlanStep& step : plan.steps) {
        if (step.begins_block) edges += '{';
        if (step.begins_loop) edges += '(';
        edges += char('0' + step.layer);
        if (step.ends_loop) edges += ')';
    }
    EXPECT_EQ(edges, "0{(12)(12)3");
}

TEST(Plan, OfABlockOfOneLayerBeginsAndEndsWithIt) {
    const Plan plan = make_plan({.input = 0, .recurrent = 1, .output = 0, .loops = 2}, {true});
    ASSERT_EQ(plan.steps.size(), 2u);
    for (const PlanStep& step : plan.steps) EXPECT_TRUE(step.begins_loop && step.ends_loop);
    EXPECT_TRUE(plan.steps[0].begins_block);
    EXPECT_FALSE(plan.steps[1].begins_block);
}

}  // namespace
}  // namespace kapitsa::looped
