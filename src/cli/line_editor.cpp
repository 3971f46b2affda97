#include "cli/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <filesystem>
#include <system_error>

#include "base/terminal.h"
#include "cli/own_folder.h"

namespace kapitsa {
namespace {

constexpr int history_entries = 1000;

// Bracketed paste, as xterm has it and the others have learned it.
constexpr const char *paste_on = "\033[?2004h", *paste_off = "\033[?2004l", *paste_begin = "\033[200~";
constexpr std::wstring_view paste_end = L"\033[201~";

/// libedit counts characters by the locale, and in that of a bare container drops whatever is not ASCII.
void choose_utf8() {
    std::setlocale(LC_CTYPE, "");
    for (const char* name : {"C.UTF-8", "en_US.UTF-8"}) {
        if (std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0) return;
        std::setlocale(LC_CTYPE, name);
    }
}

// How the terminal was found, for a signal that ends the program.
termios found{};
bool is_found = false, brackets = false;

void give_back_and_end(int signal) {
    if (is_found) ::tcsetattr(STDIN_FILENO, TCSANOW, &found);
    if (brackets) {
        [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, paste_off, std::strlen(paste_off));
    }
    ::signal(signal, SIG_DFL);
    ::raise(signal);
}

void give_back_at_the_end(bool with_brackets) {
    is_found = ::tcgetattr(STDIN_FILENO, &found) == 0;
    brackets = with_brackets;
    for (const int signal : {SIGTERM, SIGHUP}) ::signal(signal, give_back_and_end);
}

}  // namespace

std::wstring plain_paste(std::wstring_view pasted) {
    std::wstring text;
    for (std::size_t i = 0; i < pasted.size(); ++i) {
        const wchar_t c = pasted[i];
        if (c == L'\r' && (i + 1 == pasted.size() || pasted[i + 1] != L'\n'))
            text += L'\n';  // what terminals send for a newline
        else if (c == L'\n' || c == L'\t' || (c >= 0x20 && !(c >= 0x7F && c < 0xA0)))
            text += c;
    }
    return text;
}

struct LineEditor::Impl {
    EditLine* editor = nullptr;
    History* history = nullptr;
    std::string history_file;
    const char* prompt = "";
    bool interrupted = false;
    bool brackets_pastes = obeys_escapes(stdout);

    static Impl& of(EditLine* editor) {
        void* self = nullptr;
        el_get(editor, EL_CLIENTDATA, &self);
        return *static_cast<Impl*>(self);
    }
    static const char* show_prompt(EditLine* editor) { return of(editor).prompt; }

    /// An Enter that gives the line up: so the cursor comes to stand below all of it.
    static unsigned char interrupt(EditLine* editor, int) {
        of(editor).interrupted = true;
        el_push(editor, "\n");
        return CC_NORM;
    }

    /// libedit answers the signal: it gives the terminal back, stops the program, and redraws afterwards.
    static unsigned char suspend(EditLine* editor, int) {
        of(editor).bracket_pastes(false);
        ::raise(SIGTSTP);
        of(editor).bracket_pastes(true);
        return CC_REDISPLAY;
    }

    static unsigned char newline(EditLine* editor, int) {
        return el_winsertstr(editor, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
    }

    static unsigned char paste(EditLine* editor, int) {
        std::wstring pasted;
        for (wchar_t c = 0; !pasted.ends_with(paste_end); pasted += c) {
            if (el_wgetc(editor, &c) != 1) return CC_EOF;
            if (c == L'\x03') return interrupt(editor, c);  // of a paste that does not end
        }
        pasted.resize(pasted.size() - paste_end.size());
        const std::wstring text = plain_paste(pasted);
        return text.empty() || el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
    }

    void bracket_pastes(bool on) const {
        if (!brackets_pastes) return;
        std::fputs(on ? paste_on : paste_off, stdout);
        std::fflush(stdout);
    }

    void bind() {
        const auto key = [this](const char* keys, const char* name, const char* purpose,
                                unsigned char (*function)(EditLine*, int)) {
            el_set(editor, EL_ADDFN, name, purpose, function);
            el_set(editor, EL_BIND, keys, name, nullptr);
        };
        key("^C", "interrupt", "Gives the line up", &Impl::interrupt);
        key("^Z", "suspend", "Stops the program", &Impl::suspend);
        key(paste_begin, "paste", "Takes what the terminal pastes", &Impl::paste);
        key("\033\r", "newline", "Begins a new line", &Impl::newline);
        el_set(editor, EL_BIND, "\033\n", "newline", nullptr);
        el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    }

    /// At once: the program may not come to its end.
    void remember(const std::string& text) const {
        HistEvent event;
        ::history(history, &event, H_ENTER, text.c_str());
        if (!history_file.empty()) ::history(history, &event, H_SAVE, history_file.c_str());
    }

    Input read_line(const char* prompt);
};

LineEditor::LineEditor(std::string history_file) : impl_(std::make_unique<Impl>()) {
    choose_utf8();
    give_back_at_the_end(impl_->brackets_pastes);
    impl_->history_file = std::move(history_file);
    impl_->history = ::history_init();
    HistEvent event;
    ::history(impl_->history, &event, H_SETSIZE, history_entries);
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
    impl_->bind();
    el_set(impl_->editor, EL_SIGNAL, 1);
    el_source(impl_->editor, nullptr);  // the person's own ~/.editrc
    // All the time, and not only while a line is edited: what is pasted during an answer waits in one piece.
    impl_->bracket_pastes(true);
}

LineEditor::~LineEditor() {
    impl_->bracket_pastes(false);
    el_end(impl_->editor);
    ::history_end(impl_->history);
}

LineEditor::Silence::Silence() {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios silent = before_;
    silent.c_lflag &= ~tcflag_t(ECHO | ICANON);
    set_ = ::tcsetattr(STDIN_FILENO, TCSADRAIN, &silent) == 0;
}

LineEditor::Silence::~Silence() {
    if (set_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

LineEditor::Input LineEditor::Impl::read_line(const char* shown) {
    prompt = shown;
    interrupted = false;
    // libedit takes the terminal over only once the prompt is out: a Ctrl-C in between would be a signal.
    el_set(editor, EL_PREP_TERM, 1);
    el_resize(editor);  // it hears of the window's size only while a line is edited
    int bytes = 0;
    const char* line = el_gets(editor, &bytes);
    if (!line || bytes <= 0) {
        std::fputs("\n", stdout);
        return {Input::Kind::end};
    }
    std::string text(line, static_cast<std::size_t>(bytes));
    if (text.ends_with('\n')) text.pop_back();
    return {interrupted ? Input::Kind::interrupted : Input::Kind::text, std::move(text)};
}

LineEditor::Input LineEditor::read() {
    std::string text;
    for (const char* prompt = "> ";; prompt = ". ") {
        auto input = impl_->read_line(prompt);
        text += input.text;
        input.text = text;
        if (input.kind != Input::Kind::text) return input;
        if (!text.ends_with('\\')) break;
        text.back() = '\n';
    }
    if (text.find_first_not_of(" \t\n") != text.npos) impl_->remember(text);
    return {Input::Kind::text, std::move(text)};
}

std::string history_file() {
    const std::filesystem::path folder = own_folder("XDG_STATE_HOME", ".local/state");
    if (folder.empty()) return {};
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    return failed ? std::string() : (folder / "history").string();
}

}  // namespace kapitsa
