// Lines from a person at a terminal, with editing and a history that outlives the program (libedit).
#pragma once

#include <memory>
#include <string>

namespace kapitsa {

class LineEditor {
public:
    struct Line {
        enum class Kind { text, interrupted, end } kind;  // a line; Ctrl-C; Ctrl-D or the end of the input
        std::string text = {};                            // without the newline
    };

    /// `history_file`: read now, written by the destructor; "" keeps none. A history that cannot be read or
    /// written is no reason not to talk.
    explicit LineEditor(std::string history_file);
    ~LineEditor();

    Line read(const char* prompt);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// $XDG_STATE_HOME/kapitsa/history, else ~/.local/state/kapitsa/history, its folder made; "" without a home.
std::string history_file();

}  // namespace kapitsa
