// An answer on its way to a terminal or a file: thinking dim or not at all, and no byte of the model's text
// that a terminal would take for a command.
#pragma once

#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "chat/reply_reader.h"

namespace kapitsa {

/// The text without control characters (C0 but for newline and tab, DEL, C1): escape sequences lose their
/// power. `text` is whole UTF-8.
std::string printable(std::string_view text);

/// What a stream is to be spoken to like.
enum class Manner {
    file,   // the text as it is, and no reasoning
    plain,  // a terminal without colours: reasoning in brackets of words
    dim,    // a terminal: reasoning and notes dim
};
Manner manner_of(std::FILE* stream);

/// Writes, and leaves it to the caller to flush.
class Speaker {
public:
    Speaker(std::FILE* out, Manner manner) : out_(out), manner_(manner) {}

    void say(std::span<const ReplyPiece> pieces);
    /// Ends the line that is begun, and whatever is dim.
    void finish();
    /// A line about the answer and not of it: on stderr, where the answer goes to a file.
    void note(const std::string& line);

private:
    void turn(bool reasoning);
    void end_line();

    std::FILE* out_;
    Manner manner_;
    bool reasoning_ = false;
    bool line_begun_ = false;
};

}  // namespace kapitsa
