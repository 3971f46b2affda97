// Any bytes as a JSON document. What is accepted must come back the same after it was written and read again.
#include "base/json.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kapitsa;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    constexpr JsonLimits limits = {.bytes = 1u << 16, .depth = 32, .members = 64};
    const auto json = parse_json(text, limits);
    if (!json) {
        CHECK(!json.error().message.empty());
        return 0;
    }
    CHECK(size <= limits.bytes && is_utf8(text));
    const std::string written = dump_json(*json);
    const auto again = parse_json(written, {.bytes = 8 * limits.bytes, .depth = 32, .members = 64});
    CHECK(again.has_value());
    CHECK(dump_json(*again) == written);
    return 0;
}
