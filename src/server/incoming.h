// A request while it comes in. The parser of the network library bounds and splits it; what it says is judged
// as soon as its head is there, so that a body nobody wants is not read.
// Only connection.cpp and incoming.cpp include this: the network library takes long to compile.
#pragma once

#include <utility>  // before Boost 1.74, which forgets it

#include <atomic>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "server/access.h"
#include "server/http.h"
#include "server/server.h"

namespace kapitsa {

class Incoming {
public:
    /// `options` and `all_bodies`, to which this adds the bytes of its body, must outlive this.
    Incoming(const ServerOptions& options, std::atomic<std::size_t>& all_bodies);
    Incoming(const Incoming&) = delete;
    Incoming& operator=(const Incoming&) = delete;
    ~Incoming() { drop_body(); }

    /// When the parser has the head: fills `request`, and says what is wrong with it, if anything.
    std::optional<ApiError> take_head(const AccessRules& access);
    std::size_t body_bytes() const { return parser.get().body().size(); }
    /// When the parser has more of the body: whether that is more than all requests may have together.
    std::optional<ApiError> count_body();
    /// When the parser has it all.
    void take_body() { request.body = std::move(parser.get().body()); }
    /// When it is no longer needed, which is long before the answer ends.
    void drop_body();
    /// The refusal that a failed read deserves; nothing where there is nobody to tell.
    std::optional<ApiError> refusal(const boost::system::error_code& error) const;

    bool body_left() const { return !parser.is_done(); }
    /// Where its body ends cannot be known: nothing behind its head is a request.
    bool is_unframed() const {
        return request.has_header("Transfer-Encoding") &&
               !same_but_case(request.header("Transfer-Encoding"), "chunked");
    }
    bool waits_for_continue() const { return waits_for_continue_; }

    boost::beast::http::request_parser<boost::beast::http::string_body> parser;
    HttpRequest request;

private:
    const ServerOptions& options_;
    std::atomic<std::size_t>& all_bodies_;
    std::size_t counted_ = 0;  // bytes of ours in all_bodies_
    bool waits_for_continue_ = false;
};

}  // namespace kapitsa
