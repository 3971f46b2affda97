#include "server/json_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace kapitsa {
namespace {

/// As people write it, without a fraction where there is none.
std::string shown(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.15g", number);
    return text;
}

std::unexpected<ApiError> refused(const Fields& fields, const char* key, std::string_view wanted,
                                  const std::string& found) {
    const std::string path = fields.path(key);
    return bad_field(path, path + " must be " + std::string(wanted) + ", not " + found);
}

std::unexpected<ApiError> wrong_type(const Fields& fields, const char* key, std::string_view wanted,
                                     const Json& found) {
    return refused(fields, key, wanted, found.type_name());
}

/// Nothing where it is a fraction, or more than an int64 holds.
std::optional<std::int64_t> whole(const Json& number) {
    if (number.is_number_unsigned() && number.get<std::uint64_t>() > std::uint64_t(INT64_MAX))
        return std::nullopt;
    if (!number.is_number_float()) return number.get<std::int64_t>();
    const double real = number.get<double>();  // 16.0 is the integer 16; some clients write it so
    // An integer beyond the range comes as a double, too: one just below -2^63 as -2^63 itself.
    if (real != std::floor(real) || !(real > -0x1p63 && real < 0x1p63)) return std::nullopt;
    return static_cast<std::int64_t>(real);
}

}  // namespace

const Json* Fields::find(const char* key) const {
    const auto found = object_->find(key);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::string Fields::path(std::string_view key) const {
    return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

Parsed<std::optional<bool>> Fields::boolean(const char* key) const {
    const Json* found = find(key);
    if (!found) return std::nullopt;
    if (!found->is_boolean()) return wrong_type(*this, key, "true or false", *found);
    return found->get<bool>();
}

Parsed<std::optional<double>> Fields::number(const char* key, double least, double most) const {
    const Json* found = find(key);
    if (!found) return std::nullopt;
    const std::string wanted = "a number from " + shown(least) + " to " + shown(most);
    if (!found->is_number()) return wrong_type(*this, key, wanted, *found);
    const double number = found->get<double>();
    if (!(number >= least && number <= most)) return refused(*this, key, wanted, shown(number));
    return number;
}

Parsed<std::optional<std::int64_t>> Fields::integer(const char* key, std::int64_t least,
                                                    std::int64_t most) const {
    const Json* found = find(key);
    if (!found) return std::nullopt;
    const std::string wanted = "an integer from " + std::to_string(least) + " to " + std::to_string(most);
    if (!found->is_number()) return wrong_type(*this, key, wanted, *found);
    const auto number = whole(*found);
    if (!number || *number < least || *number > most)
        return refused(*this, key, wanted,
                       found->is_number_float() ? shown(found->get<double>()) : found->dump());
    return number;
}

Parsed<std::optional<std::string>> Fields::string(const char* key) const {
    const Json* found = find(key);
    if (!found) return std::nullopt;
    if (!found->is_string()) return wrong_type(*this, key, "a string", *found);
    return found->get<std::string>();
}

Parsed<const Json*> Fields::object(const char* key) const {
    const Json* found = find(key);
    if (found && !found->is_object()) return wrong_type(*this, key, "an object", *found);
    return found;
}

Parsed<const Json*> Fields::array(const char* key, std::size_t most) const {
    const Json* found = find(key);
    if (!found) return nullptr;
    if (!found->is_array()) return wrong_type(*this, key, "an array", *found);
    if (found->size() > most)
        return bad_field(path(key), path(key) + " has " + std::to_string(found->size()) +
                                        " elements; the limit is " + std::to_string(most));
    return found;
}

std::string element_path(std::string_view path, std::size_t index) {
    return std::string(path) + "[" + std::to_string(index) + "]";
}

}  // namespace kapitsa
