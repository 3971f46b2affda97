// Tokens to statements and expressions, with jinja2's grammar and precedence. Filters and tests are looked up
// here, so that a template that needs one we lack is refused when it is loaded and not when it is used.
#pragma once

#include <string_view>

#include "chat/jinja/ast.h"
#include "chat/jinja/lexer.h"

namespace kapitsa::jinja {

/// Nested deeper than this, a template is refused: parsing and evaluating recurse.
inline constexpr unsigned syntax_depth_limit = 150;

Result<Block> parse_template(std::string_view source);

/// The part of the parser that both kinds of node share, and the expressions.
class ExpressionParser {
public:
    explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

protected:
    using E = Expression;
    using Made = Result<std::unique_ptr<Expression>>;

    const Token& current() const { return tokens_[at_]; }
    const Token& after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    void advance() {
        if (at_ + 1 < tokens_.size()) ++at_;
    }
    bool is_symbol(std::string_view symbol) const {
        return current().kind == Token::Kind::symbol && current().value == symbol;
    }
    bool is_name(std::string_view name) const {
        return current().kind == Token::Kind::name && current().value == name;
    }
    bool skip_symbol(std::string_view symbol);
    bool skip_name(std::string_view name);
    Status expect_symbol(std::string_view symbol);
    Result<std::string> expect_name();
    std::unexpected<Error> error(std::string what) const;
    std::unexpected<Error> unexpected_token() const;

    Made expression(bool with_conditional = true);
    /// An expression, or a tuple of them without brackets.
    Made tuple(bool with_conditional = true);
    Result<Target> target(bool with_namespace);
    /// `|filter|filter` on nothing: the chain of a block.
    Made filter_chain(bool starts_with_name);
    Made call(std::unique_ptr<Expression> callee);
    Made postfix(std::unique_ptr<Expression> node);
    Made primary();

    /// Counts levels while a function that recurses is active.
    struct Level {
        explicit Level(unsigned& counter) : depth(counter) { ++depth; }
        ~Level() { --depth; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;
        unsigned& depth;
    };
    Status check_level() const;
    unsigned level_ = 0;
    /// Names of the macro being parsed that change how it is called.
    struct Special {
        bool varargs = false, kwargs = false, caller = false;
    } special_;

private:
    std::unique_ptr<Expression> node(E::Kind kind) const;
    Made finish(std::unique_ptr<Expression> made) const;
    Made combine(E::Kind kind, std::unique_ptr<Expression> left, std::unique_ptr<Expression> right,
                 E::Operator op = E::Operator::add) const;
    Made conditional();
    Made logic_or();
    Made logic_and();
    Made logic_not();
    Made comparison();
    Made sum();
    Made concatenation();
    Made product();
    Made power();
    Made unary(bool with_filters);
    Made filters(std::unique_ptr<Expression> subject);
    Made filter(std::unique_ptr<Expression> input);
    Made test(std::unique_ptr<Expression> subject);
    Made brackets();
    Made list();
    Made dict();
    Made subscript(std::unique_ptr<Expression> subject);
    Made subscribed();
    Made number();
    Made strings();
    Status arguments(Expression& to);
    Status argument(Expression& to);
    bool at_expression_end() const;

    std::vector<Token> tokens_;
    std::size_t at_ = 0;
};

}  // namespace kapitsa::jinja
