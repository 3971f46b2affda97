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

class Speaker {
public:
    /// On a terminal reasoning is shown dim; elsewhere it is left out, and the text is written as it is.
    Speaker(std::FILE* out, bool terminal) : out_(out), terminal_(terminal) {}

    void say(std::span<const ReplyPiece> pieces);
    /// Ends the line that is begun, and whatever is dim.
    void finish();
    /// A line about the answer and not of it; on terminals only.
    void note(const std::string& line);

private:
    void turn(bool dim);

    std::FILE* out_;
    bool terminal_;
    bool dim_ = false;
    bool line_begun_ = false;
};

}  // namespace kapitsa
