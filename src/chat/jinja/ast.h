// A parsed template. Nodes are immutable and shared by all renderings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat/jinja/callable.h"

namespace kapitsa::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Expression {
    enum class Kind {
        literal,      // value
        name,         // name
        list,         // parts
        tuple,        // parts
        dict,         // parts: key, value, key, value, ...
        unary,        // op, parts[0]
        binary,       // op, parts[0], parts[1]
        concat,       // parts
        logic_and,    // parts[0], parts[1]
        logic_or,     // parts[0], parts[1]
        logic_not,    // parts[0]
        compare,      // parts[0], then parts[i + 1] under operators[i]
        conditional,  // parts: then, condition, otherwise (may be null)
        attribute,    // parts[0], name
        item,         // parts[0], parts[1]
        slice,        // parts: begin, end, step, each may be null
        call,         // parts[0], call
        filter,       // parts[0] (null for the text of a block), name, filter, call
        test,         // parts[0], name, test, call
    };
    enum class Operator {
        add,
        subtract,
        multiply,
        divide,
        floor_divide,
        modulo,
        power,
        plus,
        minus,
        equal,
        unequal,
        less,
        less_equal,
        greater,
        greater_equal,
        in,
        not_in
    };

    Kind kind;
    unsigned line = 0;
    unsigned depth = 1;  // levels below, this one included
    Value value = {};
    std::string name = {};
    Operator op = Operator::add;
    std::vector<ExpressionPtr> parts = {};
    std::vector<Operator> operators = {};
    Function filter = nullptr;
    Test test = nullptr;
    // The arguments of a call, a filter or a test.
    std::vector<ExpressionPtr> positional = {};
    std::vector<std::pair<std::string, ExpressionPtr>> named = {};
    ExpressionPtr more_positional = {}, more_named = {};  // *args, **kwargs
};

/// What is assigned to: a name, an attribute of a namespace, or several targets.
struct Target {
    std::string name = {};
    std::string attribute = {};
    std::vector<Target> several = {};
};

struct Statement;
using Block = std::vector<std::unique_ptr<const Statement>>;

struct Statement {
    enum class Kind {
        text,          // text
        output,        // expression
        conditional,   // branches, otherwise
        loop,          // target, expression, condition (may be null), body, otherwise
        set,           // target, expression
        set_block,     // target, expression (a filter chain or null), body
        with,          // assignments, body
        macro,         // name, parameters, body
        call_block,    // expression (a call), parameters, body
        filter_block,  // expression (a filter chain), body
        scoped,        // body: `generation`
        leave,         // break
        next,          // continue
    };
    struct Parameter {
        std::string name;
        ExpressionPtr fallback = {};
    };

    Kind kind;
    unsigned line = 0;
    Text text = {};
    std::string name = {};
    Target target = {};
    ExpressionPtr expression = {}, condition = {};
    std::vector<std::pair<ExpressionPtr, Block>> branches = {};
    std::vector<std::pair<Target, ExpressionPtr>> assignments = {};
    std::vector<Parameter> parameters = {};
    bool takes_varargs = false, takes_kwargs = false, takes_caller = false;
    Block body = {}, otherwise = {};
};

}  // namespace kapitsa::jinja
