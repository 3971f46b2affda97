// Values as text: Python's str() and repr(), and json.dumps as transformers' `tojson` calls it.
#pragma once

#include <string>

#include "chat/jinja/value.h"

namespace kapitsa::jinja {

/// Collects text with its provenance, within the budget.
class Writer {
public:
    explicit Writer(Budget& budget) : budget_(budget) {}
    Status put(std::string_view piece, bool is_plain) {
        TRY(budget_.take(piece.size()));
        out_.append(piece, is_plain);
        return Done{};
    }
    Status put(const Text& text) {
        TRY(budget_.take(text.bytes()));
        TRY(budget_.step(1 + text.bytes() / 256));
        text.append_to(out_);
        return Done{};
    }
    Budget& budget() { return budget_; }
    const MarkedText& written() const { return out_; }
    Text finish() { return Text(std::move(out_)); }

private:
    Budget& budget_;
    MarkedText out_;
};

std::string real_text(double value);  // as Python's repr(): "1.0", "1e+16"

/// str(value). A text is itself; brackets of what came from the conversation are plain, like its words.
Result<Text> to_text(Budget& budget, const Value& value);
Status write_repr(Writer& out, const Value& value, bool is_plain);

struct JsonStyle {
    bool ascii = false, sort_keys = false;
    std::string indent = {};  // of one level
    bool broken = false;      // one member a line; `indent` may still be empty
    std::string item_separator = ", ", key_separator = ": ";
};
Result<Text> to_json(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace kapitsa::jinja
