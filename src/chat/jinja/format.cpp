// Python's two ways to format: "%s" % x and "{}".format(x). The texts that go in keep their provenance.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "chat/jinja/characters.h"
#include "chat/jinja/machine.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/print.h"

namespace kapitsa::jinja {

namespace {

struct Spec {
    std::string fill = " ";
    char align = '\0';  // < > ^ =
    char sign = '-';
    bool alternate = false, commas = false;
    std::int64_t width = 0, precision = -1;
    char type = '\0';
};

constexpr std::int64_t width_limit = 1'000'000;

/// Reads a decimal number at `at`, if there is one.
std::optional<std::int64_t> read_number(std::string_view text, std::size_t& at) {
    std::int64_t value = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + text.size(), value);
    if (read.ec != std::errc() || value < 0 || value > width_limit) return std::nullopt;
    at = static_cast<std::size_t>(read.ptr - text.data());
    return value;
}

bool digit_at(std::string_view text, std::size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
}

Result<Text> pad(Budget& budget, const Text& text, const Spec& spec, char otherwise) {
    const auto length = static_cast<std::int64_t>(text.characters());
    const std::int64_t missing = spec.width - length;
    if (missing <= 0) return text;
    const char align = spec.align ? spec.align : otherwise;
    const std::int64_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    Writer out(budget);
    const std::string_view all = text.view();
    // '=' puts the padding between the sign and the digits.
    const std::size_t signs =
        align == '=' && !all.empty() && (all[0] == '-' || all[0] == '+' || all[0] == ' ') ? 1 : 0;
    TRY(out.put(text.slice(0, signs)));
    for (std::int64_t i = 0; i < before; ++i) TRY(out.put(spec.fill, false));
    TRY(out.put(text.slice(signs, text.bytes())));
    for (std::int64_t i = before; i < missing; ++i) TRY(out.put(spec.fill, false));
    return out.finish();
}

std::string with_commas(std::string digits) {
    const std::size_t begin = digits.find_first_of("0123456789");
    std::size_t end = std::min(digits.find_first_not_of("0123456789", begin), digits.size());
    for (; end > begin + 3; end -= 3) digits.insert(end - 3, 1, ',');
    return digits;
}

std::string with_sign(std::string digits, char sign) {
    if (sign != '-' && !digits.starts_with('-')) digits.insert(0, 1, sign);
    return digits;
}

std::string real_digits(double value, const Spec& spec) {
    char form[16], room[512];
    const char type = spec.type == '%' ? 'f' : spec.type ? spec.type : 'g';
    const int precision =
        spec.precision < 0 ? 6 : static_cast<int>(std::min<std::int64_t>(spec.precision, 100));
    std::snprintf(form, sizeof form, spec.alternate ? "%%#.*%c" : "%%.*%c", type);
    std::snprintf(room, sizeof room, form, precision, spec.type == '%' ? value * 100 : value);
    return std::string(room) + (spec.type == '%' ? "%" : "");
}

std::string integer_digits(std::int64_t value, const Spec& spec) {
    const char type = static_cast<char>(spec.type | 0x20);
    const int base = type == 'x' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    char room[72];
    std::string digits(room, std::to_chars(room, room + sizeof room, value, base).ptr);
    if (spec.alternate && base != 10) digits.insert(digits.starts_with('-') ? 1 : 0, {'0', type});
    if (spec.type == 'X')
        for (char& c : digits) c = static_cast<char>(to_upper(static_cast<unsigned char>(c)));
    return digits;
}

Result<Text> format_number(Budget& budget, const Value& value, Spec spec) {
    std::int64_t room;
    const auto* integer = integer_of(value, room);
    const bool as_real = std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos && spec.type;
    std::string digits;
    if (integer && !as_real) {
        if (spec.type && std::string_view("dxXobn").find(spec.type) == std::string_view::npos)
            return type_error("unknown format code for an integer");
        digits = integer_digits(*integer, spec);
    } else {
        const double real = integer ? static_cast<double>(*integer) : *value.as<double>();
        if (spec.type && !as_real) return type_error("unknown format code for a float");
        digits = spec.type || spec.precision >= 0 ? real_digits(real, spec) : real_text(real);
    }
    if (spec.commas) digits = with_commas(std::move(digits));
    return pad(budget, Text::control(with_sign(std::move(digits), spec.sign)), spec, '>');
}

Result<Text> format_value(Budget& budget, const Value& value, const Spec& spec, bool is_default) {
    if (is_default) return to_text(budget, value);
    if (value.is<std::int64_t>() || value.is<double>() || (value.is<bool>() && spec.type && spec.type != 's'))
        return format_number(budget, value, spec);
    if (!value.text())
        return type_error("unsupported format string for '" + std::string(type_name(value)) + "'");
    if (spec.type && spec.type != 's') return type_error("unknown format code for a string");
    Text text = *value.text();
    if (spec.precision >= 0) text = text.slice(0, text.byte_of(static_cast<std::size_t>(spec.precision)));
    return pad(budget, text, spec, '<');
}

Result<Spec> parse_spec(std::string_view text) {
    Spec spec;
    std::size_t at = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    const std::size_t first = text.empty() ? 0 : character_bytes(text, 0);
    if (first > 0 && first < text.size() && is_align(text[first])) {
        spec.fill = std::string(text.substr(0, first));
        spec.align = text[first];
        at = first + 1;
    } else if (!text.empty() && is_align(text[0])) {
        spec.align = text[at++];
    }
    const auto flag = [&](char c) { return at < text.size() && text[at] == c && ++at; };
    for (const char c : {'+', ' ', '-'})
        if (flag(c)) spec.sign = c;
    spec.alternate = flag('#');
    if (flag('0') && !spec.align) {
        spec.fill = "0";
        spec.align = '=';
    }
    if (digit_at(text, at)) {
        const auto width = read_number(text, at);
        if (!width) return type_error("a format is too wide");
        spec.width = *width;
    }
    spec.commas = flag(',');
    if (flag('.')) {
        const auto precision = read_number(text, at);
        if (!precision) return type_error("format specifier missing precision");
        spec.precision = *precision;
    }
    if (at < text.size()) spec.type = text[at++];
    if (at != text.size()) return type_error("invalid format specifier");
    return spec;
}

/// "%...": one conversion, from the place behind the percent sign.
class Percent {
public:
    Percent(Budget& budget, const Text& format, const Value& values)
        : out_(budget), format_(format), values_(values) {
        const Sequence* sequence = values.sequence();
        tuple_ = sequence && sequence->flavor == Sequence::Flavor::tuple ? sequence : nullptr;
    }

    Result<Value> run() {
        const std::string_view all = format_.view();
        std::size_t done = 0;
        for (std::size_t at = all.find('%'); at != all.npos; at = all.find('%', done)) {
            TRY(out_.budget().step());
            TRY(out_.put(format_.slice(done, at)));
            done = at + 1;
            TRY(conversion(all, done));
        }
        TRY(out_.put(format_.slice(done, all.size())));
        const bool unused =
            tuple_ ? used_ < tuple_->items.size() : used_ == 0 && !values_.dict() && !values_.sequence();
        if (unused) return type_error("not all arguments converted during string formatting");
        Text made = out_.finish();
        made.safe = format_.safe;
        return made;
    }

private:
    Result<Value> next() {
        if (tuple_ ? used_ >= tuple_->items.size() : used_ > 0)
            return type_error("not enough arguments for format string");
        return tuple_ ? tuple_->items[used_++] : (++used_, values_);
    }

    Status conversion(std::string_view all, std::size_t& at) {
        std::optional<Value> value;
        if (at < all.size() && all[at] == '(') {
            const std::size_t end = all.find(')', at);
            if (end == all.npos || !values_.dict()) return type_error("format requires a mapping");
            const Value* held = values_.dict()->find(all.substr(at + 1, end - at - 1));
            if (!held) return type_error("a format names a key that is not there");
            value = *held;
            at = end + 1;
        }
        Spec spec;
        for (; at < all.size() && std::string_view("-+ #0").find(all[at]) != std::string_view::npos; ++at) {
            if (all[at] == '-') spec.align = '<';
            if (all[at] == '+' || (all[at] == ' ' && spec.sign != '+')) spec.sign = all[at];
            if (all[at] == '#') spec.alternate = true;
            if (all[at] == '0') spec.fill = "0";
        }
        if (digit_at(all, at)) {
            const auto width = read_number(all, at);
            if (!width) return type_error("a format is too wide");
            spec.width = *width;
        }
        if (at < all.size() && all[at] == '.') {
            ++at;
            spec.precision = digit_at(all, at) ? read_number(all, at).value_or(0) : 0;
        }
        if (at == all.size()) return type_error("incomplete format");
        spec.type = all[at++];
        if (spec.type == '%') return out_.put("%", false);
        if (!value) value = TRY(next());
        return convert(*value, spec);
    }

    Status convert(const Value& value, Spec spec) {
        Budget& budget = out_.budget();
        if (spec.align == '<') spec.fill = " ";
        if (spec.type == 's' || spec.type == 'r') {
            spec.fill = " ";
            Text text = spec.type == 's' ? TRY(to_text(budget, value)) : TRY(repr(value));
            if (format_.safe && !text.safe) text = TRY(escape_html(budget, text));
            if (spec.precision >= 0)
                text = text.slice(0, text.byte_of(static_cast<std::size_t>(spec.precision)));
            return out_.put(TRY(pad(budget, text, spec, '>')));
        }
        if (spec.type == 'c') return out_.put(TRY(character(value)));
        if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
        if (std::string_view("dxXoeEfFgG").find(spec.type) == std::string_view::npos)
            return type_error("unsupported format character");
        if (const auto* missing = value.as<Undefined>()) return undefined_error(*missing);
        if (spec.fill == "0" && !spec.align) spec.align = '=';
        const bool wants_integer = std::string_view("dxXo").find(spec.type) != std::string_view::npos;
        std::int64_t room;
        const bool is_integer = integer_of(value, room) != nullptr;
        if (!is_integer && !value.is<double>()) return type_error("a number is required for a format");
        if (!is_integer && wants_integer) {
            const double real = *value.as<double>();
            if (spec.type != 'd' || !(std::abs(real) < 9e18))
                return type_error("an integer is required for a format");
            return out_.put(TRY(format_number(budget, static_cast<std::int64_t>(real), spec)));
        }
        return out_.put(TRY(format_number(budget, value, spec)));
    }

    Result<Text> repr(const Value& value) {
        Writer out(out_.budget());
        TRY(write_repr(out, value, false));
        return out.finish();
    }

    Result<Text> character(const Value& value) {
        if (value.text() && value.text()->characters() == 1) return *value.text();
        return type_error("%c requires a single character");
    }

    Writer out_;
    const Text& format_;
    const Value& values_;
    const Sequence* tuple_ = nullptr;
    std::size_t used_ = 0;
};

/// "{...}": fields by number, by name, or in their order.
class Braces {
public:
    Braces(Machine& machine, const Text& format, const Arguments& arguments)
        : machine_(machine), out_(machine.budget()), format_(format), arguments_(arguments) {}

    Result<Value> run() {
        const std::string_view all = format_.view();
        std::size_t at = 0;
        while (at < all.size()) {
            const std::size_t brace = std::min(all.find_first_of("{}", at), all.size());
            TRY(out_.put(format_.slice(at, brace)));
            if (brace == all.size()) break;
            TRY(machine_.budget().step());
            if (brace + 1 < all.size() && all[brace + 1] == all[brace]) {
                TRY(out_.put(format_.slice(brace, brace + 1)));
                at = brace + 2;
                continue;
            }
            const std::size_t end = all.find('}', brace);
            if (all[brace] == '}' || end == all.npos) return type_error("a single brace in a format string");
            TRY(field(all.substr(brace + 1, end - brace - 1)));
            at = end + 1;
        }
        return Value(out_.finish());
    }

private:
    Status field(std::string_view text) {
        if (text.find('{') != text.npos) return type_error("nested format fields are not supported");
        const std::size_t colon = std::min(text.find(':'), text.size());
        std::string_view name = text.substr(0, colon);
        const std::string_view spec_text = colon < text.size() ? text.substr(colon + 1) : std::string_view();
        char conversion = '\0';
        if (const std::size_t mark = name.find('!'); mark != name.npos) {
            if (mark + 2 != name.size()) return type_error("invalid conversion in a format string");
            conversion = name[mark + 1];
            name = name.substr(0, mark);
        }
        Value value = TRY(look_up(name));
        if (conversion == 'r') {
            Writer written(machine_.budget());
            TRY(write_repr(written, value, false));
            value = written.finish();
        } else if (conversion == 's') {
            value = TRY(to_text(machine_.budget(), value));
        } else if (conversion) {
            return type_error("invalid conversion in a format string");
        }
        const Spec spec = TRY(parse_spec(spec_text));
        return out_.put(TRY(format_value(machine_.budget(), value, spec, spec_text.empty())));
    }

    Result<Value> look_up(std::string_view path) {
        const std::size_t first_end = std::min(path.find_first_of(".["), path.size());
        Value value = TRY(argument(path.substr(0, first_end)));
        for (std::size_t at = first_end; at < path.size();) {
            const bool is_item = path[at] == '[';
            const std::size_t end =
                is_item ? path.find(']', at) : std::min(path.find_first_of(".[", at + 1), path.size());
            if (end == path.npos) return type_error("a bracket is not closed in a format string");
            const std::string name(path.substr(at + 1, end - at - 1));
            std::size_t digits = 0;
            const auto number = digit_at(name, 0) ? read_number(name, digits) : std::nullopt;
            value = is_item ? TRY(machine_.item(value, number ? Value(*number) : control_text(name)))
                            : TRY(machine_.attribute(value, name));
            at = is_item ? end + 1 : end;
        }
        return value;
    }

    Result<Value> argument(std::string_view name) {
        std::size_t at = 0;
        if (name.empty() || digit_at(name, 0)) {
            const auto place = name.empty() ? std::optional<std::int64_t>(next_++) : read_number(name, at);
            if (!place || static_cast<std::size_t>(*place) >= arguments_.positional.size())
                return type_error("a format field has no argument");
            return arguments_.positional[static_cast<std::size_t>(*place)];
        }
        for (const auto& [known, value] : arguments_.named)
            if (known == name) return value;
        return type_error("a format field has no argument '" + std::string(name) + "'");
    }

    Machine& machine_;
    Writer out_;
    const Text& format_;
    const Arguments& arguments_;
    std::int64_t next_ = 0;
};

}  // namespace

Result<Value> format_percent(Budget& budget, const Text& format, const Value& values) {
    return Percent(budget, format, values).run();
}

Result<Value> format_braces(Machine& machine, const Text& format, const Arguments& arguments) {
    return Braces(machine, format, arguments).run();
}

}  // namespace kapitsa::jinja
