#include "server/data_url.h"

#include <array>

#include "server/http.h"

namespace kapitsa {
namespace {

constexpr std::string_view scheme = "data:", encoding = ";base64";

constexpr std::array<int, 256> make_digits() {
    std::array<int, 256> digits{};
    digits.fill(-1);
    constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (std::size_t i = 0; i < alphabet.size(); ++i)
        digits[static_cast<unsigned char>(alphabet[i])] = int(i);
    return digits;
}
constexpr auto digits = make_digits();

/// Padding may be left out, as some programs do.
Result<std::string> read_base64(std::string_view text) {
    for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
    if (text.size() % 4 == 1)
        return fail(Fault::invalid_input, "is no base64: it has a digit too many or too few");
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3 + 2);
    std::uint32_t word = 0, bits = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const int digit = digits[static_cast<unsigned char>(text[i])];
        if (digit < 0)
            return fail(Fault::invalid_input,
                        "is no base64: byte " + std::to_string(i) + " of it is no digit");
        word = word << 6 | std::uint32_t(digit);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        bytes.push_back(char(word >> bits & 0xff));
    }
    return bytes;
}

}  // namespace

bool is_data_url(std::string_view url) { return same_but_case(url.substr(0, scheme.size()), scheme); }

Result<std::string> read_data_url(std::string_view url, std::size_t bytes_most) {
    const std::size_t comma = url.find(',');
    if (!is_data_url(url) || comma == url.npos)
        return fail(Fault::invalid_input, "must be a data URL: data:image/png;base64,...");
    const std::string_view head = url.substr(0, comma), data = url.substr(comma + 1);
    if (head.size() < encoding.size() || !same_but_case(head.substr(head.size() - encoding.size()), encoding))
        return fail(Fault::invalid_input, "must be in base64: data:image/png;base64,...");
    if (data.size() / 4 * 3 > bytes_most)
        return fail(Fault::invalid_input, "has " + std::to_string(data.size() / 4 * 3) +
                                              " bytes, and at most " + std::to_string(bytes_most) +
                                              " are taken");
    return read_base64(data);
}

}  // namespace kapitsa
