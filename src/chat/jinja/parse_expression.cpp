// Expressions, loosest binding first: if, or, and, not, comparisons, + -, ~, * / // %, **, signs, then
// subscripts and calls, then filters and tests.
#include <algorithm>
#include <charconv>

#include "chat/jinja/parser.h"

namespace kapitsa::jinja {

std::unexpected<Error> ExpressionParser::error(std::string what) const {
    return fail(Fault::invalid_input,
                "chat template, line " + std::to_string(current().line) + ": " + std::move(what));
}

std::unexpected<Error> ExpressionParser::unexpected_token() const {
    switch (current().kind) {
        case Token::Kind::end: return error("the template ends too early");
        case Token::Kind::block_end:
        case Token::Kind::output_end: return error("the tag ends too early");
        case Token::Kind::text: return error("unexpected text");
        default: return error("unexpected '" + current().value.substr(0, 40) + "'");
    }
}

bool ExpressionParser::skip_symbol(std::string_view symbol) {
    if (!is_symbol(symbol)) return false;
    advance();
    return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
    if (!is_name(name)) return false;
    advance();
    return true;
}

Status ExpressionParser::expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) return unexpected_token();
    return Done{};
}

Result<std::string> ExpressionParser::expect_name() {
    if (current().kind != Token::Kind::name) return unexpected_token();
    std::string name = current().value;
    advance();
    return name;
}

Status ExpressionParser::check_level() const {
    if (level_ > syntax_depth_limit) return error("it nests too deep");
    return Done{};
}

std::unique_ptr<Expression> ExpressionParser::node(E::Kind kind) const {
    auto made = std::make_unique<Expression>();
    made->kind = kind;
    made->line = current().line;
    return made;
}

/// Sets the depth from the children, and refuses what would cost too much stack to walk.
ExpressionParser::Made ExpressionParser::finish(std::unique_ptr<Expression> made) const {
    const auto deepen = [&](const ExpressionPtr& part) {
        if (part) made->depth = std::max(made->depth, part->depth + 1);
    };
    for (const auto& part : made->parts) deepen(part);
    for (const auto& part : made->positional) deepen(part);
    for (const auto& [name, part] : made->named) deepen(part);
    deepen(made->more_positional);
    deepen(made->more_named);
    if (made->depth > syntax_depth_limit) return error("it nests too deep");
    return made;
}

ExpressionParser::Made ExpressionParser::combine(E::Kind kind, std::unique_ptr<Expression> left,
                                                 std::unique_ptr<Expression> right, E::Operator op) const {
    auto made = node(kind);
    made->line = left->line;
    made->op = op;
    made->parts.push_back(std::move(left));
    if (right) made->parts.push_back(std::move(right));
    return finish(std::move(made));
}

ExpressionParser::Made ExpressionParser::expression(bool with_conditional) {
    const Level level(level_);
    TRY(check_level());
    return with_conditional ? conditional() : logic_or();
}

ExpressionParser::Made ExpressionParser::conditional() {
    auto made = TRY(logic_or());
    while (skip_name("if")) {
        auto outer = node(E::Kind::conditional);
        outer->parts.push_back(std::move(made));
        outer->parts.push_back(TRY(logic_or()));
        outer->parts.push_back(skip_name("else") ? TRY(expression()) : nullptr);
        made = TRY(finish(std::move(outer)));
    }
    return made;
}

ExpressionParser::Made ExpressionParser::logic_or() {
    auto left = TRY(logic_and());
    while (skip_name("or")) left = TRY(combine(E::Kind::logic_or, std::move(left), TRY(logic_and())));
    return left;
}

ExpressionParser::Made ExpressionParser::logic_and() {
    auto left = TRY(logic_not());
    while (skip_name("and")) left = TRY(combine(E::Kind::logic_and, std::move(left), TRY(logic_not())));
    return left;
}

ExpressionParser::Made ExpressionParser::logic_not() {
    const Level level(level_);
    TRY(check_level());
    if (skip_name("not")) return combine(E::Kind::logic_not, TRY(logic_not()), nullptr);
    return comparison();
}

ExpressionParser::Made ExpressionParser::comparison() {
    using Row = std::pair<std::string_view, E::Operator>;
    static constexpr Row rows[] = {{"==", E::Operator::equal},  {"!=", E::Operator::unequal},
                                   {"<", E::Operator::less},    {"<=", E::Operator::less_equal},
                                   {">", E::Operator::greater}, {">=", E::Operator::greater_equal}};
    auto first = TRY(sum());
    auto made = node(E::Kind::compare);
    made->parts.push_back(std::move(first));
    while (true) {
        const auto* row = std::ranges::find_if(rows, [&](const Row& r) { return is_symbol(r.first); });
        if (row != std::end(rows)) {
            advance();
            made->operators.push_back(row->second);
        } else if (skip_name("in")) {
            made->operators.push_back(E::Operator::in);
        } else if (is_name("not") && after().kind == Token::Kind::name && after().value == "in") {
            advance();
            advance();
            made->operators.push_back(E::Operator::not_in);
        } else {
            break;
        }
        made->parts.push_back(TRY(sum()));
    }
    if (made->operators.empty()) {
        // The only part is what was read.
        return std::unique_ptr<Expression>(const_cast<Expression*>(made->parts.front().release()));
    }
    return finish(std::move(made));
}

ExpressionParser::Made ExpressionParser::sum() {
    auto left = TRY(concatenation());
    while (is_symbol("+") || is_symbol("-")) {
        const auto op = is_symbol("+") ? E::Operator::add : E::Operator::subtract;
        advance();
        left = TRY(combine(E::Kind::binary, std::move(left), TRY(concatenation()), op));
    }
    return left;
}

ExpressionParser::Made ExpressionParser::concatenation() {
    auto first = TRY(product());
    if (!is_symbol("~")) return first;
    auto made = node(E::Kind::concat);
    made->parts.push_back(std::move(first));
    while (skip_symbol("~")) made->parts.push_back(TRY(product()));
    return finish(std::move(made));
}

ExpressionParser::Made ExpressionParser::product() {
    using Row = std::pair<std::string_view, E::Operator>;
    static constexpr Row rows[] = {{"*", E::Operator::multiply},
                                   {"/", E::Operator::divide},
                                   {"//", E::Operator::floor_divide},
                                   {"%", E::Operator::modulo}};
    auto left = TRY(power());
    while (true) {
        const auto* row = std::ranges::find_if(rows, [&](const Row& r) { return is_symbol(r.first); });
        if (row == std::end(rows)) return left;
        advance();
        left = TRY(combine(E::Kind::binary, std::move(left), TRY(power()), row->second));
    }
}

ExpressionParser::Made ExpressionParser::power() {
    auto left = TRY(unary(true));
    while (skip_symbol("**"))
        left = TRY(combine(E::Kind::binary, std::move(left), TRY(unary(true)), E::Operator::power));
    return left;
}

ExpressionParser::Made ExpressionParser::unary(bool with_filters) {
    const Level level(level_);
    TRY(check_level());
    std::unique_ptr<Expression> made;
    if (is_symbol("-") || is_symbol("+")) {
        const auto op = is_symbol("-") ? E::Operator::minus : E::Operator::plus;
        advance();
        made = TRY(combine(E::Kind::unary, TRY(unary(false)), nullptr, op));
    } else {
        made = TRY(primary());
    }
    made = TRY(postfix(std::move(made)));
    return with_filters ? filters(std::move(made)) : Made(std::move(made));
}

ExpressionParser::Made ExpressionParser::primary() {
    switch (current().kind) {
        case Token::Kind::string: return strings();
        case Token::Kind::integer:
        case Token::Kind::real: return number();
        case Token::Kind::name: break;
        default:
            if (is_symbol("(")) return brackets();
            if (is_symbol("[")) return list();
            if (is_symbol("{")) return dict();
            return unexpected_token();
    }
    auto made = node(E::Kind::literal);
    const std::string& name = current().value;
    if (name == "true" || name == "True") {
        made->value = true;
    } else if (name == "false" || name == "False") {
        made->value = false;
    } else if (name == "none" || name == "None") {
        made->value = None{};
    } else {
        made->kind = E::Kind::name;
        made->name = name;
        special_.varargs |= name == "varargs";
        special_.kwargs |= name == "kwargs";
        special_.caller |= name == "caller";
    }
    advance();
    return made;
}

ExpressionParser::Made ExpressionParser::strings() {
    auto made = node(E::Kind::literal);
    std::string text;
    while (current().kind == Token::Kind::string) {
        text += current().value;
        advance();
    }
    made->value = control_text(std::move(text));
    return made;
}

ExpressionParser::Made ExpressionParser::number() {
    auto made = node(E::Kind::literal);
    const std::string& digits = current().value;
    if (current().kind == Token::Kind::real) {
        made->value = std::strtod(digits.c_str(), nullptr);
    } else {
        const char form = digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : '\0';
        const int base = form == 'x' ? 16 : form == 'o' ? 8 : form == 'b' ? 2 : 10;
        std::int64_t value = 0;
        const char* begin = digits.data() + (base == 10 ? 0 : 2);
        const auto read = std::from_chars(begin, digits.data() + digits.size(), value, base);
        if (read.ec != std::errc()) return error("a number past 64 bits");
        if (base == 10 && digits[0] == '0' && value != 0) return error("a number with leading zeros");
        made->value = value;
    }
    advance();
    return made;
}

bool ExpressionParser::at_expression_end() const {
    return current().kind == Token::Kind::block_end || current().kind == Token::Kind::output_end ||
           current().kind == Token::Kind::end || is_symbol(")");
}

ExpressionParser::Made ExpressionParser::tuple(bool with_conditional) {
    auto first = TRY(expression(with_conditional));
    if (!is_symbol(",")) return first;
    auto made = node(E::Kind::tuple);
    made->parts.push_back(std::move(first));
    while (skip_symbol(",") && !at_expression_end()) made->parts.push_back(TRY(expression(with_conditional)));
    return finish(std::move(made));
}

ExpressionParser::Made ExpressionParser::brackets() {
    auto empty = node(E::Kind::tuple);
    advance();
    if (skip_symbol(")")) return empty;
    auto made = TRY(tuple());
    TRY(expect_symbol(")"));
    return made;
}

ExpressionParser::Made ExpressionParser::list() {
    auto made = node(E::Kind::list);
    advance();
    while (!is_symbol("]")) {
        if (!made->parts.empty()) TRY(expect_symbol(","));
        if (is_symbol("]")) break;
        made->parts.push_back(TRY(expression()));
    }
    advance();
    return finish(std::move(made));
}

ExpressionParser::Made ExpressionParser::dict() {
    auto made = node(E::Kind::dict);
    advance();
    while (!is_symbol("}")) {
        if (!made->parts.empty()) TRY(expect_symbol(","));
        if (is_symbol("}")) break;
        made->parts.push_back(TRY(expression()));
        TRY(expect_symbol(":"));
        made->parts.push_back(TRY(expression()));
    }
    advance();
    return finish(std::move(made));
}

}  // namespace kapitsa::jinja
