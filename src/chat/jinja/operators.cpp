// Arithmetic, comparison, membership, slices. Integers are 64 bits wide; what would not fit is an error,
// where Python would grow the number.
#include "chat/jinja/operators.h"

#include <cmath>

#include "chat/jinja/print.h"

namespace kapitsa::jinja {

namespace {

using Op = Expression::Operator;

std::unexpected<Error> too_large() { return type_error("an integer past 64 bits"); }
std::unexpected<Error> by_zero() { return type_error("division by zero"); }

const double* real_of(const Value& value, double& room) {
    if (const auto* real = value.as<double>()) return real;
    std::int64_t integer_room;
    const auto* integer = integer_of(value, integer_room);
    if (!integer) return nullptr;
    room = static_cast<double>(*integer);
    return &room;
}

Result<Value> integer_power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0) {
        if (base == 0) return by_zero();
        return std::pow(static_cast<double>(base), static_cast<double>(exponent));
    }
    std::int64_t power = 1;
    if (base >= -1 && base <= 1)
        return base == -1 && exponent % 2 == 0 ? std::int64_t{1} : exponent == 0 ? std::int64_t{1} : base;
    for (; exponent > 0; --exponent)
        if (__builtin_mul_overflow(power, base, &power)) return too_large();
    return power;
}

Result<Value> integers(Op op, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    const auto checked = [&](bool overflows) -> Result<Value> {
        if (overflows) return too_large();
        return result;
    };
    switch (op) {
        case Op::add: return checked(__builtin_add_overflow(a, b, &result));
        case Op::subtract: return checked(__builtin_sub_overflow(a, b, &result));
        case Op::multiply: return checked(__builtin_mul_overflow(a, b, &result));
        case Op::power: return integer_power(a, b);
        default: break;
    }
    if (b == 0) return by_zero();
    if (op == Op::divide) return static_cast<double>(a) / static_cast<double>(b);
    if (b == -1) {
        if (op == Op::modulo) return std::int64_t{0};
        return checked(__builtin_sub_overflow(std::int64_t{0}, a, &result));
    }
    const std::int64_t rest = a % b, quotient = a / b;
    const bool downwards = rest != 0 && (rest < 0) != (b < 0);
    if (op == Op::modulo) return downwards ? rest + b : rest;
    return downwards ? quotient - 1 : quotient;
}

double floor_modulo(double a, double b) {
    double rest = std::fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
    return rest == 0 ? std::copysign(0.0, b) : rest;
}

Result<Value> reals(Op op, double a, double b) {
    switch (op) {
        case Op::add: return a + b;
        case Op::subtract: return a - b;
        case Op::multiply: return a * b;
        case Op::power:
            if (a == 0 && b < 0) return by_zero();
            if (a < 0 && b != std::floor(b)) return type_error("a complex number");
            return std::pow(a, b);
        default: break;
    }
    if (b == 0) return by_zero();
    if (op == Op::divide) return a / b;
    if (op == Op::modulo) return floor_modulo(a, b);
    return std::floor((a - floor_modulo(a, b)) / b + 0.5);
}

std::unexpected<Error> unsupported(Op op, const Value& left, const Value& right) {
    static constexpr const char* signs[] = {"+", "-", "*", "/", "//", "%", "**"};
    return type_error(std::string("unsupported operand types for ") + signs[static_cast<int>(op)] + ": '" +
                      std::string(type_name(left)) + "' and '" + std::string(type_name(right)) + "'");
}

bool joinable(const Sequence* sequence) {
    return sequence &&
           (sequence->flavor == Sequence::Flavor::list || sequence->flavor == Sequence::Flavor::tuple);
}

Result<Value> repeat_items(Budget& budget, const Sequence& sequence, std::int64_t times) {
    const std::size_t count = times > 0 && !sequence.items.empty() ? static_cast<std::size_t>(times) : 0;
    if (count > budget.limits().bytes / sizeof(Value)) return type_error("the template uses too much memory");
    TRY(budget.take(count * sequence.items.size() * sizeof(Value)));
    std::vector<Value> items;
    for (std::size_t i = 0; i < count; ++i)
        items.insert(items.end(), sequence.items.begin(), sequence.items.end());
    return make_sequence(budget, sequence.flavor, std::move(items));
}

/// Sequences and texts; an error where no operator fits.
Result<Value> apply_to_sequences(Budget& budget, Op op, const Value& left, const Value& right) {
    const Text *a = left.text(), *b = right.text();
    const Sequence *s = left.sequence(), *t = right.sequence();
    if (op == Op::add) {
        if (a && b) return add_texts(budget, *a, *b);
        if (joinable(s) && joinable(t) && s->flavor == t->flavor) {
            TRY(budget.take((s->items.size() + t->items.size()) * sizeof(Value)));
            std::vector<Value> items = s->items;
            items.insert(items.end(), t->items.begin(), t->items.end());
            return make_sequence(budget, s->flavor, std::move(items), {}, s->plain && t->plain);
        }
    }
    if (op == Op::multiply) {
        std::int64_t room;
        const auto* times = integer_of(a || s ? right : left, room);
        const Value& repeated = a || s ? left : right;
        if (times && repeated.text()) return Value(TRY(repeat(budget, *repeated.text(), *times)));
        if (times && joinable(repeated.sequence())) return repeat_items(budget, *repeated.sequence(), *times);
    }
    return unsupported(op, left, right);
}

}  // namespace

Result<Value> add_texts(Budget& budget, const Text& left, const Text& right) {
    if (left.safe != right.safe) {
        const Text escaped = TRY(escape_html(budget, left.safe ? right : left));
        return left.safe ? add_texts(budget, left, escaped) : add_texts(budget, escaped, right);
    }
    if (left.empty()) return right;
    if (right.empty()) return left;
    Writer out(budget);
    TRY(out.put(left));
    TRY(out.put(right));
    Text sum = out.finish();
    sum.safe = left.safe;
    return sum;
}

Result<Text> repeat(Budget& budget, const Text& text, std::int64_t times) {
    if (times <= 0 || text.empty()) return Text();
    if (static_cast<std::uint64_t>(times) > budget.limits().output_bytes / text.bytes())
        return type_error("the template uses too much memory");
    TRY(budget.step(static_cast<std::uint64_t>(times) / 8));
    Writer out(budget);
    for (std::int64_t i = 0; i < times; ++i) TRY(out.put(text));
    Text made = out.finish();
    made.safe = text.safe;
    return made;
}

Result<Value> apply(Budget& budget, Op op, const Value& left, const Value& right) {
    if (op == Op::modulo && left.text()) return format_percent(budget, *left.text(), right);
    for (const Value* side : {&left, &right})
        if (const auto* missing = side->as<Undefined>()) return undefined_error(*missing);
    std::int64_t a_room, b_room;
    const auto *a = integer_of(left, a_room), *b = integer_of(right, b_room);
    if (a && b) return integers(op, *a, *b);
    double x_room, y_room;
    const auto *x = real_of(left, x_room), *y = real_of(right, y_room);
    if (x && y) return reals(op, *x, *y);
    return apply_to_sequences(budget, op, left, right);
}

Result<Value> apply_sign(Op op, const Value& value) {
    if (const auto* missing = value.as<Undefined>()) return undefined_error(*missing);
    std::int64_t room;
    if (const auto* integer = integer_of(value, room)) {
        if (op == Op::plus) return *integer;
        return integers(Op::subtract, 0, *integer);
    }
    if (const auto* real = value.as<double>()) return op == Op::minus ? -*real : *real;
    return type_error("bad operand type for a sign: '" + std::string(type_name(value)) + "'");
}

Result<bool> contains(Budget& budget, const Value& haystack, const Value& needle) {
    if (const Text* text = haystack.text()) {
        if (needle.undefined()) return undefined_error(*needle.as<Undefined>());
        if (!needle.text())
            return type_error("'in <string>' requires string as left operand, not " +
                              std::string(type_name(needle)));
        TRY(budget.step(1 + text->bytes() / 128));
        return text->view().find(needle.text()->view()) != std::string_view::npos;
    }
    if (const Dict* dict = haystack.dict()) {
        if (const Text* key = needle.text()) {
            TRY(budget.step(1 + (dict->index.empty() ? dict->items.size() / 4 : 0)));
            return dict->find(key->view()) != nullptr;
        }
        if (needle.dict() || (needle.sequence() && needle.sequence()->flavor != Sequence::Flavor::tuple))
            return type_error("unhashable type: '" + std::string(type_name(needle)) + "'");
    }
    const auto items = TRY(iterate(budget, haystack));
    for (const Value& item : items->items)
        if (TRY(equals(budget, item, needle))) return true;
    return false;
}

Result<bool> compare(Budget& budget, Op op, const Value& left, const Value& right) {
    switch (op) {
        case Op::equal: return equals(budget, left, right);
        case Op::unequal: return !TRY(equals(budget, left, right));
        case Op::less: return less(budget, left, right);
        case Op::greater: return less(budget, right, left);
        // Not the opposite of the other order: with NaN neither holds.
        case Op::less_equal: return TRY(less(budget, left, right)) || TRY(equals(budget, left, right));
        case Op::greater_equal: return TRY(less(budget, right, left)) || TRY(equals(budget, left, right));
        case Op::in: return contains(budget, right, left);
        case Op::not_in: return !TRY(contains(budget, right, left));
        default: return false;
    }
}

namespace {

struct Bounds {
    std::int64_t begin, step;
    std::size_t count;
};

/// As Python's slice.indices().
Result<Bounds> bounds_of(std::int64_t length, const Value* begin, const Value* end, const Value* step) {
    const auto read = [](const Value* value, std::int64_t otherwise) -> Result<std::int64_t> {
        if (!value) return otherwise;
        if (const auto* missing = value->as<Undefined>()) return undefined_error(*missing);
        std::int64_t room;
        const auto* integer = integer_of(*value, room);
        if (!integer) return type_error("slice indices must be integers or None");
        return *integer;
    };
    const std::int64_t by = TRY(read(step, 1));
    if (by == 0) return type_error("slice step cannot be zero");
    const std::int64_t least = by < 0 ? -1 : 0, most = by < 0 ? length - 1 : length;
    const auto clamp = [&](std::int64_t at) {
        if (at < 0) at += length;
        return at < least ? least : at > most ? most : at;
    };
    const std::int64_t from = begin ? clamp(TRY(read(begin, 0))) : by < 0 ? most : 0;
    const std::int64_t to = end ? clamp(TRY(read(end, 0))) : by < 0 ? -1 : length;
    const std::int64_t span = by < 0 ? from - to : to - from;
    if (span <= 0) return Bounds{from, by, 0};
    // A step past the length visits one element; kept small, it cannot overflow.
    const std::int64_t stride = by < -length ? -length : by > length ? length : by;
    const std::int64_t size = stride < 0 ? -stride : stride;
    return Bounds{from, stride, static_cast<std::size_t>((span + size - 1) / size)};
}

Result<Value> slice_text(Budget& budget, const Text& text, const Bounds& bounds) {
    TRY(budget.step(1 + (text.ascii() ? 0 : text.bytes() / 64)));
    const auto from = static_cast<std::size_t>(bounds.begin);
    if (bounds.count == 0) return Text();
    if (bounds.step == 1) {
        const std::size_t begin = text.byte_of(from);
        const Text rest = text.slice(begin, text.bytes());
        return rest.slice(0, rest.byte_of(bounds.count));
    }
    const auto characters = TRY(iterate(budget, text));
    Writer out(budget);
    for (std::size_t i = 0; i < bounds.count; ++i)
        TRY(out.put(
            *characters
                 ->items[static_cast<std::size_t>(bounds.begin + static_cast<std::int64_t>(i) * bounds.step)]
                 .text()));
    Text made = out.finish();
    made.safe = text.safe;
    return made;
}

}  // namespace

Result<Value> slice(Budget& budget, const Value& of, const Value* begin, const Value* end,
                    const Value* step) {
    if (const auto* missing = of.as<Undefined>()) return undefined_error(*missing);
    if (const Text* text = of.text()) {
        const auto length = static_cast<std::int64_t>(text->characters());
        return slice_text(budget, *text, TRY(bounds_of(length, begin, end, step)));
    }
    const Sequence* sequence = of.sequence();
    if (!sequence || sequence->flavor == Sequence::Flavor::view ||
        sequence->flavor == Sequence::Flavor::iterator)
        return undefined_value("'" + std::string(type_name(of)) + "' object cannot be sliced");
    const Bounds bounds = TRY(bounds_of(static_cast<std::int64_t>(sequence->items.size()), begin, end, step));
    TRY(budget.take(bounds.count * sizeof(Value)));
    std::vector<Value> items;
    items.reserve(bounds.count);
    for (std::size_t i = 0; i < bounds.count; ++i)
        items.push_back(
            sequence
                ->items[static_cast<std::size_t>(bounds.begin + static_cast<std::int64_t>(i) * bounds.step)]);
    const bool is_range = sequence->flavor == Sequence::Flavor::range;
    return make_sequence(budget, is_range ? Sequence::Flavor::list : sequence->flavor, std::move(items), {},
                         sequence->plain);
}

}  // namespace kapitsa::jinja
