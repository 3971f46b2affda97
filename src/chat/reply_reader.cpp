// A machine over the text of an answer. What may yet be a marker waits in `buffer_`; a marker counts only
// with the structure around it, so that prose and data that look like one pass through unharmed.
// Every wait is bounded (`white_limit`, `name_limit`), so the work is linear in the text.
#include "chat/reply_reader.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "chat/json_calls.h"
#include "chat/markers.h"
#include "chat/tool_arguments.h"

namespace kapitsa {

using markers::Match;

struct ReplyReader::Impl {
    enum class State { reasoning, content, call, value, after_call, list, after_list };

    Impl(const ReplyFormat& of_family, std::shared_ptr<const Json> declared)
        : format(of_family),
          tools(std::move(declared)),
          calls(format.calls != ReplyFormat::Calls::none && tools.any()) {}

    ReplyFormat format;
    ToolSchemas tools;
    bool calls;
    State state = State::content;
    std::string buffer;
    std::size_t at = 0;  // what of the buffer is done
    bool ending = false;
    std::vector<ReplyPiece> out;

    // Of the text being written (reasoning or content):
    markers::Lines lines;
    bool at_start = true;           // nothing but white space yet
    bool skip_newlines = false;     // right behind a tag
    std::size_t held_newlines = 0;  // they belong to the next tag, if one follows

    // Of the call being written:
    std::size_t call = 0;
    std::string tool;
    std::set<std::string, std::less<>> given;  // the parameters so far
    bool wrapped = false;                      // in <tool_call>
    // Of the value being written:
    std::string key, raw;
    bool streams = false, dropped = false, value_began = false, held_newline = false;
    bool value_line_begins = true;
    std::size_t nested = 0;  // calls quoted in the value
    // Of a list of calls: its text so far is in `raw`.
    json_calls::ListEnd list_end;
    State list_in = State::content;  // where it began

    std::string_view left() const { return std::string_view(buffer).substr(at); }

    void give(ReplyPiece::Kind kind, std::string_view text, std::string name = {}) {
        const bool joins = kind == ReplyPiece::Kind::reasoning || kind == ReplyPiece::Kind::content ||
                           kind == ReplyPiece::Kind::call_arguments;
        const std::size_t number =
            kind == ReplyPiece::Kind::reasoning || kind == ReplyPiece::Kind::content ? 0 : call;
        if (joins && text.empty()) return;
        if (joins && !out.empty() && out.back().kind == kind && out.back().call == number)
            out.back().text += text;
        else
            out.push_back({kind, std::string(text), std::move(name), number});
    }

    // Text ---------------------------------------------------------------------------------------------

    ReplyPiece::Kind text_kind() const {
        return state == State::reasoning ? ReplyPiece::Kind::reasoning : ReplyPiece::Kind::content;
    }

    /// Text of the answer: newlines next to tags are the template's, and go.
    void say(std::string_view text) {
        lines.pass(text);
        if (skip_newlines) {
            const std::size_t first = text.find_first_not_of('\n');
            if (first == text.npos) return;
            text.remove_prefix(first);
            skip_newlines = false;
        }
        const std::size_t last = text.find_last_not_of('\n');
        if (last == text.npos) {
            held_newlines += text.size();
            return;
        }
        give_held_newlines();
        held_newlines = text.size() - last - 1;
        give(text_kind(), text.substr(0, last + 1));
        if (text.find_first_not_of(" \t\r\n") != text.npos) at_start = false;
    }

    void give_held_newlines() {
        if (held_newlines > 0) give(text_kind(), std::string(held_newlines, '\n'));
        held_newlines = 0;
    }

    void begin_text(State next, bool behind_tag) {
        state = next;
        lines = {};
        at_start = true;
        skip_newlines = behind_tag;
        held_newlines = 0;
    }

    /// Goes through text to the next marker. False: what is left must wait.
    bool read_text() {
        while (at < buffer.size()) {
            const std::size_t open = std::min(left().find('<'), left().size());
            say(left().substr(0, open));
            at += open;
            if (at == buffer.size()) break;
            const Match match = read_marker();
            if (match == Match::yes) return true;
            if (match == Match::maybe && !ending) return false;
            say(left().substr(0, 1));
            ++at;
        }
        return false;
    }

    /// At a '<' in text. Where the answer is yes, the marker was read and the state is another.
    Match read_marker() {
        Match best = Match::no;
        const auto consider = [&](Match match) {
            if (best == Match::no) best = match;
            return match == Match::yes;
        };
        if (!format.reasoning_close.empty()) {
            if (state == State::reasoning && consider(markers::literal(left(), format.reasoning_close))) {
                at += format.reasoning_close.size();
                begin_text(State::content, true);
                return Match::yes;
            }
            if (at_start && consider(markers::literal(left(), format.reasoning_open))) {
                at += format.reasoning_open.size();
                begin_text(State::reasoning, true);
                return Match::yes;
            }
        }
        if (!calls || lines.in_code() || lines.after_backtick()) return best;
        if (format.calls == ReplyFormat::Calls::json_list) {
            if (consider(markers::literal(left(), json_calls::open))) begin_list();
            return best;
        }
        markers::Header header = markers::wrapped_call(left());
        if (consider(header.match)) {
            begin_call(header, true);
            return Match::yes;
        }
        if (state == State::content && lines.at_line_begin()) {
            header = markers::naked_call(left());
            if (header.match == Match::yes && !tools.declares(header.name)) header.match = Match::no;
            if (consider(header.match)) {
                begin_call(header, false);
                return Match::yes;
            }
        }
        return best;
    }

    // Calls --------------------------------------------------------------------------------------------

    void begin_call(const markers::Header& header, bool in_tags) {
        at += header.bytes;
        held_newlines = 0;
        tool = header.name;
        wrapped = in_tags;
        given.clear();
        state = State::call;
        give(ReplyPiece::Kind::call_begins, {}, tool);
    }

    void end_call() {
        give(ReplyPiece::Kind::call_arguments, given.empty() ? "{}" : "}");
        give(ReplyPiece::Kind::call_ends, {});
        ++call;
        state = State::after_call;
    }

    /// Between the parameters of a call. False: what is left must wait.
    bool read_call() {
        at += std::min(left().find('<'), left().size());
        if (at == buffer.size()) return false;
        const markers::Header parameter = markers::parameter(left());
        if (parameter.match == Match::yes) {
            at += parameter.bytes;
            begin_value(parameter.name);
            return true;
        }
        const Match function_end = markers::literal(left(), "</function>");
        const Match call_end = markers::literal(left(), "</tool_call>");
        const markers::Header next = markers::wrapped_call(left());
        if (function_end == Match::yes) {
            at += std::string_view("</function>").size();
            end_call();
        } else if (call_end == Match::yes || next.match == Match::yes) {
            end_call();  // without its own end; what ends or begins is read there
        } else if (!ending && (parameter.match == Match::maybe || function_end == Match::maybe ||
                               call_end == Match::maybe || next.match == Match::maybe)) {
            return false;
        } else {
            ++at;
        }
        return true;
    }

    /// Behind a call: its closing tag, another call, or text again.
    bool read_after_call() {
        at += std::min(left().find_first_not_of(" \t\r\n"), left().size());
        if (at == buffer.size()) return false;
        const Match closed = markers::literal(left(), "</tool_call>");
        const markers::Header header = wrapped ? markers::function(left()) : markers::Header{};
        if (closed == Match::yes) {
            at += std::string_view("</tool_call>").size();
            begin_text(State::content, true);
        } else if (header.match == Match::yes) {
            begin_call(header, true);
        } else if (closed == Match::maybe || header.match == Match::maybe) {
            if (ending) at = buffer.size();  // the answer was cut inside its closing tag
            return false;
        } else {
            begin_text(State::content, true);
        }
        return true;
    }

    // Lists of calls -----------------------------------------------------------------------------------

    void begin_list() {
        at += json_calls::open.size();
        raw.clear();
        list_end = {};
        list_in = state;
        state = State::list;
    }

    /// Gathers the list. False: it goes on.
    bool read_list() {
        const std::size_t bytes = list_end.pass(left());
        raw += left().substr(0, bytes);
        at += bytes;
        if (list_end.whole()) {
            give_list();
        } else if (list_end.failed()) {
            take_list_as_text();
        } else {
            return false;
        }
        return true;
    }

    void give_list() {
        const auto list = json_calls::parse(raw);
        if (!list) return take_list_as_text();
        held_newlines = 0;
        for (const ToolCall& one : *list) {
            give(ReplyPiece::Kind::call_begins, {}, one.name);
            give(ReplyPiece::Kind::call_arguments, one.arguments);
            give(ReplyPiece::Kind::call_ends, {});
            ++call;
        }
        state = State::after_list;
    }

    /// What only looked like calls.
    void take_list_as_text() {
        state = list_in;
        say(json_calls::open);
        say(raw);
    }

    bool read_after_list() {
        at += std::min(left().find_first_not_of(" \t\r\n"), left().size());
        if (at == buffer.size()) return false;
        const Match closed = markers::literal(left(), json_calls::close);
        if (closed == Match::maybe) {
            if (ending) at = buffer.size();  // the answer was cut inside its closing tag
            return false;
        }
        if (closed == Match::yes) at += json_calls::close.size();
        begin_text(State::content, true);
        return true;
    }

    // Values -------------------------------------------------------------------------------------------

    void begin_value(const std::string& name) {
        key = name;
        raw.clear();
        // A parameter that comes twice: its first value has been passed on already, and stays.
        dropped = given.contains(key);
        streams = !dropped && is_only_text(tools.parameter(tool, key));
        value_began = held_newline = false;
        value_line_begins = true;
        nested = 0;
        state = State::value;
        if (dropped) return;
        std::string piece = given.empty() ? "{\"" : ",\"";
        append_json_escaped(piece, key);
        give(ReplyPiece::Kind::call_arguments, piece + (streams ? "\":\"" : "\":"));
        given.insert(key);
    }

    /// Bytes of the value. One newline at its beginning and one at its end are the template's.
    void add_to_value(std::string_view text) {
        if (text.empty()) return;
        value_line_begins = text.back() == '\n';
        if (!std::exchange(value_began, true) && text.front() == '\n') text.remove_prefix(1);
        if (text.empty()) return;
        std::string piece = held_newline ? "\n" : "";
        held_newline = text.back() == '\n';
        piece += held_newline ? text.substr(0, text.size() - 1) : text;
        if (streams) {
            std::string escaped;
            append_json_escaped(escaped, piece);
            give(ReplyPiece::Kind::call_arguments, escaped);
        } else if (!dropped) {
            raw += piece;
        }
    }

    void end_value() {
        state = State::call;
        if (dropped) return;
        give(ReplyPiece::Kind::call_arguments,
             streams ? "\"" : argument_json(raw, tools.parameter(tool, key)));
    }

    bool read_value() {
        while (at < buffer.size()) {
            const std::size_t open = std::min(left().find('<'), left().size());
            add_to_value(left().substr(0, open));
            at += open;
            if (at == buffer.size()) break;
            const Match match = read_value_end();
            if (match == Match::yes) return true;
            if (match == Match::maybe && !ending) return false;
            add_to_value(left().substr(0, 1));
            ++at;
        }
        return false;
    }

    /// A call that is quoted in a value has ends of its own: those of its parameters are data.
    Match read_quoted_call() {
        if (nested > 0) {
            const Match closed = markers::literal(left(), "</tool_call>");
            if (closed == Match::yes) --nested;
            return closed == Match::yes ? Match::no : closed;
        }
        if (!value_line_begins) return Match::no;
        const Match opened = markers::wrapped_call(left()).match;
        if (opened == Match::yes) ++nested;
        return opened == Match::yes ? Match::no : opened;
    }

    /// At a '<' in a value. Yes: the value is at its end, and the tag that ends it for good is not read yet.
    Match read_value_end() {
        const Match quoted = read_quoted_call();
        if (quoted != Match::no || nested > 0) return quoted;
        const Match closed = markers::value_close(left(), ending);
        if (closed == Match::yes) {
            at += std::string_view("</parameter>").size();
            end_value();
            return closed;
        }
        const Match function_closed = markers::function_close(left(), ending);
        const Match call_closed = value_line_begins ? markers::call_close(left(), ending) : Match::no;
        markers::Header next = value_line_begins ? markers::parameter(left()) : markers::Header{};
        // Models leave out closing tags; but what looks like a parameter is one only if the tool has it.
        if (next.match == Match::yes && (given.contains(next.name) || !tools.parameter(tool, next.name)))
            next.match = Match::no;
        for (const Match match : {function_closed, call_closed, next.match}) {
            if (match != Match::yes) continue;
            end_value();
            return match;
        }
        for (const Match match : {closed, function_closed, call_closed, next.match})
            if (match == Match::maybe) return match;
        return Match::no;
    }

    // --------------------------------------------------------------------------------------------------

    bool step() {
        switch (state) {
            case State::reasoning:
            case State::content: return read_text();
            case State::call: return read_call();
            case State::value: return read_value();
            case State::after_call: return read_after_call();
            case State::list: return read_list();
            case State::after_list: return read_after_list();
        }
        return false;
    }

    std::vector<ReplyPiece> run() {
        while (step());
        buffer.erase(0, at);
        at = 0;
        return std::exchange(out, {});
    }
};

ReplyReader::ReplyReader(const ReplyFormat& format, std::string_view prompt,
                         std::shared_ptr<const Json> tools)
    : impl_(std::make_unique<Impl>(format, std::move(tools))) {
    const std::size_t end = prompt.find_last_not_of(" \t\r\n");
    const std::string_view said = end == prompt.npos ? std::string_view() : prompt.substr(0, end + 1);
    if (!format.reasoning_open.empty() && said.ends_with(format.reasoning_open))
        impl_->begin_text(Impl::State::reasoning, true);
}
ReplyReader::ReplyReader(ReplyReader&&) noexcept = default;
ReplyReader::~ReplyReader() = default;

std::vector<ReplyPiece> ReplyReader::push(std::string_view text) {
    impl_->buffer += text;
    return impl_->run();
}

std::vector<ReplyPiece> ReplyReader::finish(bool cut) {
    Impl& impl = *impl_;
    impl.ending = true;
    // A call whose name was never heard is no text either.
    if (cut && impl.calls && impl.left().starts_with("<tool_call>")) impl.buffer.resize(impl.at);
    auto pieces = impl.run();
    if (!cut && impl.state == Impl::State::list) impl.take_list_as_text();
    if (impl.state == Impl::State::reasoning || impl.state == Impl::State::content) impl.give_held_newlines();
    if (!cut && impl.state == Impl::State::value) impl.end_value();
    if (!cut && impl.state == Impl::State::call) impl.end_call();
    for (ReplyPiece& piece : std::exchange(impl.out, {})) pieces.push_back(std::move(piece));
    return pieces;
}

}  // namespace kapitsa
