#include "cli/arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/utf8.h"
#include "formats/in_quotes.h"

namespace kapitsa {
namespace {

constexpr std::size_t help_columns = 100, left_columns = 26;

/// Digits and nothing else; `value` is touched only when it is in the range.
template <typename Number>
bool read_number(std::string_view text, std::uint64_t least, std::uint64_t most, Number& value) {
    std::uint64_t read = 0;
    const char *begin = text.data(), *end = begin + text.size();
    const auto [after, error] = std::from_chars(begin, end, read);
    if (error != std::errc() || after != end || read < least || read > most) return false;
    value = static_cast<Number>(read);
    return true;
}

bool read_bytes(std::string_view text, std::optional<std::uint64_t>& value) {
    constexpr std::string_view units = "KMGT";
    if (text == "off") value = 0;
    if (text == "off") return true;
    if (text.ends_with("B") && text.size() > 2) text.remove_suffix(1);
    const auto unit = text.empty() ? units.npos : units.find(text.back());
    if (unit == units.npos) return false;
    std::uint64_t count = 0;
    if (!read_number(text.substr(0, text.size() - 1), 1, 1u << 20, count)) return false;
    value = count << (10 * (unit + 1));
    return true;
}

bool read_real(std::string_view text, double least, double most, std::optional<double>& value) {
    // strtod also reads "nan", "inf" and hexadecimal, and skips blanks: none of that is meant here.
    if (text.empty() || text.find_first_not_of("0123456789+-.eE") != text.npos) return false;
    const std::string copy(text);
    char* after = nullptr;
    const double read = std::strtod(copy.c_str(), &after);
    if (*after != '\0' || !(read >= least && read <= most)) return false;
    value = read;
    return true;
}

std::string whole_number(std::uint64_t least, std::uint64_t most) {
    return fmt::format("a whole number from {} to {}", least, most);
}

/// "--port=80" and "-m80" carry their value with them.
struct Split {
    std::string_view name;
    std::optional<std::string_view> value;
};
Split split(std::string_view word) {
    const bool is_long = word.starts_with("--");
    const std::size_t name_bytes = is_long ? word.find('=') : 2;
    if (name_bytes >= word.size()) return {word, std::nullopt};
    return {word.substr(0, name_bytes), word.substr(name_bytes + (is_long ? 1 : 0))};
}

}  // namespace

void Arguments::flag(const char* names, bool& into, const char* purpose) {
    const auto take = [&into](std::string_view value) {
        into = true;
        return value.empty();
    };
    options_.push_back({names, "", "no value", purpose, "off", take});
}

void Arguments::text(const char* names, std::string& into, const char* placeholder, const char* purpose,
                     const char* standard) {
    const auto take = [&into](std::string_view value) {
        into = value;
        return !value.empty();
    };
    options_.push_back({names, placeholder, placeholder, purpose, into.empty() ? standard : into, take});
}

void Arguments::texts(const char* names, std::vector<std::string>& into, const char* placeholder,
                      const char* purpose) {
    const auto take = [&into](std::string_view value) {
        into.emplace_back(value);
        return !value.empty();
    };
    options_.push_back({names, placeholder, placeholder, purpose, "none", take});
}

void Arguments::number(const char* names, std::uint64_t& into, std::uint64_t least, std::uint64_t most,
                       const char* purpose, const char* standard) {
    const auto take = [&into, least, most](std::string_view value) {
        return read_number(value, least, most, into);
    };
    options_.push_back(
        {names, "N", whole_number(least, most), purpose, *standard ? standard : std::to_string(into), take});
}

void Arguments::number(const char* names, std::optional<std::uint64_t>& into, std::uint64_t least,
                       std::uint64_t most, const char* purpose, const char* standard) {
    const auto take = [&into, least, most](std::string_view value) {
        return read_number(value, least, most, into);
    };
    options_.push_back({names, "N", whole_number(least, most), purpose, standard, take});
}

void Arguments::bytes(const char* names, std::optional<std::uint64_t>& into, const char* purpose,
                      const char* standard) {
    const auto take = [&into](std::string_view value) { return read_bytes(value, into); };
    options_.push_back({names, "SIZE", "a size like 800M or 12G, or off", purpose, standard, take});
}

void Arguments::numbers(const char* names, std::vector<std::uint32_t>& into, std::uint32_t least,
                        std::uint32_t most, const char* purpose) {
    const auto take = [&into, least, most](std::string_view list) {
        into.clear();
        for (std::size_t begin = 0; begin <= list.size();) {
            const std::size_t end = std::min(list.find(',', begin), list.size());
            if (!read_number(list.substr(begin, end - begin), least, most, into.emplace_back())) return false;
            begin = end + 1;
        }
        return true;
    };
    std::string standard;
    for (const auto number : into) standard += (standard.empty() ? "" : ",") + std::to_string(number);
    options_.push_back({names, "N,N,...",
                        fmt::format("whole numbers from {} to {}, separated by commas", least, most), purpose,
                        standard, take});
}

void Arguments::real(const char* names, std::optional<double>& into, double least, double most,
                     const char* purpose, const char* standard) {
    const auto take = [&into, least, most](std::string_view value) {
        return read_real(value, least, most, into);
    };
    options_.push_back(
        {names, "X", fmt::format("a number from {} to {}", least, most), purpose, standard, take});
}

void Arguments::words(const char* placeholder, std::optional<std::string>& into, const char* purpose) {
    words_ = Words{placeholder, purpose, &into, nullptr};
}

void Arguments::each_word(const char* placeholder, std::vector<std::string>& into, const char* purpose) {
    words_ = Words{placeholder, purpose, nullptr, &into};
}

const Arguments::Option* Arguments::find(std::string_view name) const {
    for (const Option& option : options_) {
        const std::string_view names = option.names;
        const std::size_t comma = names.find(',');
        if (name == names.substr(0, comma) || (comma != names.npos && name == names.substr(comma + 1)))
            return &option;
    }
    return nullptr;
}

std::unexpected<Error> Arguments::refuse(const std::string& what) const {
    return fail(Fault::invalid_input, what + "; " + command_ + " --help says more");
}

Status Arguments::take_option(const Option& option, std::string_view name,
                              std::optional<std::string_view> value) const {
    const std::string form = std::string(name) + " takes " + option.form;
    if (!value) return refuse(form + ", and nothing stands behind it");
    if (!option.take(*value)) return refuse(form + ", and not " + in_quotes(*value));
    return Done{};
}

Status Arguments::take_word(std::string_view word) {
    if (!words_) return refuse(in_quotes(word) + " is no option, and " + command_ + " takes nothing else");
    if (words_->each) {
        words_->each->emplace_back(word);
        return Done{};
    }
    std::optional<std::string>& into = *words_->into;
    into = into ? *into + " " + std::string(word) : std::string(word);
    return Done{};
}

Result<Arguments::Wanted> Arguments::parse(std::span<const char* const> words) {
    for (const std::string_view word : words)
        if (!is_utf8(word)) return refuse("the argument " + in_quotes(word) + " is not UTF-8 text");
    bool options_ended = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string_view word = words[i];
        if (options_ended || word.size() < 2 || word.front() != '-') {
            TRY(take_word(word));
            continue;
        }
        if (word == "-h" || word == "--help") return Wanted::help;
        options_ended = word == "--";
        if (options_ended) continue;
        auto [name, value] = split(word);
        const Option* option = find(name);
        if (!option)
            return refuse("there is no option " + std::string(name) +
                          (words_ ? " (words that begin with a dash stand behind --)" : ""));
        if (!value && option->is_flag()) value = "";
        if (!value && i + 1 < words.size()) value = words[++i];
        TRY(take_option(*option, name, value));
    }
    return Wanted::run;
}

std::string Arguments::help() const {
    std::string text =
        "Usage: " + command_ + " [OPTIONS]" + (words_ ? " [" + words_->placeholder + "]" : "") + "\n\n";
    if (words_) text += help_row(words_->placeholder, words_->purpose) + "\n";
    text += "Options, and in brackets what holds without them:\n";
    for (const Option& option : options_) {
        std::string names = option.names;
        if (const auto comma = names.find(','); comma != names.npos) names.insert(comma + 1, " ");
        if (!option.is_flag()) names += " " + option.placeholder;
        const bool ranged = option.form.find(" from ") != std::string::npos;
        text += help_row(names,
                         option.purpose + (ranged ? ": " + option.form : "") + " [" + option.standard + "]");
    }
    return text + help_row("-h, --help", "Shows this");
}

std::string help_row(std::string_view left, std::string_view right) {
    std::string text = fmt::format("  {:<{}}", left, left_columns - 2);
    std::size_t column = text.size();
    if (column > left_columns || text.back() != ' ') column = help_columns;  // begins on a line of its own
    for (std::size_t begin = 0; begin < right.size();) {
        const std::size_t end = std::min(right.find(' ', begin), right.size());
        if (column + 1 + (end - begin) > help_columns) {
            text += "\n" + std::string(left_columns, ' ');
            column = left_columns;
        }
        const std::string_view space = text.back() == ' ' ? "" : " ";
        text.append(space).append(right.substr(begin, end - begin));
        column += space.size() + (end - begin);
        begin = end + 1;
    }
    return text + "\n";
}

}  // namespace kapitsa
