// Slices keep the buffer of the whole; runs are found by bisection in the buffer's ranges.
#include "chat/jinja/text.h"

#include <algorithm>

#include "base/check.h"
#include "chat/jinja/characters.h"

namespace kapitsa::jinja {

Text::Text(MarkedText marked) {
    end_ = marked.text.size();
    const bool is_ascii = std::ranges::all_of(marked.text, [](char c) { return (c & 0x80) == 0; });
    if (end_ > 0) buffer_ = std::make_shared<const Buffer>(std::move(marked), is_ascii);
}

Text Text::slice(std::size_t begin, std::size_t end) const {
    CHECK(begin <= end && end <= bytes());
    Text part;
    part.safe = safe;
    if (begin == end) return part;
    part.buffer_ = buffer_;
    part.begin_ = begin_ + begin;
    part.end_ = begin_ + end;
    return part;
}

std::size_t Text::characters() const { return ascii() ? bytes() : count_characters(view()); }

std::size_t Text::byte_of(std::size_t index) const {
    if (ascii()) return std::min(index, bytes());
    const std::string_view all = view();
    std::size_t at = 0;
    while (index > 0 && at < all.size()) {
        at += character_bytes(all, at);
        --index;
    }
    return at;
}

void Text::for_each_run(const std::function<void(std::string_view, bool)>& use) const {
    if (empty()) return;
    const std::string_view whole = buffer_->marked.text;
    const auto& ranges = buffer_->marked.plain;
    auto range =
        std::ranges::upper_bound(ranges, begin_, {}, [](const MarkedText::Range& r) { return r.end; });
    for (std::size_t at = begin_; at < end_;) {
        const bool is_plain = range != ranges.end() && range->begin <= at;
        const std::size_t stop =
            range == ranges.end() ? end_ : std::min(end_, is_plain ? range->end : range->begin);
        use(whole.substr(at, stop - at), is_plain);
        if (is_plain) ++range;
        at = stop;
    }
}

void Text::append_to(MarkedText& out) const {
    for_each_run([&](std::string_view run, bool is_plain) { out.append(run, is_plain); });
}

bool Text::all_plain() const {
    bool plain_only = true;
    for_each_run([&](std::string_view, bool is_plain) { plain_only = plain_only && is_plain; });
    return plain_only;
}

}  // namespace kapitsa::jinja
