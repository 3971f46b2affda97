// What a template computes with: Python's values, as far as templates see them. All are immutable but for
// namespaces, so values form no cycles; a namespace belongs to its rendering, never to a value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/result.h"
#include "chat/jinja/budget.h"
#include "chat/jinja/text.h"

namespace kapitsa::jinja {

struct Sequence;
struct Dict;
struct Namespace;
struct Callable;
struct Loop;

struct None {};
struct Undefined {
    std::shared_ptr<const std::string> hint;  // what to say when it is used: "'x' is undefined"
};
/// An integer past 64 bits. It prints and compares as its digits; there is no arithmetic with it.
struct BigInteger {
    std::shared_ptr<const std::string> digits;
};

class Value {
public:
    using Any = std::variant<Undefined, None, bool, std::int64_t, BigInteger, double, Text,
                             std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, Namespace*,
                             std::shared_ptr<const Callable>, std::shared_ptr<Loop>>;

    Value() = default;
    template <typename T>
        requires(!std::is_same_v<std::remove_cvref_t<T>, Value>)
    Value(T&& any) : any_(std::forward<T>(any)) {}

    template <typename T>
    bool is() const {
        return std::holds_alternative<T>(any_);
    }
    template <typename T>
    const T* as() const {
        return std::get_if<T>(&any_);
    }
    const Text* text() const { return as<Text>(); }
    const Sequence* sequence() const {
        const auto* held = as<std::shared_ptr<const Sequence>>();
        return held ? held->get() : nullptr;
    }
    const Dict* dict() const {
        const auto* held = as<std::shared_ptr<const Dict>>();
        return held ? held->get() : nullptr;
    }
    bool undefined() const { return is<Undefined>(); }
    bool none() const { return is<None>(); }
    const Any& any() const { return any_; }

private:
    Any any_;
};

struct Sequence {
    enum class Flavor { list, tuple, view, iterator, range } flavor = Flavor::list;
    std::vector<Value> items;
    std::string name = {};         // "dict_keys", "range(0, 3)": how a view or a range prints itself
    bool plain = false;            // came from the conversation: its brackets are plain when printed
    unsigned depth = 1;            // levels of nesting, this one included
    mutable std::size_t next = 0;  // of an iterator: what of it has been taken
};

struct Dict {
    std::vector<std::pair<Value, Value>> items;  // in the order of insertion
    bool plain = false;
    unsigned depth = 1;

    /// The value under a text key, or null.
    const Value* find(std::string_view key) const;
    std::unordered_map<std::string_view, std::size_t> index = {};  // of the text keys, when there are many
};

struct Namespace {
    std::vector<std::pair<std::string, Value>> items;
    const Value* find(std::string_view key) const;
};

/// The state of a running `for`.
struct Loop {
    std::shared_ptr<const Sequence> items;
    std::size_t at = 0;
    unsigned nesting = 1;
    bool finished = false;
    std::vector<Value> changed = {};  // what loop.changed() saw last; emptied when the loop ends
    bool asked = false;
};

unsigned depth_of(const Value& value);
/// These refuse what nests too deep or is too large.
Result<Value> make_sequence(Budget& budget, Sequence::Flavor flavor, std::vector<Value> items,
                            std::string name = {}, bool plain = false);
Result<Value> make_dict(Budget& budget, std::vector<std::pair<Value, Value>> items, bool plain = false);
inline Result<Value> make_list(Budget& budget, std::vector<Value> items) {
    return make_sequence(budget, Sequence::Flavor::list, std::move(items));
}
inline Result<Value> make_tuple(Budget& budget, std::vector<Value> items) {
    return make_sequence(budget, Sequence::Flavor::tuple, std::move(items));
}

/// A dict from keys as they come: a later value replaces an earlier one, and keeps its place.
class DictBuilder {
public:
    explicit DictBuilder(Budget& budget) : budget_(budget) {}
    Status put(Value key, Value value);
    std::size_t size() const { return items_.size(); }
    Result<Value> finish() { return make_dict(budget_, std::move(items_)); }

private:
    Budget& budget_;
    std::vector<std::pair<Value, Value>> items_;
    std::unordered_map<std::string_view, std::size_t> places_;  // of the text keys
};

Value undefined_value(std::string hint);
inline Value control_text(std::string text) { return Text::control(std::move(text)); }

/// Python's bool(): never fails.
bool truth(const Value& value);
/// Python's name of the type: "str", "int".
std::string_view type_name(const Value& value);
/// The error of using an undefined value.
std::unexpected<Error> undefined_error(const Undefined& value);
inline std::unexpected<Error> type_error(std::string message) {
    return fail(Fault::invalid_input, std::move(message));
}

/// An integer or a boolean as an integer.
const std::int64_t* integer_of(const Value& value, std::int64_t& room);
/// What Python's iter() would give, as a sequence: characters of a text, keys of a dict, nothing of an
/// undefined value. An iterator is used up.
Result<std::shared_ptr<const Sequence>> iterate(Budget& budget, const Value& value);
/// Python's ==, which cannot fail but by its cost.
Result<bool> equals(Budget& budget, const Value& left, const Value& right);
/// Python's <; fails for types that have no order.
Result<bool> less(Budget& budget, const Value& left, const Value& right);

}  // namespace kapitsa::jinja
