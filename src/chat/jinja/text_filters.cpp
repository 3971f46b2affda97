// Filters on text. What is not text is made text first, as jinja2 does.
#include "chat/jinja/machine.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/text_work.h"

namespace kapitsa::jinja {

Result<Text> escape_html(Budget& budget, const Value& value) {
    const Text text = TRY(to_text(budget, value));
    if (text.safe) return text;
    TRY(budget.step(text.bytes() / 16));
    Writer out(budget);
    Status status = Done{};
    text.for_each_run([&](std::string_view run, bool is_plain) {
        std::string escaped;
        for (const char c : run) {
            switch (c) {
                case '&': escaped += "&amp;"; break;
                case '<': escaped += "&lt;"; break;
                case '>': escaped += "&gt;"; break;
                case '"': escaped += "&#34;"; break;
                case '\'': escaped += "&#39;"; break;
                default: escaped += c;
            }
        }
        if (status) status = out.put(escaped, is_plain);
    });
    TRY(std::move(status));
    Text made = out.finish();
    made.safe = true;
    return made;
}

namespace {

Result<Value> trim(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [set] = TRY(bind<1>(arguments, {"chars"}));
    const Text text = TRY(to_text(machine.budget(), self));
    if (!set || set->none()) return Value(strip(text, nullptr, Side::both));
    const Text characters = TRY(expect_text(*set, "trim's argument"));
    return Value(strip(text, &characters, Side::both));
}

Result<Value> upper(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return Value(TRY(map_characters(machine.budget(), TRY(to_text(machine.budget(), self)), to_upper)));
}
Result<Value> lower(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return Value(TRY(map_characters(machine.budget(), TRY(to_text(machine.budget(), self)), to_lower)));
}
Result<Value> capitalized(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return Value(TRY(capitalize(machine.budget(), TRY(to_text(machine.budget(), self)))));
}
/// Words begin after white space and after - ( { [ <
Result<Value> title(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    bool begins = true;
    const auto change = [&](char32_t c) {
        const bool separates = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
        return std::exchange(begins, separates) ? to_upper(c) : to_lower(c);
    };
    return Value(TRY(map_characters(machine.budget(), TRY(to_text(machine.budget(), self)), change)));
}

Result<Value> replaced(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [old, fresh, times] = TRY(bind<3>(arguments, {"old", "new", "count"}, 2));
    Budget& budget = machine.budget();
    const std::int64_t most = times && !times->none() ? TRY(expect_integer(*times, "count")) : -1;
    return Value(TRY(replace(budget, TRY(to_text(budget, self)), TRY(to_text(budget, *old)),
                             TRY(to_text(budget, *fresh)), most)));
}

Result<Value> string(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return Value(TRY(to_text(machine.budget(), self)));
}
Result<Value> safe(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    Text text = TRY(to_text(machine.budget(), self));
    text.safe = true;
    return Value(text);
}
Result<Value> escape(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return Value(TRY(escape_html(machine.budget(), self)));
}
Result<Value> forceescape(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    Text text = TRY(to_text(machine.budget(), self));
    text.safe = false;
    return Value(TRY(escape_html(machine.budget(), text)));
}

/// The first line stays where it is, and so do empty ones, unless told otherwise.
Result<Value> indent(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [width, first, blank] = TRY(bind<3>(arguments, {"width", "first", "blank"}));
    Budget& budget = machine.budget();
    const Text text = TRY(expect_text(self, "what is indented"));
    Text by = Text::control("    ");
    if (width && width->text())
        by = *width->text();
    else if (width)
        by = TRY(repeat(budget, Text::control(" "), TRY(expect_integer(*width, "width"))));
    const Text newline = Text::control("\n");
    const auto lines = split_lines(TRY(join(budget, Text(), {text, newline})), false);
    TRY(budget.step(lines.size()));
    Writer out(budget);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (i > 0) TRY(out.put(newline));
        const bool indented = i == 0 ? first && truth(*first) : !lines[i].empty() || (blank && truth(*blank));
        if (indented) TRY(out.put(by));
        TRY(out.put(lines[i]));
    }
    Text made = out.finish();
    made.safe = text.safe;
    return Value(made);
}

Result<Value> truncate(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [length, kill, end, leeway] =
        TRY(bind<4>(arguments, {"length", "killwords", "end", "leeway"}));
    const std::int64_t most = length ? TRY(expect_integer(*length, "length")) : 255;
    const std::int64_t spare = leeway && !leeway->none() ? TRY(expect_integer(*leeway, "leeway")) : 5;
    const Text tail = end ? TRY(expect_text(*end, "end")) : Text::control("...");
    const Text text = TRY(expect_text(self, "what is truncated"));
    const std::int64_t kept = most - static_cast<std::int64_t>(tail.characters());
    if (kept < 0) return type_error("truncate's length is smaller than its end");
    if (spare < 0 || most > (std::int64_t{1} << 40))
        return type_error("truncate's leeway or length is out of range");
    if (static_cast<std::int64_t>(text.characters()) <= most + spare) return Value(text);
    Text front = text.slice(0, text.byte_of(static_cast<std::size_t>(kept)));
    if (!kill || !truth(*kill)) {
        const std::size_t space = front.view().rfind(' ');
        if (space != std::string_view::npos) front = front.slice(0, space);
    }
    return Value(TRY(join(machine.budget(), Text(), {front, tail})));
}

Result<Value> center(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [width] = TRY(bind<1>(arguments, {"width"}));
    Arguments of_method;
    of_method.positional.push_back(width ? *width : Value(std::int64_t{80}));
    return find_text_method("center")(machine, TRY(to_text(machine.budget(), self)), of_method);
}

Result<Value> wordcount(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    const Text text = TRY(to_text(machine.budget(), self));
    TRY(machine.budget().step(text.bytes() / 16));
    const std::string_view all = text.view();
    std::int64_t words = 0;
    bool inside = false;
    for (std::size_t at = 0; at < all.size(); at += character_bytes(all, at)) {
        const char32_t c = character_at(all, at);
        const bool belongs = c == '_' || is_letter(c) || is_decimal(c);
        words += belongs && !inside;
        inside = belongs;
    }
    return Value(words);
}

Result<Value> format(Machine& machine, const Value& self, const Arguments& arguments) {
    if (!arguments.positional.empty() && !arguments.named.empty())
        return type_error("can't handle positional and keyword arguments at the same time");
    const Text text = TRY(to_text(machine.budget(), self));
    if (arguments.named.empty())
        return format_percent(machine.budget(), text,
                              TRY(make_tuple(machine.budget(), arguments.positional)));
    DictBuilder values(machine.budget());
    for (const auto& [name, value] : arguments.named) TRY(values.put(control_text(name), value));
    return format_percent(machine.budget(), text, TRY(values.finish()));
}

/// Percent encoding. In a query a slash is encoded and a space is a plus.
Status write_url(Writer& out, const Text& text, bool in_query) {
    static constexpr std::string_view kept =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~";
    TRY(out.budget().step(text.bytes() / 8));
    Status status = Done{};
    text.for_each_run([&](std::string_view run, bool is_plain) {
        std::string encoded;
        for (const char c : run) {
            char room[4];
            if (kept.find(c) != kept.npos || (c == '/' && !in_query)) {
                encoded += c;
            } else if (c == ' ' && in_query) {
                encoded += '+';
            } else {
                std::snprintf(room, sizeof room, "%%%02X",
                              static_cast<unsigned>(static_cast<unsigned char>(c)));
                encoded += room;
            }
        }
        if (status) status = out.put(encoded, is_plain);
    });
    return status;
}

Result<Value> urlencode(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    Budget& budget = machine.budget();
    Writer out(budget);
    if (!self.dict() && !self.sequence()) {
        TRY(write_url(out, TRY(to_text(budget, self)), false));
        return Value(out.finish());
    }
    std::vector<std::pair<Value, Value>> pairs;
    if (const Dict* dict = self.dict()) pairs = dict->items;
    if (self.sequence()) {
        for (const auto over = TRY(iterate(budget, self)); const Value& pair : over->items) {
            const auto two = TRY(iterate(budget, pair));
            if (two->items.size() != 2) return type_error("urlencode needs pairs");
            pairs.emplace_back(two->items[0], two->items[1]);
        }
    }
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        if (i > 0) TRY(out.put("&", false));
        TRY(write_url(out, TRY(to_text(budget, pairs[i].first)), true));
        TRY(out.put("=", false));
        TRY(write_url(out, TRY(to_text(budget, pairs[i].second)), true));
    }
    return Value(out.finish());
}

constexpr NamedFunction filters[] = {{"trim", trim},
                                     {"upper", upper},
                                     {"lower", lower},
                                     {"capitalize", capitalized},
                                     {"title", title},
                                     {"replace", replaced},
                                     {"string", string},
                                     {"safe", safe},
                                     {"escape", escape},
                                     {"e", escape},
                                     {"forceescape", forceescape},
                                     {"indent", indent},
                                     {"truncate", truncate},
                                     {"center", center},
                                     {"wordcount", wordcount},
                                     {"format", format},
                                     {"urlencode", urlencode}};

}  // namespace

std::span<const NamedFunction> text_filters() { return filters; }

}  // namespace kapitsa::jinja
