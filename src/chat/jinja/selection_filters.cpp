// Filters that apply another filter or a test to each element.
#include "chat/jinja/attribute_path.h"

namespace kapitsa::jinja {

namespace {

Arguments without_first(const Arguments& arguments, std::size_t count) {
    Arguments rest;
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                           arguments.positional.end());
    rest.named = arguments.named;
    return rest;
}

Result<Value> iterator(Machine& machine, std::vector<Value> items) {
    return make_sequence(machine.budget(), Sequence::Flavor::iterator, std::move(items));
}

Result<Value> map_attribute(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [attribute, otherwise] = TRY(bind<2>(arguments, {"attribute", "default"}, 1));
    const AttributePath path = TRY(AttributePath::make(attribute));
    std::vector<Value> mapped;
    for (const auto over = TRY(iterate(machine.budget(), self)); const Value& item : over->items)
        mapped.push_back(TRY(path.of(machine, item, otherwise)));
    return iterator(machine, std::move(mapped));
}

Result<Value> map(Machine& machine, const Value& self, const Arguments& arguments) {
    if (!truth(self)) return iterator(machine, {});
    if (arguments.positional.empty()) {
        for (const auto& [name, value] : arguments.named)
            if (name == "attribute") return map_attribute(machine, self, arguments);
        return type_error("map requires a filter argument");
    }
    const Text name = TRY(expect_text(arguments.positional[0], "map's filter"));
    const Function filter = find_filter(name.view());
    if (!filter) return type_error("there is no filter '" + std::string(name.view()) + "'");
    const Arguments rest = without_first(arguments, 1);
    std::vector<Value> mapped;
    for (const auto over = TRY(iterate(machine.budget(), self)); const Value& item : over->items) {
        TRY(machine.budget().step(2));
        mapped.push_back(TRY(filter(machine, item, rest)));
    }
    return iterator(machine, std::move(mapped));
}

Result<Value> choose(Machine& machine, const Value& self, const Arguments& arguments, bool wanted,
                     bool by_attribute) {
    if (!truth(self)) return iterator(machine, {});
    const std::size_t offset = by_attribute ? 1 : 0;
    if (by_attribute && arguments.positional.empty())
        return type_error("Missing parameter for attribute name");
    const AttributePath path = TRY(AttributePath::make(by_attribute ? &arguments.positional[0] : nullptr));
    Test test = nullptr;
    Arguments rest;
    if (arguments.positional.size() > offset) {
        const Text name = TRY(expect_text(arguments.positional[offset], "the test's name"));
        test = find_test(name.view());
        if (!test) return type_error("there is no test '" + std::string(name.view()) + "'");
        rest = without_first(arguments, offset + 1);
    }
    std::vector<Value> kept;
    for (const auto over = TRY(iterate(machine.budget(), self)); const Value& item : over->items) {
        TRY(machine.budget().step(2));
        const Value subject = TRY(path.of(machine, item));
        const bool passes = test ? TRY(test(machine, subject, rest)) : truth(subject);
        if (passes == wanted) kept.push_back(item);
    }
    return iterator(machine, std::move(kept));
}

Result<Value> select(Machine& m, const Value& self, const Arguments& a) {
    return choose(m, self, a, true, false);
}
Result<Value> reject(Machine& m, const Value& self, const Arguments& a) {
    return choose(m, self, a, false, false);
}
Result<Value> selectattr(Machine& m, const Value& self, const Arguments& a) {
    return choose(m, self, a, true, true);
}
Result<Value> rejectattr(Machine& m, const Value& self, const Arguments& a) {
    return choose(m, self, a, false, true);
}

constexpr NamedFunction filters[] = {{"map", map},
                                     {"select", select},
                                     {"reject", reject},
                                     {"selectattr", selectattr},
                                     {"rejectattr", rejectattr}};

}  // namespace

std::span<const NamedFunction> selection_filters() { return filters; }

}  // namespace kapitsa::jinja
