#include "formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_set>

#include "base/utf8.h"
#include "formats/in_quotes.h"

namespace kapitsa {
namespace {

static_assert(std::endian::native == std::endian::little, "the numbers of a file are read as they lie");

// What the format allows, and past it what no model needs.
constexpr std::uint64_t key_bytes_max = 64u << 10, keys_max = 1u << 16, tensors_max = 1u << 16;
constexpr std::uint64_t tensor_name_bytes_max = 63;
constexpr std::uint32_t rank_max = 4;
constexpr std::uint64_t key_bytes_least = 13, tensor_bytes_least = 24;  // of one entry
constexpr std::uint64_t alignment_default = 32, alignment_max = 1u << 20;

std::unexpected<Error> corrupt(std::string what) { return fail(Fault::corrupt_file, std::move(what)); }

/// A cursor that cannot leave its bytes.
class Cursor {
public:
    explicit Cursor(Bytes bytes) : bytes_(bytes) {}

    std::uint64_t at() const { return at_; }
    std::uint64_t left() const { return bytes_.size() - at_; }
    /// From a place before to where the cursor stands.
    Bytes since(std::uint64_t begin) const { return bytes_.subspan(begin, at_ - begin); }

    Result<Bytes> take(std::uint64_t bytes) {
        if (bytes > left())
            return corrupt("the file ends inside it: " + std::to_string(bytes) +
                           " bytes are wanted at byte " + std::to_string(at_) + ", " +
                           std::to_string(left()) + " are left");
        at_ += bytes;
        return bytes_.subspan(at_ - bytes, bytes);
    }
    template <typename T>
    Result<T> number() {
        T value;
        std::memcpy(&value, TRY(take(sizeof value)).data(), sizeof value);
        return value;
    }
    Result<std::string_view> text(std::uint64_t bytes_max = std::numeric_limits<std::uint64_t>::max()) {
        const auto bytes = TRY(number<std::uint64_t>());
        if (bytes > bytes_max)
            return corrupt("a name of " + std::to_string(bytes) + " bytes; at most " +
                           std::to_string(bytes_max) + " are allowed");
        return as_text(TRY(take(bytes)));
    }

private:
    Bytes bytes_;
    std::uint64_t at_ = 0;
};

/// Adds which part of the file was being read.
template <typename T>
Result<T> in(std::string part, Result<T> result) {
    if (!result) return fail(std::move(result.error()).because(std::move(part)));
    return result;
}

/// Bytes of a scalar; 0 for texts and lists, and for a number that is no type.
std::uint32_t scalar_bytes(GgufType type) {
    switch (type) {
        case GgufType::u8:
        case GgufType::i8:
        case GgufType::boolean: return 1;
        case GgufType::u16:
        case GgufType::i16: return 2;
        case GgufType::u32:
        case GgufType::i32:
        case GgufType::f32: return 4;
        case GgufType::u64:
        case GgufType::i64:
        case GgufType::f64: return 8;
        case GgufType::text:
        case GgufType::array: return 0;
    }
    return 0;
}

Status check_flags(Bytes flags) {
    for (const std::byte flag : flags)
        if (std::to_integer<unsigned>(flag) > 1)
            return corrupt("a bool of " + std::to_string(std::to_integer<unsigned>(flag)) +
                           "; it must be 0 or 1");
    return Done{};
}

Result<GgufType> read_type(Cursor& file, const char* what) {
    const auto number = TRY(file.number<std::uint32_t>());
    if (number > std::uint32_t(GgufType::f64))
        return corrupt(std::string(what) + " " + std::to_string(number) + " is none of the format's");
    return GgufType(number);
}

/// The elements of a list, or one value of a type that is none.
Status read_elements(Cursor& file, GgufValue& value) {
    if (value.type != GgufType::text) {
        const std::uint64_t each = scalar_bytes(value.type);
        if (value.count > file.left() / each)
            return corrupt("a list of " + std::to_string(value.count) + " elements is longer than the file");
        value.bytes = TRY(file.take(value.count * each));
        return value.type == GgufType::boolean ? check_flags(value.bytes) : Status(Done{});
    }
    if (!value.is_list) {
        value.bytes = as_bytes(TRY(file.text()));
        return Done{};
    }
    if (value.count > file.left() / 8)
        return corrupt("a list of " + std::to_string(value.count) + " texts is longer than the file");
    const std::uint64_t begin = file.at();
    for (std::uint64_t i = 0; i < value.count; ++i) TRY(file.text());
    value.bytes = file.since(begin);
    return Done{};
}

Status read_value(Cursor& file, GgufValue& value) {
    value.type = TRY(read_type(file, "type"));
    if (value.type == GgufType::array) {
        value.is_list = true;
        value.type = TRY(read_type(file, "a list of type"));
        if (value.type == GgufType::array) return corrupt("a list of lists");
        value.count = TRY(file.number<std::uint64_t>());
    }
    return read_elements(file, value);
}

Result<GgufValue> read_key(Cursor& file, std::uint64_t number) {
    GgufValue value;
    value.key = TRY(in("metadata key " + std::to_string(number), file.text(key_bytes_max)));
    if (value.key.empty() || !is_utf8(value.key))
        return corrupt("metadata key " + std::to_string(number) + " is empty or not UTF-8");
    TRY(in("metadata " + in_quotes(value.key), read_value(file, value)));
    return value;
}

/// A type of tensors, by its number in the file; nothing for numbers that are no type.
struct TensorType {
    std::uint32_t number;
    ElementType type;
};
constexpr TensorType tensor_types[] = {
    {0, ElementType::f32},      {1, ElementType::f16},     {2, ElementType::q4_0},
    {3, ElementType::q4_1},     {6, ElementType::q5_0},    {7, ElementType::q5_1},
    {8, ElementType::q8_0},     {10, ElementType::q2_k},   {11, ElementType::q3_k},
    {12, ElementType::q4_k},    {13, ElementType::q5_k},   {14, ElementType::q6_k},
    {16, ElementType::iq2_xxs}, {17, ElementType::iq2_xs}, {18, ElementType::iq3_xxs},
    {20, ElementType::iq4_nl},  {21, ElementType::iq3_s},  {22, ElementType::iq2_s},
    {23, ElementType::iq4_xs},  {24, ElementType::i8},     {25, ElementType::i16},
    {26, ElementType::i32},     {27, ElementType::i64},    {28, ElementType::f64},
    {30, ElementType::bf16},    {34, ElementType::tq1_0},  {35, ElementType::tq2_0},
    {39, ElementType::mxfp4},   {40, ElementType::nvfp4},  {41, ElementType::q1_0},
    {42, ElementType::q2_0},
};

Result<ElementType> read_tensor_type(Cursor& file) {
    const auto number = TRY(file.number<std::uint32_t>());
    for (const TensorType& known : tensor_types)
        if (known.number == number) return known.type;
    if (number == 19 || number == 29)
        return fail(Fault::unsupported, std::string("its type is ") + (number == 19 ? "IQ1_S" : "IQ1_M") +
                                            ", which is not supported: take a file of 2 bits or more");
    if (number == 9 || number == 15)
        return corrupt("its type " + std::to_string(number) + " is one of activations, not of files");
    if ((number >= 4 && number <= 5) || (number >= 31 && number <= 38))
        return corrupt("its type " + std::to_string(number) + " was removed from the format");
    return corrupt("its type " + std::to_string(number) + " is none of the format's");
}

/// A tensor of the directory, and where its bytes are to begin in the data.
struct Claim {
    TensorEntry entry;
    std::uint64_t offset = 0, bytes = 0;
};

/// The shape, outermost first, unlike the file.
Result<std::vector<std::uint64_t>> read_shape(Cursor& file) {
    const auto rank = TRY(file.number<std::uint32_t>());
    if (rank > rank_max)
        return corrupt("it has " + std::to_string(rank) + " dimensions; at most 4 are allowed");
    std::vector<std::uint64_t> shape(rank);
    for (std::uint32_t i = 0; i < rank; ++i) {
        shape[rank - 1 - i] = TRY(file.number<std::uint64_t>());
        if (shape[rank - 1 - i] == 0) return corrupt("its dimension " + std::to_string(i) + " is 0");
    }
    return shape;
}

/// The bytes that the shape needs.
Result<std::uint64_t> bytes_of(const TensorEntry& entry) {
    const ElementForm form = element_form(entry.type);
    const std::uint64_t columns = entry.shape.empty() ? 1 : entry.shape.back();
    if (columns % form.values != 0)
        return corrupt("its rows of " + std::to_string(columns) + " are no whole number of the " +
                       std::to_string(form.values) + " values of a block of " + form.name);
    std::uint64_t elements = 1;
    constexpr std::uint64_t most = std::uint64_t{1} << 56;  // times a form's bytes, still 64 bits
    for (const std::uint64_t extent : entry.shape) {
        if (extent > most / elements) return corrupt("its dimensions overflow 64 bits");
        elements *= extent;
    }
    return elements / form.values * form.bytes;
}

Status read_tensor(Cursor& file, std::uint64_t alignment, Claim& claim) {
    claim.entry.shape = TRY(read_shape(file));
    claim.entry.type = TRY(read_tensor_type(file));
    claim.bytes = TRY(bytes_of(claim.entry));
    claim.offset = TRY(file.number<std::uint64_t>());
    if (claim.offset % alignment != 0)
        return corrupt("its offset " + std::to_string(claim.offset) + " is no multiple of the alignment " +
                       std::to_string(alignment));
    return Done{};
}

Result<std::vector<Claim>> read_directory(Cursor& file, std::uint64_t count, std::uint64_t alignment) {
    std::vector<Claim> claims;  // grows as they are read: their number is only a claim, too
    std::unordered_set<std::string_view> names;
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto name = TRY(in("tensor " + std::to_string(i), file.text(tensor_name_bytes_max)));
        if (name.empty() || !is_utf8(name))
            return corrupt("the name of tensor " + std::to_string(i) + " is empty or not UTF-8");
        if (!names.insert(name).second) return corrupt("tensor " + in_quotes(name) + " stands twice");
        claims.emplace_back().entry.name = name;
        TRY(in("tensor " + in_quotes(name), read_tensor(file, alignment, claims.back())));
    }
    return claims;
}

Result<std::uint64_t> alignment_of(const Gguf& gguf) {
    const GgufValue* value = gguf.find("general.alignment");
    if (!value) return alignment_default;
    std::uint32_t alignment = 0;
    if (value->type != GgufType::u32 || value->is_list)
        return corrupt("metadata \"general.alignment\" is not a u32");
    std::memcpy(&alignment, value->bytes.data(), sizeof alignment);
    if (!std::has_single_bit(alignment) || alignment > alignment_max)
        return corrupt("metadata \"general.alignment\" is " + std::to_string(alignment) +
                       "; it must be a power of two, at most " + std::to_string(alignment_max));
    return alignment;
}

/// Gives each tensor its bytes, having seen that they lie in the data and touch no other's.
Status place(Gguf& gguf, std::vector<Claim>& claims, Bytes data) {
    std::vector<const Claim*> by_place;
    for (const Claim& claim : claims) by_place.push_back(&claim);
    std::ranges::sort(by_place, {}, &Claim::offset);
    std::uint64_t end = 0;
    for (const Claim* claim : by_place) {
        const std::string where =
            "tensor " + in_quotes(claim->entry.name) + ": its offset " + std::to_string(claim->offset);
        if (claim->offset > data.size() || claim->bytes > data.size() - claim->offset)
            return corrupt(where + " and its " + std::to_string(claim->bytes) +
                           " bytes run past the end of the file, which has " + std::to_string(data.size()) +
                           " bytes of data");
        if (claim->offset < end)
            return corrupt(where + " lies inside the tensor before it, which ends at " + std::to_string(end));
        end = claim->offset + claim->bytes;
    }
    for (Claim& claim : claims) {
        claim.entry.bytes = data.subspan(claim.offset, claim.bytes);
        gguf.tensors.push_back(std::move(claim.entry));
    }
    return Done{};
}

struct Counts {
    std::uint64_t tensors, keys;
};

Result<Counts> read_head(Cursor& file) {
    if (as_text(TRY(file.take(4))) != "GGUF") return corrupt("it does not begin with \"GGUF\"");
    const auto version = TRY(file.number<std::uint32_t>());
    if (version == 0x02000000 || version == 0x03000000)
        return fail(Fault::unsupported, "it was written for big-endian machines");
    if (version == 1) return fail(Fault::unsupported, "its version is 1; versions 2 and 3 are read");
    if (version != 2 && version != 3)
        return fail(Fault::unsupported,
                    "its version is " + std::to_string(version) + "; versions 2 and 3 are read");
    Counts counts{};
    counts.tensors = TRY(file.number<std::uint64_t>());
    counts.keys = TRY(file.number<std::uint64_t>());
    if (counts.tensors > tensors_max || counts.tensors > file.left() / tensor_bytes_least)
        return corrupt("its count of tensors, " + std::to_string(counts.tensors) +
                       ", is more than the file can hold");
    if (counts.keys > keys_max || counts.keys > file.left() / key_bytes_least)
        return corrupt("its count of metadata keys, " + std::to_string(counts.keys) +
                       ", is more than the file can hold");
    return counts;
}

}  // namespace

const GgufValue* Gguf::find(std::string_view key) const {
    const auto found = std::ranges::find(metadata, key, &GgufValue::key);
    return found == metadata.end() ? nullptr : &*found;
}

std::string_view Gguf::text(std::string_view key) const {
    const GgufValue* value = find(key);
    return value && value->type == GgufType::text && !value->is_list ? as_text(value->bytes)
                                                                     : std::string_view();
}

Result<Gguf> read_gguf(Bytes bytes) {
    Cursor file(bytes);
    const Counts counts = TRY(in("the head of the file", read_head(file)));
    Gguf gguf;
    std::unordered_set<std::string_view> keys;
    for (std::uint64_t i = 0; i < counts.keys; ++i) {
        gguf.metadata.push_back(TRY(read_key(file, i)));
        if (!keys.insert(gguf.metadata.back().key).second)
            return corrupt("metadata " + in_quotes(gguf.metadata.back().key) + " stands twice");
    }
    const std::uint64_t alignment = TRY(alignment_of(gguf));
    auto claims = TRY(read_directory(file, counts.tensors, alignment));
    const std::uint64_t begin = (file.at() + alignment - 1) / alignment * alignment;
    TRY(place(gguf, claims, bytes.subspan(std::min<std::uint64_t>(begin, bytes.size()))));
    return gguf;
}

}  // namespace kapitsa
