// A parsed Jinja template, and its rendering. Knows values, not conversations.
#pragma once

#include <memory>

#include "chat/jinja/machine.h"

namespace kapitsa::jinja {

class Template {
public:
    static Result<Template> parse(std::string_view source) { return Template(TRY(parse_source(source))); }

    /// Values of `variables` were made within `budget`, and what the rendering makes is counted there too.
    Result<MarkedText> render(const Variables& variables, Budget& budget, std::time_t now) const {
        return Machine(variables, budget, now).render(block_);
    }

private:
    static Result<Block> parse_source(std::string_view source);
    explicit Template(Block block) : block_(std::move(block)) {}
    Block block_;
};

}  // namespace kapitsa::jinja
