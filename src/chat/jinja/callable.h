// What can be called: functions, filters and tests of ours, methods bound to a value, macros of the template.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/value.h"

namespace kapitsa::jinja {

class Machine;
struct Statement;
struct Scope;

struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;
};

/// Filters and methods take the value they stand on; functions take an undefined one.
using Function = Result<Value> (*)(Machine&, const Value& self, const Arguments&);
using Test = Result<bool> (*)(Machine&, const Value& self, const Arguments&);

struct Callable {
    std::string_view name;
    Function function = nullptr;
    Value self = {};
    // Of a macro:
    const Statement* macro = nullptr;
    Scope* scope = nullptr;  // where it was defined; the machine keeps it while it renders
};

struct NamedFunction {
    std::string_view name;
    Function function;
};
struct NamedTest {
    std::string_view name;
    Test test;
};

/// Null where there is none of that name.
Function find_filter(std::string_view name);
Test find_test(std::string_view name);
Function find_global(std::string_view name);
Function find_text_method(std::string_view name);
Function find_container_method(const Value& self, std::string_view name);
Function find_loop_method(std::string_view name);

std::span<const NamedFunction> text_filters();
std::span<const NamedFunction> sequence_filters();
std::span<const NamedFunction> selection_filters();
std::span<const NamedFunction> value_filters();

/// Arguments by the names of their parameters. A null entry was not given.
template <std::size_t count>
using Bound = std::array<const Value*, count>;

Status bind_into(const Arguments& arguments, std::span<const std::string_view> names,
                 std::span<const Value*> bound, std::size_t required);

/// The first `required` must be given, and nothing that has no name here.
template <std::size_t count>
Result<Bound<count>> bind(const Arguments& arguments, const std::array<std::string_view, count>& names,
                          std::size_t required = 0) {
    Bound<count> bound{};
    TRY(bind_into(arguments, names, bound, required));
    return bound;
}
inline Status bind_nothing(const Arguments& arguments) { return bind_into(arguments, {}, {}, 0); }

Result<std::int64_t> expect_integer(const Value& value, std::string_view what);
Result<Text> expect_text(const Value& value, std::string_view what);

}  // namespace kapitsa::jinja
