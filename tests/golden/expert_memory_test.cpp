// Experts that stay in their files: the same bits with any amount of memory for them.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "golden/loading.h"
#include "golden/model_case.h"

namespace kapitsa {
namespace {

class ExpertMemoryOf : public testing::TestWithParam<const char*> {
protected:
    /// A prompt in two chunks, an answer, and a draft beside it.
    static std::vector<Logits> talk(ModelCase& model) {
        std::mt19937 random(11);
        const auto tokens = [&](std::size_t count) {
            std::vector<Token> all(count);
            for (Token& token : all) token = Token(random() % model.vocabulary());
            return all;
        };
        auto first = model.begin(0), second = model.begin(1);
        std::vector<Logits> said{model.chain(first, tokens(64)), model.chain(first, tokens(40)),
                                 model.chain(second, tokens(3))};
        for (int i = 0; i < 12; ++i) {
            auto both = model.step({{&first, tokens(1)}, {&second, tokens(3), {-1, 0, 0}, false}});
            said.insert(said.end(), both.begin(), both.end());
        }
        return said;
    }
};

TEST_P(ExpertMemoryOf, AnyAmountOfItGivesTheSameBits) {
    ModelCase mapped(GetParam(), {.backend = "cpu", .expert_bytes = 0});
    const auto expected = talk(mapped);
    EXPECT_EQ(mapped.runner().expert_counters().read, 0u);

    const std::uint64_t little = least_expert_bytes(GetParam());
    std::uint64_t read_with_little = 0;
    for (const std::uint64_t bytes : {little, 2 * little, std::uint64_t{1} << 30}) {
        for (const std::uint32_t threads : {1u, 3u}) {
            ModelCase model(GetParam(), {.threads = threads, .backend = "cpu", .expert_bytes = bytes});
            ASSERT_EQ(talk(model), expected) << bytes << " bytes, " << threads << " threads";
            const DiskCounters counters = model.runner().expert_counters();
            EXPECT_GT(counters.read, 0u);
            EXPECT_GT(counters.found, 0u);
            if (bytes == little) read_with_little = counters.bytes_read;
            EXPECT_TRUE(bytes <= 2 * little || counters.bytes_read < read_with_little);
            const RunnerInfo& info = model.runner().info();
            EXPECT_LE(info.expert_bytes + info.table_bytes, bytes);
            const DiskCounters rows = model.runner().table_counters();
            EXPECT_EQ(rows.read > 0 && rows.found > 0, info.table_bytes > 0);
            EXPECT_EQ(info.table_bytes > 0, std::string(GetParam()).ends_with("qwen4_exp"));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, ExpertMemoryOf,
                         testing::Values("tests/data/goldens/qwen3_5-moe", "tests/data/goldens/qwen4_exp",
                                         "tests/data/goldens/nemotron_h-moe",
                                         "tests/data/goldens/nemotron_h-latent", "tests/data/goldens/flint"),
                         [](const auto& folder) {
                             std::string name = folder.param;
                             name = name.substr(name.rfind('/') + 1);
                             std::ranges::replace(name, '-', '_');
                             return name;
                         });

TEST(ExpertMemoryOptions, TooLittleOfItIsRefusedAndAModelWithoutExpertsHasNone) {
    const auto refusal = [](const char* folder, std::uint64_t bytes) {
        const auto checkpoint = open_checkpoint(std::string(KAPITSA_SOURCE_DIR "/") + folder);
        const auto runner = load_runner(*checkpoint, {.backend = "cpu", .expert_bytes = bytes});
        return runner ? "accepted" : runner.error().message;
    };
    EXPECT_NE(refusal("tests/data/goldens/qwen3_5-moe", 4096).find("the experts of one layer take"),
              std::string::npos);
    EXPECT_NE(refusal("tests/data/goldens/qwen3_5-dense", 1 << 30).find("has no experts"), std::string::npos);
    EXPECT_EQ(refusal("tests/data/goldens/qwen3_5-dense", 0), "accepted");
}

}  // namespace
}  // namespace kapitsa
