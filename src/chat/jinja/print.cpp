// Python's str() and repr().
#include "chat/jinja/print.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "chat/jinja/callable.h"
#include "chat/jinja/characters.h"

namespace kapitsa::jinja {

/// The shortest digits that read back the same; with an exponent below 1e-4 and from 1e16 on.
std::string real_text(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    char room[64];
    const auto scientific = std::to_chars(room, room + sizeof room, value, std::chars_format::scientific);
    std::string digits(room, scientific.ptr);
    const int exponent = std::atoi(digits.c_str() + digits.find('e') + 1);
    if (exponent < -4 || exponent >= 16) return digits;
    const auto fixed = std::to_chars(room, room + sizeof room, value, std::chars_format::fixed);
    std::string text(room, fixed.ptr);
    if (text.find('.') == std::string::npos) text += ".0";
    return text;
}

namespace {

std::string escaped_character(char32_t c) {
    char room[16];
    if (c == '\n') return "\\n";
    if (c == '\r') return "\\r";
    if (c == '\t') return "\\t";
    std::snprintf(room, sizeof room,
                  c < 0x100     ? "\\x%02x"
                  : c < 0x10000 ? "\\u%04x"
                                : "\\U%08x",
                  static_cast<unsigned>(c));
    return room;
}

Status write_quoted(Writer& out, const Text& text, bool is_plain) {
    const std::string_view all = text.view();
    const bool doubled = all.find('\'') != all.npos && all.find('"') == all.npos;
    const char quote = doubled ? '"' : '\'';
    TRY(out.budget().step(all.size() / 16));
    TRY(out.put({&quote, 1}, is_plain));
    Status status = Done{};
    text.for_each_run([&](std::string_view run, bool plain_run) {
        std::string escaped;
        for (std::size_t at = 0; at < run.size();) {
            const std::size_t bytes = character_bytes(run, at);
            const char32_t c = character_at(run, at);
            if (c == '\\' || c == static_cast<char32_t>(quote)) escaped += '\\';
            if (is_printable(c))
                escaped.append(run.substr(at, bytes));
            else
                escaped += escaped_character(c);
            at += bytes;
        }
        if (status) status = out.put(escaped, plain_run || is_plain);
    });
    TRY(std::move(status));
    return out.put({&quote, 1}, is_plain);
}

Status write_items(Writer& out, const std::vector<Value>& items, bool is_plain) {
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (i > 0) TRY(out.put(", ", is_plain));
        TRY(write_repr(out, items[i], is_plain));
    }
    return Done{};
}

Status write_sequence(Writer& out, const Sequence& sequence, bool is_plain) {
    is_plain = is_plain || sequence.plain;
    switch (sequence.flavor) {
        case Sequence::Flavor::range: return out.put(sequence.name, is_plain);
        case Sequence::Flavor::iterator: return out.put("<generator object>", is_plain);
        case Sequence::Flavor::list:
            TRY(out.put("[", is_plain));
            TRY(write_items(out, sequence.items, is_plain));
            return out.put("]", is_plain);
        case Sequence::Flavor::tuple:
            TRY(out.put("(", is_plain));
            TRY(write_items(out, sequence.items, is_plain));
            return out.put(sequence.items.size() == 1 ? ",)" : ")", is_plain);
        case Sequence::Flavor::view:
            TRY(out.put(sequence.name + "([", is_plain));
            TRY(write_items(out, sequence.items, is_plain));
            return out.put("])", is_plain);
    }
    return Done{};
}

Status write_dict(Writer& out, const Dict& dict, bool is_plain) {
    is_plain = is_plain || dict.plain;
    TRY(out.put("{", is_plain));
    for (std::size_t i = 0; i < dict.items.size(); ++i) {
        if (i > 0) TRY(out.put(", ", is_plain));
        TRY(write_repr(out, dict.items[i].first, is_plain));
        TRY(out.put(": ", is_plain));
        TRY(write_repr(out, dict.items[i].second, is_plain));
    }
    return out.put("}", is_plain);
}

std::string loop_text(const Loop& loop) {
    return "<LoopContext " + std::to_string(loop.at + 1) + "/" + std::to_string(loop.items->items.size()) +
           ">";
}

std::string callable_text(const Callable& callable) {
    if (callable.macro) return "<Macro '" + std::string(callable.name) + "'>";
    return "<function " + std::string(callable.name) + ">";
}

/// What prints the same in str() and repr(): "" for what has members.
std::string scalar_text(const Value& value) {
    if (value.none()) return "None";
    if (const auto* flag = value.as<bool>()) return *flag ? "True" : "False";
    if (const auto* integer = value.as<std::int64_t>()) return std::to_string(*integer);
    if (const auto* big = value.as<BigInteger>()) return *big->digits;
    if (const auto* real = value.as<double>()) return real_text(*real);
    if (const auto* loop = value.as<std::shared_ptr<Loop>>()) return loop_text(**loop);
    if (const auto* callable = value.as<std::shared_ptr<const Callable>>()) return callable_text(**callable);
    // What a namespace holds may hold the namespace: its members are not shown.
    if (value.is<Namespace*>()) return "<Namespace>";
    return {};
}

}  // namespace

Status write_repr(Writer& out, const Value& value, bool is_plain) {
    TRY(out.budget().step());
    if (const Text* text = value.text()) return write_quoted(out, *text, is_plain);
    if (const Sequence* sequence = value.sequence()) return write_sequence(out, *sequence, is_plain);
    if (const Dict* dict = value.dict()) return write_dict(out, *dict, is_plain);
    if (value.undefined()) return out.put("Undefined", is_plain);
    return out.put(scalar_text(value), is_plain);
}

Result<Text> to_text(Budget& budget, const Value& value) {
    if (const Text* text = value.text()) return *text;
    if (value.sequence() || value.dict()) {
        Writer out(budget);
        TRY(write_repr(out, value, false));
        return out.finish();
    }
    return Text::control(scalar_text(value));
}

}  // namespace kapitsa::jinja
