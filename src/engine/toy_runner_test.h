// A model for tests: its logits are a function of exactly the tokens that the sequence has committed, read
// back from the pages they were written to. So whatever mixes up sequences, pages, slots or positions changes
// what is said. It checks every rule of Step, and aborts where one is broken.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/runner.h"

namespace kapitsa {

/// What a test sets before the engine starts, and reads after it ended (or inside `before`).
struct Toy {
    RunnerInfo info{.architecture = "toy",
                    .vocabulary = 64,
                    .context = 4096,
                    .sequences = 4,
                    .pages = 1024,
                    .rows_per_step = 320};
    std::function<Status(const Step&)> before = [](const Step&) { return Done{}; };  // on the engine's thread
    std::function<void(std::span<float>)> after = [](std::span<float>) {};           // may spoil the logits
    std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> steps;         // each: {slot, rows}
};

class ToyRunner final : public Runner {
public:
    explicit ToyRunner(std::shared_ptr<Toy> toy)
        : toy_(std::move(toy)),
          memory_(std::size_t(toy_->info.pages) * page_tokens, -1),
          computed_(toy_->info.sequences) {}

    const RunnerInfo& info() const override { return toy_->info; }

    Status reset(std::uint32_t sequence) override {
        CHECK(sequence < info().sequences);
        computed_[sequence] = 0;
        return Done{};
    }

    Result<std::span<float>> forward(const Step& step) override {
        TRY(toy_->before(step));
        check(step);
        logits_.clear();
        std::size_t wanted = 0;
        auto& record = toy_->steps.emplace_back();
        for (const Segment& segment : step.segments) {
            record.emplace_back(segment.sequence, segment.rows);
            std::uint64_t hash = hash_of_committed(segment);
            for (std::uint32_t i = 0; i < segment.rows; ++i) {
                const std::uint32_t row = segment.first_row + i, place = segment.committed + i;
                memory_[cell(segment, place)] = step.tokens[row];
                hash = mix(hash, std::uint64_t(step.tokens[row]));
                if (wanted == step.wanted.size() || step.wanted[wanted] != row) continue;
                for (std::uint32_t token = 0; token < info().vocabulary; ++token)
                    logits_.push_back(float(mix(hash, token) % 4096) / 512);
                ++wanted;
            }
            computed_[segment.sequence] = segment.committed + segment.rows;
        }
        toy_->after(logits_);
        return std::span(logits_);
    }

    Status commit(std::uint32_t, std::span<const std::uint32_t>) override {
        CHECK(!"the toy is given no drafts");
        return Done{};
    }

private:
    /// splitmix64's finaliser.
    static std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
        hash = (hash ^ value) * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u;
        hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9u;
        hash = (hash ^ hash >> 27) * 0x94D049BB133111EBu;
        return hash ^ hash >> 31;
    }

    static std::size_t cell(const Segment& segment, std::uint32_t place) {
        return std::size_t(segment.pages[place / page_tokens]) * page_tokens + place % page_tokens;
    }

    std::uint64_t hash_of_committed(const Segment& segment) const {
        std::uint64_t hash = 1;
        for (std::uint32_t place = 0; place < segment.committed; ++place)
            hash = mix(hash, std::uint64_t(memory_[cell(segment, place)]));
        return hash;
    }

    void check(const Step& step) const {
        CHECK(!step.tokens.empty());
        CHECK(step.tokens.size() <= info().rows_per_step);
        CHECK(step.parents.size() == step.tokens.size());
        std::set<std::uint32_t> sequences;
        std::set<Page> pages;
        std::size_t row = 0;
        for (const Segment& segment : step.segments) {
            CHECK(segment.sequence < info().sequences);
            CHECK(sequences.insert(segment.sequence).second);
            CHECK(segment.first_row == row);
            CHECK(segment.rows > 0);
            CHECK(segment.committed == computed_[segment.sequence]);
            CHECK(segment.committed + segment.rows <= info().context);
            CHECK(segment.pages.size() * page_tokens >= segment.committed + segment.rows);
            CHECK(segment.commit);
            for (const Page page : segment.pages) {
                CHECK(page < info().pages);
                CHECK(pages.insert(page).second);
            }
            for (std::uint32_t i = 0; i < segment.rows; ++i, ++row) {
                CHECK(step.tokens[row] >= 0 && std::uint32_t(step.tokens[row]) < info().vocabulary);
                CHECK(step.parents[row] == (i == 0 ? no_parent : std::int32_t(row - 1)));
            }
        }
        CHECK(row == step.tokens.size());
        for (std::size_t i = 0; i < step.wanted.size(); ++i) {
            CHECK(step.wanted[i] < row);
            CHECK(i == 0 || step.wanted[i - 1] < step.wanted[i]);
        }
    }

    std::shared_ptr<Toy> toy_;
    std::vector<Token> memory_;            // [pages, page_tokens]
    std::vector<std::uint32_t> computed_;  // [sequences]
    std::vector<float> logits_;
};

}  // namespace kapitsa
