// json.dumps with the defaults of Python, and ensure_ascii=False, as transformers gives it to templates.
// What came from the conversation is plain as a whole: a client's JSON is the client's, brackets and all.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "chat/jinja/characters.h"
#include "chat/jinja/print.h"

namespace kapitsa::jinja {

namespace {

class JsonWriter {
public:
    JsonWriter(Writer& out, const JsonStyle& style) : out_(out), style_(style) {}

    Status write(const Value& value, bool is_plain, unsigned level) {
        TRY(out_.budget().step());
        if (const Text* text = value.text()) return string(*text, is_plain);
        if (const Dict* dict = value.dict()) return object(*dict, is_plain || dict->plain, level);
        const Sequence* sequence = value.sequence();
        if (sequence &&
            (sequence->flavor == Sequence::Flavor::list || sequence->flavor == Sequence::Flavor::tuple))
            return array(*sequence, is_plain || sequence->plain, level);
        if (!is_scalar(value))
            return type_error("Object of type " + std::string(type_name(value)) +
                              " is not JSON serializable");
        return out_.put(TRY(scalar(value)), is_plain);
    }

private:
    static bool is_scalar(const Value& value) {
        return value.none() || value.is<bool>() || value.is<std::int64_t>() || value.is<BigInteger>() ||
               value.is<double>();
    }

    static Result<std::string> scalar(const Value& value) {
        if (value.none()) return "null";
        if (const auto* flag = value.as<bool>()) return *flag ? "true" : "false";
        if (const auto* integer = value.as<std::int64_t>()) return std::to_string(*integer);
        if (const auto* big = value.as<BigInteger>()) return *big->digits;
        const double real = *value.as<double>();
        if (std::isnan(real)) return "NaN";
        if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
        return real_text(real);
    }

    void escape(std::string& to, std::string_view run) const {
        static constexpr std::string_view plain_escapes = "\"\\\n\r\t\b\f", letters = "\"\\nrtbf";
        for (std::size_t at = 0; at < run.size();) {
            const std::size_t bytes = character_bytes(run, at);
            const char32_t c = character_at(run, at);
            const auto short_form = c < 0x80 ? plain_escapes.find(static_cast<char>(c)) : plain_escapes.npos;
            if (short_form != plain_escapes.npos)
                (to += '\\') += letters[short_form];
            else if (c < 0x20 || (style_.ascii && c > 0x7E))
                escape_number(to, c);
            else
                to.append(run.substr(at, bytes));
            at += bytes;
        }
    }

    static void escape_number(std::string& to, char32_t c) {
        char room[16];
        if (c == 0x7F) {
            to += '\x7F';
        } else if (c < 0x10000) {
            std::snprintf(room, sizeof room, "\\u%04x", static_cast<unsigned>(c));
            to += room;
        } else {
            const unsigned above = static_cast<unsigned>(c) - 0x10000;
            std::snprintf(room, sizeof room, "\\u%04x\\u%04x", 0xD800 + (above >> 10),
                          0xDC00 + (above & 0x3FF));
            to += room;
        }
    }

    Status string(const Text& text, bool is_plain) {
        TRY(out_.budget().step(text.bytes() / 16));
        // The quotes around the words of a client are his as well: they take no part in control tokens.
        const bool quotes_plain = is_plain || (!text.empty() && text.all_plain());
        TRY(out_.put("\"", quotes_plain));
        Status status = Done{};
        text.for_each_run([&](std::string_view run, bool plain_run) {
            std::string escaped;
            escape(escaped, run);
            if (status) status = out_.put(escaped, is_plain || plain_run);
        });
        TRY(std::move(status));
        return out_.put("\"", quotes_plain);
    }

    Status new_line(unsigned level, bool is_plain) {
        if (!style_.broken) return Done{};
        TRY(out_.put("\n", is_plain));
        for (unsigned i = 0; i < level; ++i) TRY(out_.put(style_.indent, is_plain));
        return Done{};
    }

    Status array(const Sequence& sequence, bool is_plain, unsigned level) {
        if (sequence.items.empty()) return out_.put("[]", is_plain);
        TRY(out_.put("[", is_plain));
        for (std::size_t i = 0; i < sequence.items.size(); ++i) {
            if (i > 0) TRY(out_.put(style_.item_separator, is_plain));
            TRY(new_line(level + 1, is_plain));
            TRY(write(sequence.items[i], is_plain, level + 1));
        }
        TRY(new_line(level, is_plain));
        return out_.put("]", is_plain);
    }

    Status key(const Value& name, bool is_plain) {
        if (const Text* text = name.text()) return string(*text, is_plain);
        if (!is_scalar(name))
            return type_error("keys must be str, int, float, bool or None, not " +
                              std::string(type_name(name)));
        return out_.put("\"" + TRY(scalar(name)) + "\"", is_plain);
    }

    Result<std::vector<const std::pair<Value, Value>*>> members(const Dict& dict) {
        std::vector<const std::pair<Value, Value>*> ordered;
        for (const auto& item : dict.items) ordered.push_back(&item);
        if (!style_.sort_keys) return ordered;
        TRY(out_.budget().step(ordered.size() * 8));
        for (const auto* item : ordered)
            if (!item->first.text()) return type_error("sort_keys needs keys that are text");
        std::ranges::sort(ordered, {}, [](const auto* item) { return item->first.text()->view(); });
        return ordered;
    }

    Status object(const Dict& dict, bool is_plain, unsigned level) {
        if (dict.items.empty()) return out_.put("{}", is_plain);
        TRY(out_.put("{", is_plain));
        bool first = true;
        for (const auto* item : TRY(members(dict))) {
            if (!first) TRY(out_.put(style_.item_separator, is_plain));
            first = false;
            TRY(new_line(level + 1, is_plain));
            TRY(key(item->first, is_plain));
            TRY(out_.put(style_.key_separator, is_plain));
            TRY(write(item->second, is_plain, level + 1));
        }
        TRY(new_line(level, is_plain));
        return out_.put("}", is_plain);
    }

    Writer& out_;
    const JsonStyle& style_;
};

}  // namespace

Result<Text> to_json(Budget& budget, const Value& value, const JsonStyle& style) {
    Writer out(budget);
    TRY(JsonWriter(out, style).write(value, false, 0));
    return out.finish();
}

}  // namespace kapitsa::jinja
