// Template source to tokens, by the rules of jinja2's lexer with trim_blocks and lstrip_blocks set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kapitsa::jinja {

struct Token {
    enum class Kind {
        text,
        block_begin,
        block_end,
        output_begin,
        output_end,
        name,
        string,
        integer,
        real,
        symbol,
        end
    };
    Kind kind;
    unsigned line;
    std::string value;  // of a string: what it means
};

/// `source` is UTF-8. Fails with the line of what cannot be read.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace kapitsa::jinja
