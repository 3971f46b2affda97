// Reading the fields of a JSON object from a client: each has a type and a range, and a wrong one is named.
// Null is like absent, as clients write what they do not want to set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/api_error.h"

namespace kapitsa {

/// An object and the path that leads to it ("" for the body itself).
class Fields {
public:
    /// `object` must be an object, and outlive this.
    explicit Fields(const Json& object, std::string path = {}) : object_(&object), path_(std::move(path)) {}

    /// Null where the field is absent or null.
    const Json* find(const char* key) const;
    /// "messages[2].content"
    std::string path(std::string_view key) const;

    Parsed<std::optional<bool>> boolean(const char* key) const;
    Parsed<std::optional<double>> number(const char* key, double least, double most) const;
    Parsed<std::optional<std::int64_t>> integer(const char* key, std::int64_t least, std::int64_t most) const;
    Parsed<std::optional<std::string>> string(const char* key) const;
    /// Null, an object or an array; anything else is an error.
    Parsed<const Json*> object(const char* key) const;
    Parsed<const Json*> array(const char* key, std::size_t most) const;

private:
    const Json* object_;
    std::string path_;
};

std::string element_path(std::string_view path, std::size_t index);

}  // namespace kapitsa
