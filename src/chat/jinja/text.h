// A string of a template, with its provenance: which bytes came from the conversation (plain) and which
// are the template's own words (control). Immutable and shared: a slice costs no copy.
// All text is valid UTF-8; what comes from outside is repaired before it gets here.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/marked_text.h"

namespace kapitsa::jinja {

class Text {
public:
    Text() = default;
    explicit Text(MarkedText marked);
    static Text control(std::string bytes) { return Text(MarkedText::all_control(std::move(bytes))); }
    static Text plain(std::string bytes) { return Text(MarkedText::all_plain(std::move(bytes))); }

    std::string_view view() const {
        return buffer_ ? std::string_view(buffer_->marked.text).substr(begin_, end_ - begin_)
                       : std::string_view();
    }
    bool empty() const { return begin_ == end_; }
    std::size_t bytes() const { return end_ - begin_; }
    /// Bytes [begin, end) of this text, which must lie in it.
    Text slice(std::size_t begin, std::size_t end) const;

    /// Characters, as Python counts them: code points.
    std::size_t characters() const;
    /// Where character `index` begins; the end for one past the last.
    std::size_t byte_of(std::size_t index) const;
    bool ascii() const { return !buffer_ || buffer_->ascii; }

    /// Calls with each stretch of one provenance, in order.
    void for_each_run(const std::function<void(std::string_view, bool is_plain)>& use) const;
    void append_to(MarkedText& out) const;
    bool all_plain() const;

    /// Marked by the filters `safe` and `escape`: markupsafe's Markup, which escapes what is added to it.
    bool safe = false;

private:
    struct Buffer {
        MarkedText marked;
        bool ascii;
    };
    std::shared_ptr<const Buffer> buffer_;
    std::size_t begin_ = 0, end_ = 0;
};

}  // namespace kapitsa::jinja
