// Python's operators on values.
#pragma once

#include "chat/jinja/ast.h"

namespace kapitsa::jinja {

Result<Value> apply(Budget& budget, Expression::Operator op, const Value& left, const Value& right);
Result<Value> apply_sign(Expression::Operator op, const Value& value);
Result<bool> compare(Budget& budget, Expression::Operator op, const Value& left, const Value& right);
/// `needle in haystack`.
Result<bool> contains(Budget& budget, const Value& haystack, const Value& needle);

/// left + right of texts, with what Markup does to its neighbour.
Result<Value> add_texts(Budget& budget, const Text& left, const Text& right);
Result<Text> repeat(Budget& budget, const Text& text, std::int64_t times);
/// Python's slice; a null bound was left out.
Result<Value> slice(Budget& budget, const Value& of, const Value* begin, const Value* end, const Value* step);

/// `format % values`, printf style; and text.format(...).
Result<Value> format_percent(Budget& budget, const Text& format, const Value& values);
class Machine;
Result<Value> format_braces(Machine& machine, const Text& format, const Arguments& arguments);
/// & < > " ' as HTML writes them; the result is `safe`.
Result<Text> escape_html(Budget& budget, const Value& value);

}  // namespace kapitsa::jinja
