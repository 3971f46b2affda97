// A typed view of one object of a configuration file. Whatever is missing, of another kind or out of range
// becomes an error that names the whole path of the field:
//     config.json: text_config.num_hidden_layers is -3; it must be a whole number from 1 to 1000000
#pragma once

#include <cfloat>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace kapitsa {

/// The default keeps the product of any three numbers within 64 bits.
struct WholeRange {
    std::uint32_t least = 1, most = 1'000'000;
};
/// Of numbers of tokens: contexts pass the million.
constexpr WholeRange token_counts{1, 1u << 30};

/// The default is what a float can hold, so that narrowing is defined.
struct RealRange {
    double least = -FLT_MAX, most = FLT_MAX;
};

/// A value; the document outlives it. A field that is null counts as absent everywhere.
class ConfigReader {
public:
    /// @param object an object of the document   @param file what messages call the document: "config.json"
    ConfigReader(const Json& object, std::string file);

    bool has(std::string_view key) const { return find(key) != nullptr; }

    /// `x` must be there; `x_or` takes the fallback where it is absent, and refuses it where it is wrong.
    Result<std::uint32_t> number(std::string_view key, WholeRange range = {}) const;
    Result<std::uint32_t> number_or(std::string_view key, std::uint32_t fallback,
                                    WholeRange range = {}) const;
    Result<double> real(std::string_view key, RealRange range = {}) const;
    Result<double> real_or(std::string_view key, double fallback, RealRange range = {}) const;
    Result<bool> flag(std::string_view key) const;
    Result<bool> flag_or(std::string_view key, bool fallback) const;
    Result<std::string> text(std::string_view key) const;
    Result<std::string> text_or(std::string_view key, std::string_view fallback) const;

    /// Lists. Each element obeys the range; an element's error names its place: "layer_types[3]".
    Result<std::vector<std::uint32_t>> numbers(std::string_view key, WholeRange range = {}) const;
    Result<std::vector<double>> reals(std::string_view key, RealRange range = {}) const;
    Result<std::vector<std::string>> texts(std::string_view key) const;
    /// A number or a list of them: eos_token_id is either. Empty where absent.
    Result<std::vector<std::uint32_t>> number_or_numbers(std::string_view key, WholeRange range = {}) const;

    /// The object in this field; `child_or_self` where a field may hold the object or its members stand here
    /// (text_config of a model that sees, or none).
    Result<ConfigReader> child(std::string_view key) const;
    Result<ConfigReader> child_or_self(std::string_view key) const;

    /// "config.json: text_config.KEY", for the caller's own sentences about a field.
    std::string field(std::string_view key) const;
    const Json& json() const { return *object_; }

private:
    const Json* find(std::string_view key) const;
    Result<const Json*> require(std::string_view key) const;

    const Json* object_;
    std::string file_, path_;  // path_: "" or "text_config."
};

}  // namespace kapitsa
