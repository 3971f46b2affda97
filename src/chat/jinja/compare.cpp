// Python's == and <. Provenance does not count: text is equal when its characters are.
#include <cmath>
#include <compare>

#include "chat/jinja/callable.h"
#include "chat/jinja/value.h"

namespace kapitsa::jinja {

namespace {

bool is_number(const Value& value) {
    return value.is<bool>() || value.is<std::int64_t>() || value.is<double>() || value.is<BigInteger>();
}

double big_as_real(const BigInteger& big) { return std::strtod(big.digits->c_str(), nullptr); }

/// An int64 and a double, compared exactly: a double cannot hold every int64.
std::partial_ordering order_mixed(std::int64_t left, double right) {
    if (std::isnan(right)) return std::partial_ordering::unordered;
    if (right >= 9223372036854775808.0) return std::partial_ordering::less;
    if (right < -9223372036854775808.0) return std::partial_ordering::greater;
    const auto whole = static_cast<std::int64_t>(right);
    if (left != whole) return left <=> whole;
    return static_cast<double>(whole) <=> right;
}

std::partial_ordering order_big(const BigInteger& left, const Value& right) {
    if (const auto* other = right.as<BigInteger>()) {
        const std::string &a = *left.digits, &b = *other->digits;
        const bool below = a.front() == '-', other_below = b.front() == '-';
        if (below != other_below) return below ? std::partial_ordering::less : std::partial_ordering::greater;
        const auto size = a.size() != b.size() ? a.size() <=> b.size() : a <=> b;
        return below ? 0 <=> size : size;
    }
    if (const auto* real = right.as<double>()) return big_as_real(left) <=> *real;
    return left.digits->front() == '-' ? std::partial_ordering::less : std::partial_ordering::greater;
}

std::partial_ordering order_numbers(const Value& left, const Value& right) {
    if (const auto* big = left.as<BigInteger>()) return order_big(*big, right);
    if (const auto* big = right.as<BigInteger>()) return 0 <=> order_big(*big, left);
    std::int64_t left_room, right_room;
    const auto *i = integer_of(left, left_room), *j = integer_of(right, right_room);
    if (i && j) return *i <=> *j;
    if (i) return order_mixed(*i, *right.as<double>());
    if (j) return 0 <=> order_mixed(*j, *left.as<double>());
    return *left.as<double>() <=> *right.as<double>();
}

Result<bool> equal_items(Budget& budget, const std::vector<Value>& left, const std::vector<Value>& right) {
    if (left.size() != right.size()) return false;
    for (std::size_t i = 0; i < left.size(); ++i)
        if (!TRY(equals(budget, left[i], right[i]))) return false;
    return true;
}

Result<const Value*> look_up(Budget& budget, const Dict& dict, const Value& key) {
    if (const Text* text = key.text()) {
        TRY(budget.step(1 + (dict.index.empty() ? dict.items.size() / 4 : 0)));
        return dict.find(text->view());
    }
    for (const auto& [name, value] : dict.items)
        if (TRY(equals(budget, name, key))) return &value;
    return nullptr;
}

Result<bool> equal_dicts(Budget& budget, const Dict& left, const Dict& right) {
    if (left.items.size() != right.items.size()) return false;
    for (const auto& [key, value] : left.items) {
        const Value* other = TRY(look_up(budget, right, key));
        if (!other || !TRY(equals(budget, value, *other))) return false;
    }
    return true;
}

}  // namespace

Result<bool> equals(Budget& budget, const Value& left, const Value& right) {
    TRY(budget.step());
    if (is_number(left) && is_number(right)) return order_numbers(left, right) == 0;
    if (left.any().index() != right.any().index()) return false;
    if (const Text* text = left.text()) {
        TRY(budget.step(text->bytes() / 256));
        return text->view() == right.text()->view();
    }
    if (const Sequence* sequence = left.sequence()) {
        const Sequence& other = *right.sequence();
        if (sequence == &other) return true;
        if (sequence->flavor != other.flavor || sequence->flavor == Sequence::Flavor::iterator) return false;
        if (sequence->flavor == Sequence::Flavor::view && sequence->name != other.name) return false;
        return equal_items(budget, sequence->items, other.items);
    }
    if (const Dict* dict = left.dict()) return equal_dicts(budget, *dict, *right.dict());
    if (const auto* space = left.as<Namespace*>()) return *space == *right.as<Namespace*>();
    if (const auto* callable = left.as<std::shared_ptr<const Callable>>())
        return *callable == *right.as<std::shared_ptr<const Callable>>();
    if (const auto* loop = left.as<std::shared_ptr<Loop>>())
        return *loop == *right.as<std::shared_ptr<Loop>>();
    return true;  // both are undefined, or both none
}

Result<bool> less(Budget& budget, const Value& left, const Value& right) {
    TRY(budget.step());
    for (const Value* side : {&left, &right})
        if (const auto* missing = side->as<Undefined>()) return undefined_error(*missing);
    if (is_number(left) && is_number(right)) return order_numbers(left, right) < 0;
    if (left.text() && right.text()) {
        TRY(budget.step(left.text()->bytes() / 256));
        return left.text()->view() < right.text()->view();  // UTF-8 orders as its code points do
    }
    const Sequence *a = left.sequence(), *b = right.sequence();
    if (a && b && a->flavor == b->flavor &&
        (a->flavor == Sequence::Flavor::list || a->flavor == Sequence::Flavor::tuple)) {
        for (std::size_t i = 0; i < a->items.size() && i < b->items.size(); ++i)
            if (!TRY(equals(budget, a->items[i], b->items[i]))) return less(budget, a->items[i], b->items[i]);
        return a->items.size() < b->items.size();
    }
    return type_error("'<' not supported between instances of '" + std::string(type_name(left)) + "' and '" +
                      std::string(type_name(right)) + "'");
}

}  // namespace kapitsa::jinja
