#include "cli/question.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/utf8.h"

namespace kapitsa {
namespace {

constexpr std::size_t input_bytes_max = 16u << 20;
constexpr int patience_ms = 2000;

/// A program that starts this one may leave a pipe open and never write to it: then somebody must be told why
/// nothing happens.
void say_what_is_waited_for(int input) {
    pollfd state{.fd = input, .events = POLLIN, .revents = 0};
    if (::poll(&state, 1, patience_ms) == 0)
        std::fputs("kapitsa: waiting for standard input to end (</dev/null leaves it out)\n", stderr);
}

Result<std::string> read_to_the_end(int input) {
    std::string text;
    say_what_is_waited_for(input);
    for (char buffer[1 << 16];;) {
        const ssize_t bytes = ::read(input, buffer, sizeof buffer);
        if (bytes == 0) break;
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0 && errno == EBADF) break;  // started without: there is nothing to read
        if (bytes < 0)
            return fail(Fault::invalid_input,
                        std::string("standard input cannot be read: ") + std::strerror(errno));
        text.append(buffer, static_cast<std::size_t>(bytes));
        if (text.size() > input_bytes_max)
            return fail(Fault::invalid_input, "standard input is longer than 16 MiB: ask with less of it");
    }
    if (const std::size_t valid = valid_utf8_prefix(text); valid < text.size())
        return fail(Fault::invalid_input, "standard input is not UTF-8 text (byte " + std::to_string(valid) +
                                              "): convert it first, or ask with something else");
    while (text.ends_with('\n')) text.pop_back();
    return text;
}

}  // namespace

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n\v\f") == text.npos; }

Result<std::string> read_question(const std::optional<std::string>& words, int input) {
    if (words && is_blank(*words))
        return fail(Fault::invalid_input, "the question is blank: write it behind kapitsa chat, in quotes");
    const bool reads = !words || ::isatty(input) != 1;
    const std::string text = reads ? TRY(read_to_the_end(input)) : "";
    if (!is_blank(text)) return words ? *words + "\n\n" + text : text;
    if (words) return *words;
    return fail(Fault::invalid_input,
                "standard input has no question, only blanks or nothing: kapitsa chat \"...\" asks one");
}

}  // namespace kapitsa
