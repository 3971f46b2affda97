#include "formats/config_reader.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "formats/in_quotes.h"

namespace kapitsa {
namespace {

/// A value as it is shown in a message: scalars in full, the others by their kind.
std::string shown(const Json& value) {
    if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
    if (value.is_object()) return "an object";
    if (value.is_array()) return "a list";
    return dump_json(value);
}

std::string shown(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", number);
    return text;
}

/// The sentence about a field that holds what it must not.
std::unexpected<Error> wrong(const std::string& field, const Json& value, const std::string& must_be) {
    return fail(Fault::invalid_input, field + " is " + shown(value) + "; it must be " + must_be);
}

// One function a kind: `field` is the path in messages, what follows `value` narrows the kind.

Result<std::uint32_t> as_number(const std::string& field, const Json& value, WholeRange range) {
    const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() >= range.least &&
                                                       value.get<std::uint64_t>() <= range.most
                      : value.is_number_integer() ? value.get<std::int64_t>() >= range.least &&
                                                        value.get<std::int64_t>() <= range.most
                                                  : false;
    if (!fits)
        return wrong(
            field, value,
            "a whole number from " + std::to_string(range.least) + " to " + std::to_string(range.most));
    return value.get<std::uint32_t>();
}

Result<double> as_real(const std::string& field, const Json& value, RealRange range) {
    // Written so that NaN fails.
    if (value.is_number())
        if (const double number = value.get<double>(); number >= range.least && number <= range.most)
            return number;
    return wrong(field, value, "a number from " + shown(range.least) + " to " + shown(range.most));
}

Result<bool> as_flag(const std::string& field, const Json& value) {
    if (!value.is_boolean()) return wrong(field, value, "true or false");
    return value.get<bool>();
}

Result<std::string> as_text(const std::string& field, const Json& value) {
    if (!value.is_string()) return wrong(field, value, "a string");
    return value.get<std::string>();
}

/// Every element of a list, by the function of its kind.
template <typename T, typename... Range>
Result<std::vector<T>> as_list(const std::string& field, const Json& value,
                               Result<T> (*as)(const std::string&, const Json&, Range...), Range... range) {
    if (!value.is_array()) return wrong(field, value, "a list");
    std::vector<T> list;
    list.reserve(value.size());
    for (const Json& element : value)
        list.push_back(TRY(as(field + "[" + std::to_string(list.size()) + "]", element, range...)));
    return list;
}

}  // namespace

ConfigReader::ConfigReader(const Json& object, std::string file) : object_(&object), file_(std::move(file)) {
    CHECK(object.is_object());
}

const Json* ConfigReader::find(std::string_view key) const {
    const auto found = object_->find(key);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
}

Result<const Json*> ConfigReader::require(std::string_view key) const {
    if (const Json* value = find(key)) return value;
    return fail(Fault::invalid_input, field(key) + " is missing");
}

std::string ConfigReader::field(std::string_view key) const {
    return file_ + ": " + path_ + std::string(key);
}

Result<std::uint32_t> ConfigReader::number(std::string_view key, WholeRange range) const {
    return as_number(field(key), *TRY(require(key)), range);
}

Result<std::uint32_t> ConfigReader::number_or(std::string_view key, std::uint32_t fallback,
                                              WholeRange range) const {
    if (!has(key)) return fallback;
    return number(key, range);
}

Result<double> ConfigReader::real(std::string_view key, RealRange range) const {
    return as_real(field(key), *TRY(require(key)), range);
}

Result<double> ConfigReader::real_or(std::string_view key, double fallback, RealRange range) const {
    if (!has(key)) return fallback;
    return real(key, range);
}

Result<bool> ConfigReader::flag(std::string_view key) const {
    return as_flag(field(key), *TRY(require(key)));
}

Result<bool> ConfigReader::flag_or(std::string_view key, bool fallback) const {
    if (!has(key)) return fallback;
    return flag(key);
}

Result<std::string> ConfigReader::text(std::string_view key) const {
    return as_text(field(key), *TRY(require(key)));
}

Result<std::string> ConfigReader::text_or(std::string_view key, std::string_view fallback) const {
    if (!has(key)) return std::string(fallback);
    return text(key);
}

Result<std::vector<std::uint32_t>> ConfigReader::numbers(std::string_view key, WholeRange range) const {
    return as_list(field(key), *TRY(require(key)), as_number, range);
}

Result<std::vector<double>> ConfigReader::reals(std::string_view key, RealRange range) const {
    return as_list(field(key), *TRY(require(key)), as_real, range);
}

Result<std::vector<std::string>> ConfigReader::texts(std::string_view key) const {
    return as_list(field(key), *TRY(require(key)), as_text);
}

Result<std::vector<std::uint32_t>> ConfigReader::number_or_numbers(std::string_view key,
                                                                   WholeRange range) const {
    const Json* value = find(key);
    if (!value) return std::vector<std::uint32_t>();
    if (value->is_array()) return numbers(key, range);
    return std::vector<std::uint32_t>(1, TRY(number(key, range)));
}

Result<ConfigReader> ConfigReader::child(std::string_view key) const {
    const Json* value = TRY(require(key));
    if (!value->is_object()) return wrong(field(key), *value, "an object");
    ConfigReader reader(*value, file_);
    reader.path_ = path_ + std::string(key) + ".";
    return reader;
}

Result<ConfigReader> ConfigReader::child_or_self(std::string_view key) const {
    if (!has(key)) return *this;
    return child(key);
}

}  // namespace kapitsa
