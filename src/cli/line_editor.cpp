#include "cli/line_editor.h"

#include <histedit.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace kapitsa {
namespace {

constexpr int history_lines = 1000;

}  // namespace

struct LineEditor::Impl {
    EditLine* editor = nullptr;
    History* history = nullptr;
    std::string history_file;
    const char* prompt = "";
    bool interrupted = false;

    static Impl& of(EditLine* editor) {
        void* self = nullptr;
        el_get(editor, EL_CLIENTDATA, &self);
        return *static_cast<Impl*>(self);
    }
    static const char* show_prompt(EditLine* editor) { return of(editor).prompt; }
    static unsigned char interrupt(EditLine* editor, int) {
        of(editor).interrupted = true;
        return CC_EOF;
    }
    /// libedit answers the signal: it gives the terminal back, stops the program, and redraws afterwards.
    static unsigned char suspend(EditLine*, int) {
        ::raise(SIGTSTP);
        return CC_REDISPLAY;
    }
};

LineEditor::LineEditor(std::string history_file) : impl_(std::make_unique<Impl>()) {
    std::setlocale(LC_CTYPE, "");  // libedit counts characters by it
    impl_->history_file = std::move(history_file);
    impl_->history = ::history_init();
    HistEvent event;
    ::history(impl_->history, &event, H_SETSIZE, history_lines);
    ::history(impl_->history, &event, H_SETUNIQUE, 1);
    if (!impl_->history_file.empty()) ::history(impl_->history, &event, H_LOAD, impl_->history_file.c_str());

    impl_->editor = el_init("kapitsa", stdin, stdout, stderr);
    el_set(impl_->editor, EL_CLIENTDATA, impl_.get());
    el_set(impl_->editor, EL_PROMPT, &Impl::show_prompt);
    el_set(impl_->editor, EL_HIST, ::history, impl_->history);
    el_set(impl_->editor, EL_EDITOR, "emacs");
    // While a line is edited Ctrl-C is a key like others and gives the line up; the rest of the time it is a
    // signal. The terminal makes signals of all such keys or of none, so Ctrl-Z is a key as well.
    el_set(impl_->editor, EL_SETTY, "-d", "-isig", nullptr);
    el_set(impl_->editor, EL_ADDFN, "interrupt", "Gives the line up", &Impl::interrupt);
    el_set(impl_->editor, EL_ADDFN, "suspend", "Stops the program", &Impl::suspend);
    el_set(impl_->editor, EL_BIND, "^C", "interrupt", nullptr);
    el_set(impl_->editor, EL_BIND, "^Z", "suspend", nullptr);
    el_set(impl_->editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_set(impl_->editor, EL_SIGNAL, 1);
    el_source(impl_->editor, nullptr);  // the person's own ~/.editrc
}

LineEditor::~LineEditor() {
    HistEvent event;
    if (!impl_->history_file.empty()) ::history(impl_->history, &event, H_SAVE, impl_->history_file.c_str());
    el_end(impl_->editor);
    ::history_end(impl_->history);
}

LineEditor::Line LineEditor::read(const char* prompt) {
    impl_->prompt = prompt;
    impl_->interrupted = false;
    int bytes = 0;
    const char* line = el_gets(impl_->editor, &bytes);
    if (impl_->interrupted) {
        std::fputs("\n", stdout);
        return {Line::Kind::interrupted};
    }
    if (!line || bytes <= 0) {
        std::fputs("\n", stdout);
        return {Line::Kind::end};
    }

    Line read{Line::Kind::text, std::string(line, static_cast<std::size_t>(bytes))};
    while (!read.text.empty() && (read.text.back() == '\n' || read.text.back() == '\r')) read.text.pop_back();
    HistEvent event;
    if (read.text.find_first_not_of(" \t") != std::string::npos)
        ::history(impl_->history, &event, H_ENTER, read.text.c_str());
    return read;
}

std::string history_file() {
    const char* state = std::getenv("XDG_STATE_HOME");
    const char* home = std::getenv("HOME");
    std::filesystem::path folder;
    if (state && *state)
        folder = state;
    else if (home && *home)
        folder = std::filesystem::path(home) / ".local/state";
    else
        return {};
    folder /= "kapitsa";
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    return failed ? std::string() : (folder / "history").string();
}

}  // namespace kapitsa
