// The tests of `x is ...`.
#include <algorithm>

#include "chat/jinja/machine.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/print.h"

namespace kapitsa::jinja {

namespace {

using Op = Expression::Operator;

template <bool (*holds)(const Value&)>
Result<bool> simple(Machine&, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return holds(self);
}

bool is_defined(const Value& value) { return !value.undefined(); }
bool is_undefined(const Value& value) { return value.undefined(); }
bool is_none(const Value& value) { return value.none(); }
bool is_boolean(const Value& value) { return value.is<bool>(); }
bool is_true(const Value& value) { return value.is<bool>() && *value.as<bool>(); }
bool is_false(const Value& value) { return value.is<bool>() && !*value.as<bool>(); }
bool is_integer(const Value& value) { return value.is<std::int64_t>() || value.is<BigInteger>(); }
bool is_float(const Value& value) { return value.is<double>(); }
bool is_number(const Value& value) { return is_integer(value) || is_float(value) || is_boolean(value); }
bool is_string(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.dict() != nullptr; }
bool is_iterable(const Value& value) {
    return value.text() || value.sequence() || value.dict() || value.undefined() ||
           value.is<std::shared_ptr<Loop>>();
}
bool is_sequence(const Value& value) {
    const Sequence* sequence = value.sequence();
    if (sequence)
        return sequence->flavor != Sequence::Flavor::view && sequence->flavor != Sequence::Flavor::iterator;
    return value.text() || value.dict() || value.undefined();
}
bool is_callable(const Value& value) {
    return value.is<std::shared_ptr<const Callable>>() || value.undefined() ||
           value.is<std::shared_ptr<Loop>>();
}
bool is_escaped(const Value& value) { return value.text() && value.text()->safe; }

template <Op op>
Result<bool> compared(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [other] = TRY(bind<1>(arguments, {"other"}, 1));
    return compare(machine.budget(), op, self, *other);
}

Result<bool> same_as(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [other] = TRY(bind<1>(arguments, {"other"}, 1));
    if (self.any().index() != other->any().index()) return false;
    if (self.sequence()) return self.sequence() == other->sequence();
    if (self.dict()) return self.dict() == other->dict();
    return equals(machine.budget(), self, *other);
}

Result<bool> remainder_is(Machine& machine, const Value& self, const Value& divisor, std::int64_t wanted) {
    const Value rest = TRY(apply(machine.budget(), Op::modulo, self, divisor));
    return equals(machine.budget(), rest, wanted);
}
Result<bool> odd(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return remainder_is(machine, self, std::int64_t{2}, 1);
}
Result<bool> even(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return remainder_is(machine, self, std::int64_t{2}, 0);
}
Result<bool> divisible(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [by] = TRY(bind<1>(arguments, {"num"}, 1));
    return remainder_is(machine, self, *by, 0);
}

template <bool upper>
Result<bool> in_case(Machine& machine, const Value& self, const Arguments& arguments) {
    const Text text = TRY(to_text(machine.budget(), self));
    const Value answer = TRY(find_text_method(upper ? "isupper" : "islower")(machine, text, arguments));
    return truth(answer);
}

Result<bool> is_filter(Machine&, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return self.text() && find_filter(self.text()->view());
}
Result<bool> is_test(Machine&, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return self.text() && find_test(self.text()->view());
}

constexpr NamedTest tests[] = {{"defined", simple<is_defined>},
                               {"undefined", simple<is_undefined>},
                               {"none", simple<is_none>},
                               {"boolean", simple<is_boolean>},
                               {"true", simple<is_true>},
                               {"false", simple<is_false>},
                               {"integer", simple<is_integer>},
                               {"float", simple<is_float>},
                               {"number", simple<is_number>},
                               {"string", simple<is_string>},
                               {"mapping", simple<is_mapping>},
                               {"iterable", simple<is_iterable>},
                               {"sequence", simple<is_sequence>},
                               {"callable", simple<is_callable>},
                               {"escaped", simple<is_escaped>},
                               {"sameas", same_as},
                               {"odd", odd},
                               {"even", even},
                               {"divisibleby", divisible},
                               {"upper", in_case<true>},
                               {"lower", in_case<false>},
                               {"filter", is_filter},
                               {"test", is_test},
                               {"in", compared<Op::in>},
                               {"==", compared<Op::equal>},
                               {"eq", compared<Op::equal>},
                               {"equalto", compared<Op::equal>},
                               {"!=", compared<Op::unequal>},
                               {"ne", compared<Op::unequal>},
                               {">", compared<Op::greater>},
                               {"gt", compared<Op::greater>},
                               {"greaterthan", compared<Op::greater>},
                               {">=", compared<Op::greater_equal>},
                               {"ge", compared<Op::greater_equal>},
                               {"<", compared<Op::less>},
                               {"lt", compared<Op::less>},
                               {"lessthan", compared<Op::less>},
                               {"<=", compared<Op::less_equal>},
                               {"le", compared<Op::less_equal>}};

}  // namespace

Test find_test(std::string_view name) {
    const auto* test = std::ranges::find(tests, name, &NamedTest::name);
    return test == std::end(tests) ? nullptr : test->test;
}

}  // namespace kapitsa::jinja
