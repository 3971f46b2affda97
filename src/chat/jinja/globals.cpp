// Functions that every template may call: jinja2's own, and those that transformers adds.
#include <algorithm>

#include "chat/jinja/machine.h"
#include "chat/jinja/print.h"

namespace kapitsa::jinja {

namespace {

constexpr std::int64_t range_limit = 100'000;  // of jinja2's sandbox

Result<Value> range(Machine& machine, const Value&, const Arguments& arguments) {
    if (!arguments.named.empty()) return type_error("range takes no keyword arguments");
    const auto [first, second, third] = TRY(bind<3>(arguments, {"start", "stop", "step"}, 1));
    const std::int64_t start = second ? TRY(expect_integer(*first, "range's start")) : 0;
    const std::int64_t stop = TRY(expect_integer(second ? *second : *first, "range's stop"));
    const std::int64_t step = third ? TRY(expect_integer(*third, "range's step")) : 1;
    if (step == 0) return type_error("range's step must not be zero");
    constexpr std::int64_t most = std::int64_t{1} << 61;
    for (const std::int64_t bound : {start, stop, step})
        if (bound > most || bound < -most) return type_error("a range that is too large");
    const std::int64_t span = step > 0 ? stop - start : start - stop;
    const std::int64_t stride = step > 0 ? step : -step;
    const std::int64_t count = span <= 0 ? 0 : (span + stride - 1) / stride;
    if (count > range_limit)
        return type_error("Range too big. The sandbox blocks ranges larger than 100000.");
    std::vector<Value> items;
    for (std::int64_t i = 0; i < count; ++i) items.push_back(start + i * step);
    std::string name = "range(" + std::to_string(start) + ", " + std::to_string(stop);
    name += third && step != 1 ? ", " + std::to_string(step) + ")" : ")";
    return make_sequence(machine.budget(), Sequence::Flavor::range, std::move(items), std::move(name));
}

/// dict(mapping or pairs, key=value, ...)
Status fill(Machine& machine, const Arguments& arguments,
            const std::function<Status(const Value&, const Value&)>& put) {
    if (arguments.positional.size() > 1) return type_error("takes at most 1 positional argument");
    for (const Value& from : arguments.positional) {
        if (const Dict* dict = from.dict()) {
            for (const auto& [key, value] : dict->items) TRY(put(key, value));
            continue;
        }
        for (const auto over = TRY(iterate(machine.budget(), from)); const Value& pair : over->items) {
            const auto two = TRY(iterate(machine.budget(), pair));
            if (two->items.size() != 2) return type_error("a dict is made of pairs");
            TRY(put(two->items[0], two->items[1]));
        }
    }
    for (const auto& [name, value] : arguments.named) TRY(put(control_text(name), value));
    return Done{};
}

Result<Value> dict(Machine& machine, const Value&, const Arguments& arguments) {
    DictBuilder made(machine.budget());
    TRY(fill(machine, arguments, [&](const Value& key, const Value& value) { return made.put(key, value); }));
    return made.finish();
}

Result<Value> make_namespace(Machine& machine, const Value&, const Arguments& arguments) {
    TRY(machine.budget().take(sizeof(Namespace)));
    const Value unique = TRY(dict(machine, {}, arguments));
    Namespace* space = machine.make_namespace();
    for (const auto& [key, value] : unique.dict()->items) {
        if (!key.text()) return type_error("a namespace's names must be text");
        space->items.emplace_back(std::string(key.text()->view()), value);
    }
    return Value(space);
}

Result<Value> raise_exception(Machine& machine, const Value&, const Arguments& arguments) {
    const auto [message] = TRY(bind<1>(arguments, {"message"}, 1));
    const Text text = TRY(to_text(machine.budget(), *message));
    machine.raised();
    return fail(Fault::invalid_input, std::string(text.view()));
}

Result<Value> strftime_now(Machine& machine, const Value&, const Arguments& arguments) {
    const auto [format] = TRY(bind<1>(arguments, {"format"}, 1));
    const std::string form(TRY(expect_text(*format, "the format")).view());
    const std::time_t now = machine.now();
    std::tm parts{};
    localtime_r(&now, &parts);
    if (form.empty()) return control_text("");
    char room[512];
    const std::size_t bytes = std::strftime(room, sizeof room, form.c_str(), &parts);
    if (bytes == 0) return type_error("a date format that is too long, or prints nothing");
    return control_text(std::string(room, bytes));
}

constexpr NamedFunction globals[] = {{"range", range},
                                     {"dict", dict},
                                     {"namespace", make_namespace},
                                     {"raise_exception", raise_exception},
                                     {"strftime_now", strftime_now}};

}  // namespace

Function find_global(std::string_view name) {
    const auto* function = std::ranges::find(globals, name, &NamedFunction::name);
    return function == std::end(globals) ? nullptr : function->function;
}

}  // namespace kapitsa::jinja
