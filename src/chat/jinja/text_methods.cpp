// The methods of Python's str that templates call.
#include <algorithm>

#include "chat/jinja/machine.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/text_work.h"

namespace kapitsa::jinja {

namespace {

const Text& own(const Value& self) { return *self.text(); }

Result<Value> strip_side(const Value& self, const Arguments& arguments, Side side) {
    const auto [set] = TRY(bind<1>(arguments, {"chars"}));
    if (!set || set->none()) return Value(strip(own(self), nullptr, side));
    const Text characters = TRY(expect_text(*set, "strip's argument"));
    return Value(strip(own(self), &characters, side));
}
Result<Value> strip_both(Machine&, const Value& self, const Arguments& a) {
    return strip_side(self, a, Side::both);
}
Result<Value> strip_left(Machine&, const Value& self, const Arguments& a) {
    return strip_side(self, a, Side::left);
}
Result<Value> strip_right(Machine&, const Value& self, const Arguments& a) {
    return strip_side(self, a, Side::right);
}

Result<Value> upper(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return Value(TRY(map_characters(machine.budget(), own(self), to_upper)));
}
Result<Value> lower(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return Value(TRY(map_characters(machine.budget(), own(self), to_lower)));
}
Result<Value> swapcase(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return Value(TRY(map_characters(machine.budget(), own(self),
                                    [](char32_t c) { return is_upper(c) ? to_lower(c) : to_upper(c); })));
}
Result<Value> capitalized(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return Value(TRY(capitalize(machine.budget(), own(self))));
}
/// A letter after a letter is small, any other large.
Result<Value> title(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    bool inside = false;
    return Value(TRY(map_characters(machine.budget(), own(self), [&](char32_t c) {
        const bool continues = std::exchange(inside, is_letter(c));
        return continues ? to_lower(c) : to_upper(c);
    })));
}

/// The stretches between white space, as str.split() without a separator makes them.
std::vector<Text> split_at_space(const Text& text, std::int64_t most) {
    std::vector<Text> parts;
    Text left = strip(text, nullptr, Side::left);
    while (!left.empty()) {
        const std::string_view all = left.view();
        std::size_t end = 0;
        if (most >= 0 && static_cast<std::int64_t>(parts.size()) >= most) {
            parts.push_back(left);  // what is behind the last split keeps its end
            break;
        }
        while (end < all.size() && !is_space(character_at(all, end))) end += character_bytes(all, end);
        parts.push_back(left.slice(0, end));
        left = strip(left.slice(end, all.size()), nullptr, Side::left);
    }
    return parts;
}

std::vector<Text> split_at_space_from_right(const Text& text, std::int64_t most) {
    std::vector<Text> parts;
    Text left = strip(text, nullptr, Side::right);
    while (!left.empty()) {
        const std::string_view all = left.view();
        std::size_t begin = all.size();
        if (most >= 0 && static_cast<std::int64_t>(parts.size()) >= most) {
            parts.push_back(left);
            break;
        }
        while (begin > 0 && !is_space(character_at(all, character_before(all, begin))))
            begin = character_before(all, begin);
        parts.push_back(left.slice(begin, all.size()));
        left = strip(left.slice(0, begin), nullptr, Side::right);
    }
    std::ranges::reverse(parts);
    return parts;
}

std::vector<Text> split_at(const Text& text, std::string_view separator, std::int64_t most, bool from_right) {
    const std::string_view all = text.view();
    std::vector<Text> parts;
    std::size_t begin = 0, end = all.size();
    while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
        const std::string_view left = all.substr(begin, end - begin);
        const std::size_t at = from_right ? left.rfind(separator) : left.find(separator);
        if (at == left.npos) break;
        if (from_right) {
            parts.push_back(text.slice(at + separator.size(), end));
            end = at;
        } else {
            parts.push_back(text.slice(begin, begin + at));
            begin += at + separator.size();
        }
    }
    parts.push_back(text.slice(begin, end));
    if (from_right) std::ranges::reverse(parts);
    return parts;
}

Result<Value> list_of(Budget& budget, const std::vector<Text>& parts) {
    return make_list(budget, std::vector<Value>(parts.begin(), parts.end()));
}

Result<Value> split_side(Machine& machine, const Value& self, const Arguments& arguments, bool from_right) {
    const auto [separator, limit] = TRY(bind<2>(arguments, {"sep", "maxsplit"}));
    const std::int64_t most = limit ? TRY(expect_integer(*limit, "maxsplit")) : -1;
    const Text& text = own(self);
    TRY(machine.budget().step(text.bytes() / 16));
    if (!separator || separator->none())
        return list_of(machine.budget(),
                       from_right ? split_at_space_from_right(text, most) : split_at_space(text, most));
    const Text at = TRY(expect_text(*separator, "sep"));
    if (at.empty()) return type_error("empty separator");
    return list_of(machine.budget(), split_at(text, at.view(), most, from_right));
}
Result<Value> split(Machine& m, const Value& self, const Arguments& a) {
    return split_side(m, self, a, false);
}
Result<Value> split_right(Machine& m, const Value& self, const Arguments& a) {
    return split_side(m, self, a, true);
}

Result<Value> splitlines(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [keep] = TRY(bind<1>(arguments, {"keepends"}));
    TRY(machine.budget().step(own(self).bytes() / 16));
    return list_of(machine.budget(), split_lines(own(self), keep && truth(*keep)));
}

Result<Value> partition_side(Machine& machine, const Value& self, const Arguments& arguments,
                             bool from_right) {
    const auto [separator] = TRY(bind<1>(arguments, {"sep"}, 1));
    const Text at = TRY(expect_text(*separator, "sep"));
    if (at.empty()) return type_error("empty separator");
    auto parts = split_at(own(self), at.view(), 1, from_right);
    if (parts.size() == 2)
        parts.insert(parts.begin() + 1, at);
    else
        parts.insert(from_right ? parts.begin() : parts.end(), {Text(), Text()});
    return make_tuple(machine.budget(), std::vector<Value>(parts.begin(), parts.end()));
}
Result<Value> partition(Machine& m, const Value& self, const Arguments& a) {
    return partition_side(m, self, a, false);
}
Result<Value> partition_right(Machine& m, const Value& self, const Arguments& a) {
    return partition_side(m, self, a, true);
}

/// The part of the text that an optional begin and end name.
struct Window {
    Text part;
    std::int64_t begin = 0;  // in characters
    bool possible = true;    // false: the begin is past the end
};
Result<Window> window(const Text& text, const Value* begin, const Value* end) {
    if (!begin && !end) return Window{text};
    const auto length = static_cast<std::int64_t>(text.characters());
    const auto place = [&](const Value* value, std::int64_t otherwise) -> Result<std::int64_t> {
        if (!value || value->none()) return otherwise;
        const std::int64_t at = TRY(expect_integer(*value, "an index"));
        return at < 0 ? std::max<std::int64_t>(0, at + length) : at;
    };
    const std::int64_t from = TRY(place(begin, 0)), to = std::min(TRY(place(end, length)), length);
    if (from > to) return Window{{}, from, false};
    return Window{
        text.slice(text.byte_of(static_cast<std::size_t>(from)), text.byte_of(static_cast<std::size_t>(to))),
        from};
}

Result<Value> ends_match(const Value& self, const Arguments& arguments, bool at_start) {
    const auto [affix, begin, end] = TRY(bind<3>(arguments, {"affix", "start", "end"}, 1));
    const Window in = TRY(window(own(self), begin, end));
    const auto matches = [&](const Value& one) -> Result<bool> {
        const Text text = TRY(expect_text(one, at_start ? "startswith's argument" : "endswith's argument"));
        return in.possible &&
               (at_start ? in.part.view().starts_with(text.view()) : in.part.view().ends_with(text.view()));
    };
    const Sequence* several = affix->sequence();
    if (!several || several->flavor != Sequence::Flavor::tuple) return Value(TRY(matches(*affix)));
    for (const Value& one : several->items)
        if (TRY(matches(one))) return Value(true);
    return Value(false);
}
Result<Value> startswith(Machine&, const Value& self, const Arguments& a) {
    return ends_match(self, a, true);
}
Result<Value> endswith(Machine&, const Value& self, const Arguments& a) { return ends_match(self, a, false); }

Result<Value> remove_affix(const Value& self, const Arguments& arguments, bool at_start) {
    const auto [affix] = TRY(bind<1>(arguments, {"affix"}, 1));
    const Text text = TRY(expect_text(*affix, "the argument"));
    const Text& all = own(self);
    if (at_start && all.view().starts_with(text.view())) return Value(all.slice(text.bytes(), all.bytes()));
    if (!at_start && all.view().ends_with(text.view()))
        return Value(all.slice(0, all.bytes() - text.bytes()));
    return self;
}
Result<Value> removeprefix(Machine&, const Value& self, const Arguments& a) {
    return remove_affix(self, a, true);
}
Result<Value> removesuffix(Machine&, const Value& self, const Arguments& a) {
    return remove_affix(self, a, false);
}

Result<std::int64_t> find_place(Machine& machine, const Value& self, const Arguments& arguments,
                                bool from_right) {
    const auto [needle, begin, end] = TRY(bind<3>(arguments, {"sub", "start", "end"}, 1));
    const Text text = TRY(expect_text(*needle, "the argument"));
    TRY(machine.budget().step(1 + own(self).bytes() / 64));
    const Window in = TRY(window(own(self), begin, end));
    const std::size_t at = !in.possible ? std::string_view::npos
                           : from_right ? in.part.view().rfind(text.view())
                                        : in.part.view().find(text.view());
    if (at == std::string_view::npos) return -1;
    return in.begin + static_cast<std::int64_t>(in.part.slice(0, at).characters());
}
Result<Value> find(Machine& m, const Value& self, const Arguments& a) {
    return Value(TRY(find_place(m, self, a, false)));
}
Result<Value> rfind(Machine& m, const Value& self, const Arguments& a) {
    return Value(TRY(find_place(m, self, a, true)));
}
Result<Value> index(Machine& machine, const Value& self, const Arguments& arguments) {
    const std::int64_t at = TRY(find_place(machine, self, arguments, false));
    if (at < 0) return type_error("substring not found");
    return Value(at);
}
Result<Value> rindex(Machine& machine, const Value& self, const Arguments& arguments) {
    const std::int64_t at = TRY(find_place(machine, self, arguments, true));
    if (at < 0) return type_error("substring not found");
    return Value(at);
}

Result<Value> count(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [needle, begin, end] = TRY(bind<3>(arguments, {"sub", "start", "end"}, 1));
    const Text text = TRY(expect_text(*needle, "the argument"));
    TRY(machine.budget().step(1 + own(self).bytes() / 16));
    const Window in = TRY(window(own(self), begin, end));
    if (!in.possible) return Value(std::int64_t{0});
    if (text.empty()) return Value(static_cast<std::int64_t>(in.part.characters()) + 1);
    std::int64_t found = 0;
    const std::string_view all = in.part.view();
    for (std::size_t at = all.find(text.view()); at != all.npos;
         at = all.find(text.view(), at + text.bytes()))
        ++found;
    return Value(found);
}

Result<Value> replaced(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [old, fresh, times] = TRY(bind<3>(arguments, {"old", "new", "count"}, 2));
    const std::int64_t most = times ? TRY(expect_integer(*times, "count")) : -1;
    return Value(TRY(replace(machine.budget(), own(self), TRY(expect_text(*old, "replace's first argument")),
                             TRY(expect_text(*fresh, "replace's second argument")), most)));
}

Result<Value> joined(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [items] = TRY(bind<1>(arguments, {"iterable"}, 1));
    std::vector<Text> parts;
    for (const auto over = TRY(iterate(machine.budget(), *items)); const Value& item : over->items)
        parts.push_back(TRY(expect_text(item, "what is joined")));
    return Value(TRY(join(machine.budget(), own(self), parts)));
}

Result<Value> formatted(Machine& machine, const Value& self, const Arguments& arguments) {
    return format_braces(machine, own(self), arguments);
}

/// True for a text that is not empty and whose every character is of the class.
template <bool (*belongs)(char32_t)>
Result<Value> all_are(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    const std::string_view all = own(self).view();
    TRY(machine.budget().step(all.size() / 16));
    for (std::size_t at = 0; at < all.size(); at += character_bytes(all, at))
        if (!belongs(character_at(all, at))) return Value(false);
    return Value(!all.empty());
}
bool is_alphanumeric(char32_t c) { return is_letter(c) || is_decimal(c); }

bool cased(std::string_view all, bool upper_case) {
    bool any = false;
    for (std::size_t at = 0; at < all.size(); at += character_bytes(all, at)) {
        const char32_t c = character_at(all, at);
        if (upper_case ? is_lower(c) : is_upper(c)) return false;
        any = any || (upper_case ? is_upper(c) : is_lower(c));
    }
    return any;
}
Result<Value> isupper(Machine&, const Value& self, const Arguments& a) {
    TRY(bind_nothing(a));
    return Value(cased(own(self).view(), true));
}
Result<Value> islower(Machine&, const Value& self, const Arguments& a) {
    TRY(bind_nothing(a));
    return Value(cased(own(self).view(), false));
}

Result<Value> justify(Machine& machine, const Value& self, const Arguments& arguments, Side side) {
    const auto [width, fill] = TRY(bind<2>(arguments, {"width", "fillchar"}, 1));
    const Text with = fill ? TRY(expect_text(*fill, "fillchar")) : Text::control(" ");
    if (with.characters() != 1) return type_error("the fill character must be exactly one character long");
    const std::int64_t wanted = TRY(expect_integer(*width, "width"));
    const auto length = static_cast<std::int64_t>(own(self).characters());
    if (wanted <= length) return self;
    const std::int64_t missing = wanted - length;
    const std::int64_t before = side == Side::right  ? missing
                                : side == Side::left ? 0
                                                     : missing / 2 + (missing & wanted & 1);
    Budget& budget = machine.budget();
    const Text front = TRY(repeat(budget, with, before)), back = TRY(repeat(budget, with, missing - before));
    return Value(TRY(join(budget, Text(), {front, own(self), back})));
}
Result<Value> ljust(Machine& m, const Value& self, const Arguments& a) {
    return justify(m, self, a, Side::left);
}
Result<Value> rjust(Machine& m, const Value& self, const Arguments& a) {
    return justify(m, self, a, Side::right);
}
Result<Value> center(Machine& m, const Value& self, const Arguments& a) {
    return justify(m, self, a, Side::both);
}

Result<Value> zfill(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [width] = TRY(bind<1>(arguments, {"width"}, 1));
    const Text& text = own(self);
    const std::size_t sign = text.view().starts_with('-') || text.view().starts_with('+') ? 1 : 0;
    const std::int64_t missing =
        TRY(expect_integer(*width, "width")) - static_cast<std::int64_t>(text.characters());
    const Text zeros = TRY(repeat(machine.budget(), Text::control("0"), missing));
    return Value(
        TRY(join(machine.budget(), Text(), {text.slice(0, sign), zeros, text.slice(sign, text.bytes())})));
}

constexpr NamedFunction methods[] = {{"strip", strip_both},
                                     {"lstrip", strip_left},
                                     {"rstrip", strip_right},
                                     {"upper", upper},
                                     {"lower", lower},
                                     {"casefold", lower},
                                     {"swapcase", swapcase},
                                     {"capitalize", capitalized},
                                     {"title", title},
                                     {"split", split},
                                     {"rsplit", split_right},
                                     {"splitlines", splitlines},
                                     {"partition", partition},
                                     {"rpartition", partition_right},
                                     {"startswith", startswith},
                                     {"endswith", endswith},
                                     {"removeprefix", removeprefix},
                                     {"removesuffix", removesuffix},
                                     {"find", find},
                                     {"rfind", rfind},
                                     {"index", index},
                                     {"rindex", rindex},
                                     {"count", count},
                                     {"replace", replaced},
                                     {"join", joined},
                                     {"format", formatted},
                                     {"isdigit", all_are<is_decimal>},
                                     {"isdecimal", all_are<is_decimal>},
                                     {"isnumeric", all_are<is_decimal>},
                                     {"isalpha", all_are<is_letter>},
                                     {"isalnum", all_are<is_alphanumeric>},
                                     {"isspace", all_are<is_space>},
                                     {"isupper", isupper},
                                     {"islower", islower},
                                     {"ljust", ljust},
                                     {"rjust", rjust},
                                     {"center", center},
                                     {"zfill", zfill}};

}  // namespace

Function find_text_method(std::string_view name) {
    const auto* method = std::ranges::find(methods, name, &NamedFunction::name);
    return method == std::end(methods) ? nullptr : method->function;
}

}  // namespace kapitsa::jinja
