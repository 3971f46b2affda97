// The golden model that sees, its pictures, and prompts that hold some.
#pragma once

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "golden/model_case.h"
#include "model/positions.h"
#include "support/golden.h"

namespace kapitsa {

constexpr const char* vision_folder = "tests/data/goldens/qwen3_5-vision";
constexpr std::uint32_t vision_width = 64;

inline Golden outputs() { return Golden("qwen3_5-vision/golden.safetensors"); }
inline Json image_case() { return read_golden_json("qwen3_5-vision/golden.json")["image"]; }

inline std::shared_ptr<Picture> blank(std::uint32_t rows, std::uint32_t columns) {
    auto picture = std::make_shared<Picture>();
    picture->rows = rows;
    picture->columns = columns;
    picture->side = 16;
    picture->block = 2;
    picture->scale.fill(1 / 127.5f);
    picture->shift.fill(-1);
    picture->pixels.resize(std::size_t(rows) * columns * 3 * 256);
    return picture;
}

/// The golden's two pictures, back from its values to pixels.
inline std::vector<std::shared_ptr<Picture>> golden_pictures() {
    const auto values = outputs().floats("image.pixel_values").values;  // [48, 3, 2, 256]
    std::vector<std::shared_ptr<Picture>> pictures;
    for (std::size_t p = 0; p < 2; ++p) {
        pictures.push_back(blank(4, 6));
        auto& pixels = pictures.back()->pixels;
        for (std::size_t i = 0; i < pixels.size(); ++i)
            pixels[i] =
                std::uint8_t(std::lround((values[p * 24 * 1536 + i / 256 * 512 + i % 256] + 1) * 127.5f));
    }
    return pictures;
}

inline std::shared_ptr<Picture> random_picture(std::uint32_t rows, std::uint32_t columns,
                                               std::uint32_t seed) {
    auto picture = blank(rows, columns);
    std::mt19937 random(seed);
    for (std::uint8_t& pixel : picture->pixels) pixel = std::uint8_t(random());
    return picture;
}

/// A prompt with its pictures seen, given out in rows.
class Prompt {
public:
    Prompt(ModelCase& model, std::vector<Token> tokens, std::vector<PlacedPicture> pictures)
        : tokens_(std::move(tokens)), pictures_(std::move(pictures)), positions_(pictures_) {
        for (const auto& [first, picture] : pictures_) seen_.push_back(*model.runner().see(*picture));
    }
    std::size_t size() const { return tokens_.size(); }
    const Positions& positions() const { return positions_; }

    ModelCase::Rows rows(ModelCase::Sequence& sequence, std::uint32_t begin, std::uint32_t end) const {
        ModelCase::Rows rows{&sequence, {tokens_.begin() + begin, tokens_.begin() + end}};
        rows.shift = positions_.shift(begin);
        for (std::uint32_t i = begin; i < end; ++i)
            if (positions_.jumps(i)) rows.placed.push_back({i - begin, positions_.at(i), embedding(i)});
        return rows;
    }
    /// Computes the prompt, cut behind these tokens. @return [tokens, vocabulary]
    Logits compute(ModelCase& model, ModelCase::Sequence& sequence, std::vector<std::uint32_t> cuts) const {
        Logits all;
        cuts.push_back(std::uint32_t(size()));
        for (std::uint32_t begin = 0, i = 0; i < cuts.size(); begin = cuts[i++]) {
            const Logits part = std::move(model.step({rows(sequence, begin, cuts[i])}).front());
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    }
    /// One token behind the prompt, or behind what followed it.
    Logits next(ModelCase& model, ModelCase::Sequence& sequence, Token token) const {
        ModelCase::Rows rows{&sequence, {token}};
        rows.shift = positions_.shift(sequence.committed);
        if (positions_.jumps(sequence.committed))
            rows.placed = {{0, positions_.at(sequence.committed), nullptr}};
        return std::move(model.step({rows}).front());
    }

private:
    const float* embedding(std::uint32_t token) const {
        for (std::size_t p = 0; p < pictures_.size(); ++p)
            if (token >= pictures_[p].first && token - pictures_[p].first < pictures_[p].picture->tokens())
                return seen_[p].data() + std::size_t(token - pictures_[p].first) * vision_width;
        return nullptr;
    }

    std::vector<Token> tokens_;
    std::vector<PlacedPicture> pictures_;
    Positions positions_;
    std::vector<std::vector<float>> seen_;
};

inline Prompt golden_prompt(ModelCase& model) {
    const auto pictures = golden_pictures();
    return {model, tokens_of(image_case()["input_ids"]), {{6, pictures[0]}, {18, pictures[1]}}};
}

/// 40 tokens of text, a picture of 96, 30 of text, a picture of 6, 25 of text.
inline Prompt long_prompt(ModelCase& model) {
    std::mt19937 random(3);
    std::vector<Token> tokens(197);
    for (Token& token : tokens) token = Token(random() % 480);
    return {model, tokens, {{40, random_picture(16, 24, 1)}, {166, random_picture(4, 6, 2)}}};
}

}  // namespace kapitsa
