#include "golden/model_case.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "model/gguf_dialect.h"
#include "model/gguf_tower.h"

namespace kapitsa {
namespace {

template <typename T>
T must(Result<T> result) {
    if (!result) std::fprintf(stderr, "%s\n", result.error().message.c_str());
    CHECK(result.has_value());
    return std::move(*result);
}

}  // namespace

ModelCase::ModelCase(const std::string& folder, RunnerOptions options, std::vector<std::uint32_t> taps,
                     const std::string& tower) {
    const std::string path = folder.starts_with('/') ? folder : KAPITSA_SOURCE_DIR "/" + folder;
    checkpoint_ = std::make_unique<Checkpoint>(must(open_model(path)));
    if (!tower.empty()) must(add_tower(*checkpoint_, must(open_tower(*checkpoint_, tower))));
    if (options.threads == 0) options.threads = 2;
    if (options.wanted_rows == 0) options.wanted_rows = options.rows_per_step;
    runner_ = must(ModelRunner::load(*checkpoint_, options, std::move(taps)));
    first_rows_.resize(runner_->info().sequences);
}

std::vector<Page> ModelCase::pages_of(std::uint32_t slot) const {
    // Interleaved, so that a kernel that takes pages for neighbours shows.
    const std::uint32_t sequences = runner_->info().sequences, each = runner_->info().pages / sequences;
    std::vector<Page> pages(each);
    for (std::uint32_t i = 0; i < each; ++i) pages[i] = (each - 1 - i) * sequences + slot;
    return pages;
}

ModelCase::Sequence ModelCase::begin(std::uint32_t slot) {
    must(runner_->reset(slot));
    return {slot, 0};
}

std::vector<Logits> ModelCase::step(std::vector<Rows> segments) {
    Step step;
    std::vector<std::vector<Page>> pages;
    pages.reserve(segments.size());
    for (const Rows& rows : segments) {
        const auto first = std::uint32_t(step.tokens.size());
        pages.push_back(pages_of(rows.sequence->slot));
        first_rows_[rows.sequence->slot] = first;
        step.segments.push_back({rows.sequence->slot, first, std::uint32_t(rows.tokens.size()),
                                 rows.sequence->committed, rows.commit, pages.back(), rows.shift});
        for (PlacedRow placed : rows.placed) {
            placed.row += first;
            step.placed.push_back(placed);
        }
        for (std::size_t i = 0; i < rows.tokens.size(); ++i) {
            step.tokens.push_back(rows.tokens[i]);
            const std::int32_t parent = rows.parents.empty() ? std::int32_t(i) - 1 : rows.parents[i];
            step.parents.push_back(parent < 0 ? no_parent : parent + std::int32_t(first));
            step.wanted.push_back(first + std::uint32_t(i));
        }
    }
    const std::span<float> all = must(runner_->forward(step));
    std::vector<Logits> logits;
    for (std::size_t s = 0; s < segments.size(); ++s) {
        const auto from = all.begin() + std::ptrdiff_t(step.segments[s].first_row * vocabulary());
        logits.emplace_back(from, from + std::ptrdiff_t(segments[s].tokens.size() * vocabulary()));
        if (segments[s].commit) segments[s].sequence->committed += std::uint32_t(segments[s].tokens.size());
    }
    return logits;
}

Logits ModelCase::chain(Sequence& sequence, std::vector<Token> tokens) {
    return std::move(step({{&sequence, std::move(tokens)}}).front());
}

Logits ModelCase::draft(const Sequence& sequence, std::uint32_t committed, std::vector<Token> tokens,
                        ModelRunner::Streams streams, const std::vector<std::uint32_t>& from) {
    Step step;
    const auto pages = pages_of(sequence.slot);
    const auto rows = std::uint32_t(tokens.size());
    step.tokens = std::move(tokens);
    step.segments = {{sequence.slot, 0, rows, committed, true, pages}};
    for (std::uint32_t row = 0; row < rows; ++row) {
        step.parents.push_back(std::int32_t(row) - 1);
        step.wanted.push_back(row);
    }
    const std::span<float> logits = must(runner_->draft(step, streams, from));
    return {logits.begin(), logits.end()};
}

ModelCase::Remembered ModelCase::remembered(const Sequence& sequence, std::uint32_t layer) {
    const AttentionShape shape = runner_->shape().attention.at(layer);
    const auto pages = pages_of(sequence.slot);
    Remembered all;
    for (std::uint32_t token = 0; token < sequence.committed; ++token) {
        const auto page = must(runner_->attention_page(layer, pages[token / page_tokens]));
        const float *keys = page.data(), *values = keys + shape.page_floats();
        for (std::uint32_t head = 0; head < shape.kv_heads; ++head)
            for (std::uint32_t i = 0; i < shape.width; ++i) {
                all.keys.push_back(keys[(head * shape.width + i) * page_tokens + token % page_tokens]);
                all.values.push_back(values[(head * page_tokens + token % page_tokens) * shape.width + i]);
            }
    }
    return all;
}

void ModelCase::accept(Sequence& sequence, const std::vector<std::uint32_t>& path) {
    std::vector<std::uint32_t> rows;
    for (const std::uint32_t row : path) rows.push_back(first_rows_[sequence.slot] + row);
    must(runner_->commit(sequence.slot, rows));
    sequence.committed += std::uint32_t(path.size());
}

Token argmax(const float* logits, std::size_t vocabulary) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < vocabulary; ++i)
        if (logits[i] > logits[best]) best = i;
    return Token(best);
}

std::vector<Token> greedy_answer(ModelCase& model, const std::vector<Token>& prompt, std::size_t length) {
    auto sequence = model.begin(0);
    Logits logits = model.chain(sequence, prompt);
    std::vector<Token> answer;
    while (answer.size() < length) {
        answer.push_back(argmax(&logits[logits.size() - model.vocabulary()], model.vocabulary()));
        logits = model.chain(sequence, {answer.back()});
    }
    return answer;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double difference = std::fabs(double(a[i]) - double(b[i]));
        if (!(difference <= largest)) largest = difference;
        if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    }
    return largest;
}

std::vector<Token> tokens_of(const Json& list) { return list.get<std::vector<Token>>(); }

}  // namespace kapitsa
