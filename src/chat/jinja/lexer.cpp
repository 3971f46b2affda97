// White space between tags follows jinja2: "-" strips it all, "+" keeps it, else a block's own line gives up
// its indentation (lstrip_blocks) and its newline (trim_blocks).
#include "chat/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/jinja/characters.h"
#include "chat/jinja/escapes.h"

namespace kapitsa::jinja {

namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_name_start(char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0;
}

std::string with_plain_newlines(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') {
            out += source[i];
        } else {
            out += '\n';
            if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
        }
    }
    if (out.ends_with('\n')) out.pop_back();
    return out;
}

class Lexer {
public:
    explicit Lexer(std::string source) : source_(std::move(source)), left_(source_) {}

    Result<std::vector<Token>> run() {
        while (!left_.empty()) TRY(root());
        add(Token::Kind::end, {});
        return std::move(tokens_);
    }

private:
    std::unexpected<Error> error(std::string what) const {
        return fail(Fault::invalid_input,
                    "chat template, line " + std::to_string(line_) + ": " + std::move(what));
    }
    void add(Token::Kind kind, std::string value) { tokens_.push_back({kind, line_, std::move(value)}); }
    std::string_view take(std::size_t bytes) {
        const std::string_view taken = left_.substr(0, bytes);
        line_ += static_cast<unsigned>(std::ranges::count(taken, '\n'));
        left_.remove_prefix(bytes);
        return taken;
    }
    bool skip(std::string_view word) {
        if (!left_.starts_with(word)) return false;
        take(word.size());
        return true;
    }
    void skip_white() { take(left_.size() - skip_space(left_).size()); }

    /// Text up to the next tag, then the tag.
    Status root() {
        std::size_t at = 0;
        while (true) {
            at = left_.find('{', at);
            if (at == left_.npos || at + 1 >= left_.size()) {
                add_text(take(left_.size()));
                return Done{};
            }
            const char next = left_[at + 1];
            if (next == '%' || next == '{' || next == '#') break;
            ++at;
        }
        const char opens = left_[at + 1];
        const char sign = at + 2 < left_.size() ? left_[at + 2] : '\0';
        const bool has_sign = sign == '-' || (sign == '+' && opens != '{');
        add_text(strip(left_.substr(0, at), sign, opens));
        take(at);
        const std::size_t tag_bytes = has_sign ? 3 : 2;
        if (opens == '%' && raw_begin_bytes() > 0) return raw();
        take(tag_bytes);
        if (opens == '#') return comment();
        return inside(opens);
    }

    std::string_view strip(std::string_view text, char sign, char opens) const {
        if (sign == '-') return drop_space(text);
        if (opens == '{' || sign == '+') return text;
        const std::size_t line_begin = text.rfind('\n') + 1;  // 0 where there is none
        if (line_begin == 0 && !line_starting_) return text;
        const std::string_view indent = text.substr(line_begin);
        return skip_space(indent).empty() ? text.substr(0, line_begin) : text;
    }

    void add_text(std::string_view text) {
        if (!text.empty()) add(Token::Kind::text, std::string(text));
    }

    /// After a tag's last byte: is the next one the first of a line?
    void ended(std::string_view tag) { line_starting_ = tag.ends_with('\n'); }

    Status comment() {
        const std::size_t end = left_.find("#}");
        if (end == left_.npos) return error("a comment is not closed");
        const char sign = end > 0 ? left_[end - 1] : '\0';
        take(end + 2);
        close('#', sign);
        return Done{};
    }

    /// What follows a closed block or comment: all white space, one newline, or nothing.
    void close(char tag, char sign) {
        line_starting_ = false;
        if (sign == '-') {
            const std::size_t white = left_.size() - skip_space(left_).size();
            const std::string_view taken = take(white);
            if (!taken.empty()) ended(taken);
        } else if (sign != '+' && tag != '}' && left_.starts_with('\n')) {
            take(1);
            line_starting_ = true;
        }
    }

    /// Bytes of `{%- raw -%}` at the front, or 0.
    std::size_t raw_begin_bytes() const {
        std::string_view at = left_.substr(2);
        if (at.starts_with('-') || at.starts_with('+')) at.remove_prefix(1);
        at = skip_space(at);
        if (!at.starts_with("raw")) return 0;
        at = skip_space(at.substr(3));
        if (at.starts_with("-%}")) return left_.size() - skip_space(at.substr(3)).size();
        return at.starts_with("%}") ? left_.size() - at.size() + 2 : 0;
    }

    Status raw() {
        ended(take(raw_begin_bytes()));
        for (std::size_t at = left_.find("{%"); at != left_.npos; at = left_.find("{%", at + 1)) {
            std::string_view tag = left_.substr(at + 2);
            const char sign = tag.empty() ? '\0' : tag.front();
            if (sign == '-' || sign == '+') tag.remove_prefix(1);
            tag = skip_space(tag);
            if (!tag.starts_with("endraw")) continue;
            tag = skip_space(tag.substr(6));
            const char end_sign = tag.starts_with('-') || tag.starts_with('+') ? tag.front() : '\0';
            if (end_sign) tag.remove_prefix(1);
            if (!tag.starts_with("%}")) continue;
            add_text(strip(left_.substr(0, at), sign, '%'));
            take(left_.size() - tag.size() + 2);
            close('%', end_sign);
            return Done{};
        }
        return error("`raw` is not closed");
    }

    Status inside(char opens) {
        const bool block = opens == '%';
        add(block ? Token::Kind::block_begin : Token::Kind::output_begin, {});
        const std::string_view ends = block ? "%}" : "}}";
        std::string brackets;
        while (true) {
            if (brackets.empty()) {
                const char sign = left_.empty() ? '\0' : left_.front();
                const bool signed_end =
                    (sign == '-' || (sign == '+' && block)) && left_.substr(1).starts_with(ends);
                if (signed_end || left_.starts_with(ends)) {
                    add(block ? Token::Kind::block_end : Token::Kind::output_end, {});
                    take(signed_end ? 3 : 2);
                    close(block ? '%' : '}', signed_end ? sign : '\0');
                    return Done{};
                }
            }
            if (left_.empty()) return error("a tag is not closed");
            if (is_space(character_at(left_, 0)))
                skip_white();
            else
                TRY(token(brackets));
        }
    }

    Status token(std::string& brackets) {
        const char c = left_.front();
        if (is_digit(c)) return number();
        if (is_name_start(c)) return name();
        if (c == '"' || c == '\'') return string();
        return symbol(brackets);
    }

    Status name() {
        std::size_t bytes = 0;
        while (bytes < left_.size() && (is_name_start(left_[bytes]) || is_digit(left_[bytes]))) {
            if ((left_[bytes] & 0x80) != 0 && !is_letter(character_at(left_, bytes)))
                return error("a character that no name can have");
            bytes += character_bytes(left_, bytes);
        }
        std::string taken(left_.substr(0, bytes));
        add(Token::Kind::name, std::move(taken));
        take(bytes);
        return Done{};
    }

    Status string() {
        const char quote = left_.front();
        std::size_t end = 1;
        while (end < left_.size() && left_[end] != quote) end += left_[end] == '\\' ? 2 : 1;
        if (end >= left_.size()) return error("a string is not closed");
        auto meaning = unescape(left_.substr(1, end - 1));
        if (!meaning) return error(std::move(meaning.error().message));
        add(Token::Kind::string, std::move(*meaning));
        take(end + 1);
        return Done{};
    }

    /// Digits with single underscores between them; the bytes they take.
    std::size_t digits(std::size_t at, bool (*belongs)(char)) const {
        std::size_t end = at;
        while (end < left_.size() &&
               (belongs(left_[end]) ||
                (left_[end] == '_' && end > at && end + 1 < left_.size() && belongs(left_[end + 1]))))
            ++end;
        return end - at;
    }

    Status number() {
        if (left_.size() > 2 && left_[0] == '0') {
            const char form = static_cast<char>(left_[1] | 0x20);
            const auto belongs = form == 'x'   ? +[](char c) { return is_hex(c); }
                                 : form == 'o' ? +[](char c) { return c >= '0' && c <= '7'; }
                                               : +[](char c) { return c == '0' || c == '1'; };
            const std::size_t count = form == 'x' || form == 'o' || form == 'b' ? digits(2, belongs) : 0;
            if (count > 0) return add_number(Token::Kind::integer, 2 + count);
        }
        const auto decimal = +[](char c) { return is_digit(c); };
        std::size_t end = digits(0, decimal);
        bool is_real = false;
        if (end + 1 < left_.size() && left_[end] == '.' && is_digit(left_[end + 1])) {
            is_real = true;
            end += 1 + digits(end + 1, decimal);
        }
        if (end < left_.size() && (left_[end] | 0x20) == 'e') {
            std::size_t exponent = end + 1;
            if (exponent < left_.size() && (left_[exponent] == '+' || left_[exponent] == '-')) ++exponent;
            const std::size_t count = digits(exponent, decimal);
            if (count > 0) {
                is_real = true;
                end = exponent + count;
            }
        }
        return add_number(is_real ? Token::Kind::real : Token::Kind::integer, end);
    }

    Status add_number(Token::Kind kind, std::size_t bytes) {
        std::string digits_only(left_.substr(0, bytes));
        std::erase(digits_only, '_');
        if (digits_only.size() > 400) return error("a number is too long");
        add(kind, std::move(digits_only));
        take(bytes);
        return Done{};
    }

    Status symbol(std::string& brackets) {
        static constexpr std::array<std::string_view, 26> symbols = {
            "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
        for (const std::string_view word : symbols) {
            if (!left_.starts_with(word)) continue;
            const char c = word.front();
            if (c == '(' || c == '[' || c == '{') brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
            if (c == ')' || c == ']' || c == '}') {
                if (brackets.empty() || brackets.back() != c)
                    return error("unexpected '" + std::string(word) + "'");
                brackets.pop_back();
            }
            add(Token::Kind::symbol, std::string(word));
            take(word.size());
            return Done{};
        }
        return error("unexpected character '" + std::string(left_.substr(0, character_bytes(left_, 0))) +
                     "'");
    }

    std::string source_;
    std::string_view left_;
    unsigned line_ = 1;
    bool line_starting_ = true;
    std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
    if (!is_utf8(source)) return fail(Fault::invalid_input, "the chat template is not UTF-8");
    return Lexer(with_plain_newlines(source)).run();
}

}  // namespace kapitsa::jinja
