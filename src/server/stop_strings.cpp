#include "server/stop_strings.h"

#include <algorithm>

namespace kapitsa {
namespace {

/// Bytes at the end of `text` that begin `stop` and do not finish it.
std::size_t beginning(std::string_view text, std::string_view stop) {
    for (std::size_t bytes = std::min(text.size(), stop.size() - 1); bytes > 0; --bytes)
        if (text.ends_with(stop.substr(0, bytes))) return bytes;
    return 0;
}

}  // namespace

std::string StopStrings::push(std::string_view text) {
    if (found_) return {};
    held_ += text;
    std::size_t begin = held_.npos, end = held_.npos;
    for (const std::string& stop : stops_) {
        const std::size_t at = held_.find(stop);
        if (at == held_.npos) continue;
        if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
            begin = at;
            end = at + stop.size();
        }
    }
    std::size_t waits = 0;
    if (begin != held_.npos) {
        found_ = passed_bytes_ + begin;
        held_.resize(begin);
    } else {
        for (const std::string& stop : stops_) waits = std::max(waits, beginning(held_, stop));
    }
    std::string passed = held_.substr(0, held_.size() - waits);
    held_.erase(0, passed.size());
    passed_bytes_ += passed.size();
    return passed;
}

std::string StopStrings::finish() {
    passed_bytes_ += held_.size();
    return std::exchange(held_, {});
}

}  // namespace kapitsa
