// Two ways in: a document that was parsed already, and the text of a tool call's arguments. The second keeps
// what a double would lose, so it reads the text by events.
#include "chat/jinja/from_json.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace kapitsa::jinja {

namespace {

Value plain_text(std::string_view text) { return Text::plain(repair_utf8(text)); }

Value integer_text(std::string digits) {
    if (digits == "-0") return std::int64_t{0};
    std::int64_t value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (read.ec == std::errc()) return value;
    return BigInteger{std::make_shared<const std::string>(std::move(digits))};
}

/// Builds the value from nlohmann's events; refuses by answering false.
class Builder {
public:
    explicit Builder(Budget& budget) : budget_(budget) {}
    using Json = nlohmann::ordered_json;

    bool null() { return add(None{}); }
    bool boolean(bool value) { return add(value); }
    bool number_integer(std::int64_t value) { return add(value); }
    bool number_unsigned(std::uint64_t value) { return add(integer_text(std::to_string(value))); }
    bool number_float(double value, const std::string& text) {
        if (text.find_first_of(".eE") == text.npos) return add(integer_text(text));
        return add(value);
    }
    bool string(std::string& text) { return budget_.take(text.size()) && add(Text::plain(std::move(text))); }
    bool binary(std::vector<std::uint8_t>&) { return false; }
    bool start_object(std::size_t) { return open(true); }
    bool start_array(std::size_t) { return open(false); }
    bool key(std::string& text) {
        if (!budget_.take(text.size())) return false;
        open_.back().key = Text::plain(std::move(text));
        return true;
    }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

    Value root;

private:
    struct Open {
        bool object;
        Text key = {};
        std::vector<Value> items = {};
        std::vector<std::pair<Value, Value>> members = {};
        std::unordered_map<std::string, std::size_t> places = {};
    };

    bool open(bool object) {
        if (open_.size() >= value_depth_limit) return false;
        open_.push_back({object});
        return true;
    }

    bool add(Value value) {
        if (open_.empty()) {
            root = std::move(value);
            return true;
        }
        Open& top = open_.back();
        if (!budget_.take(sizeof(Value))) return false;
        if (!top.object) {
            top.items.push_back(std::move(value));
            return true;
        }
        const auto [place, fresh] = top.places.emplace(top.key.view(), top.members.size());
        if (fresh)
            top.members.emplace_back(top.key, std::move(value));
        else
            top.members[place->second].second = std::move(value);
        return true;
    }

    bool close() {
        Open top = std::move(open_.back());
        open_.pop_back();
        auto made = top.object
                        ? make_dict(budget_, std::move(top.members), true)
                        : make_sequence(budget_, Sequence::Flavor::list, std::move(top.items), {}, true);
        return made && add(std::move(*made));
    }

    Budget& budget_;
    std::vector<Open> open_;
};

}  // namespace

Result<Value> from_json(Budget& budget, const Json& json) {
    switch (json.type()) {
        case Json::value_t::string: {
            const auto& text = json.get_ref<const std::string&>();
            TRY(budget.take(text.size()));
            return plain_text(text);
        }
        case Json::value_t::boolean: return json.get<bool>();
        case Json::value_t::number_integer: return json.get<std::int64_t>();
        case Json::value_t::number_unsigned: return integer_text(std::to_string(json.get<std::uint64_t>()));
        case Json::value_t::number_float: return json.get<double>();
        case Json::value_t::array: {
            std::vector<Value> items;
            for (const Json& item : json) items.push_back(TRY(from_json(budget, item)));
            return make_sequence(budget, Sequence::Flavor::list, std::move(items), {}, true);
        }
        case Json::value_t::object: {
            std::vector<std::pair<Value, Value>> members;
            for (const auto& [key, item] : json.items())
                members.emplace_back(plain_text(key), TRY(from_json(budget, item)));
            return make_dict(budget, std::move(members), true);
        }
        default: return None{};
    }
}

Result<Value> parse_json_value(Budget& budget, std::string_view text) {
    Builder builder(budget);
    if (!nlohmann::ordered_json::sax_parse(text, &builder)) return type_error("not JSON");
    return std::move(builder.root);
}

}  // namespace kapitsa::jinja
