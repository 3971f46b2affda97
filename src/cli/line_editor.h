// Questions from a person at a terminal, with editing and a history that outlives the program (libedit). A
// paste stays one text, whatever lines it has: the terminal is asked to say where it begins and ends.
#pragma once

#include <termios.h>

#include <memory>
#include <string>

namespace kapitsa {

class LineEditor {
public:
    struct Input {
        enum class Kind { text, interrupted, end } kind;  // Enter; Ctrl-C; Ctrl-D or the end of the input
        std::string text = {};                            // without the last newline; what Ctrl-C gave up
    };

    /// `history_file`: read now, written at every question; "" keeps none. A history that cannot be read or
    /// written is no reason not to talk.
    explicit LineEditor(std::string history_file);
    ~LineEditor();

    /// While one lives, what is typed is not shown, and waits as it is for the next read(): Ctrl-D, too.
    /// Ctrl-C and Ctrl-Z are signals.
    class Silence {
    public:
        Silence();
        ~Silence();
        Silence(const Silence&) = delete;
        Silence& operator=(const Silence&) = delete;

    private:
        termios before_{};
        bool set_ = false;
    };

    /// Has the lines that were pasted, or begun with Alt-Enter or after a backslash.
    Input read();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// Where the history of conversations is kept, its folder made; "" where there is no such place.
std::string history_file();

/// Pasted text as it is put into a line: newlines as we have them, no other control characters but tabs.
std::wstring plain_paste(std::wstring_view pasted);

}  // namespace kapitsa
