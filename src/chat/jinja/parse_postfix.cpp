// What follows a primary expression: attributes, subscripts, calls, filters, tests; and assignment targets.
#include <algorithm>
#include <charconv>

#include "chat/jinja/parser.h"

namespace kapitsa::jinja {

ExpressionParser::Made ExpressionParser::postfix(std::unique_ptr<Expression> made) {
    while (true) {
        if (is_symbol(".") || is_symbol("["))
            made = TRY(subscript(std::move(made)));
        else if (is_symbol("("))
            made = TRY(call(std::move(made)));
        else
            return made;
    }
}

ExpressionParser::Made ExpressionParser::filters(std::unique_ptr<Expression> made) {
    while (true) {
        if (skip_symbol("|"))
            made = TRY(filter(std::move(made)));
        else if (skip_name("is"))
            made = TRY(test(std::move(made)));
        else if (is_symbol("("))
            made = TRY(call(std::move(made)));
        else
            return made;
    }
}

ExpressionParser::Made ExpressionParser::subscript(std::unique_ptr<Expression> of) {
    if (skip_symbol(".")) {
        if (current().kind == Token::Kind::integer)
            return combine(E::Kind::item, std::move(of), TRY(number()));
        auto made = node(E::Kind::attribute);
        made->name = TRY(expect_name());
        made->parts.push_back(std::move(of));
        return finish(std::move(made));
    }
    advance();
    std::vector<std::unique_ptr<Expression>> indices;
    while (!is_symbol("]")) {
        if (!indices.empty()) TRY(expect_symbol(","));
        indices.push_back(TRY(subscribed()));
    }
    advance();
    if (indices.size() == 1) return combine(E::Kind::item, std::move(of), std::move(indices.front()));
    auto key = node(E::Kind::tuple);
    for (auto& index : indices) key->parts.push_back(std::move(index));
    return combine(E::Kind::item, std::move(of), TRY(finish(std::move(key))));
}

ExpressionParser::Made ExpressionParser::subscribed() {
    auto made = node(E::Kind::slice);
    const auto at_bound = [&] { return !is_symbol(":") && !is_symbol("]") && !is_symbol(","); };
    if (is_symbol(":")) {
        made->parts.push_back(nullptr);
    } else {
        auto only = TRY(expression());
        if (!is_symbol(":")) return only;
        made->parts.push_back(std::move(only));
    }
    advance();
    made->parts.push_back(at_bound() ? TRY(expression()) : nullptr);
    const bool stepped = skip_symbol(":");
    made->parts.push_back(stepped && at_bound() ? TRY(expression()) : nullptr);
    return finish(std::move(made));
}

Status ExpressionParser::argument(Expression& to) {
    const auto invalid = [&] { return error("arguments in an order that a call cannot have"); };
    if (skip_symbol("*")) {
        if (to.more_positional || to.more_named) return invalid();
        to.more_positional = TRY(expression());
    } else if (skip_symbol("**")) {
        if (to.more_named) return invalid();
        to.more_named = TRY(expression());
    } else if (current().kind == Token::Kind::name && after().kind == Token::Kind::symbol &&
               after().value == "=") {
        if (to.more_named) return invalid();
        std::string name = TRY(expect_name());
        advance();
        to.named.emplace_back(std::move(name), TRY(expression()));
    } else {
        if (to.more_positional || to.more_named || !to.named.empty()) return invalid();
        to.positional.push_back(TRY(expression()));
    }
    return Done{};
}

Status ExpressionParser::arguments(Expression& to) {
    TRY(expect_symbol("("));
    bool first = true;
    while (!is_symbol(")")) {
        if (!first) TRY(expect_symbol(","));
        if (is_symbol(")")) break;
        first = false;
        TRY(argument(to));
    }
    advance();
    return Done{};
}

ExpressionParser::Made ExpressionParser::call(std::unique_ptr<Expression> callee) {
    auto made = node(E::Kind::call);
    made->parts.push_back(std::move(callee));
    TRY(arguments(*made));
    return finish(std::move(made));
}

ExpressionParser::Made ExpressionParser::filter(std::unique_ptr<Expression> input) {
    auto made = node(E::Kind::filter);
    made->name = TRY(expect_name());
    while (skip_symbol(".")) made->name += "." + TRY(expect_name());
    made->filter = find_filter(made->name);
    if (!made->filter) return error("there is no filter '" + made->name + "'");
    made->parts.push_back(std::move(input));
    if (is_symbol("(")) TRY(arguments(*made));
    return finish(std::move(made));
}

ExpressionParser::Made ExpressionParser::filter_chain(bool starts_with_name) {
    std::unique_ptr<Expression> made;
    if (starts_with_name) made = TRY(filter(nullptr));
    while (skip_symbol("|")) made = TRY(filter(std::move(made)));
    return made;
}

ExpressionParser::Made ExpressionParser::test(std::unique_ptr<Expression> subject) {
    const bool negated = skip_name("not");
    auto made = node(E::Kind::test);
    made->name = TRY(expect_name());
    while (skip_symbol(".")) made->name += "." + TRY(expect_name());
    made->test = find_test(made->name);
    if (!made->test) return error("there is no test '" + made->name + "'");
    made->parts.push_back(std::move(subject));
    const auto kind = current().kind;
    const bool begins_value = kind == Token::Kind::name || kind == Token::Kind::string ||
                              kind == Token::Kind::integer || kind == Token::Kind::real || is_symbol("[") ||
                              is_symbol("{");
    if (is_symbol("(")) {
        TRY(arguments(*made));
    } else if (begins_value && !is_name("else") && !is_name("or") && !is_name("and")) {
        if (is_name("is")) return error("tests cannot be chained with 'is'");
        made->positional.push_back(TRY(postfix(TRY(primary()))));
    }
    auto done = TRY(finish(std::move(made)));
    if (!negated) return done;
    return combine(E::Kind::logic_not, std::move(done), nullptr);
}

Result<Target> ExpressionParser::target(bool with_namespace) {
    const Level level(level_);
    TRY(check_level());
    const auto one = [&]() -> Result<Target> {
        if (skip_symbol("(")) {
            Target inner = TRY(target(false));
            TRY(expect_symbol(")"));
            return inner;
        }
        Target made;
        made.name = TRY(expect_name());
        static constexpr std::string_view reserved[] = {"true", "True", "false", "False", "none", "None"};
        if (std::ranges::find(reserved, made.name) != std::end(reserved))
            return error("'" + made.name + "' cannot be assigned to");
        if (with_namespace && skip_symbol(".")) made.attribute = TRY(expect_name());
        return made;
    };
    Target first = TRY(one());
    if (!is_symbol(",")) return first;
    Target all;
    all.several.push_back(std::move(first));
    while (skip_symbol(",")) {
        if (is_symbol("=") || is_symbol(")") || is_name("in") || current().kind == Token::Kind::block_end)
            break;
        all.several.push_back(TRY(one()));
    }
    return all;
}

}  // namespace kapitsa::jinja
