// What passes between the sockets and the dialects: requests, responses, and answers under way. No socket
// and no library of sockets is seen here, so a dialect is tested by calling it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace kapitsa {

struct HttpRequest {
    std::string method, path;  // the path without its query; not decoded
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
    std::string authority = {};  // the host a target in absolute form names; else ""
    bool http_1_0 = false;       // older rules: no Host is needed, no chunks are understood

    /// The first header of this name, in any case; "" if there is none.
    std::string_view header(std::string_view name) const;
    bool has_header(std::string_view name) const { return count_headers(name) > 0; }
    std::size_t count_headers(std::string_view name) const;
};

/// ASCII letters in their small form, as protocols compare them; all else as it is.
std::string lowered(std::string_view text);
bool same_but_case(std::string_view a, std::string_view b);

struct HttpResponse {
    int status = 200;
    std::string body;
    std::string content_type = "application/json";
    std::vector<std::pair<std::string, std::string>> headers = {};  // more of them
};

/// An answer under way. It never waits: `advance` takes what the engine has sent by now, and the connection
/// calls it again when the `wake` it was made with has been called. Destroying it cancels what still runs.
class Answer {
public:
    virtual ~Answer() = default;

    /// Whether it goes out as server-sent events; else as one response, when it is finished.
    virtual bool streams() const = 0;
    /// The events that are ready, each framed and to be written at once.
    virtual std::vector<std::string> advance() = 0;
    virtual bool finished() const = 0;
    /// Of an answer that is finished and does not stream.
    virtual HttpResponse response() = 0;
    /// Finishes at once: the server is shutting down.
    virtual void cut() = 0;
    /// What a silent stream says to show that it lives.
    virtual std::string keep_alive() const = 0;
};

using Handled = std::variant<HttpResponse, std::unique_ptr<Answer>>;

/// One server-sent event. `data` is one line, which JSON without newlines is.
/// Source: the WHATWG HTML standard, section "Server-sent events".
inline std::string sse_event(std::string_view data) {
    std::string frame;
    frame.reserve(data.size() + 8);
    return frame.append("data: ").append(data).append("\n\n");
}

/// "chatcmpl-" and the like: the prefix and 24 random hexadecimal digits.
std::string random_id(std::string_view prefix);
std::uint64_t random_number();

/// How the body of a response is delimited, where it is not by its length.
constexpr std::int64_t chunked = -1, until_close = -2;

/// One chunk of a body that goes out in chunks; an empty one ends it.
std::string http_chunk(std::string_view data);

/// The head of a response, with the empty line. `length`: in bytes, or one of the above.
std::string response_head(int status, std::string_view content_type, std::int64_t length, bool keep_alive,
                          const std::vector<std::pair<std::string, std::string>>& headers);

}  // namespace kapitsa
