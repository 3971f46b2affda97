#include "formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "base/utf8.h"
#include "formats/in_quotes.h"

namespace kapitsa {
namespace {

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t header_bytes_max = 100'000'000;  // the format's own limit
constexpr std::size_t rank_max = 8;

std::optional<ElementType> element_type_named(std::string_view name) {
    for (int i = 0; i <= static_cast<int>(ElementType::f64); ++i)
        if (name == element_name(static_cast<ElementType>(i))) return static_cast<ElementType>(i);
    return std::nullopt;
}

/// A tensor as the header claims it.
struct Claim {
    std::string name;
    ElementType type = ElementType::f32;
    std::vector<std::uint64_t> shape;
    std::vector<std::uint64_t> offsets;  // [2] begin and end, from the end of the header
};

/// Reads the header as it is parsed, without a document in between: nothing is kept that is not a claim.
/// Depth 1 is the header, depth 2 a tensor or the metadata, depth 3 the list of a shape or of offsets.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
public:
    std::vector<Claim> claims;
    std::optional<Error> error;

    bool null() override { return unexpected("null"); }
    bool boolean(bool) override { return unexpected("a boolean"); }
    bool binary(binary_t&) override { return unexpected("binary data"); }
    bool number_float(number_float_t, const string_t& text) override {
        return unexpected(clipped(text) + ", not a whole number");
    }
    bool number_integer(number_integer_t value) override {
        return unexpected(std::to_string(value) + ", a negative number");
    }

    bool number_unsigned(number_unsigned_t value) override {
        if (depth_ != 3) return unexpected("a number");
        std::vector<std::uint64_t>& list =
            field_ == Field::shape ? claims.back().shape : claims.back().offsets;
        if (field_ == Field::shape && list.size() == rank_max)
            return refuse(Fault::unsupported,
                          here() + " has more than " + std::to_string(rank_max) + " dimensions");
        if (field_ == Field::offsets && list.size() == 2)
            return refuse(here() + " has more than two numbers");
        list.push_back(value);
        return true;
    }

    bool string(string_t& value) override {
        if (depth_ == 2 && metadata_) return true;
        if (depth_ != 2 || field_ != Field::type) return unexpected("a string");
        const std::optional<ElementType> type = element_type_named(value);
        if (!type)
            return refuse(Fault::unsupported, here() + " is " + in_quotes(value) + ", a type we do not know");
        claims.back().type = *type;
        return true;
    }

    bool start_object(std::size_t) override {
        if (depth_ >= 2) return unexpected("an object");
        if (++depth_ == 2) {
            metadata_ = name_ == "__metadata__";
            fields_.clear();
            if (!metadata_) claims.push_back({.name = name_, .shape = {}, .offsets = {}});
        }
        return true;
    }

    bool end_object() override {
        if (depth_-- == 2 && !metadata_) {
            for (const char* field : {"dtype", "shape", "data_offsets"})
                if (!fields_.contains(field))
                    return refuse("tensor " + in_quotes(name_) + " has no " + field);
            if (claims.back().offsets.size() != 2)
                return refuse("tensor " + in_quotes(name_) + ": data_offsets are not two numbers");
        }
        return true;
    }

    bool start_array(std::size_t) override {
        if (depth_ != 2 || metadata_ || field_ == Field::type) return unexpected("a list");
        ++depth_;
        return true;
    }

    bool end_array() override {
        --depth_;
        return true;
    }

    bool key(string_t& key) override {
        if (!(depth_ == 1 ? names_ : fields_).insert(key).second)
            return refuse((depth_ == 1 ? "the header"
                           : metadata_ ? "__metadata__"
                                       : "tensor " + in_quotes(name_)) +
                          " has the key " + in_quotes(key) + " twice");
        if (depth_ == 1) {
            name_ = std::move(key);
            return true;
        }
        if (metadata_) {
            metadata_key_ = std::move(key);
            return true;
        }
        if (key == "dtype")
            field_ = Field::type;
        else if (key == "shape")
            field_ = Field::shape;
        else if (key == "data_offsets")
            field_ = Field::offsets;
        else
            return refuse("tensor " + in_quotes(name_) + " has an unknown field " + in_quotes(key));
        return true;
    }

    bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
        return refuse("the header is not valid JSON at its byte " + std::to_string(position));
    }

private:
    enum class Field { type, shape, offsets };

    static std::string clipped(const std::string& text) { return text.substr(0, 32); }

    /// Where the parser stands, in words.
    std::string here() const {
        if (depth_ == 1) return "tensor " + in_quotes(name_);
        if (metadata_) return "__metadata__: " + in_quotes(metadata_key_);
        static constexpr const char* fields[] = {"dtype", "shape", "data_offsets"};
        return "tensor " + in_quotes(name_) + ": " + fields[static_cast<int>(field_)];
    }

    /// What may stand at each place is one thing only; it is named together with what stands there.
    bool unexpected(const std::string& what) {
        static constexpr const char* wanted[] = {"a string", "a list of whole numbers",
                                                 "two whole numbers from 0 up"};
        const std::string right = depth_ < 2  ? "an object"
                                  : metadata_ ? "a string"
                                              : wanted[static_cast<int>(field_)];
        return refuse(here() + (depth_ == 3 ? " holds " : " is ") + what + " where " + right + " must stand");
    }

    bool refuse(std::string why) { return refuse(Fault::corrupt_file, std::move(why)); }
    bool refuse(Fault fault, std::string why) {
        error = Error{fault, std::move(why)};
        return false;
    }

    int depth_ = 0;
    bool metadata_ = false;
    Field field_ = Field::type;
    std::string name_, metadata_key_;
    std::set<std::string> names_,
        fields_;  // ordered: hashes of names chosen to collide would cost the square
};

/// The bytes that a shape needs, or nothing where the product leaves 64 bits.
std::optional<std::uint64_t> bytes_of(ElementType type, const std::vector<std::uint64_t>& shape) {
    // A zero anywhere makes the product zero, whatever the others would have overflowed to.
    if (std::ranges::find(shape, 0u) != shape.end()) return 0;
    std::uint64_t bytes = element_bytes(type);
    for (const std::uint64_t extent : shape) {
        if (extent > std::numeric_limits<std::uint64_t>::max() / bytes) return std::nullopt;
        bytes *= extent;
    }
    return bytes;
}

/// The header's text, without its length.
Result<std::string_view> header_of(Bytes file) {
    if (file.size() < length_bytes)
        return fail(Fault::corrupt_file,
                    "the file has " + std::to_string(file.size()) +
                        " bytes; a safetensors file starts with 8 that give its header's length");
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < length_bytes; ++i)
        length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
    if (length > header_bytes_max)
        return fail(Fault::corrupt_file, "the header's length is " + std::to_string(length) + "; at most " +
                                             std::to_string(header_bytes_max) + " bytes are allowed");
    if (length > file.size() - length_bytes)
        return fail(Fault::corrupt_file, "the header's length is " + std::to_string(length) + ", but only " +
                                             std::to_string(file.size() - length_bytes) + " bytes follow it");
    const std::string_view header = as_text(file.subspan(length_bytes, length));
    if (!header.starts_with('{')) return fail(Fault::corrupt_file, "the header is not a JSON object");
    // The parser below would take a zero byte for the end of the text.
    if (const std::size_t zero = header.find('\0'); zero != header.npos)
        return fail(Fault::corrupt_file, "the header is not valid JSON at its byte " + std::to_string(zero));
    if (const std::size_t valid = valid_utf8_prefix(header); valid != header.size())
        return fail(Fault::corrupt_file, "the header is not UTF-8 at its byte " + std::to_string(valid));
    return header;
}

Status check_size(const Claim& claim, std::uint64_t data_bytes) {
    const std::string tensor = "tensor " + in_quotes(claim.name);
    const auto [begin, end] = std::pair(claim.offsets[0], claim.offsets[1]);
    const std::string offsets = ": data_offsets " + std::to_string(begin) + " to " + std::to_string(end);
    if (begin > end) return fail(Fault::corrupt_file, tensor + offsets + " end before they begin");
    if (end > data_bytes)
        return fail(Fault::corrupt_file, tensor + offsets + " lie outside the file, which has " +
                                             std::to_string(data_bytes) + " bytes after the header");
    const std::optional<std::uint64_t> bytes = bytes_of(claim.type, claim.shape);
    if (!bytes) return fail(Fault::corrupt_file, tensor + ": shape overflows 64 bits");
    if (*bytes != end - begin)
        return fail(Fault::corrupt_file, tensor + ": shape and dtype need " + std::to_string(*bytes) +
                                             " bytes, data_offsets hold " + std::to_string(end - begin));
    return Done{};
}

/// Checks that the claims, sorted by their place, cover the data exactly.
Status check_cover(const std::vector<Claim>& claims, std::uint64_t data_bytes) {
    std::uint64_t covered = 0;
    for (const Claim& claim : claims) {
        const std::uint64_t begin = claim.offsets[0];
        if (begin != covered)
            return fail(Fault::corrupt_file,
                        "tensor " + in_quotes(claim.name) + ": data_offsets begin at " +
                            std::to_string(begin) +
                            (begin < covered ? ", inside the tensor before it, which ends at "
                                             : ", behind a hole: the tensor before it ends at ") +
                            std::to_string(covered));
        covered = claim.offsets[1];
    }
    if (covered != data_bytes)
        return fail(Fault::corrupt_file,
                    std::to_string(data_bytes - covered) + " bytes follow the last tensor");
    return Done{};
}

}  // namespace

Result<std::vector<TensorEntry>> read_safetensors(Bytes file) {
    const std::string_view header = TRY(header_of(file));
    HeaderReader reader;
    if (!nlohmann::json::sax_parse(header, &reader)) return fail(std::move(*reader.error));

    std::vector<Claim>& claims = reader.claims;
    const Bytes data = file.subspan(length_bytes + header.size());
    for (const Claim& claim : claims) TRY(check_size(claim, data.size()));
    std::ranges::sort(claims, {}, [](const Claim& claim) { return std::tie(claim.offsets, claim.name); });
    TRY(check_cover(claims, data.size()));

    std::vector<TensorEntry> tensors;
    tensors.reserve(claims.size());
    for (Claim& claim : claims) {
        const Bytes bytes = data.subspan(claim.offsets[0], claim.offsets[1] - claim.offsets[0]);
        tensors.push_back(
            {std::move(claim.name), claim.type, std::move(claim.shape), bytes, Stored::plainly});
    }
    return tensors;
}

}  // namespace kapitsa
