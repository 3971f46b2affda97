// Statements, and what is around them: scopes, loops, macros.
#include <algorithm>
#include <optional>

#include "chat/jinja/machine.h"
#include "chat/jinja/print.h"

namespace kapitsa::jinja {

/// Counts nested evaluations; each costs stack.
class Machine::Deeper {
public:
    explicit Deeper(Machine& machine) : depth_(machine.depth_) { ++depth_; }
    ~Deeper() { --depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

private:
    unsigned& depth_;
};

namespace {

std::shared_ptr<Scope> scope_in(const std::shared_ptr<Scope>& outer) {
    auto scope = std::make_shared<Scope>();
    scope->outer = outer;
    return scope;
}

/// When a loop ends it lets go of what it remembered: a loop may have remembered itself.
struct LoopEnd {
    Loop& loop;
    ~LoopEnd() {
        loop.finished = true;
        loop.changed.clear();
    }
};

}  // namespace

Result<MarkedText> Machine::render(const Block& block) {
    auto flow = run(block, std::make_shared<Scope>());
    if (flow) return std::move(out_);
    if (raised_ || flow.error().fault != Fault::invalid_input) return fail(std::move(flow.error()));
    return fail(std::move(flow.error()).because("chat template, line " + std::to_string(line_)));
}

Result<Machine::Flow> Machine::run(const Block& block, const ScopePtr& scope) {
    const Deeper deeper(*this);
    if (depth_ > budget_.limits().depth) return type_error("the template nests too deep");
    for (const auto& statement : block) {
        TRY(budget_.step());
        line_ = statement->line;
        const Flow flow = TRY(run(*statement, scope));
        if (flow != Flow::on) return flow;
    }
    return Flow::on;
}

Result<Machine::Flow> Machine::run(const Statement& statement, const ScopePtr& scope) {
    using Kind = Statement::Kind;
    switch (statement.kind) {
        case Kind::text: TRY(output(statement.text)); break;
        case Kind::output: TRY(output(TRY(evaluate(*statement.expression, scope)))); break;
        case Kind::conditional: return run_conditional(statement, scope);
        case Kind::loop: return run_loop(statement, scope);
        case Kind::set:
        case Kind::set_block:
        case Kind::filter_block: TRY(run_set(statement, scope)); break;
        case Kind::with: return run_with(statement, scope);
        case Kind::macro: scope->set(statement.name, TRY(make_macro(statement, scope))); break;
        case Kind::call_block: TRY(run_call_block(statement, scope)); break;
        case Kind::scoped: return run(statement.body, scope_in(scope));
        case Kind::leave: return Flow::leave;
        case Kind::next: return Flow::next;
    }
    return Flow::on;
}

Result<Machine::Flow> Machine::run_conditional(const Statement& statement, const ScopePtr& scope) {
    for (const auto& [condition, block] : statement.branches)
        if (truth(TRY(evaluate(*condition, scope)))) return run(block, scope);
    return run(statement.otherwise, scope);
}

Result<std::shared_ptr<const Sequence>> Machine::loop_items(const Statement& statement,
                                                            const ScopePtr& scope) {
    auto items = TRY(iterate(budget_, TRY(evaluate(*statement.expression, scope))));
    if (!statement.condition) return items;
    std::vector<Value> kept;
    const ScopePtr inner = scope_in(scope);
    for (const Value& item : items->items) {
        TRY(budget_.step());
        TRY(assign(statement.target, item, inner));
        if (truth(TRY(evaluate(*statement.condition, inner)))) kept.push_back(item);
    }
    const Value made = TRY(make_list(budget_, std::move(kept)));
    return *made.as<std::shared_ptr<const Sequence>>();
}

Result<Machine::Flow> Machine::run_loop(const Statement& statement, const ScopePtr& scope) {
    const auto items = TRY(loop_items(statement, scope));
    if (items->items.empty()) return run(statement.otherwise, scope_in(scope));
    if (items->depth >= value_depth_limit) return type_error("a value nests too deep");
    ++loops_;
    auto status = run_iterations(statement, scope, std::make_shared<Loop>(Loop{items, 0, loops_}));
    --loops_;
    TRY(std::move(status));
    return Flow::on;
}

Status Machine::run_iterations(const Statement& statement, const ScopePtr& scope,
                               const std::shared_ptr<Loop>& loop) {
    const LoopEnd end{*loop};
    ScopePtr inner;
    for (; loop->at < loop->items->items.size(); ++loop->at) {
        TRY(budget_.step(4));  // about what an iteration costs, in nodes
        if (inner.use_count() == 1)
            inner->names.clear();
        else
            inner = scope_in(scope);
        inner->set("loop", loop);
        TRY(assign(statement.target, loop->items->items[loop->at], inner));
        if (TRY(run(statement.body, inner)) == Flow::leave) break;
    }
    return Done{};
}

Result<Machine::Flow> Machine::run_with(const Statement& statement, const ScopePtr& scope) {
    const ScopePtr inner = scope_in(scope);
    for (const auto& [target, expression] : statement.assignments)
        TRY(assign(target, TRY(evaluate(*expression, scope)), inner));
    return run(statement.body, inner);
}

Result<Text> Machine::capture(const Block& block, const ScopePtr& scope) {
    MarkedText outside = std::exchange(out_, {});
    const auto flow = run(block, scope);
    Text captured(std::exchange(out_, std::move(outside)));
    if (!flow) return std::unexpected(flow.error());
    return captured;
}

/// `set x = ...`, `set x ... endset`, `filter ... endfilter`.
Status Machine::run_set(const Statement& statement, const ScopePtr& scope) {
    if (statement.kind == Statement::Kind::set)
        return assign(statement.target, TRY(evaluate(*statement.expression, scope)), scope);
    Value made = TRY(capture(statement.body, scope_in(scope)));
    if (statement.expression) {
        Value outside = std::exchange(filtered_, std::move(made));
        auto filtered = evaluate(*statement.expression, scope);
        filtered_ = std::move(outside);
        made = TRY(std::move(filtered));
    }
    if (statement.kind == Statement::Kind::filter_block) return output(made);
    return assign(statement.target, made, scope);
}

Status Machine::output(const Value& value) {
    const Text text = TRY(to_text(budget_, value));
    TRY(budget_.take(text.bytes()));
    if (out_.text.size() + text.bytes() > budget_.limits().output_bytes)
        return type_error("the template prints too much");
    text.append_to(out_);
    return Done{};
}

Status Machine::assign(const Target& target, const Value& value, const ScopePtr& scope) {
    if (!target.several.empty()) {
        const auto items = TRY(iterate(budget_, value));
        if (items->items.size() != target.several.size())
            return type_error(std::to_string(items->items.size()) + " values cannot be assigned to " +
                              std::to_string(target.several.size()) + " names");
        for (std::size_t i = 0; i < target.several.size(); ++i)
            TRY(assign(target.several[i], items->items[i], scope));
        return Done{};
    }
    if (target.attribute.empty()) {
        scope->set(target.name, value);
        return Done{};
    }
    const Value* held = nullptr;
    for (const Scope* at = scope.get(); at && !held; at = at->outer.get()) held = at->find(target.name);
    const auto* space = held ? held->as<Namespace*>() : nullptr;
    if (!space) return type_error("cannot assign attribute on non-namespace object '" + target.name + "'");
    auto& items = (*space)->items;
    const auto place =
        std::ranges::find(items, target.attribute, [](const auto& item) { return item.first; });
    if (place != items.end()) {
        place->second = value;
    } else {
        TRY(budget_.take(sizeof(Value) + target.attribute.size()));
        items.emplace_back(target.attribute, value);
    }
    return Done{};
}

Result<Value> Machine::make_macro(const Statement& statement, const ScopePtr& scope) {
    if (captured_.empty() || captured_.back() != scope) {
        TRY(budget_.take(sizeof(Scope)));
        captured_.push_back(scope);
    }
    return std::make_shared<const Callable>(Callable{statement.name, nullptr, {}, &statement, scope.get()});
}

Status Machine::bind_macro(const Callable& macro, const Arguments& arguments, const ScopePtr& scope) {
    const Statement& of = *macro.macro;
    Arguments rest = arguments;
    const auto take_named = [&](std::string_view name) -> std::optional<Value> {
        const auto found = std::ranges::find(rest.named, name,
                                             [](const auto& item) -> std::string_view { return item.first; });
        if (found == rest.named.end()) return std::nullopt;
        Value value = std::move(found->second);
        rest.named.erase(found);
        return value;
    };
    if (of.takes_caller)
        scope->set("caller", take_named("caller").value_or(undefined_value("No caller defined")));
    for (std::size_t i = 0; i < of.parameters.size(); ++i) {
        const auto& [name, fallback] = of.parameters[i];
        Value value = undefined_value("parameter '" + name + "' was not provided");
        if (i < rest.positional.size())
            value = rest.positional[i];
        else if (auto given = take_named(name))
            value = std::move(*given);
        else if (fallback)
            value = TRY(evaluate(*fallback, scope));
        scope->set(name, std::move(value));
    }
    const std::size_t taken = std::min(of.parameters.size(), rest.positional.size());
    rest.positional.erase(rest.positional.begin(),
                          rest.positional.begin() + static_cast<std::ptrdiff_t>(taken));
    if (!rest.positional.empty() && !of.takes_varargs)
        return type_error("macro '" + of.name + "' takes not more than " +
                          std::to_string(of.parameters.size()) + " arguments");
    if (!rest.named.empty() && !of.takes_kwargs)
        return type_error("macro '" + of.name + "' takes no argument '" + rest.named.front().first + "'");
    if (of.takes_varargs) scope->set("varargs", TRY(make_tuple(budget_, std::move(rest.positional))));
    if (of.takes_kwargs) {
        std::vector<std::pair<Value, Value>> items;
        for (auto& [name, value] : rest.named) items.emplace_back(control_text(name), std::move(value));
        scope->set("kwargs", TRY(make_dict(budget_, std::move(items))));
    }
    return Done{};
}

Result<Value> Machine::call_macro(const Callable& macro, const Arguments& arguments) {
    const ScopePtr scope = scope_in(macro.scope->shared_from_this());
    TRY(bind_macro(macro, arguments, scope));
    const unsigned loops = std::exchange(loops_, 0u);
    auto text = capture(macro.macro->body, scope);
    loops_ = loops;
    return Value(TRY(std::move(text)));
}

Status Machine::run_call_block(const Statement& statement, const ScopePtr& scope) {
    const Expression& call_expression = *statement.expression;
    const Value callee = TRY(evaluate(*call_expression.parts[0], scope));
    Arguments arguments;
    TRY(evaluate_arguments(call_expression, scope, arguments));
    arguments.named.emplace_back("caller", TRY(make_macro(statement, scope)));
    return output(TRY(call(callee, arguments)));
}

}  // namespace kapitsa::jinja
