// Qwen3.5 with a vision tower against the reference: the tower's rows, where they stand, and what the model
// says to a prompt with two pictures. And what must not change a bit: cuts inside a picture, company,
// threads, forms.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/forms.h"
#include "golden/loading.h"
#include "golden/model_case.h"
#include "golden/vision_case.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

TEST(Vision, TheTowersRowsAreTheReferences) {
    ModelCase model(vision_folder);
    std::vector<float> rows;
    for (const auto& picture : golden_pictures()) {
        const auto of_picture = *model.runner().see(*picture);
        rows.insert(rows.end(), of_picture.begin(), of_picture.end());
    }
    EXPECT_LT(largest_difference(rows, outputs().floats("image.vision_merged_fp32").values), 2e-5);
}

TEST(Vision, TokensStandWhereTheReferencePutsThem) {
    ModelCase model(vision_folder);
    const Prompt prompt = golden_prompt(model);
    const auto expected = outputs().ints("image.position_ids").values;  // [3, tokens]
    const std::size_t tokens = prompt.size();
    for (std::uint32_t i = 0; i < tokens; ++i) {
        const RowPosition at = prompt.positions().at(i);
        EXPECT_EQ(at.time, expected[i]) << i;
        EXPECT_EQ(at.row, expected[tokens + i]) << i;
        EXPECT_EQ(at.column, expected[2 * tokens + i]) << i;
    }
    EXPECT_EQ(prompt.positions().shift(29), image_case()["rope_delta"].get<int>());
}

TEST(Vision, LogitsLayersAndStateAreTheReferences) {
    ModelCase model(vision_folder, {}, {0, 1, 2, 3, 4});
    const Prompt prompt = golden_prompt(model);
    auto sequence = model.begin(1);
    const Logits logits = prompt.compute(model, sequence, {});
    EXPECT_LT(largest_difference(logits, outputs().floats("image.logits_fp32").values), 5e-4);
    const auto hidden = outputs().floats("image.hidden_fp32").values;
    const auto one = std::ptrdiff_t(prompt.size() * vision_width);
    for (std::uint32_t layer = 0; layer < 5; ++layer)
        EXPECT_LT(largest_difference(*model.runner().tapped(layer),
                                     {hidden.begin() + layer * one, hidden.begin() + (layer + 1) * one}),
                  5e-4)
            << layer;
    EXPECT_LT(largest_difference(*model.runner().recurrent_state(1, 1),
                                 outputs().floats("image.layer1.recurrent_state").values),
              1e-5);
}

TEST(Vision, TheGreedyAnswerIsTheReferences) {
    ModelCase model(vision_folder);
    const Prompt prompt = golden_prompt(model);
    auto sequence = model.begin(0);
    Logits logits = prompt.compute(model, sequence, {});
    const auto expected = tokens_of(image_case()["greedy"]);
    std::vector<Token> answer;
    while (answer.size() < expected.size()) {
        answer.push_back(argmax(&logits[logits.size() - model.vocabulary()], model.vocabulary()));
        logits = prompt.next(model, sequence, answer.back());
    }
    EXPECT_EQ(answer, expected);
}

TEST(Vision, TextAloneIsTheReferences) {
    ModelCase model(vision_folder);
    for (const char* length : {"7", "65"}) {
        const auto prompt = read_golden_json("qwen3_5-vision/golden.json")["prompts"][length];
        auto sequence = model.begin(0);
        const Logits logits = model.chain(sequence, tokens_of(prompt["input_ids"]));
        const auto expected = outputs().floats("p" + std::string(length) + ".logits_fp32").values;
        EXPECT_LT(largest_difference(logits, expected), 5e-4);
    }
}

TEST(Vision, APictureCutAtTheGridHasTheBitsOfThePromptWhole) {
    ModelCase model(vision_folder);
    const Prompt prompt = long_prompt(model);
    auto whole = model.begin(0);
    const Logits expected = prompt.compute(model, whole, {});
    for (const std::vector<std::uint32_t>& cuts :
         {std::vector<std::uint32_t>{64}, {64, 128}, {128}, {64, 128, 192}}) {
        auto cut = model.begin(1);
        ASSERT_EQ(prompt.compute(model, cut, cuts), expected) << "cut at " << cuts.front();
        ASSERT_EQ(prompt.next(model, cut, 5), prompt.next(model, whole, 5));
        whole = model.begin(0);
        prompt.compute(model, whole, {});
    }
}

TEST(Vision, APictureCutAnywhereIsThePromptWhole) {
    ModelCase model(vision_folder);
    const Prompt prompt = long_prompt(model);
    auto whole = model.begin(0);
    const Logits expected = prompt.compute(model, whole, {});
    for (const std::vector<std::uint32_t>& cuts :
         {std::vector<std::uint32_t>{41}, {40, 136}, {77, 137, 168}}) {
        auto cut = model.begin(1);
        EXPECT_LT(largest_difference(prompt.compute(model, cut, cuts), expected), 1e-3);
    }
    std::vector<std::uint32_t> each(prompt.size() - 1), some;
    for (std::uint32_t i = 0; i < each.size(); ++i) each[i] = i + 1;
    for (std::uint32_t i = 11; i < prompt.size(); i += 11) some.push_back(i);
    auto stepped = model.begin(1), by_few = model.begin(2);
    const Logits rows = prompt.compute(model, stepped, each);
    EXPECT_LT(largest_difference(rows, expected), 1e-3);
    EXPECT_EQ(prompt.compute(model, by_few, some), rows);  // up to 16 rows: to the bit
}

TEST(Vision, SequencesInOneStepDoNotDisturbEachOther) {
    ModelCase model(vision_folder);
    const Prompt small = golden_prompt(model), large = long_prompt(model);
    const std::vector<Token> text{1, 2, 3, 4, 5, 6, 7};
    auto alone = model.begin(5);
    const Logits of_small = small.compute(model, alone, {});
    alone = model.begin(5);
    const Logits of_large = large.compute(model, alone, {});
    alone = model.begin(5);
    const Logits of_text = model.chain(alone, text);
    auto a = model.begin(0), b = model.begin(1), c = model.begin(2);
    const auto together = model.step({{&c, text},
                                      large.rows(b, 0, std::uint32_t(large.size())),
                                      small.rows(a, 0, std::uint32_t(small.size()))});
    EXPECT_EQ(together[0], of_text);
    EXPECT_EQ(together[1], of_large);
    EXPECT_EQ(together[2], of_small);
}

TEST(Vision, ADraftBehindAPictureHasTheBitsOfTheChain) {
    ModelCase model(vision_folder);
    const Prompt prompt = golden_prompt(model);
    auto drafted = model.begin(0), decoded = model.begin(1);
    prompt.compute(model, drafted, {});
    prompt.compute(model, decoded, {});
    const Logits first = prompt.next(model, decoded, 11), second = prompt.next(model, decoded, 13);
    ModelCase::Rows rows{&drafted, {11, 12, 13}, {-1, 0, 0}, false};
    rows.shift = prompt.positions().shift(29);
    const Logits tree = std::move(model.step({rows}).front());
    EXPECT_EQ(row_of(tree, 0, model.vocabulary()), first);
    EXPECT_EQ(row_of(tree, 2, model.vocabulary()), second);
    model.accept(drafted, {0, 2});
    EXPECT_EQ(prompt.next(model, drafted, 14), prompt.next(model, decoded, 14));
}

TEST(Vision, TheNumberOfThreadsChangesNothing) {
    const auto picture = random_picture(10, 14, 9);
    std::vector<float> expected;
    for (const std::uint32_t threads : {1u, 2u, 5u}) {
        ModelCase model(vision_folder, {.threads = threads});
        const auto rows = *model.runner().see(*picture);
        if (threads == 1) expected = rows;
        ASSERT_EQ(rows, expected) << threads;
    }
}

TEST(Vision, APictureBehindALargerOneHasItsOwnBits) {
    ModelCase model(vision_folder);
    const auto small = random_picture(4, 6, 1), large = random_picture(20, 30, 2);
    const auto first = *model.runner().see(*small);
    ASSERT_TRUE(model.runner().see(*large));
    EXPECT_EQ(*model.runner().see(*small), first);
}

class VisionForms : public testing::TestWithParam<StoredForm> {};

TEST_P(VisionForms, HaveTheBitsOfTheFloatsTheyStandFor) {
    const TemporaryFolder written;
    const auto checkpoint = open_checkpoint(std::string(KAPITSA_SOURCE_DIR "/") + vision_folder);
    ASSERT_TRUE(checkpoint);
    const StoredForm form = GetParam();
    // Converters leave the table of positions and the patches as they are.
    write_forms(written.path(), tensors_of(*checkpoint), *checkpoint->config, [&](const std::string& module) {
        const bool left =
            module.find("embed") != std::string::npos && module.find("visual") != std::string::npos;
        return left && form.kind == StoredForm::Kind::affine ? StoredForm{.kind = StoredForm::Kind::f32}
                                                             : form;
    });
    Logits logits[2];
    for (const char* twin : {"/stored", "/plain"}) {
        ModelCase model(written.path() + twin);
        const Prompt prompt = golden_prompt(model);
        auto sequence = model.begin(0);
        logits[twin == std::string("/plain")] = prompt.compute(model, sequence, {});
    }
    EXPECT_EQ(logits[0], logits[1]);
}

INSTANTIATE_TEST_SUITE_P(Of, VisionForms,
                         testing::Values(StoredForm{.kind = StoredForm::Kind::bf16},
                                         StoredForm{.kind = StoredForm::Kind::affine, .bits = 4, .group = 32},
                                         StoredForm{
                                             .kind = StoredForm::Kind::affine, .bits = 8, .group = 32}),
                         [](const auto& of) {
                             return of.param.kind == StoredForm::Kind::bf16
                                        ? std::string("Bf16")
                                        : "Affine" + std::to_string(of.param.bits);
                         });

std::string blind_because(const std::string& where) {
    ModelCase model(where);
    if (model.runner().info().picture_patches > 0) return "sees";
    const auto refused = model.runner().see(*blank(2, 2));
    return refused ? "sees" : refused.error().message;
}

TEST(Vision, ATowerThatIsNotUnderstoodLeavesAModelThatReads) {
    EXPECT_EQ(blind_because("tests/data/goldens/qwen3_5-dense"), "the model has no vision tower");
    ChangedConfigs configs(vision_folder);
    const auto with = [&](const char* key, const Json& value) {
        Json vision = read_golden_json("qwen3_5-vision/config.json")["vision_config"];
        vision[key] = value;
        return blind_because(configs.with("vision_config", vision));
    };
    EXPECT_EQ(with("depth", 2), "sees");
    for (const auto& [key, value] : {std::pair<const char*, Json>{"deepstack_visual_indexes", {1}},
                                     {"hidden_act", "gelu"},
                                     {"num_position_embeddings", 63},
                                     {"out_hidden_size", 32},
                                     {"num_heads", 3},
                                     {"depth", 1}}) {
        const std::string why = with(key, value);
        EXPECT_NE(why.find("the model's vision tower cannot be used: "), std::string::npos) << why;
        const bool by_config = std::string_view(key) != "depth";
        EXPECT_EQ(why.find("vision_config") != std::string::npos, by_config) << why;
    }
}

}  // namespace
}  // namespace kapitsa
