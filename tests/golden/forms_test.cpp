// Every family in every form: a row for each in the table at the end. As f32 its logits are the reference's;
// as bf16 and as 4-bit codes they have the bits of the same weights stored plainly, and as bf16 and 8-bit
// codes they are as near to the reference as the row says.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "golden/forms.h"
#include "golden/model_case.h"
#include "support/checkpoint_writer.h"

namespace kapitsa {
namespace {

struct Reference {
    std::vector<Token> prompt;
    std::vector<float> logits;  // [prompt, vocabulary]
};

struct Family {
    const char* name;
    const char* folder;  // below tests/data/goldens
    Reference (*reference)(const std::string& folder);
    double f32_gate;               // the largest difference of a logit
    double bf16_rms, affine8_rms;  // the root of the mean square of the differences
};

/// Goldens of the reference implementations, by prompts of several lengths.
Reference prompts_reference(const std::string& folder) {
    const Golden outputs(folder + "/golden.safetensors");
    return {tokens_of(read_golden_json(folder + "/golden.json")["prompts"]["65"]["input_ids"]),
            outputs.floats("p65.logits_fp32").values};
}

/// Goldens of prompts by their length, of which the longest has 40 tokens.
Reference numpy_reference(const std::string& folder, const std::string& logits) {
    const Golden outputs(folder + "/goldens.safetensors");
    const auto ids = outputs.ints("p40.ids").values;
    return {{ids.begin(), ids.end()}, outputs.floats(logits).values};
}
Reference dory_reference(const std::string& folder) {
    return numpy_reference(folder, "p40.per_loop.l2.logits");
}
Reference flint_reference(const std::string& folder) { return numpy_reference(folder, "p40.logits"); }

double rms_of_difference(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return HUGE_VAL;
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i) squares += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    return std::sqrt(squares / double(a.size()));
}

struct Answers {
    Logits prompt;   // [prompt, vocabulary]
    Logits stepped;  // of a few tokens more, one by one
};

class Forms : public testing::TestWithParam<Family> {
protected:
    Answers answers(const std::string& folder) const {
        ModelCase model(folder);
        auto sequence = model.begin(0);
        Answers all{model.chain(sequence, reference_.prompt), {}};
        for (std::size_t i = 0; i < 3; ++i) {
            const Logits row = model.chain(sequence, {reference_.prompt[i]});
            all.stepped.insert(all.stepped.end(), row.begin(), row.end());
        }
        return all;
    }

    /// The answers in a form, which have the bits of their plain twin.
    Logits answers_in(const StoredForm& form) const {
        const TemporaryFolder folder;
        auto checkpoint = open_checkpoint(source_);
        CHECK(checkpoint.has_value());
        write_forms(folder.path(), tensors_of(*checkpoint), *checkpoint->config,
                    [&](const std::string&) { return form; });
        const Answers stored = answers(folder.path() + "/stored"), plain = answers(folder.path() + "/plain");
        EXPECT_TRUE(stored.prompt == plain.prompt);
        EXPECT_TRUE(stored.stepped == plain.stepped);
        return stored.prompt;
    }

    const std::string source_ = std::string(KAPITSA_SOURCE_DIR "/tests/data/goldens/") + GetParam().folder;
    const Reference reference_ = GetParam().reference(GetParam().folder);
};

TEST_P(Forms, F32IsTheReference) {
    const Logits got = answers_in({.kind = StoredForm::Kind::f32});
    EXPECT_LT(largest_difference(got, reference_.logits), GetParam().f32_gate);
}

TEST_P(Forms, Bf16HasTheBitsOfItsFloatsAndIsNearTheReference) {
    const Logits got = answers_in({.kind = StoredForm::Kind::bf16});
    EXPECT_LT(rms_of_difference(got, reference_.logits), GetParam().bf16_rms);
}

TEST_P(Forms, FourBitCodesHaveTheBitsOfTheFloatsTheyStandFor) {
    const Logits got = answers_in({.kind = StoredForm::Kind::affine, .bits = 4, .group = 32});
    EXPECT_GT(largest_difference(got, reference_.logits), GetParam().f32_gate);  // it was quantised indeed
}

TEST_P(Forms, EightBitCodesAreNearTheReference) {
    const Logits got = answers_in({.kind = StoredForm::Kind::affine, .bits = 8, .group = 32});
    const double rms = rms_of_difference(got, reference_.logits);
    RecordProperty("rms", std::to_string(rms));
    EXPECT_LT(rms, GetParam().affine8_rms);
    EXPECT_GT(largest_difference(got, reference_.logits), GetParam().f32_gate);
}

// Logits here have a deviation of 4 to 5; the reference itself in bf16 arithmetic is off by up to 1.4 (rms)
// where heads are narrow. With 8 bits 0.34, 0.38 and less than 0.3 were seen. The weights of these goldens
// are bf16 as they come, but for Flint's sinks, which the form rounds: 7e-4 was seen.
INSTANTIATE_TEST_SUITE_P(
    Of, Forms,
    testing::Values(Family{"Qwen35", "qwen3_5-dense", prompts_reference, 5e-4, 2e-4, 0.6},
                    Family{"Qwen35Experts", "qwen3_5-moe", prompts_reference, 5e-4, 2e-4, 0.6},
                    Family{"Qwen35WideHeads", "qwen3_5-mtp", prompts_reference, 5e-4, 2e-4, 0.3},
                    Family{"FlashNext", "qwen4_exp", prompts_reference, 5e-4, 2e-4, 0.6},
                    Family{"Dory", "dory", dory_reference, 1e-4, 1e-4, 0.3},
                    Family{"Flint", "flint", flint_reference, 1e-4, 2e-3, 0.3}),
    [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace kapitsa
