// Filters on sequences as a whole.
#include <algorithm>

#include "chat/jinja/attribute_path.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/text_work.h"

namespace kapitsa::jinja {

namespace {

Result<Value> iterator(Budget& budget, std::vector<Value> items) {
    return make_sequence(budget, Sequence::Flavor::iterator, std::move(items));
}

Result<Value> length(Machine&, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    const auto size = [](std::size_t count) { return Value(static_cast<std::int64_t>(count)); };
    if (self.undefined()) return size(0);
    if (const Text* text = self.text()) return size(text->characters());
    if (const Dict* dict = self.dict()) return size(dict->items.size());
    if (const auto* loop = self.as<std::shared_ptr<Loop>>()) return size((*loop)->items->items.size());
    const Sequence* sequence = self.sequence();
    if (!sequence || sequence->flavor == Sequence::Flavor::iterator)
        return type_error("object of type '" + std::string(type_name(self)) + "' has no len()");
    return size(sequence->items.size());
}

Result<Value> list(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    const auto items = TRY(iterate(machine.budget(), self));
    TRY(machine.budget().take(items->items.size() * sizeof(Value)));
    return make_sequence(machine.budget(), Sequence::Flavor::list, items->items, {}, items->plain);
}

Result<Value> items(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    std::vector<Value> pairs;
    if (!self.undefined()) {
        if (!self.dict()) return type_error("Can only get item pairs from a mapping.");
        for (const auto& [key, value] : self.dict()->items)
            pairs.push_back(TRY(make_tuple(machine.budget(), {key, value})));
    }
    return iterator(machine.budget(), std::move(pairs));
}

Result<Value> first(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    if (const Text* text = self.text()) {
        if (!text->empty()) return Value(text->slice(0, character_bytes(text->view(), 0)));
    } else if (const Sequence* sequence = self.sequence();
               sequence && sequence->flavor == Sequence::Flavor::iterator) {
        if (sequence->next < sequence->items.size()) return sequence->items[sequence->next++];
    } else {
        const auto all = TRY(iterate(machine.budget(), self));
        if (!all->items.empty()) return all->items.front();
    }
    return undefined_value("No first item, sequence was empty.");
}

Result<Value> last(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    if (self.undefined()) return undefined_error(*self.as<Undefined>());
    if (self.sequence() && self.sequence()->flavor == Sequence::Flavor::iterator)
        return type_error("'generator' object is not reversible");
    if (const Text* text = self.text()) {
        if (!text->empty())
            return Value(text->slice(character_before(text->view(), text->bytes()), text->bytes()));
    } else {
        const auto all = TRY(iterate(machine.budget(), self));
        if (!all->items.empty()) return all->items.back();
    }
    return undefined_value("No last item, sequence was empty.");
}

Result<Value> reverse(Machine& machine, const Value& self, const Arguments& arguments) {
    TRY(bind_nothing(arguments));
    if (self.undefined()) return undefined_error(*self.as<Undefined>());
    const Value back = std::int64_t{-1};
    if (self.text()) return slice(machine.budget(), self, nullptr, nullptr, &back);
    const auto all = TRY(iterate(machine.budget(), self));
    TRY(machine.budget().take(all->items.size() * sizeof(Value)));
    return iterator(machine.budget(), std::vector<Value>(all->items.rbegin(), all->items.rend()));
}

Result<Value> joined(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [separator, attribute] = TRY(bind<2>(arguments, {"d", "attribute"}));
    Budget& budget = machine.budget();
    const AttributePath path = TRY(AttributePath::make(attribute));
    std::vector<Text> parts;
    for (const auto over = TRY(iterate(budget, self)); const Value& item : over->items)
        parts.push_back(TRY(to_text(budget, attribute ? TRY(path.of(machine, item)) : item)));
    return Value(TRY(join(budget, separator ? TRY(to_text(budget, *separator)) : Text(), parts)));
}

Result<Value> sum(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [attribute, start] = TRY(bind<2>(arguments, {"attribute", "start"}));
    const AttributePath path = TRY(AttributePath::make(attribute));
    Value total = start ? *start : Value(std::int64_t{0});
    if (total.text()) return type_error("sum() can't sum strings");
    for (const auto over = TRY(iterate(machine.budget(), self)); const Value& item : over->items) {
        TRY(machine.budget().step());
        total = TRY(apply(machine.budget(), Expression::Operator::add, total, TRY(path.of(machine, item))));
    }
    return total;
}

Result<Value> extreme(Machine& machine, const Value& self, const Arguments& arguments, bool greatest) {
    const auto [sensitive, attribute] = TRY(bind<2>(arguments, {"case_sensitive", "attribute"}));
    const AttributePath path = TRY(AttributePath::make(attribute));
    const auto all = TRY(iterate(machine.budget(), self));
    if (all->items.empty()) return undefined_value("No aggregated item, sequence was empty.");
    const Value* best = nullptr;
    Value best_key;
    for (const Value& item : all->items) {
        Value key = TRY(path.of(machine, item));
        if (!sensitive || !truth(*sensitive)) key = TRY(without_case(machine, key));
        const bool better = !best || (greatest ? TRY(less(machine.budget(), best_key, key))
                                               : TRY(less(machine.budget(), key, best_key)));
        if (!better) continue;
        best = &item;
        best_key = std::move(key);
    }
    return *best;
}
Result<Value> min(Machine& machine, const Value& self, const Arguments& a) {
    return extreme(machine, self, a, false);
}
Result<Value> max(Machine& machine, const Value& self, const Arguments& a) {
    return extreme(machine, self, a, true);
}

Result<Value> sort(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [reversed, sensitive, attribute] =
        TRY(bind<3>(arguments, {"reverse", "case_sensitive", "attribute"}));
    std::vector<AttributePath> paths;
    if (attribute && attribute->text()) {
        const Text& names = *attribute->text();
        const std::string_view all = names.view();
        for (std::size_t at = 0; at <= all.size();) {
            const std::size_t end = std::min(all.find(',', at), all.size());
            const Value one = names.slice(at, end);
            paths.push_back(TRY(AttributePath::make(&one)));
            at = end + 1;
        }
    } else {
        paths.push_back(TRY(AttributePath::make(attribute)));
    }
    std::vector<std::pair<Value, Value>> keyed;
    for (const auto over = TRY(iterate(machine.budget(), self)); const Value& item : over->items) {
        std::vector<Value> key;
        for (const AttributePath& path : paths) {
            Value part = TRY(path.of(machine, item));
            key.push_back(sensitive && truth(*sensitive) ? part : TRY(without_case(machine, part)));
        }
        keyed.emplace_back(TRY(make_list(machine.budget(), std::move(key))), item);
    }
    return make_list(machine.budget(), TRY(sort_by(machine, std::move(keyed), reversed && truth(*reversed))));
}

Result<Value> dictsort(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [sensitive, by, reversed] = TRY(bind<3>(arguments, {"case_sensitive", "by", "reverse"}));
    const std::string_view which = by && by->text() ? by->text()->view() : "key";
    if (which != "key" && which != "value")
        return type_error("You can only sort by either \"key\" or \"value\"");
    if (!self.dict()) return type_error("dictsort needs a mapping");
    std::vector<std::pair<Value, Value>> keyed;
    for (const auto& [key, value] : self.dict()->items) {
        Value part = which == "key" ? key : value;
        if (!sensitive || !truth(*sensitive)) part = TRY(without_case(machine, part));
        keyed.emplace_back(std::move(part), TRY(make_tuple(machine.budget(), {key, value})));
    }
    return make_list(machine.budget(), TRY(sort_by(machine, std::move(keyed), reversed && truth(*reversed))));
}

Result<Value> unique(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [sensitive, attribute] = TRY(bind<2>(arguments, {"case_sensitive", "attribute"}));
    const AttributePath path = TRY(AttributePath::make(attribute));
    DictBuilder seen(machine.budget());
    std::vector<Value> kept;
    std::size_t known = 0;
    for (const auto over = TRY(iterate(machine.budget(), self)); const Value& item : over->items) {
        Value key = TRY(path.of(machine, item));
        if (!sensitive || !truth(*sensitive)) key = TRY(without_case(machine, key));
        TRY(seen.put(std::move(key), None{}));
        if (seen.size() > known) kept.push_back(item);
        known = seen.size();
    }
    return iterator(machine.budget(), std::move(kept));
}

Result<Value> batch(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [count, fill] = TRY(bind<2>(arguments, {"linecount", "fill_with"}, 1));
    const std::int64_t size = TRY(expect_integer(*count, "linecount"));
    Budget& budget = machine.budget();
    std::vector<Value> rows, row;
    for (const auto over = TRY(iterate(budget, self)); const Value& item : over->items) {
        if (static_cast<std::int64_t>(row.size()) == size)
            rows.push_back(TRY(make_list(budget, std::exchange(row, {}))));
        row.push_back(item);
    }
    if (!row.empty()) {
        if (fill && !fill->none() && size > 0) {
            if (size > (std::int64_t{1} << 24)) return type_error("the template uses too much memory");
            TRY(budget.take(static_cast<std::size_t>(size) * sizeof(Value)));
            row.resize(std::max(row.size(), static_cast<std::size_t>(size)), *fill);
        }
        rows.push_back(TRY(make_list(budget, std::move(row))));
    }
    return iterator(budget, std::move(rows));
}

Result<Value> sliced(Machine& machine, const Value& self, const Arguments& arguments) {
    const auto [count, fill] = TRY(bind<2>(arguments, {"slices", "fill_with"}, 1));
    const std::int64_t slices = TRY(expect_integer(*count, "slices"));
    Budget& budget = machine.budget();
    const auto all = TRY(iterate(budget, self));
    if (slices == 0) return type_error("division by zero");
    if (slices > 100'000) return type_error("the template uses too much memory");
    std::vector<Value> rows;
    const auto size = static_cast<std::int64_t>(all->items.size());
    auto next = all->items.begin();
    for (std::int64_t i = 0; i < slices; ++i) {
        const bool longer = i < size % slices;
        const auto end = next + size / slices + (longer ? 1 : 0);
        std::vector<Value> row(next, end);
        if (fill && !fill->none() && !longer) row.push_back(*fill);
        rows.push_back(TRY(make_list(budget, std::move(row))));
        next = end;
    }
    return iterator(budget, std::move(rows));
}

constexpr NamedFunction filters[] = {
    {"length", length},     {"count", length},  {"list", list},       {"items", items},
    {"first", first},       {"last", last},     {"reverse", reverse}, {"join", joined},
    {"sum", sum},           {"min", min},       {"max", max},         {"sort", sort},
    {"dictsort", dictsort}, {"unique", unique}, {"batch", batch},     {"slice", sliced}};

}  // namespace

std::span<const NamedFunction> sequence_filters() { return filters; }

}  // namespace kapitsa::jinja
