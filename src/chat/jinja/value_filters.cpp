// Filters on single values: numbers, defaults, JSON. And the table of all filters.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "chat/jinja/machine.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/text_work.h"

namespace kapitsa::jinja {

namespace {

Result<Value> otherwise(Machine&, const Value& self, const Arguments& arguments) {
    const auto [fallback, boolean] = TRY(bind<2>(arguments, {"default_value", "boolean"}));
    const bool used = self.undefined() || (boolean && truth(*boolean) && !truth(self));
    if (!used) return self;
    return fallback ? *fallback : control_text("");
}

/// Without underscores between digits, which Python's int() and float() allow.
std::optional<std::string> clean_number(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '_') {
            out += text[i];
            continue;
        }
        const auto alnum = [&](std::size_t at) {
            return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at]));
        };
        if (i == 0 || !alnum(i - 1) || !alnum(i + 1)) return std::nullopt;
    }
    return out;
}

std::optional<Value> parse_integer(std::string_view text, int base) {
    const auto clean = clean_number(drop_space(skip_space(text)));
    if (!clean) return std::nullopt;
    std::string_view digits = *clean;
    const bool negative = digits.starts_with('-');
    if (negative || digits.starts_with('+')) digits.remove_prefix(1);
    const char form = digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : '\0';
    const int named_base = form == 'x' ? 16 : form == 'o' ? 8 : form == 'b' ? 2 : 0;
    if (named_base && (base == named_base || base == 0)) {
        digits.remove_prefix(2);
        base = named_base;
    }
    if (base == 0) base = 10;
    if (digits.empty() || digits.front() == '-') return std::nullopt;
    std::int64_t value = 0;
    const std::string with_sign = (negative ? "-" : "") + std::string(digits);
    const auto read = std::from_chars(with_sign.data(), with_sign.data() + with_sign.size(), value, base);
    if (read.ptr != with_sign.data() + with_sign.size()) return std::nullopt;
    if (read.ec == std::errc()) return Value(value);
    if (base != 10 || with_sign.size() > 4300) return std::nullopt;
    const std::size_t zeros = std::min(digits.find_first_not_of('0'), digits.size() - 1);
    return Value(BigInteger{
        std::make_shared<const std::string>((negative ? "-" : "") + std::string(digits.substr(zeros)))});
}

std::optional<double> parse_real(std::string_view text) {
    const auto clean = clean_number(drop_space(skip_space(text)));
    if (!clean || clean->empty()) return std::nullopt;
    // Only what Python reads: no hexadecimal, no "nan(...)".
    if (clean->find_first_not_of("0123456789+-.eEinfatyINFATY") != std::string::npos) return std::nullopt;
    char* end = nullptr;
    const double value = std::strtod(clean->c_str(), &end);
    if (*end != '\0') return std::nullopt;
    return value;
}

Result<Value> real_to_integer(double real, const Value& fallback) {
    if (std::isnan(real)) return fallback;
    if (std::isinf(real)) return type_error("cannot convert float infinity to integer");
    if (!(std::abs(real) < 9.2e18)) return type_error("an integer past 64 bits");
    return Value(static_cast<std::int64_t>(real));
}

Result<Value> integer(Machine&, const Value& self, const Arguments& arguments) {
    const auto [fallback, base] = TRY(bind<2>(arguments, {"default", "base"}));
    if (const auto* missing = self.as<Undefined>()) return undefined_error(*missing);
    const Value instead = fallback ? *fallback : Value(std::int64_t{0});
    const std::int64_t radix = base ? TRY(expect_integer(*base, "base")) : 10;
    if (radix != 0 && (radix < 2 || radix > 36)) return instead;
    std::int64_t room;
    if (const auto* known = integer_of(self, room)) return Value(*known);
    if (self.is<BigInteger>()) return self;
    if (const auto* real = self.as<double>()) return real_to_integer(*real, instead);
    if (!self.text()) return instead;
    if (auto parsed = parse_integer(self.text()->view(), static_cast<int>(radix))) return std::move(*parsed);
    if (const auto real = parse_real(self.text()->view())) return real_to_integer(*real, instead);
    return instead;
}

Result<Value> real(Machine&, const Value& self, const Arguments& arguments) {
    const auto [fallback] = TRY(bind<1>(arguments, {"default"}));
    if (const auto* missing = self.as<Undefined>()) return undefined_error(*missing);
    std::int64_t room;
    if (self.is<double>()) return self;
    if (const auto* known = integer_of(self, room)) return Value(static_cast<double>(*known));
    if (const auto* big = self.as<BigInteger>()) return Value(std::strtod(big->digits->c_str(), nullptr));
    if (self.text())
        if (const auto parsed = parse_real(self.text()->view())) return Value(*parsed);
    return fallback ? *fallback : Value(0.0);
}

Result<Value> absolute(Machine&, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    if (const auto* value = self.as<double>()) return Value(std::abs(*value));
    const std::int64_t value = TRY(expect_integer(self, "abs's value"));
    if (value < 0) return apply_sign(Expression::Operator::minus, Value(value));
    return Value(value);
}

/// To the even neighbour of what the number really is, as Python's round().
double rounded(double value, std::int64_t digits) {
    if (!std::isfinite(value) || digits > 300) return value;
    if (digits >= 0) {
        char room[700];
        std::snprintf(room, sizeof room, "%.*f", static_cast<int>(digits), value);
        return std::strtod(room, nullptr);
    }
    if (digits < -308) return std::copysign(0.0, value);
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / scale) * scale;
}

Result<Value> round_integer(std::int64_t value, std::int64_t digits) {
    if (digits >= 0) return Value(value);
    if (digits < -18) return Value(std::int64_t{0});
    std::int64_t scale = 1;
    for (std::int64_t i = 0; i > digits; --i) scale *= 10;
    std::int64_t quotient = value / scale;
    const std::int64_t rest = std::abs(value % scale), half = scale / 2;
    if (rest > half || (rest == half && quotient % 2 != 0)) quotient += value < 0 ? -1 : 1;
    return Value(quotient * scale);
}

Result<Value> round(Machine&, const Value& self, const Arguments& arguments) {
    const auto [precision, method] = TRY(bind<2>(arguments, {"precision", "method"}));
    const std::int64_t digits = precision ? TRY(expect_integer(*precision, "precision")) : 0;
    const std::string_view how = method && method->text() ? method->text()->view() : method ? "" : "common";
    if (how != "common" && how != "ceil" && how != "floor")
        return type_error("method must be common, ceil or floor");
    std::int64_t room;
    const auto* whole = integer_of(self, room);
    if (self.undefined()) return undefined_error(*self.as<Undefined>());
    if (!whole && !self.is<double>())
        return type_error("round needs a number, not " + std::string(type_name(self)));
    if (how == "common") {
        if (!whole) return Value(rounded(*self.as<double>(), digits));
        const bool small = std::abs(static_cast<double>(*whole)) < 4e18;
        return small ? round_integer(*whole, digits) : Result<Value>(Value(*whole));
    }
    const double scale = std::pow(10.0, static_cast<double>(std::clamp<std::int64_t>(digits, -300, 300)));
    const double scaled = (whole ? static_cast<double>(*whole) : *self.as<double>()) * scale;
    return Value((how == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result<Value> tojson(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [ascii, indent, separators, sort_keys] =
        TRY(bind<4>(arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
    JsonStyle style;
    style.ascii = ascii && truth(*ascii);
    style.sort_keys = sort_keys && truth(*sort_keys);
    if (indent && !indent->none()) {
        style.broken = true;
        style.item_separator = ",";
        if (indent->text()) {
            style.indent = std::string(indent->text()->view());
        } else {
            const std::int64_t width = TRY(expect_integer(*indent, "indent"));
            if (width > 1000) return type_error("indent is too wide");
            style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(0, width)), ' ');
        }
    }
    if (separators && !separators->none()) {
        const Sequence* pair = separators->sequence();
        if (!pair || pair->items.size() != 2) return type_error("separators must be two strings");
        style.item_separator = std::string(TRY(expect_text(pair->items[0], "a separator")).view());
        style.key_separator = std::string(TRY(expect_text(pair->items[1], "a separator")).view());
    }
    return Value(TRY(to_json(machine.budget(), self, style)));
}

Result<Value> attr(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [name] = TRY(bind<1>(arguments, {"name"}, 1));
    const Text text = TRY(to_text(machine.budget(), *name));
    // Only attributes: the items of a dict are not seen.
    if (self.dict()) {
        const Function method = find_container_method(self, text.view());
        if (!method) return undefined_value("there is no attribute '" + std::string(text.view()) + "'");
    }
    return machine.attribute(self, text.view());
}

constexpr NamedFunction filters[] = {{"default", otherwise}, {"d", otherwise},  {"int", integer},
                                     {"float", real},        {"abs", absolute}, {"round", round},
                                     {"tojson", tojson},     {"attr", attr}};

}  // namespace

std::span<const NamedFunction> value_filters() { return filters; }

Function find_filter(std::string_view name) {
    for (const auto table : {text_filters(), sequence_filters(), selection_filters(), value_filters()}) {
        const auto filter = std::ranges::find(table, name, &NamedFunction::name);
        if (filter != table.end()) return filter->function;
    }
    return nullptr;
}

}  // namespace kapitsa::jinja
