// Making, testing and walking values.
#include "chat/jinja/value.h"

#include <algorithm>

#include "chat/jinja/callable.h"
#include "chat/jinja/characters.h"

namespace kapitsa::jinja {

const Value* Dict::find(std::string_view key) const {
    if (!index.empty()) {
        const auto found = index.find(key);
        return found == index.end() ? nullptr : &items[found->second].second;
    }
    for (const auto& [name, value] : items)
        if (name.text() && name.text()->view() == key) return &value;
    return nullptr;
}

const Value* Namespace::find(std::string_view key) const {
    for (const auto& [name, value] : items)
        if (name == key) return &value;
    return nullptr;
}

unsigned depth_of(const Value& value) {
    if (const auto* sequence = value.sequence()) return sequence->depth;
    if (const auto* dict = value.dict()) return dict->depth;
    if (const auto* callable = value.as<std::shared_ptr<const Callable>>())
        return 1 + depth_of((*callable)->self);
    if (const auto* loop = value.as<std::shared_ptr<Loop>>()) return 1 + (*loop)->items->depth;
    return 0;
}

namespace {

Status check_depth(unsigned depth) {
    if (depth > value_depth_limit) return type_error("a value nests too deep");
    return Done{};
}

constexpr std::size_t indexed_from = 16;  // below that a walk is as quick

}  // namespace

Result<Value> make_sequence(Budget& budget, Sequence::Flavor flavor, std::vector<Value> items,
                            std::string name, bool plain) {
    TRY(budget.take(sizeof(Sequence) + items.size() * sizeof(Value)));
    TRY(budget.step(items.size() / 8));
    Sequence made{flavor, std::move(items), std::move(name), plain};
    for (const Value& item : made.items) made.depth = std::max(made.depth, depth_of(item) + 1);
    TRY(check_depth(made.depth));
    return std::make_shared<const Sequence>(std::move(made));
}

Result<Value> make_dict(Budget& budget, std::vector<std::pair<Value, Value>> items, bool plain) {
    TRY(budget.take(sizeof(Dict) + items.size() * 3 * sizeof(Value)));
    Dict made{std::move(items), plain};
    const bool indexed = made.items.size() > indexed_from;
    for (std::size_t i = 0; i < made.items.size(); ++i) {
        made.depth =
            std::max({made.depth, depth_of(made.items[i].first) + 1, depth_of(made.items[i].second) + 1});
        if (indexed && made.items[i].first.text()) made.index.emplace(made.items[i].first.text()->view(), i);
    }
    TRY(check_depth(made.depth));
    return std::make_shared<const Dict>(std::move(made));
}

Status DictBuilder::put(Value key, Value value) {
    TRY(budget_.take(2 * sizeof(Value)));
    if (key.sequence() && key.sequence()->flavor != Sequence::Flavor::tuple)
        return type_error("unhashable type: '" + std::string(type_name(key)) + "'");
    if (key.dict()) return type_error("unhashable type: 'dict'");
    if (const Text* text = key.text()) {
        const auto [place, fresh] = places_.emplace(text->view(), items_.size());
        if (!fresh) {
            items_[place->second].second = std::move(value);
            return Done{};
        }
    } else {
        for (auto& [name, held] : items_)
            if (TRY(equals(budget_, name, key))) {
                held = std::move(value);
                return Done{};
            }
    }
    items_.emplace_back(std::move(key), std::move(value));
    return Done{};
}

Value undefined_value(std::string hint) {
    return Undefined{std::make_shared<const std::string>(std::move(hint))};
}

bool truth(const Value& value) {
    struct Truth {
        bool operator()(const Undefined&) const { return false; }
        bool operator()(const None&) const { return false; }
        bool operator()(bool b) const { return b; }
        bool operator()(std::int64_t i) const { return i != 0; }
        bool operator()(const BigInteger&) const { return true; }
        bool operator()(double d) const { return d != 0; }
        bool operator()(const Text& t) const { return !t.empty(); }
        bool operator()(const std::shared_ptr<const Sequence>& s) const {
            return s->flavor == Sequence::Flavor::iterator || !s->items.empty();
        }
        bool operator()(const std::shared_ptr<const Dict>& d) const { return !d->items.empty(); }
        bool operator()(Namespace*) const { return true; }
        bool operator()(const std::shared_ptr<const Callable>&) const { return true; }
        bool operator()(const std::shared_ptr<Loop>& l) const { return !l->items->items.empty(); }
    };
    return std::visit(Truth{}, value.any());
}

std::string_view type_name(const Value& value) {
    if (const auto* sequence = value.sequence()) {
        switch (sequence->flavor) {
            case Sequence::Flavor::list: return "list";
            case Sequence::Flavor::tuple: return "tuple";
            case Sequence::Flavor::range: return "range";
            case Sequence::Flavor::view: return sequence->name;
            case Sequence::Flavor::iterator: return "generator";
        }
    }
    static constexpr std::string_view names[] = {"Undefined", "NoneType",  "bool",     "int",
                                                 "int",       "float",     "str",      "list",
                                                 "dict",      "Namespace", "function", "LoopContext"};
    return names[value.any().index()];
}

std::unexpected<Error> undefined_error(const Undefined& value) {
    return fail(Fault::invalid_input, value.hint ? *value.hint : "an undefined value is used");
}

const std::int64_t* integer_of(const Value& value, std::int64_t& room) {
    if (const auto* flag = value.as<bool>()) {
        room = *flag;
        return &room;
    }
    return value.as<std::int64_t>();
}

namespace {

Result<std::shared_ptr<const Sequence>> shared_items(Budget& budget, std::vector<Value> items) {
    const Value made = TRY(make_list(budget, std::move(items)));
    return *made.as<std::shared_ptr<const Sequence>>();
}

Result<std::shared_ptr<const Sequence>> characters_of(Budget& budget, const Text& text) {
    const std::size_t characters = text.characters();
    TRY(budget.step(characters));
    TRY(budget.take(characters * sizeof(Value)));
    std::vector<Value> items;
    items.reserve(characters);
    const std::string_view all = text.view();
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t bytes = character_bytes(all, at);
        items.push_back(text.slice(at, at + bytes));
        at += bytes;
    }
    return shared_items(budget, std::move(items));
}

}  // namespace

Result<std::shared_ptr<const Sequence>> iterate(Budget& budget, const Value& value) {
    if (const auto* held = value.as<std::shared_ptr<const Sequence>>()) {
        const Sequence& sequence = **held;
        if (sequence.flavor != Sequence::Flavor::iterator) return *held;
        std::vector<Value> rest(sequence.items.begin() + static_cast<std::ptrdiff_t>(sequence.next),
                                sequence.items.end());
        sequence.next = sequence.items.size();
        return shared_items(budget, std::move(rest));
    }
    if (const Text* text = value.text()) return characters_of(budget, *text);
    if (const Dict* dict = value.dict()) {
        std::vector<Value> keys;
        keys.reserve(dict->items.size());
        for (const auto& [key, item] : dict->items) keys.push_back(key);
        return shared_items(budget, std::move(keys));
    }
    if (value.undefined()) return std::make_shared<const Sequence>();
    return type_error("'" + std::string(type_name(value)) + "' object is not iterable");
}

}  // namespace kapitsa::jinja
