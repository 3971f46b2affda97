// A request while it comes in. The parser of the network library bounds and splits it; what it says is judged
// as soon as its head is there, so that a body nobody wants is not read.
// Only connection.cpp and incoming.cpp include this: the network library takes long to compile.
#pragma once

#include <utility>  // before Boost 1.74, which forgets it

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "server/access.h"
#include "server/http.h"
#include "server/server.h"

namespace kapitsa {

class Incoming {
public:
    /// `options` must outlive this.
    explicit Incoming(const ServerOptions& options);

    /// When the parser has the head: fills `request`, and says what is wrong with it, if anything.
    std::optional<ApiError> take_head(const AccessRules& access);
    /// When the parser has the body.
    void take_body() { request.body = std::move(parser.get().body()); }
    /// The refusal that a failed read deserves; nothing where there is nobody to tell.
    std::optional<ApiError> refusal(const boost::system::error_code& error) const;

    bool body_left() const { return !parser.is_done(); }
    bool waits_for_continue() const { return waits_for_continue_; }

    boost::beast::http::request_parser<boost::beast::http::string_body> parser;
    HttpRequest request;

private:
    const ServerOptions& options_;
    bool waits_for_continue_ = false;
};

}  // namespace kapitsa
