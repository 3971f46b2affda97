#include "check/golden.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/model_runner.h"

namespace kapitsa {
namespace {

constexpr std::uint32_t rows_most = 512;
constexpr std::uint64_t layers_most = 4096;

std::string shape_words(const std::vector<std::uint64_t>& shape) {
    std::string text;
    for (const auto extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
    return "[" + text + "]";
}

/// The largest difference of an array from what was computed: as many numbers, row-major.
GoldenResult furthest(const std::string& golden, const GoldenArray& expected, std::span<const float> computed,
                      double limit) {
    CHECK(computed.size() == expected.values.values.size());
    std::size_t worst = 0;
    double most = -1;
    for (std::size_t i = 0; i < computed.size(); ++i) {
        const double difference = std::fabs(double(computed[i]) - double(expected.values.values[i]));
        if (difference <= most) continue;
        worst = i, most = difference;
        if (std::isnan(difference)) break;  // nothing is worse
    }
    GoldenResult result{.golden = golden,
                        .tensor = expected.tensor,
                        .position = {},
                        .difference = most,
                        .limit = limit,
                        .expected = expected.values.values[worst],
                        .computed = computed[worst]};
    for (std::size_t at = worst, axis = expected.values.shape.size(); axis-- > 0;) {
        result.position.insert(result.position.begin(), at % expected.values.shape[axis]);
        at /= expected.values.shape[axis];
    }
    return result;
}

/// A model that is shown one case after the other.
class Comparer {
public:
    Comparer(ModelRunner& runner, double limit) : runner_(runner), limit_(limit) {
        for (Page page = 0; page < runner.info().pages; ++page) pages_.push_back(page);
    }

    Status check(const GoldenCase& golden, std::vector<GoldenResult>& results) {
        TRY(expect_shapes(golden));
        TRY(runner_.reset(0));
        committed_ = 0;
        const std::vector<float> logits = TRY(forward(golden.ids));
        for (const GoldenArray& expected : golden.logits)
            results.push_back(furthest(golden.name, expected, last(logits, expected), limit_));
        if (golden.hidden) results.push_back(TRY(check_hidden(golden)));
        if (!golden.greedy.empty()) results.push_back(TRY(check_answer(golden, logits)));
        return Done{};
    }

private:
    static std::span<const float> last(const std::vector<float>& all, const GoldenArray& of) {
        return std::span(all).last(of.values.values.size());
    }

    std::unexpected<Error> strange(const GoldenArray& array, const std::string& wanted) const {
        return fail(Fault::invalid_input, array.tensor + " has the shape " + shape_words(array.values.shape) +
                                              "; of this model it has " + wanted +
                                              ", so the goldens are another model's");
    }

    Status expect_shapes(const GoldenCase& golden) const {
        const std::uint64_t rows = golden.ids.size(), vocabulary = runner_.info().vocabulary;
        for (const std::vector<Token>* tokens : {&golden.ids, &golden.greedy})
            for (const Token token : *tokens)
                if (std::uint64_t(token) >= vocabulary)
                    return fail(Fault::invalid_input, golden.name + " has the token " +
                                                          std::to_string(token) + ", and this model only " +
                                                          std::to_string(vocabulary));
        if (rows > rows_most || golden.ids.size() + golden.greedy.size() > runner_.info().context)
            return fail(Fault::unsupported, golden.name + " is longer than " + std::to_string(rows_most) +
                                                " tokens, or than the context");
        for (const GoldenArray& array : golden.logits) {
            const auto& shape = array.values.shape;
            if (shape.size() != 2 || shape[0] == 0 || shape[0] > rows || shape[1] != vocabulary)
                return strange(array, shape_words({rows, vocabulary}));
        }
        if (!golden.hidden) return Done{};
        const auto& shape = golden.hidden->values.shape;
        const std::uint64_t layers = runner_.shape().layers + 1, width = runner_.shape().width;
        // Some leave the final norm out.
        const bool counted =
            !shape.empty() && (shape[0] == layers ||
                               (shape[0] + 1 == layers && shape[0] > 0 && !golden.begins_with_embeddings));
        if (shape.size() != 3 || !counted || shape[1] == 0 || shape[1] > rows || shape[2] != width)
            return strange(*golden.hidden, shape_words({layers, rows, width}));
        return Done{};
    }

    Result<std::vector<float>> forward(std::span<const Token> tokens) {
        Step step;
        const auto rows = static_cast<std::uint32_t>(tokens.size());
        step.tokens.assign(tokens.begin(), tokens.end());
        step.segments = {{0, 0, rows, committed_, true, pages_}};
        for (std::uint32_t row = 0; row < rows; ++row) {
            step.parents.push_back(static_cast<std::int32_t>(row) - 1);
            step.wanted.push_back(row);
        }
        const std::span<float> logits = TRY(runner_.forward(step));
        committed_ += rows;
        return std::vector<float>(logits.begin(), logits.end());
    }

    /// Of the last pass: tap i is the stream after layer i, the last one the final norm's output.
    Result<GoldenResult> check_hidden(const GoldenCase& golden) {
        GoldenArray expected = *golden.hidden;
        const std::size_t each = expected.values.shape[1] * expected.values.shape[2];
        if (golden.begins_with_embeddings) {  // which no tap has
            expected.values.values.erase(expected.values.values.begin(),
                                         expected.values.values.begin() + std::ptrdiff_t(each));
            --expected.values.shape[0];
        }
        std::vector<float> computed;
        for (std::size_t tap = 0; tap < expected.values.shape[0]; ++tap) {
            const std::vector<float> rows = TRY(runner_.tapped(tap));
            computed.insert(computed.end(), rows.end() - std::ptrdiff_t(each), rows.end());
        }
        GoldenResult result = furthest(golden.name, expected, computed, limit_);
        if (golden.begins_with_embeddings) ++result.position.front();
        return result;
    }

    Result<GoldenResult> check_answer(const GoldenCase& golden, std::vector<float> logits) {
        GoldenResult result{.golden = golden.name,
                            .tensor = golden.greedy_name,
                            .position = {},
                            .difference = 0,
                            .limit = 0,
                            .expected = 0,
                            .computed = 0};
        for (std::size_t i = 0; i < golden.greedy.size(); ++i) {
            if (i > 0) logits = TRY(forward(std::span(golden.greedy).subspan(i - 1, 1)));
            const auto from = logits.end() - std::ptrdiff_t(runner_.info().vocabulary);
            const auto best = std::max_element(from, logits.end()) - from;
            if (best == golden.greedy[i]) continue;
            result.position = {i};
            result.difference = 1;
            result.expected = golden.greedy[i], result.computed = double(best);
            break;
        }
        return result;
    }

    ModelRunner& runner_;
    double limit_;
    std::vector<Page> pages_;
    std::uint32_t committed_ = 0;
};

}  // namespace

Result<std::vector<GoldenResult>> compare_with_goldens(
    const Checkpoint& checkpoint, const Goldens& goldens, double limit, const RunnerOptions& options,
    const std::function<bool(const std::string&)>& progress) {
    std::uint64_t layers = 0;
    std::size_t tokens = 1;
    for (const GoldenCase& golden : goldens.cases) {
        tokens = std::max(tokens, golden.ids.size() + golden.greedy.size());
        if (golden.hidden && !golden.hidden->values.shape.empty())
            layers = std::max(layers, golden.hidden->values.shape.front());
    }
    if (layers > layers_most || tokens > rows_most * 2)
        return fail(Fault::unsupported, "the goldens have more than " + std::to_string(layers_most) +
                                            " layers, or a prompt beyond " + std::to_string(rows_most) +
                                            " tokens");
    RunnerOptions wanted = options;
    wanted.sequences = 1;
    wanted.draft_rows = 1;
    wanted.context = static_cast<std::uint32_t>(tokens);
    wanted.rows_per_step = wanted.wanted_rows = rows_most;
    std::vector<std::uint32_t> taps;
    for (std::uint64_t layer = 0; layer < layers; ++layer) taps.push_back(static_cast<std::uint32_t>(layer));
    const auto runner = TRY(ModelRunner::load(checkpoint, wanted, taps));
    Comparer comparer(*runner, limit);
    std::vector<GoldenResult> results;
    for (const GoldenCase& golden : goldens.cases) {
        if (!progress(golden.name)) return fail(Fault::cancelled, "interrupted");
        TRY(comparer.check(golden, results));
    }
    return results;
}

}  // namespace kapitsa
