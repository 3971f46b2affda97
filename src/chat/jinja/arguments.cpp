// Arguments bound to the names of parameters, as Python does.
#include <algorithm>

#include "chat/jinja/callable.h"
#include "chat/jinja/print.h"

namespace kapitsa::jinja {

Status bind_into(const Arguments& arguments, std::span<const std::string_view> names,
                 std::span<const Value*> bound, std::size_t required) {
    if (arguments.positional.size() > names.size())
        return type_error("takes " + std::to_string(names.size()) + " arguments but " +
                          std::to_string(arguments.positional.size()) + " were given");
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
        const auto place = std::ranges::find(names, name);
        if (place == names.end()) return type_error("got an unexpected argument '" + name + "'");
        const auto at = static_cast<std::size_t>(place - names.begin());
        if (bound[at]) return type_error("got multiple values for argument '" + name + "'");
        bound[at] = &value;
    }
    for (std::size_t i = 0; i < required; ++i)
        if (!bound[i]) return type_error("missing argument '" + std::string(names[i]) + "'");
    return Done{};
}

Result<std::int64_t> expect_integer(const Value& value, std::string_view what) {
    if (const auto* missing = value.as<Undefined>()) return undefined_error(*missing);
    std::int64_t room;
    if (const auto* integer = integer_of(value, room)) return *integer;
    return type_error(std::string(what) + " must be an integer, not " + std::string(type_name(value)));
}

Result<Text> expect_text(const Value& value, std::string_view what) {
    if (const auto* missing = value.as<Undefined>()) return undefined_error(*missing);
    if (value.text()) return *value.text();
    return type_error(std::string(what) + " must be str, not " + std::string(type_name(value)));
}

}  // namespace kapitsa::jinja
