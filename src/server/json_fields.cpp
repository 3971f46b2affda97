#include "server/json_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace kapitsa {
namespace {

/// A whole number as people write it, else with its fraction.
std::string shown(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.15g", number);
    return text;
}

std::unexpected<ApiError> wrong_type(const Fields& fields, const char* key, std::string_view wanted,
                                     const Json& found) {
    const std::string path = fields.path(key);
    return bad_field(path, path + " must be " + std::string(wanted) + ", not " + found.type_name());
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
    if (!found->is_number()) return wrong_type(*this, key, "a number", *found);
    const double number = found->get<double>();
    if (!(number >= least && number <= most))
        return bad_field(path(key), path(key) + " must be from " + shown(least) + " to " + shown(most));
    return number;
}

Parsed<std::optional<std::int64_t>> Fields::integer(const char* key, std::int64_t least,
                                                    std::int64_t most) const {
    const Json* found = find(key);
    if (!found) return std::nullopt;
    if (!found->is_number()) return wrong_type(*this, key, "an integer", *found);
    const auto out_of_range = [&] {
        return bad_field(
            path(key), path(key) + " must be from " + std::to_string(least) + " to " + std::to_string(most));
    };
    std::int64_t number = 0;
    if (found->is_number_float()) {  // 16.0 is the integer 16; some clients write it so
        const double real = found->get<double>();
        if (real != std::floor(real)) return bad_field(path(key), path(key) + " must be an integer");
        if (!(std::abs(real) <= 9007199254740992.0)) return out_of_range();
        number = static_cast<std::int64_t>(real);
    } else if (found->is_number_unsigned() && found->get<std::uint64_t>() > std::uint64_t(INT64_MAX)) {
        return out_of_range();
    } else {
        number = found->get<std::int64_t>();
    }
    if (number < least || number > most) return out_of_range();
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
