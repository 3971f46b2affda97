#include "model/unknown_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kapitsa {

Status refuse_unknown_fields(const ConfigReader& text, std::span<const std::string_view> known,
                             std::span<const std::string_view> telling) {
    for (const auto& [key, value] : text.json().items()) {
        const bool set = !(value.is_null() || value == false || value == 1 || value.is_object());
        if (!set || std::ranges::find(known, key) != known.end()) continue;
        for (const std::string_view word : telling)
            if (key.find(word) != std::string::npos)
                return fail(Fault::unsupported, text.field(key) +
                                                    " is not known in this family and may change what the "
                                                    "model computes; remove it if it does not");
    }
    return Done{};
}

}  // namespace kapitsa
