// One rendering: walks the nodes of a template within a budget. Made anew for each; never shared.
#pragma once

#include <ctime>
#include <deque>
#include <map>

#include "chat/jinja/ast.h"

namespace kapitsa::jinja {

using Variables = std::map<std::string, Value, std::less<>>;

/// Names and their values, inward to outward. Kept alive by what runs in it, or by the machine once a macro
/// was defined in it.
struct Scope : std::enable_shared_from_this<Scope> {
    std::shared_ptr<Scope> outer = {};
    std::vector<std::pair<std::string_view, Value>> names = {};

    const Value* find(std::string_view name) const {
        for (const auto& [known, value] : names)
            if (known == name) return &value;
        return nullptr;
    }
    void set(std::string_view name, Value value) {
        for (auto& [known, held] : names)
            if (known == name) {
                held = std::move(value);
                return;
            }
        names.emplace_back(name, std::move(value));
    }
};

class Machine {
public:
    Machine(const Variables& variables, Budget& budget, std::time_t now)
        : budget_(budget), variables_(variables), now_(now) {}
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    Result<MarkedText> render(const Block& block);

    Budget& budget() { return budget_; }
    std::time_t now() const { return now_; }
    /// The template itself gives up: its words go to the client as they are.
    void raised() { raised_ = true; }
    Namespace* make_namespace() { return &namespaces_.emplace_back(); }
    Result<Value> call(const Value& callee, const Arguments& arguments);
    /// jinja2's two ways to look inside a value: `x.name` asks for the attribute first, `x['name']` for the
    /// item.
    Result<Value> attribute(const Value& of, std::string_view name);
    Result<Value> item(const Value& of, const Value& key);

private:
    enum class Flow { on, leave, next };
    using ScopePtr = std::shared_ptr<Scope>;
    class Deeper;

    Result<Flow> run(const Block& block, const ScopePtr& scope);
    Result<Flow> run(const Statement& statement, const ScopePtr& scope);
    Result<Flow> run_conditional(const Statement& statement, const ScopePtr& scope);
    Result<Flow> run_loop(const Statement& statement, const ScopePtr& scope);
    Result<Flow> run_with(const Statement& statement, const ScopePtr& scope);
    Status run_iterations(const Statement& statement, const ScopePtr& scope,
                          const std::shared_ptr<Loop>& loop);
    Result<std::shared_ptr<const Sequence>> loop_items(const Statement& statement, const ScopePtr& scope);
    Status run_set(const Statement& statement, const ScopePtr& scope);
    Status run_call_block(const Statement& statement, const ScopePtr& scope);
    Status output(const Value& value);
    /// What a block prints, instead of printing it.
    Result<Text> capture(const Block& block, const ScopePtr& scope);
    Status assign(const Target& target, const Value& value, const ScopePtr& scope);
    Result<Value> make_macro(const Statement& statement, const ScopePtr& scope);
    Result<Value> call_macro(const Callable& macro, const Arguments& arguments);
    Status bind_macro(const Callable& macro, const Arguments& arguments, const ScopePtr& scope);

    Result<Value> evaluate(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_kind(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_name(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_items(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_dict(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_unary(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_binary(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_concat(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_logic(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_compare(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_conditional(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_item(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_slice(const Expression& of, const Expression& slice, const ScopePtr& scope);
    Result<Value> evaluate_call(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_filter(const Expression& expression, const ScopePtr& scope);
    Result<Value> evaluate_test(const Expression& expression, const ScopePtr& scope);
    Status evaluate_arguments(const Expression& expression, const ScopePtr& scope, Arguments& to);

    Budget& budget_;
    const Variables& variables_;
    std::time_t now_;
    MarkedText out_;
    unsigned depth_ = 0;
    unsigned loops_ = 0;
    unsigned line_ = 0;  // of what is being evaluated
    bool raised_ = false;
    Value filtered_;  // what a filter chain of a block works on
    std::deque<Namespace> namespaces_;
    std::vector<ScopePtr> captured_;  // scopes that macros look into
};

}  // namespace kapitsa::jinja
