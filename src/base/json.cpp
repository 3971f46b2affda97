#include "base/json.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/utf8.h"

namespace kapitsa {
namespace {

/// Builds the document while the limits hold. Returning false from a callback stops the parser.
class Builder {
public:
    using number_integer_t = Json::number_integer_t;
    using number_unsigned_t = Json::number_unsigned_t;
    using number_float_t = Json::number_float_t;
    using string_t = Json::string_t;
    using binary_t = Json::binary_t;

    explicit Builder(const JsonLimits& limits) : limits_(limits) {}

    bool null() { return add(nullptr); }
    bool boolean(bool value) { return add(value); }
    bool number_integer(number_integer_t value) { return add(value); }
    bool number_unsigned(number_unsigned_t value) { return add(value); }
    bool number_float(number_float_t value, const string_t&) { return add(value); }
    bool string(string_t& value) { return add(std::move(value)); }
    bool binary(binary_t&) { return false; }

    bool start_object(std::size_t) { return open(Json::object()); }
    bool start_array(std::size_t) { return open(Json::array()); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }

    bool key(string_t& name) {
        Level& level = levels_.back();
        if (level.names.size() == limits_.members)
            return refuse("an object has more than " + std::to_string(limits_.members) + " members");
        if (!level.names.insert(name).second)
            return refuse("the key \"" + name + "\" stands twice in one object");
        level.key = std::move(name);
        return true;
    }

    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
        const std::string_view what =
            error.what();  // "[json.exception.parse_error.101] parse error at line ...: reason"
        const auto reason = what.find("] ");
        return refuse(std::string(reason == what.npos ? what : what.substr(reason + 2)) + " (byte " +
                      std::to_string(position) + ")");
    }

    Json document;
    std::string refusal;

private:
    struct Level {
        Json value;
        std::string key;
        std::unordered_set<std::string> names;
    };

    bool refuse(std::string why) {
        refusal = std::move(why);
        return false;
    }

    bool open(Json empty) {
        if (levels_.size() == limits_.depth)
            return refuse("it is nested deeper than " + std::to_string(limits_.depth) + " levels");
        levels_.push_back({std::move(empty), {}, {}});
        return true;
    }

    bool close() {
        Json value = std::move(levels_.back().value);
        levels_.pop_back();
        return add(std::move(value));
    }

    template <typename Value>
    bool add(Value&& value) {
        if (levels_.empty()) {
            document = std::forward<Value>(value);
            return true;
        }
        Level& level = levels_.back();
        if (level.value.is_array()) {
            level.value.push_back(std::forward<Value>(value));
        } else {  // the key is known to be new, so the search that operator[] would do is not needed
            level.value.get_ref<Json::object_t&>().Json::object_t::Container::emplace_back(
                std::move(level.key), std::forward<Value>(value));
        }
        return true;
    }

    const JsonLimits& limits_;
    std::vector<Level> levels_;
};

/// The UTF-16 unit that an escape at `at` names ("\\uD83D"), or nothing.
std::optional<unsigned> escaped_unit(std::string_view text, std::size_t at) {
    if (text.substr(at, 2) != "\\u" || text.size() - at < 6) return std::nullopt;
    unsigned unit = 0;
    const auto [end, error] = std::from_chars(text.data() + at + 2, text.data() + at + 6, unit, 16);
    if (error != std::errc{} || end != text.data() + at + 6) return std::nullopt;
    return unit;
}

/// Half a surrogate pair, escaped, becomes U+FFFD. JavaScript programs cut texts between the halves of an
/// emoji and send what is left for as long as it stands in their history.
std::string mend_surrogates(std::string_view text) {
    std::string mended(text);
    for (std::size_t at = 0; at + 1 < text.size();) {
        if (text[at] != '\\') {
            ++at;
            continue;
        }
        const auto unit = escaped_unit(text, at);
        if (!unit || *unit < 0xD800 || *unit > 0xDFFF) {
            at += 2;
            continue;
        }
        const auto next = *unit < 0xDC00 ? escaped_unit(text, at + 6) : std::nullopt;
        const bool pair = next && *next >= 0xDC00 && *next <= 0xDFFF;
        if (!pair) mended.replace(at, 6, "\\uFFFD");
        at += pair ? 12 : 6;
    }
    return mended;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
    if (text.size() > limits.bytes)
        return fail(Fault::invalid_input, "the JSON text has " + std::to_string(text.size()) +
                                              " bytes; the limit is " + std::to_string(limits.bytes));
    if (const std::size_t valid = valid_utf8_prefix(text); valid != text.size())
        return fail(Fault::invalid_input, "the JSON text is not UTF-8 at byte " + std::to_string(valid));
    // The parser would take a zero byte for the end of the text, and what follows for nothing.
    if (const std::size_t zero = text.find('\0'); zero != text.npos)
        return fail(Fault::invalid_input, "not valid JSON: a zero byte (byte " + std::to_string(zero) + ")");
    std::string mended;
    if (text.find("\\u") != text.npos) text = mended = mend_surrogates(text);
    Builder builder(limits);
    if (!Json::sax_parse(text, &builder))
        return fail(Fault::invalid_input, "not valid JSON: " + builder.refusal);
    return std::move(builder.document);
}

std::string dump_json(const Json& json) {
    return json.dump(-1, ' ', false, nlohmann::detail::error_handler_t::replace);
}

}  // namespace kapitsa
