// Errors as values: a fault for programs and a sentence for people.
// Nothing of ours throws; what can fail returns a Result, and TRY hands the reason up.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace kapitsa {

/// What kind of thing went wrong. Mapped to an HTTP status and to an exit code in one table each.
enum class Fault {
    invalid_input,  // somebody asked for what cannot be: a request, an option, a file that is not there
    corrupt_file,   // a file breaks the rules of its own format
    unsupported,    // it is well formed, and we do not do it
    out_of_memory,  // it would not fit, or the queue is full
    device,         // the device failed, and stays failed
    cancelled,      // whoever asked is no longer there
};

/// What went wrong, in words that a user can act on.
struct Error {
    Fault fault;
    std::string message;

    /// Adds the caller's view in front: "loading model.safetensors: the file ends inside a field".
    Error because(std::string context) && {
        message = std::move(context) + ": " + message;
        return std::move(*this);
    }
};

/// A value, or the reason there is none.
template <typename T>
using Result = std::expected<T, Error>;

struct Done {};
using Status = Result<Done>;

/// The failing half of a Result: `return fail(Fault::corrupt_file, "the header is cut short");`
[[nodiscard]] inline std::unexpected<Error> fail(Fault fault, std::string message) {
    return std::unexpected(Error{fault, std::move(message)});
}
[[nodiscard]] inline std::unexpected<Error> fail(Error error) { return std::unexpected(std::move(error)); }

}  // namespace kapitsa

/// Unwraps a Result, or returns its Error from the enclosing function. (A GNU statement expression: GCC and
/// both clangs have them. Not for coroutines, which must `co_return`.) Each has a name of its own, so that one
/// may stand inside another.
#define TRY(...) TRY_AS(TRY_NAME(try_result_, __COUNTER__), __VA_ARGS__)
#define TRY_NAME(stem, number) TRY_JOIN(stem, number)
#define TRY_JOIN(stem, number) stem##number
#define TRY_AS(name, ...)                                           \
    __extension__({                                                 \
        auto name = (__VA_ARGS__);                                  \
        if (!name) return std::unexpected(std::move(name.error())); \
        std::move(*name);                                           \
    })
