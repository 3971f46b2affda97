// Expressions.
#include "chat/jinja/machine.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/print.h"

namespace kapitsa::jinja {

Result<Value> Machine::evaluate(const Expression& expression, const ScopePtr& scope) {
    TRY(budget_.step());
    if (depth_ >= budget_.limits().depth) return type_error("the template nests too deep");
    ++depth_;
    auto value = evaluate_kind(expression, scope);
    --depth_;
    return value;
}

Result<Value> Machine::evaluate_kind(const Expression& expression, const ScopePtr& scope) {
    using Kind = Expression::Kind;
    switch (expression.kind) {
        case Kind::literal: return expression.value;
        case Kind::name: return evaluate_name(expression, scope);
        case Kind::list:
        case Kind::tuple: return evaluate_items(expression, scope);
        case Kind::dict: return evaluate_dict(expression, scope);
        case Kind::unary: return evaluate_unary(expression, scope);
        case Kind::binary: return evaluate_binary(expression, scope);
        case Kind::concat: return evaluate_concat(expression, scope);
        case Kind::logic_and:
        case Kind::logic_or:
        case Kind::logic_not: return evaluate_logic(expression, scope);
        case Kind::compare: return evaluate_compare(expression, scope);
        case Kind::conditional: return evaluate_conditional(expression, scope);
        case Kind::attribute:
        case Kind::item: return evaluate_item(expression, scope);
        case Kind::slice: return type_error("a slice outside of brackets");
        case Kind::call: return evaluate_call(expression, scope);
        case Kind::filter: return evaluate_filter(expression, scope);
        case Kind::test: return evaluate_test(expression, scope);
    }
    return Value();
}

Result<Value> Machine::evaluate_name(const Expression& expression, const ScopePtr& scope) {
    for (const Scope* at = scope.get(); at; at = at->outer.get())
        if (const Value* value = at->find(expression.name)) return *value;
    const auto variable = variables_.find(expression.name);
    if (variable != variables_.end()) return variable->second;
    if (const Function function = find_global(expression.name))
        return std::make_shared<const Callable>(Callable{expression.name, function});
    return undefined_value("'" + expression.name + "' is undefined");
}

Result<Value> Machine::evaluate_items(const Expression& expression, const ScopePtr& scope) {
    std::vector<Value> items;
    items.reserve(expression.parts.size());
    for (const auto& part : expression.parts) items.push_back(TRY(evaluate(*part, scope)));
    return expression.kind == Expression::Kind::list ? make_list(budget_, std::move(items))
                                                     : make_tuple(budget_, std::move(items));
}

Result<Value> Machine::evaluate_dict(const Expression& expression, const ScopePtr& scope) {
    DictBuilder dict(budget_);
    for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
        Value key = TRY(evaluate(*expression.parts[i], scope));
        TRY(dict.put(std::move(key), TRY(evaluate(*expression.parts[i + 1], scope))));
    }
    return dict.finish();
}

Result<Value> Machine::evaluate_unary(const Expression& expression, const ScopePtr& scope) {
    return apply_sign(expression.op, TRY(evaluate(*expression.parts[0], scope)));
}

Result<Value> Machine::evaluate_binary(const Expression& expression, const ScopePtr& scope) {
    const Value left = TRY(evaluate(*expression.parts[0], scope));
    const Value right = TRY(evaluate(*expression.parts[1], scope));
    return apply(budget_, expression.op, left, right);
}

Result<Value> Machine::evaluate_concat(const Expression& expression, const ScopePtr& scope) {
    Writer out(budget_);
    for (const auto& part : expression.parts)
        TRY(out.put(TRY(to_text(budget_, TRY(evaluate(*part, scope))))));
    return Value(out.finish());
}

Result<Value> Machine::evaluate_logic(const Expression& expression, const ScopePtr& scope) {
    Value left = TRY(evaluate(*expression.parts[0], scope));
    if (expression.kind == Expression::Kind::logic_not) return Value(!truth(left));
    if (truth(left) == (expression.kind == Expression::Kind::logic_or)) return left;
    return evaluate(*expression.parts[1], scope);
}

Result<Value> Machine::evaluate_compare(const Expression& expression, const ScopePtr& scope) {
    Value left = TRY(evaluate(*expression.parts[0], scope));
    for (std::size_t i = 0; i < expression.operators.size(); ++i) {
        Value right = TRY(evaluate(*expression.parts[i + 1], scope));
        if (!TRY(compare(budget_, expression.operators[i], left, right))) return Value(false);
        left = std::move(right);
    }
    return Value(true);
}

Result<Value> Machine::evaluate_conditional(const Expression& expression, const ScopePtr& scope) {
    if (truth(TRY(evaluate(*expression.parts[1], scope)))) return evaluate(*expression.parts[0], scope);
    if (expression.parts[2]) return evaluate(*expression.parts[2], scope);
    return undefined_value("the inline if-expression evaluated to false and no else section was defined.");
}

Result<Value> Machine::evaluate_item(const Expression& expression, const ScopePtr& scope) {
    if (expression.kind == Expression::Kind::attribute)
        return attribute(TRY(evaluate(*expression.parts[0], scope)), expression.name);
    if (expression.parts[1]->kind == Expression::Kind::slice)
        return evaluate_slice(*expression.parts[0], *expression.parts[1], scope);
    const Value of = TRY(evaluate(*expression.parts[0], scope));
    return item(of, TRY(evaluate(*expression.parts[1], scope)));
}

Result<Value> Machine::evaluate_slice(const Expression& of, const Expression& bounds, const ScopePtr& scope) {
    const Value sliced = TRY(evaluate(of, scope));
    Value values[3];
    const Value* given[3] = {};
    for (std::size_t i = 0; i < 3; ++i) {
        if (!bounds.parts[i]) continue;
        values[i] = TRY(evaluate(*bounds.parts[i], scope));
        if (!values[i].none()) given[i] = &values[i];
    }
    return slice(budget_, sliced, given[0], given[1], given[2]);
}

Status Machine::evaluate_arguments(const Expression& expression, const ScopePtr& scope, Arguments& to) {
    for (const auto& argument : expression.positional)
        to.positional.push_back(TRY(evaluate(*argument, scope)));
    if (expression.more_positional) {
        const auto more = TRY(iterate(budget_, TRY(evaluate(*expression.more_positional, scope))));
        TRY(budget_.take(more->items.size() * sizeof(Value)));
        to.positional.insert(to.positional.end(), more->items.begin(), more->items.end());
    }
    for (const auto& [name, argument] : expression.named) {
        for (const auto& [known, value] : to.named)
            if (known == name) return type_error("the argument '" + name + "' is given twice");
        to.named.emplace_back(name, TRY(evaluate(*argument, scope)));
    }
    if (!expression.more_named) return Done{};
    const Value more = TRY(evaluate(*expression.more_named, scope));
    if (!more.dict()) return type_error("the argument after ** must be a mapping");
    for (const auto& [key, value] : more.dict()->items) {
        if (!key.text()) return type_error("keywords must be strings");
        TRY(budget_.step(1 + to.named.size()));
        for (const auto& [known, held] : to.named)
            if (known == key.text()->view()) return type_error("the argument '" + known + "' is given twice");
        to.named.emplace_back(std::string(key.text()->view()), value);
    }
    return Done{};
}

Result<Value> Machine::evaluate_call(const Expression& expression, const ScopePtr& scope) {
    const Value callee = TRY(evaluate(*expression.parts[0], scope));
    Arguments arguments;
    TRY(evaluate_arguments(expression, scope, arguments));
    line_ = expression.line;
    return call(callee, arguments);
}

Result<Value> Machine::evaluate_filter(const Expression& expression, const ScopePtr& scope) {
    const Value input = expression.parts[0] ? TRY(evaluate(*expression.parts[0], scope)) : filtered_;
    Arguments arguments;
    TRY(evaluate_arguments(expression, scope, arguments));
    line_ = expression.line;
    return expression.filter(*this, input, arguments);
}

Result<Value> Machine::evaluate_test(const Expression& expression, const ScopePtr& scope) {
    const Value subject = TRY(evaluate(*expression.parts[0], scope));
    Arguments arguments;
    TRY(evaluate_arguments(expression, scope, arguments));
    return Value(TRY(expression.test(*this, subject, arguments)));
}

Result<Value> Machine::call(const Value& callee, const Arguments& arguments) {
    if (const auto* missing = callee.as<Undefined>()) return undefined_error(*missing);
    const auto* callable = callee.as<std::shared_ptr<const Callable>>();
    if (!callable) return type_error("'" + std::string(type_name(callee)) + "' object is not callable");
    if ((*callable)->macro) return call_macro(**callable, arguments);
    return (*callable)->function(*this, (*callable)->self, arguments);
}

}  // namespace kapitsa::jinja
