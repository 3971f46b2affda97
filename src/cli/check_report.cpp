#include "cli/check_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/output.h"

namespace kapitsa {
namespace {

std::string row(const Reading& reading) {
    std::string text = fmt::format("{:<20} {:>7}", reading.name, reading.tokens);
    for (std::size_t reader = 0; reader < reading.surprise.size(); ++reader) {
        text += fmt::format(" {:>11.5f}", reading.perplexity(reader));
        if (reader == 0) continue;
        const Spread& apart = reading.apart[reader - 1];
        text += fmt::format(" {:>9.2e} {:>9.2e} {:>7.3f}%", apart.kl_mean(), apart.kl_max,
                            apart.agreement() * 100);
    }
    return text + "\n";
}

Json json_of(const TextReport& report, const Reading& reading, const char* kind) {
    Json line{{"check", kind}};
    if (!reading.name.empty()) line["text"] = reading.name;
    line["tokens"] = reading.tokens;
    Json readers = Json::array();
    for (std::size_t reader = 0; reader < reading.surprise.size(); ++reader) {
        Json one{{"reader", report.readers[reader]}, {"perplexity", reading.perplexity(reader)}};
        if (reader > 0) {
            const Spread& apart = reading.apart[reader - 1];
            one["kl_mean"] = apart.kl_mean();
            one["kl_max"] = apart.kl_max;
            one["same_top"] = apart.agreement();
            one["logit_difference_max"] = apart.logit_max;
        }
        readers.push_back(std::move(one));
    }
    line["readers"] = std::move(readers);
    return line;
}

std::string place(const GoldenResult& result) {
    std::string text;
    for (const auto at : result.position) text += (text.empty() ? "" : ", ") + std::to_string(at);
    return "[" + text + "]";
}

}  // namespace

Reading TextReport::all() const {
    Reading sum = texts.front();
    for (std::size_t i = 1; i < texts.size(); ++i) sum.add(texts[i]);
    sum.name = "all";
    return sum;
}

double TextReport::floor() const {
    double largest = 0;
    for (const Spread& apart : all().apart) largest = std::max(largest, apart.kl_mean());
    return largest;
}

void show(const TextReport& report, bool json) {
    const Reading all = report.all();
    if (json) {
        for (const Reading& reading : report.texts)
            print(dump_json(json_of(report, reading, (report.kind + "_text").c_str())) + "\n");
        Json line = json_of(report, all, report.kind.c_str());
        if (report.kind == "floor") line["floor"] = report.floor();
        print(dump_json(line) + "\n");
        return;
    }
    std::string readers = fmt::format("{:<20} {:>7} {:>11}", "", "", report.readers.front()),
                head = fmt::format("{:<20} {:>7} {:>11}", "text", "tokens", "perplexity");
    for (std::size_t reader = 1; reader < report.readers.size(); ++reader) {
        readers += fmt::format(" {:>40}", report.readers[reader]);
        head += fmt::format(" {:>11} {:>9} {:>9} {:>8}", "perplexity", "KL mean", "KL most", "same top");
    }
    print(report.reader_notes + "\n" + readers + "\n" + head + "\n");
    for (const Reading& reading : report.texts) print(row(reading));
    print(row(all));
    if (report.kind == "floor")
        print(fmt::format("The floor of this model is a mean KL of {:.2e} nats.\n", report.floor()));
}

void show(const std::string& model, const std::vector<GoldenResult>& results,
          const std::vector<std::string>& passed_over, bool json) {
    if (json) {
        for (const GoldenResult& result : results)
            print(dump_json(Json{{"check", "golden"},
                                 {"model", model},
                                 {"case", result.golden},
                                 {"tensor", result.tensor},
                                 {"position", result.position},
                                 {"difference", result.difference},
                                 {"limit", result.limit},
                                 {"expected", result.expected},
                                 {"computed", result.computed},
                                 {"holds", result.holds()}}) +
                  "\n");
        return;
    }
    print(fmt::format("{:<44} {:>12} {:>9}  {}\n", "tensor", "difference", "limit", "at"));
    for (const GoldenResult& result : results)
        print(fmt::format("{:<44} {:>12.3g} {:>9.3g}  {:<14}{}\n", result.tensor, result.difference,
                          result.limit, place(result), result.holds() ? "" : " MISMATCH"));
    if (!passed_over.empty())
        print(fmt::format("{} more arrays are compared with nothing here, {} among them\n",
                          passed_over.size(), passed_over.front()));
}

std::string first_mismatch(const std::vector<GoldenResult>& results) {
    const auto found = std::ranges::find_if(results, [](const GoldenResult& one) { return !one.holds(); });
    if (found == results.end()) return "";
    const auto failed = std::ranges::count_if(results, [](const GoldenResult& one) { return !one.holds(); });
    const bool answer = found->limit == 0;
    std::string text = answer
                           ? fmt::format("{} parts at {}: the reference has the token {}, this model {}",
                                         found->tensor, place(*found), found->expected, found->computed)
                           : fmt::format(
                                 "{} differs at {} by {:.3g}, and the limit is {:.3g}: the reference has {}, "
                                 "this model {}",
                                 found->tensor, place(*found), found->difference, found->limit,
                                 found->expected, found->computed);
    return text + fmt::format(" ({} of {} comparisons fail)", failed, results.size());
}

}  // namespace kapitsa
