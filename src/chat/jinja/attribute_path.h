// "function.name", "0.text": where a filter looks inside each element.
#pragma once

#include "chat/jinja/machine.h"

namespace kapitsa::jinja {

class AttributePath {
public:
    /// From a filter's argument: text with dots, an integer, or none for the element itself.
    static Result<AttributePath> make(const Value* attribute);
    Result<Value> of(Machine& machine, const Value& element, const Value* otherwise = nullptr) const;

private:
    std::vector<Value> parts_;
};

/// Text in small letters; anything else as it is.
Result<Value> without_case(Machine& machine, const Value& value);
/// Sorted by keys, which are lists of the same length; equal ones stay in their order.
Result<std::vector<Value>> sort_by(Machine& machine, std::vector<std::pair<Value, Value>> keyed,
                                   bool reverse);

}  // namespace kapitsa::jinja
