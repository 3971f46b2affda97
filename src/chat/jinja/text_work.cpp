#include "chat/jinja/text_work.h"

#include "base/utf8.h"

namespace kapitsa::jinja {

Text strip(const Text& text, const Text* set, Side side) {
    const std::string_view all = text.view();
    const auto goes = [&](std::size_t at) {
        if (!set) return is_space(character_at(all, at));
        return set->view().find(all.substr(at, character_bytes(all, at))) != std::string_view::npos;
    };
    std::size_t begin = 0, end = all.size();
    if (side != Side::right)
        while (begin < end && goes(begin)) begin += character_bytes(all, begin);
    if (side != Side::left)
        while (end > begin && goes(character_before(all, end))) end = character_before(all, end);
    return text.slice(begin, end);
}

Result<Text> map_characters(Budget& budget, const Text& text,
                            const std::function<char32_t(char32_t)>& change) {
    TRY(budget.step(text.bytes() / 16));
    Writer out(budget);
    Status status = Done{};
    text.for_each_run([&](std::string_view run, bool is_plain) {
        std::string changed;
        changed.reserve(run.size());
        for (std::size_t at = 0; at < run.size(); at += character_bytes(run, at)) {
            const char32_t before = character_at(run, at), after = change(before);
            if (before == U'\u00DF' && after == U'\u1E9E')
                changed += "SS";  // the one letter in common use that Python makes two of
            else
                append_utf8(changed, after);
        }
        if (status) status = out.put(changed, is_plain);
    });
    TRY(std::move(status));
    Text made = out.finish();
    made.safe = text.safe;
    return made;
}

Result<Text> capitalize(Budget& budget, const Text& text) {
    bool first = true;
    return map_characters(
        budget, text, [&](char32_t c) { return std::exchange(first, false) ? to_upper(c) : to_lower(c); });
}

Result<Text> replace(Budget& budget, const Text& text, const Text& old, const Text& fresh,
                     std::int64_t count) {
    const std::string_view all = text.view();
    TRY(budget.step(1 + all.size() / 64));
    Writer out(budget);
    std::size_t done = 0, from = 0;
    for (std::int64_t i = 0; count < 0 || i < count; ++i) {
        const std::size_t at = old.empty() ? from : all.find(old.view(), from);
        if (at == all.npos || at > all.size()) break;
        TRY(budget.step());
        TRY(out.put(text.slice(done, at)));
        TRY(out.put(fresh));
        done = at + old.bytes();
        from = old.empty() ? (at < all.size() ? at + character_bytes(all, at) : all.npos) : done;
    }
    if (done == 0 && out.written().text.empty() && fresh.empty() && old.empty()) return text;
    TRY(out.put(text.slice(done, all.size())));
    Text made = out.finish();
    made.safe = text.safe;
    return made;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
    const std::string_view all = text.view();
    std::vector<Text> lines;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t bytes = character_bytes(all, at);
        if (!is_line_end(character_at(all, at))) {
            at += bytes;
            continue;
        }
        const std::size_t end = at + (all.substr(at).starts_with("\r\n") ? 2 : bytes);
        lines.push_back(text.slice(begin, keep_ends ? end : at));
        begin = at = end;
    }
    if (begin < all.size()) lines.push_back(text.slice(begin, all.size()));
    return lines;
}

Result<Text> join(Budget& budget, const Text& separator, const std::vector<Text>& parts) {
    Writer out(budget);
    TRY(budget.step(parts.size()));
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i > 0) TRY(out.put(separator));
        TRY(out.put(parts[i]));
    }
    return out.finish();
}

}  // namespace kapitsa::jinja
