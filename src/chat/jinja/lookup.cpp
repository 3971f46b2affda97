// Attributes and items. jinja2 tries both for both: `x.name` the attribute first, `x['name']` the item first.
#include "chat/jinja/machine.h"

namespace kapitsa::jinja {

namespace {

Value missing_attribute(const Value& of, std::string_view name) {
    std::string subject = "'" + std::string(type_name(of)) + " object'";
    if (of.none()) subject = "'None'";
    return undefined_value(subject + " has no attribute '" + std::string(name) + "'");
}

Result<Value> bound(std::string_view name, Function function, const Value& self) {
    if (depth_of(self) >= value_depth_limit) return type_error("a value nests too deep");
    return std::make_shared<const Callable>(Callable{name, function, self});
}

Value element(const Loop& loop, std::ptrdiff_t offset, const char* hint) {
    const auto at = static_cast<std::ptrdiff_t>(loop.at) + offset;
    if (at < 0 || at >= static_cast<std::ptrdiff_t>(loop.items->items.size())) return undefined_value(hint);
    return loop.items->items[static_cast<std::size_t>(at)];
}

/// A property of `loop`; undefined with no hint where there is none of that name.
Value loop_property(const Loop& loop, std::string_view name) {
    const auto at = static_cast<std::int64_t>(loop.at);
    const auto length = static_cast<std::int64_t>(loop.items->items.size());
    if (name == "index") return at + 1;
    if (name == "index0") return at;
    if (name == "revindex") return length - at;
    if (name == "revindex0") return length - at - 1;
    if (name == "first") return at == 0;
    if (name == "last") return at + 1 == length;
    if (name == "length") return length;
    if (name == "depth") return std::int64_t{1};
    if (name == "depth0") return std::int64_t{0};
    if (name == "previtem") return element(loop, -1, "there is no previous item");
    if (name == "nextitem") return element(loop, 1, "there is no next item");
    return Value();
}

/// What Python's getattr would find; undefined with no hint where there is nothing.
Result<Value> own_attribute(const Value& of, std::string_view name) {
    if (const auto* space = of.as<Namespace*>()) {
        const Value* held = (*space)->find(name);
        return held ? *held : Value();
    }
    if (const auto* loop = of.as<std::shared_ptr<Loop>>()) {
        if (const Function method = find_loop_method(name)) return bound(name, method, of);
        return loop_property(**loop, name);
    }
    if (of.text()) {
        const Function method = find_text_method(name);
        return method ? bound(name, method, of) : Result<Value>(Value());
    }
    if (const auto* callable = of.as<std::shared_ptr<const Callable>>()) {
        if ((*callable)->macro && name == "name") return control_text(std::string((*callable)->name));
        return Value();
    }
    const Function method = find_container_method(of, name);
    return method ? bound(name, method, of) : Result<Value>(Value());
}

bool found(const Value& value) { return !value.undefined() || value.as<Undefined>()->hint; }

Result<Value> indexed(const Value& of, std::int64_t at) {
    if (const Text* text = of.text()) {
        const auto length = static_cast<std::int64_t>(text->characters());
        if (at < 0) at += length;
        if (at < 0 || at >= length) return Value();
        const std::size_t begin = text->byte_of(static_cast<std::size_t>(at));
        const Text rest = text->slice(begin, text->bytes());
        return rest.slice(0, rest.byte_of(1));
    }
    const Sequence* sequence = of.sequence();
    if (!sequence || sequence->flavor == Sequence::Flavor::view ||
        sequence->flavor == Sequence::Flavor::iterator)
        return Value();
    const auto length = static_cast<std::int64_t>(sequence->items.size());
    if (at < 0) at += length;
    if (at < 0 || at >= length) return Value();
    return sequence->items[static_cast<std::size_t>(at)];
}

}  // namespace

Result<Value> Machine::attribute(const Value& of, std::string_view name) {
    if (const auto* missing = of.as<Undefined>()) return undefined_error(*missing);
    Value held = TRY(own_attribute(of, name));
    if (found(held)) return held;
    if (const Dict* dict = of.dict())
        if (const Value* value = dict->find(name)) return *value;
    return missing_attribute(of, name);
}

Result<Value> Machine::item(const Value& of, const Value& key) {
    if (const auto* missing = of.as<Undefined>()) return undefined_error(*missing);
    std::int64_t room;
    if (const Dict* dict = of.dict()) {
        if (const Text* text = key.text()) {
            if (const Value* value = dict->find(text->view())) return *value;
        } else {
            for (const auto& [name, value] : dict->items)
                if (TRY(equals(budget_, name, key))) return value;
        }
    } else if (const auto* at = integer_of(key, room)) {
        if (of.text() && !of.text()->ascii()) TRY(budget_.step(of.text()->bytes() / 64));
        Value held = TRY(indexed(of, *at));
        if (found(held)) return held;
    }
    if (const Text* text = key.text()) {
        Value held = TRY(own_attribute(of, text->view()));
        if (found(held)) return held;
        return missing_attribute(of, text->view());
    }
    return undefined_value("'" + std::string(type_name(of)) + " object' has no such element");
}

}  // namespace kapitsa::jinja
