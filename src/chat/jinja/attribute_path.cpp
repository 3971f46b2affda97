#include "chat/jinja/attribute_path.h"

#include <algorithm>
#include <charconv>

#include "chat/jinja/text_work.h"

namespace kapitsa::jinja {

Result<AttributePath> AttributePath::make(const Value* attribute) {
    AttributePath path;
    if (!attribute || attribute->none()) return path;
    if (!attribute->text()) {
        path.parts_.push_back(TRY(expect_integer(*attribute, "an attribute")));
        return path;
    }
    const Text& text = *attribute->text();
    const std::string_view all = text.view();
    for (std::size_t at = 0; at <= all.size();) {
        const std::size_t end = std::min(all.find('.', at), all.size());
        const std::string_view part = all.substr(at, end - at);
        std::int64_t number = 0;
        const auto read = std::from_chars(part.data(), part.data() + part.size(), number);
        const bool is_number =
            read.ec == std::errc() && read.ptr == part.data() + part.size() && part[0] != '-';
        path.parts_.push_back(is_number ? Value(number) : Value(text.slice(at, end)));
        at = end + 1;
    }
    return path;
}

Result<Value> AttributePath::of(Machine& machine, const Value& element, const Value* otherwise) const {
    Value value = element;
    for (const Value& part : parts_) {
        TRY(machine.budget().step());
        value = TRY(machine.item(value, part));
        if (otherwise && !otherwise->none() && value.undefined()) value = *otherwise;
    }
    return value;
}

Result<Value> without_case(Machine& machine, const Value& value) {
    if (!value.text()) return value;
    return Value(TRY(map_characters(machine.budget(), *value.text(), to_lower)));
}

Result<std::vector<Value>> sort_by(Machine& machine, std::vector<std::pair<Value, Value>> keyed,
                                   bool reverse) {
    // A merge of growing runs: an order that contradicts itself can do no harm here.
    std::vector<std::pair<Value, Value>> merged(keyed.size());
    TRY(machine.budget().take(keyed.size() * 2 * sizeof(Value)));
    for (std::size_t run = 1; run < keyed.size(); run *= 2) {
        for (std::size_t begin = 0; begin < keyed.size(); begin += 2 * run) {
            const std::size_t middle = std::min(begin + run, keyed.size()),
                              end = std::min(begin + 2 * run, keyed.size());
            std::size_t a = begin, b = middle;
            for (std::size_t to = begin; to < end; ++to) {
                bool second = a == middle;
                if (a < middle && b < end)
                    second = reverse ? TRY(less(machine.budget(), keyed[a].first, keyed[b].first))
                                     : TRY(less(machine.budget(), keyed[b].first, keyed[a].first));
                merged[to] = std::move(second ? keyed[b++] : keyed[a++]);
            }
        }
        std::swap(keyed, merged);
    }
    std::vector<Value> sorted;
    sorted.reserve(keyed.size());
    for (auto& [key, value] : keyed) sorted.push_back(std::move(value));
    return sorted;
}

}  // namespace kapitsa::jinja
