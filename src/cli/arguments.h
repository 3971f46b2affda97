// What one command understands on its command line: its options are declared, then read, then explained by
// --help. Every refusal is one sentence: the option, the form it takes, and where help is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kapitsa {

/// Every `into` must live until the command has run. It keeps the value it has where the option is not given:
/// that is the default, and --help shows it, or the words of `standard` where the value says nothing.
/// names: "-v,--verbose".
class Arguments {
public:
    /// command: as it is typed, "kapitsa chat".
    explicit Arguments(std::string command) : command_(std::move(command)) {}

    void flag(const char* names, bool& into, const char* purpose);
    /// Any text that is not empty.
    void text(const char* names, std::string& into, const char* placeholder, const char* purpose,
              const char* standard = "none");
    /// The same, as often as it is given.
    void texts(const char* names, std::vector<std::string>& into, const char* placeholder,
               const char* purpose);
    void number(const char* names, std::uint64_t& into, std::uint64_t least, std::uint64_t most,
                const char* purpose, const char* standard = "");
    void number(const char* names, std::optional<std::uint64_t>& into, std::uint64_t least,
                std::uint64_t most, const char* purpose, const char* standard);
    /// Bytes, as people write them: 800M, 12G (powers of 1024), or "off" for 0.
    void bytes(const char* names, std::optional<std::uint64_t>& into, const char* purpose,
               const char* standard);
    /// Whole numbers separated by commas.
    void numbers(const char* names, std::vector<std::uint32_t>& into, std::uint32_t least, std::uint32_t most,
                 const char* purpose);
    /// NaN and the infinities are in no range.
    void real(const char* names, std::optional<double>& into, double least, double most, const char* purpose,
              const char* standard);
    /// Words without an option in front; several are joined by spaces.
    void words(const char* placeholder, std::optional<std::string>& into, const char* purpose);
    /// The same, each for itself.
    void each_word(const char* placeholder, std::vector<std::string>& into, const char* purpose);

    enum class Wanted { run, help };
    /// Fault::invalid_input with a sentence for people. A word that is not UTF-8 is refused, whatever it is
    /// for.
    Result<Wanted> parse(std::span<const char* const> words);

    /// The options with what they take and their defaults.
    std::string help() const;

private:
    struct Option {
        std::string names, placeholder;
        std::string form;  // what it takes, in words: "a whole number from 1 to 9"
        std::string purpose, standard;
        std::function<bool(std::string_view)> take;  // false: not of that form
        bool is_flag() const { return placeholder.empty(); }
    };
    struct Words {
        std::string placeholder, purpose;
        std::optional<std::string>* into;  // null: `each`
        std::vector<std::string>* each;
    };

    const Option* find(std::string_view name) const;
    Status take_option(const Option& option, std::string_view name,
                       std::optional<std::string_view> value) const;
    Status take_word(std::string_view word);
    std::unexpected<Error> refuse(const std::string& what) const;

    std::string command_;
    std::vector<Option> options_;
    std::optional<Words> words_;
};

/// `left` in a column, `right` beside it, wrapped: how every --help lists things.
std::string help_row(std::string_view left, std::string_view right);

}  // namespace kapitsa
