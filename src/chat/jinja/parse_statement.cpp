// Statements: the tags of a template.
#include "chat/jinja/parser.h"

namespace kapitsa::jinja {

namespace {

using Names = std::initializer_list<std::string_view>;

class StatementParser : ExpressionParser {
public:
    explicit StatementParser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

    Result<Block> run() {
        Block block = TRY(body({}));
        if (current().kind != Token::Kind::end) return unexpected_token();
        return block;
    }

private:
    using S = Statement;

    std::unique_ptr<S> statement(S::Kind kind) const {
        auto made = std::make_unique<S>();
        made->kind = kind;
        made->line = current().line;
        return made;
    }

    bool at_name_of(Names names) const {
        for (const std::string_view name : names)
            if (is_name(name)) return true;
        return false;
    }

    Status end_tag() {
        if (current().kind != Token::Kind::block_end) return unexpected_token();
        advance();
        return Done{};
    }

    /// Statements up to a tag of one of `ends`, whose name is then current; or to the end, if `ends` is
    /// empty.
    Result<Block> body(Names ends) {
        const Level level(level_);
        TRY(check_level());
        Block block;
        while (current().kind != Token::Kind::end) {
            if (current().kind == Token::Kind::text) {
                auto made = statement(S::Kind::text);
                made->text = Text::control(current().value);
                block.push_back(std::move(made));
                advance();
            } else if (current().kind == Token::Kind::output_begin) {
                block.push_back(TRY(output()));
            } else if (current().kind == Token::Kind::block_begin) {
                advance();
                if (at_name_of(ends)) return block;
                block.push_back(TRY(tag()));
            } else {
                return unexpected_token();
            }
        }
        if (ends.size() > 0)
            return error("the template ends where '" + std::string(*(ends.end() - 1)) + "' should come");
        return block;
    }

    /// The rest of a tag's own line, its body, and the end tag. What the body prints goes elsewhere, so a
    /// loop outside of it cannot be left from within.
    Result<Block> body_to(std::string_view end) {
        TRY(end_tag());
        const unsigned loops = std::exchange(loops_, 0u);
        Block block = TRY(body({end}));
        loops_ = loops;
        advance();
        TRY(end_tag());
        return block;
    }

    Result<std::unique_ptr<S>> output() {
        auto made = statement(S::Kind::output);
        advance();
        made->expression = TRY(tuple());
        if (current().kind != Token::Kind::output_end) return unexpected_token();
        advance();
        return made;
    }

    Result<std::unique_ptr<S>> tag() {
        using Parse = Result<std::unique_ptr<S>> (StatementParser::*)();
        static constexpr std::pair<std::string_view, Parse> tags[] = {
            {"if", &StatementParser::conditional},  {"for", &StatementParser::loop},
            {"set", &StatementParser::set},         {"macro", &StatementParser::macro},
            {"call", &StatementParser::call_block}, {"filter", &StatementParser::filter_block},
            {"with", &StatementParser::with},       {"generation", &StatementParser::generation},
            {"break", &StatementParser::leave},     {"continue", &StatementParser::leave}};
        for (const auto& [name, parse] : tags) {
            if (!is_name(name)) continue;
            return (this->*parse)();
        }
        if (current().kind == Token::Kind::name)
            return error("the tag '" + current().value + "' is not supported here");
        return unexpected_token();
    }

    Result<std::unique_ptr<S>> conditional() {
        auto made = statement(S::Kind::conditional);
        do {
            advance();  // `if` or `elif`
            auto condition = TRY(tuple(false));
            TRY(end_tag());
            made->branches.emplace_back(std::move(condition), TRY(body({"elif", "else", "endif"})));
        } while (is_name("elif"));
        if (skip_name("else")) {
            TRY(end_tag());
            made->otherwise = TRY(body({"endif"}));
        }
        advance();
        TRY(end_tag());
        return made;
    }

    Result<std::unique_ptr<S>> loop() {
        auto made = statement(S::Kind::loop);
        advance();
        made->target = TRY(target(false));
        if (!skip_name("in")) return unexpected_token();
        made->expression = TRY(tuple(false));
        if (skip_name("if")) made->condition = TRY(expression());
        if (is_name("recursive")) return error("recursive loops are not supported");
        TRY(end_tag());
        ++loops_;
        made->body = TRY(body({"else", "endfor"}));
        --loops_;
        if (skip_name("else")) {
            TRY(end_tag());
            made->otherwise = TRY(body({"endfor"}));
        }
        advance();
        TRY(end_tag());
        return made;
    }

    Result<std::unique_ptr<S>> set() {
        auto made = statement(S::Kind::set);
        advance();
        made->target = TRY(target(true));
        if (skip_symbol("=")) {
            made->expression = TRY(tuple());
            TRY(end_tag());
            return made;
        }
        made->kind = S::Kind::set_block;
        made->expression = TRY(filter_chain(false));
        made->body = TRY(body_to("endset"));
        return made;
    }

    Status parameters(S& of) {
        TRY(expect_symbol("("));
        while (!is_symbol(")")) {
            if (!of.parameters.empty()) TRY(expect_symbol(","));
            if (is_symbol(")")) break;
            S::Parameter parameter{TRY(expect_name())};
            if (skip_symbol("="))
                parameter.fallback = TRY(expression());
            else if (!of.parameters.empty() && of.parameters.back().fallback)
                return error("a parameter without a default follows one that has it");
            of.parameters.push_back(std::move(parameter));
        }
        advance();
        return Done{};
    }

    Status macro_body(S& of, std::string_view end) {
        const Special outside = std::exchange(special_, {});
        of.body = TRY(body_to(end));
        of.takes_varargs = special_.varargs;
        of.takes_kwargs = special_.kwargs;
        of.takes_caller = special_.caller;
        special_ = outside;
        return Done{};
    }

    Result<std::unique_ptr<S>> macro() {
        auto made = statement(S::Kind::macro);
        advance();
        made->name = TRY(expect_name());
        TRY(parameters(*made));
        TRY(macro_body(*made, "endmacro"));
        return made;
    }

    Result<std::unique_ptr<S>> call_block() {
        auto made = statement(S::Kind::call_block);
        made->name = "caller";
        advance();
        if (is_symbol("(")) TRY(parameters(*made));
        auto called = TRY(expression());
        if (called->kind != Expression::Kind::call) return error("`call` needs a call");
        made->expression = std::move(called);
        TRY(macro_body(*made, "endcall"));
        return made;
    }

    Result<std::unique_ptr<S>> filter_block() {
        auto made = statement(S::Kind::filter_block);
        advance();
        made->expression = TRY(filter_chain(true));
        made->body = TRY(body_to("endfilter"));
        return made;
    }

    Result<std::unique_ptr<S>> with() {
        auto made = statement(S::Kind::with);
        advance();
        while (current().kind != Token::Kind::block_end) {
            if (!made->assignments.empty()) TRY(expect_symbol(","));
            Target name{TRY(expect_name())};
            TRY(expect_symbol("="));
            made->assignments.emplace_back(std::move(name), TRY(expression()));
        }
        TRY(end_tag());
        made->body = TRY(body({"endwith"}));
        advance();
        TRY(end_tag());
        return made;
    }

    Result<std::unique_ptr<S>> generation() {
        auto made = statement(S::Kind::scoped);
        advance();
        made->body = TRY(body_to("endgeneration"));
        return made;
    }

    Result<std::unique_ptr<S>> leave() {
        if (loops_ == 0) return error("'" + current().value + "' outside of a loop");
        auto made = statement(is_name("break") ? S::Kind::leave : S::Kind::next);
        advance();
        TRY(end_tag());
        return made;
    }

    unsigned loops_ = 0;
};

constexpr std::size_t template_bytes_limit = 4u << 20;

}  // namespace

Result<Block> parse_template(std::string_view source) {
    if (source.size() > template_bytes_limit)
        return fail(Fault::invalid_input, "the chat template is larger than 4 MiB");
    return StatementParser(TRY(tokenize(source))).run();
}

}  // namespace kapitsa::jinja
