#include "server/connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/log.h"
#include "server/router.h"

namespace kapitsa {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::size_t buffer_bytes_most = 256u << 10, watched_bytes_most = 64u << 10, read_bytes = 16u << 10;
constexpr std::chrono::milliseconds linger_time{3000};

// What is awaited below stands in variables: GCC 12 destroys some temporaries of a co_await expression twice.
auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

/// The refusal that a failed read deserves; nothing where there is nobody to tell.
std::optional<ApiError> refusal(const error_code& error, const ServerOptions& options) {
    if (error == http::error::end_of_stream || error == http::error::partial_message) return std::nullopt;
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return ApiError{431, "the header has more than " + std::to_string(options.header_bytes) + " bytes"};
    if (error == http::error::body_limit)
        return ApiError{413,
                        "the body has more than " + std::to_string(options.body_bytes) + " bytes",
                        {},
                        "request_too_large"};
    if (error.category() == http::make_error_code(http::error::end_of_stream).category())
        return ApiError{400, "this is not HTTP as we understand it: " + error.message()};
    return std::nullopt;
}

std::string chunk(std::string_view data) {
    char size[24];
    std::snprintf(size, sizeof size, "%zx\r\n", data.size());
    return std::string(size).append(data).append("\r\n");
}

}  // namespace

struct Connection::Incoming {
    http::request_parser<http::string_body> parser;
    HttpRequest request;

    void take_head() {
        const auto& head = parser.get();
        request.method = std::string(head.method_string());
        const std::string_view target(head.target().data(), head.target().size());
        request.path = target.substr(0, target.find_first_of("?#"));
        for (const auto& field : head)
            request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    }
    bool body_left() const { return !parser.is_done(); }
};

Connection::Connection(std::shared_ptr<asio::io_context> io, Socket socket,
                       std::shared_ptr<const ServerSetup> setup)
    : io_(std::move(io)),
      setup_(std::move(setup)),
      socket_(std::move(socket)),
      buffer_(buffer_bytes_most),
      bell_(socket_.get_executor()),
      deadline_(socket_.get_executor()) {}

asio::awaitable<void> Connection::run() {
    error_code ignored;
    socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    const asio::socket_base::send_buffer_size kept(static_cast<int>(setup_->options.send_buffer_bytes));
    socket_.set_option(kept, ignored);
    bool goes_on = true;
    while (goes_on) goes_on = co_await serve_one();
    clear_deadline();
    socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    close();
}

asio::awaitable<bool> Connection::serve_one() {
    if (stopping_) co_return false;
    Incoming incoming;
    incoming.parser.header_limit(static_cast<std::uint32_t>(setup_->options.header_bytes));
    incoming.parser.body_limit(setup_->options.body_bytes);
    reading_ = true;
    set_deadline(setup_->options.idle_timeout);
    error_code error;
    co_await http::async_read_header(socket_, buffer_, incoming.parser, into(error));
    clear_deadline();
    if (error) {
        const auto wrong = refusal(error, setup_->options);
        if (wrong) co_await refuse(incoming, *wrong);
        co_return false;
    }
    incoming.take_head();
    const HttpRequest& request = incoming.request;
    const bool keep_alive = incoming.parser.keep_alive();
    auto wrong = check_access(setup_->access, request);
    if (!wrong) wrong = check_route(request);
    if (wrong && incoming.body_left()) {
        co_await refuse(incoming, *wrong);
        co_return false;
    }
    if (wrong) {
        const HttpResponse response = openai_error(*wrong);
        const bool sent = co_await respond(request, response, keep_alive);
        co_return (sent && keep_alive);
    }
    const bool complete = co_await read_body(incoming);
    if (!complete) co_return false;

    reading_ = false;
    Handled handled = handle_request(setup_->model, request, waker());
    if (const auto* response = std::get_if<HttpResponse>(&handled)) {
        const bool sent = co_await respond(request, *response, keep_alive);
        co_return (sent && keep_alive);
    }
    const auto answer = std::move(std::get<std::unique_ptr<Answer>>(handled));
    const bool can_chunk = incoming.parser.get().version() >= 11;
    const bool goes_on = co_await carry(*answer, request, keep_alive, can_chunk);
    co_return goes_on;
}

asio::awaitable<bool> Connection::read_body(Incoming& incoming) {
    if (incoming.body_left() && incoming.request.header("Expect") == "100-continue") {
        std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
        const bool sent = co_await write(std::move(go_on));
        if (!sent) co_return false;
    }
    incoming.parser.eager(true);
    while (incoming.body_left()) {
        error_code error;
        set_deadline(setup_->options.body_timeout);
        co_await http::async_read_some(socket_, buffer_, incoming.parser, into(error));
        clear_deadline();
        if (!error) continue;
        const auto wrong = refusal(error, setup_->options);
        if (wrong) co_await refuse(incoming, *wrong);
        co_return false;
    }
    incoming.request.body = std::move(incoming.parser.get().body());
    co_return true;
}

/// Writes the answer as it comes. True if the connection can be used again.
asio::awaitable<bool> Connection::carry(Answer& answer, const HttpRequest& request, bool keep_alive,
                                        bool can_chunk) {
    watch_wanted_ = true;
    watch();
    keep_alive = keep_alive && (can_chunk || !answer.streams());
    bool well = true;
    if (answer.streams()) {
        // The head goes out before the prompt is computed: clients give up on a silent server.
        auto headers = cors_headers(setup_->access, request);
        headers.emplace_back("x-request-id", random_id("req_"));
        std::string head = response_head(200, "text/event-stream; charset=utf-8",
                                         can_chunk ? chunked : until_close, keep_alive, headers);
        well = co_await write(std::move(head));
        log_info(request.method + " " + request.path + " 200, streams");
        if (well) well = co_await carry_stream(answer, can_chunk);
    } else {
        for (;;) {
            woken_ = false;
            if (stopping_) answer.cut();
            answer.advance();
            if (answer.finished() || peer_gone_) break;
            co_await rest_until(Clock::time_point::max());
        }
        well = !peer_gone_;
        if (well) {
            const HttpResponse response = answer.response();
            well = co_await respond(request, response, keep_alive);
        }
    }
    co_await unwatch();
    co_return (well && keep_alive && !peer_gone_);
}

asio::awaitable<bool> Connection::carry_stream(Answer& answer, bool can_chunk) {
    Clock::time_point spoke = Clock::now();
    for (;;) {
        woken_ = false;
        if (stopping_) answer.cut();
        std::vector<std::string> events = answer.advance();
        if (events.empty() && !answer.finished() &&
            Clock::now() - spoke >= setup_->options.keep_alive_interval)
            events.push_back(answer.keep_alive());
        for (const std::string& event : events) {
            std::string bytes = can_chunk ? chunk(event) : event;
            const bool sent = co_await write(std::move(bytes));
            if (!sent) co_return false;
            spoke = Clock::now();
        }
        if (answer.finished()) break;
        if (peer_gone_) co_return false;
        co_await rest_until(spoke + setup_->options.keep_alive_interval);
    }
    if (!can_chunk) co_return true;
    std::string last_chunk = "0\r\n\r\n";
    const bool sent = co_await write(std::move(last_chunk));
    co_return sent;
}

asio::awaitable<bool> Connection::respond(const HttpRequest& request, const HttpResponse& response,
                                          bool keep_alive) {
    auto headers = cors_headers(setup_->access, request);
    headers.insert(headers.end(), response.headers.begin(), response.headers.end());
    headers.emplace_back("x-request-id", random_id("req_"));
    log_info(request.method + " " + request.path + " " + std::to_string(response.status));
    std::string bytes =
        response_head(response.status, response.content_type, static_cast<std::int64_t>(response.body.size()),
                      keep_alive && !stopping_, headers);
    if (request.method != "HEAD") bytes += response.body;
    const bool sent = co_await write(std::move(bytes));
    co_return sent;
}

/// Answers a request whose body has not been read, and ends the connection. What the client is still sending
/// is taken for a while: to close on it would reset the connection and lose the answer.
asio::awaitable<void> Connection::refuse(const Incoming& incoming, const ApiError& error) {
    const HttpResponse response = openai_error(error);
    const bool sent = co_await respond(incoming.request, response, false);
    if (!sent) co_return;
    error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    co_await discard_input();
}

asio::awaitable<void> Connection::discard_input() {
    std::string sink(read_bytes * 4, '\0');
    set_deadline(linger_time);
    for (error_code error; !error;) co_await socket_.async_read_some(asio::buffer(sink), into(error));
    clear_deadline();
}

asio::awaitable<bool> Connection::write(std::string bytes) {
    for (std::size_t written = 0; written < bytes.size();) {
        error_code error;
        set_deadline(setup_->options.write_timeout);
        const auto rest = asio::buffer(bytes.data() + written, bytes.size() - written);
        const std::size_t taken = co_await socket_.async_write_some(rest, into(error));
        written += taken;
        clear_deadline();
        if (error) co_return false;
    }
    co_return true;
}

/// Until `time`, or until the bell rings.
asio::awaitable<void> Connection::rest_until(Clock::time_point time) {
    if (woken_) co_return;
    error_code ignored;
    bell_.expires_at(time);
    co_await bell_.async_wait(into(ignored));
}

/// Keeps a read pending while an answer is made, so that a client that leaves is seen at once. What it sends
/// meanwhile is its next request.
void Connection::watch() {
    if (buffer_.size() >= watched_bytes_most) return;  // such a client is seen to leave when it is written to
    watching_ = true;
    socket_.async_read_some(buffer_.prepare(read_bytes),
                            [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                                self->watched(error, bytes);
                            });
}

void Connection::watched(const error_code& error, std::size_t bytes) {
    watching_ = false;
    buffer_.commit(bytes);
    if (error && error != asio::error::operation_aborted) {
        peer_gone_ = true;
        close();  // a write that waits for this client ends here
    }
    if (!error && watch_wanted_) watch();
    wake();
}

asio::awaitable<void> Connection::unwatch() {
    watch_wanted_ = false;
    error_code ignored;
    if (watching_) socket_.cancel(ignored);
    while (watching_) {
        woken_ = false;
        co_await rest_until(Clock::time_point::max());
    }
}

/// For the engine's thread, which may call it long after the connection is gone: it holds what it touches.
std::function<void()> Connection::waker() {
    return [io = io_, weak = weak_from_this()] {
        if (const auto self = weak.lock())
            asio::post(self->socket_.get_executor(), [weak] {
                if (const auto awake = weak.lock()) awake->wake();
            });
    };
}

void Connection::wake() {
    woken_ = true;
    bell_.cancel();
}

void Connection::stop() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
        self->stopping_ = true;
        if (self->reading_) self->close();
        self->wake();
    });
}

void Connection::abort() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
        self->stopping_ = self->peer_gone_ = true;
        self->close();
    });
}

void Connection::set_deadline(std::chrono::milliseconds after) {
    deadline_.expires_after(after);
    deadline_.async_wait([self = shared_from_this()](const error_code& error) {
        if (!error && self->deadline_.expiry() <= Clock::now()) self->close();
    });
}

void Connection::clear_deadline() { deadline_.expires_at(Clock::time_point::max()); }

void Connection::close() {
    error_code ignored;
    socket_.close(ignored);
    wake();
}

}  // namespace kapitsa
