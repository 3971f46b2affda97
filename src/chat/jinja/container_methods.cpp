// Methods of dicts, lists and loops. Those that would change a value (append, update, pop) are refused, as
// transformers' sandbox refuses them: templates work on copies.
#include <algorithm>

#include "chat/jinja/machine.h"

namespace kapitsa::jinja {

namespace {

const Dict& own_dict(const Value& self) { return *self.dict(); }
const Sequence& own_sequence(const Value& self) { return *self.sequence(); }

Result<Value> items(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    std::vector<Value> pairs;
    for (const auto& [key, value] : own_dict(self).items)
        pairs.push_back(TRY(make_tuple(machine.budget(), {key, value})));
    return make_sequence(machine.budget(), Sequence::Flavor::view, std::move(pairs), "dict_items",
                         own_dict(self).plain);
}

Result<Value> keys(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    std::vector<Value> all;
    for (const auto& item : own_dict(self).items) all.push_back(item.first);
    return make_sequence(machine.budget(), Sequence::Flavor::view, std::move(all), "dict_keys",
                         own_dict(self).plain);
}

Result<Value> values(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    std::vector<Value> all;
    for (const auto& item : own_dict(self).items) all.push_back(item.second);
    return make_sequence(machine.budget(), Sequence::Flavor::view, std::move(all), "dict_values",
                         own_dict(self).plain);
}

Result<Value> get(Machine& machine, const Value& self, const Arguments& arguments) {
    if (!arguments.named.empty()) return type_error("get() takes no keyword arguments");
    const auto [key, otherwise] = TRY(bind<2>(arguments, {"key", "default"}, 1));
    for (const auto& [name, value] : own_dict(self).items)
        if (TRY(equals(machine.budget(), name, *key))) return value;
    return otherwise ? *otherwise : Value(None{});
}

Result<Value> copy(Machine&, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    return self;  // nothing changes it, so it is its own copy
}

Result<Value> index(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [wanted] = TRY(bind<1>(arguments, {"value"}, 1));
    const auto& all = own_sequence(self).items;
    for (std::size_t i = 0; i < all.size(); ++i)
        if (TRY(equals(machine.budget(), all[i], *wanted))) return Value(static_cast<std::int64_t>(i));
    return type_error("the value is not in the list");
}

Result<Value> count(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [wanted] = TRY(bind<1>(arguments, {"value"}, 1));
    std::int64_t found = 0;
    for (const Value& item : own_sequence(self).items) found += TRY(equals(machine.budget(), item, *wanted));
    return Value(found);
}

Result<Value> refuse(Machine&, const Value& self, const Arguments&) {
    return type_error("a template may not change a " + std::string(type_name(self)));
}

Result<Value> cycle(Machine&, const Value& self, const Arguments& arguments) {
    if (!arguments.named.empty()) return type_error("loop.cycle takes no keyword arguments");
    if (arguments.positional.empty()) return type_error("no items for cycling given");
    const Loop& loop = **self.as<std::shared_ptr<Loop>>();
    return arguments.positional[loop.at % arguments.positional.size()];
}

Result<Value> changed(Machine& machine, const Value& self, const Arguments& arguments) {
    if (!arguments.named.empty()) return type_error("loop.changed takes no keyword arguments");
    Loop& loop = **self.as<std::shared_ptr<Loop>>();
    if (loop.finished) return type_error("loop.changed is called after its loop");
    bool same = loop.asked && loop.changed.size() == arguments.positional.size();
    for (std::size_t i = 0; same && i < loop.changed.size(); ++i)
        same = TRY(equals(machine.budget(), loop.changed[i], arguments.positional[i]));
    loop.asked = true;
    loop.changed = arguments.positional;
    return Value(!same);
}

constexpr NamedFunction dict_methods[] = {
    {"items", items},   {"keys", keys},  {"values", values},  {"get", get},           {"copy", copy},
    {"update", refuse}, {"pop", refuse}, {"popitem", refuse}, {"setdefault", refuse}, {"clear", refuse}};
constexpr NamedFunction list_methods[] = {{"index", index},   {"count", count},   {"copy", copy},
                                          {"append", refuse}, {"extend", refuse}, {"insert", refuse},
                                          {"pop", refuse},    {"remove", refuse}, {"reverse", refuse},
                                          {"sort", refuse},   {"clear", refuse}};
constexpr NamedFunction tuple_methods[] = {{"index", index}, {"count", count}};
constexpr NamedFunction loop_methods[] = {{"cycle", cycle}, {"changed", changed}};

Function find_in(std::span<const NamedFunction> methods, std::string_view name) {
    const auto method = std::ranges::find(methods, name, &NamedFunction::name);
    return method == methods.end() ? nullptr : method->function;
}

}  // namespace

Function find_container_method(const Value& self, std::string_view name) {
    if (self.dict()) return find_in(dict_methods, name);
    const Sequence* sequence = self.sequence();
    if (!sequence) return nullptr;
    if (sequence->flavor == Sequence::Flavor::list) return find_in(list_methods, name);
    const bool searchable =
        sequence->flavor == Sequence::Flavor::tuple || sequence->flavor == Sequence::Flavor::range;
    return searchable ? find_in(tuple_methods, name) : nullptr;
}

Function find_loop_method(std::string_view name) { return find_in(loop_methods, name); }

}  // namespace kapitsa::jinja
