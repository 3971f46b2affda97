#include "engine/sights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/engine_help_test.h"
#include "model/load.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

std::shared_ptr<Picture> picture(std::uint8_t colour, std::uint32_t rows = 2) {
    auto one = std::make_shared<Picture>();
    one->rows = rows;
    one->columns = 2;
    one->side = 4;
    one->block = 2;
    one->pixels.assign(std::size_t(rows) * 2 * 3 * 16, colour);
    return one;
}

/// Counts what it is shown.
class Seer final : public Runner {
public:
    const RunnerInfo& info() const override { return info_; }
    Status reset(std::uint32_t) override { return Done{}; }
    Result<std::span<float>> forward(const Step&) override { return std::span<float>(); }
    Status commit(std::uint32_t, std::span<const std::uint32_t>) override { return Done{}; }
    Result<std::vector<float>> see(const Picture& shown) override {
        ++seen;
        return std::vector<float>(shown.tokens() * 8, float(shown.pixels[0]));
    }
    int seen = 0;

private:
    RunnerInfo info_;
};

TEST(Sights, TheSamePixelsAreSeenOnce) {
    Seer seer;
    Sights sights(1 << 20);
    EXPECT_EQ((**sights.of(picture(7), seer))[0], 7);
    EXPECT_EQ((**sights.of(picture(7), seer))[0], 7);
    EXPECT_EQ(seer.seen, 1);
    EXPECT_EQ((**sights.of(picture(8), seer))[0], 8);
    EXPECT_EQ(sights.of(picture(7, 4), seer)->get()->size(), 16u);  // of another size
    EXPECT_EQ(seer.seen, 3);
}

TEST(Sights, TheLongestUnusedIsForgottenFirst) {
    Seer seer;
    const std::size_t each = picture(1)->pixels.size() + 8 * sizeof(float);
    Sights sights(2 * each);
    for (const std::uint8_t colour : {1, 2, 1, 3, 1}) (void)*sights.of(picture(colour), seer);
    EXPECT_EQ(seer.seen, 3);
    (void)*sights.of(picture(2), seer);
    EXPECT_EQ(seer.seen, 4);
}

TEST(Sights, WithoutRoomNothingIsKept) {
    Seer seer;
    Sights sights(0);
    for (int i = 0; i < 2; ++i) EXPECT_EQ((**sights.of(picture(5), seer))[0], 5);
    EXPECT_EQ(seer.seen, 2);
}

/// The golden's two pictures in their prompt, back from its values to pixels.
Submit golden_request(std::uint64_t id) {
    const Json golden = read_golden_json("qwen3_5-vision/golden.json")["image"];
    const auto values = Golden("qwen3_5-vision/golden.safetensors").floats("image.pixel_values").values;
    Submit asked = request(id, 29, 32);
    asked.prompt = golden["input_ids"].get<std::vector<Token>>();
    asked.sampling = {.temperature = 0};
    for (std::size_t p = 0; p < 2; ++p) {
        auto shown = std::make_shared<Picture>();
        shown->rows = 4, shown->columns = 6, shown->side = 16, shown->block = 2;
        shown->scale.fill(1 / 127.5f);
        shown->shift.fill(-1);
        shown->pixels.resize(24 * 768);
        for (std::size_t i = 0; i < shown->pixels.size(); ++i)
            shown->pixels[i] =
                std::uint8_t(std::lround((values[p * 24 * 1536 + i / 256 * 512 + i % 256] + 1) * 127.5f));
        asked.pictures.push_back({p == 0 ? 6u : 18u, shown});
    }
    return asked;
}

TEST(EngineOfPictures, AnswersAsTheReferenceWhateverTheChunksAndTheCompany) {
    const auto checkpoint = open_checkpoint(KAPITSA_SOURCE_DIR "/tests/data/goldens/qwen3_5-vision");
    ASSERT_TRUE(checkpoint);
    const auto expected = read_golden_json("qwen3_5-vision/golden.json")["image"]["greedy"];
    for (const std::uint32_t chunk : {1u, 7u, 16u, 256u}) {
        auto runner = load_runner(*checkpoint, {.context = 512, .sequences = 3, .threads = 2});
        ASSERT_TRUE(runner);
        const auto engine = Engine::start(std::move(*runner), {.prefill_chunk = chunk});
        std::vector<Submit> all;
        for (std::uint64_t id = 1; id <= 3; ++id) all.push_back(golden_request(id));
        all[1].pictures.clear();  // the same tokens, and nothing to see
        std::vector<std::vector<Token>> answers;
        for (const Submit& asked : all) ASSERT_TRUE(engine->submit(asked));
        for (const Submit& asked : all) answers.push_back(read_all(*asked.outbox).tokens);
        EXPECT_EQ(answers[0], expected.get<std::vector<Token>>()) << chunk;
        EXPECT_EQ(answers[2], answers[0]);
        EXPECT_NE(answers[1], answers[0]);
    }
}

TEST(EngineOfPictures, OneThatItsModelCannotBeShownIsRefused) {
    auto toy = std::make_shared<Toy>();
    toy->info.picture_patches = 8;
    toy->info.picture_side = 4;
    toy->info.picture_block = 2;
    const auto engine = Engine::start(std::make_unique<ToyRunner>(toy));
    const auto submit = [&](std::shared_ptr<Picture> shown, std::uint32_t first) {
        Submit asked = request(1, 10, 1);
        asked.pictures = {{first, std::move(shown)}};
        return engine->submit(std::move(asked));
    };
    auto wrong_side = picture(1), cut = picture(1);
    wrong_side->side = 5;
    cut->pixels.pop_back();
    EXPECT_FALSE(submit(wrong_side, 0));
    EXPECT_FALSE(submit(cut, 0));
    EXPECT_FALSE(submit(picture(1, 6), 0));  // 12 patches
    EXPECT_FALSE(submit(picture(1, 4), 9));  // two tokens from the last one on
    toy = std::make_shared<Toy>();
    const auto blind = Engine::start(std::make_unique<ToyRunner>(toy));
    Submit asked = request(1, 10, 1);
    asked.pictures = {{0, picture(1)}};
    const Status refused = blind->submit(std::move(asked));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().fault, Fault::unsupported);
}

}  // namespace
}  // namespace kapitsa
