#include "server/connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/read.hpp>

#include "base/log.h"
#include "server/incoming.h"
#include "server/router.h"

namespace kapitsa {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::size_t buffer_bytes_most = 256u << 10, watched_bytes_most = 64u << 10, read_bytes = 16u << 10;
constexpr std::size_t large_body_bytes = 256u << 10;  // up to here a request is read in some ten milliseconds
constexpr std::size_t body_piece_bytes = 64u << 10;   // that must come within body_timeout
constexpr std::chrono::milliseconds linger_time{3000};

// What is awaited below stands in variables: GCC 12 destroys some temporaries of a co_await expression twice.
auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

/// Has the kernel ask, once a connection is silent, whether the other end is still there; and give up on one
/// that no longer takes what it was sent. A machine that was switched off says no goodbye.
void suspect_silence(int socket) {
    const auto set = [socket](int level, int option, int value) {
        (void)::setsockopt(socket, level, option, &value, sizeof value);
    };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef TCP_KEEPIDLE
    set(IPPROTO_TCP, TCP_KEEPIDLE, 30);  // seconds
#elif defined(TCP_KEEPALIVE)
    set(IPPROTO_TCP, TCP_KEEPALIVE, 30);
#endif
    set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
#ifdef TCP_USER_TIMEOUT
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, 60'000);  // milliseconds
#endif
}

Handled handle(ModelService& model, const HttpRequest& request, const std::function<void()>& wake) {
    try {
        return handle_request(model, request, wake);
    } catch (const std::exception& exception) {  // of a library, or for want of memory
        return openai_error({500, std::string("the request could not be read: ") + exception.what()});
    }
}

}  // namespace

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
    suspect_silence(socket_.native_handle());
    bool goes_on = true;
    while (goes_on) goes_on = co_await serve_one();
    if (lingering_) co_await linger();
    clear_deadline();
    socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    close();
}

asio::awaitable<bool> Connection::serve_one() {
    if (stopping_) co_return false;
    set_reading(true);
    const bool heard = co_await hear();
    if (!heard) co_return false;
    Incoming incoming(setup_->options, setup_->body_bytes);
    set_deadline(setup_->options.header_timeout);
    error_code error;
    co_await http::async_read_header(socket_, buffer_, incoming.parser, into(error));
    clear_deadline();
    if (error) {
        const auto wrong = incoming.refusal(error);
        if (wrong) co_await refuse(incoming, *wrong);
        co_return false;
    }
    const HttpRequest& request = incoming.request;
    const bool keep_alive = incoming.parser.keep_alive();
    const auto wrong = incoming.take_head(setup_->access);
    if (wrong && (incoming.body_left() || incoming.is_unframed())) {
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

    set_reading(false);
    std::optional<Handled> handled;
    if (request.body.size() > large_body_bytes)
        co_await read_aside(incoming, handled);
    else
        handled = handle(setup_->model, request, waker());
    incoming.drop_body();
    if (const auto* response = std::get_if<HttpResponse>(&*handled)) {
        const bool sent = co_await respond(request, *response, keep_alive);
        co_return (sent && keep_alive);
    }
    const auto answer = std::move(std::get<std::unique_ptr<Answer>>(*handled));
    const bool goes_on = co_await carry(*answer, request, keep_alive, !request.http_1_0);
    co_return goes_on;
}

/// Until the first bytes of a request are there. False when the client has gone, or asks for nothing.
asio::awaitable<bool> Connection::hear() {
    if (buffer_.size() > 0) co_return true;
    error_code error;
    set_deadline(setup_->options.idle_timeout);
    const asio::mutable_buffer room = buffer_.prepare(read_bytes);
    const std::size_t bytes = co_await socket_.async_read_some(room, into(error));
    clear_deadline();
    buffer_.commit(bytes);
    co_return !error;
}

asio::awaitable<bool> Connection::read_body(Incoming& incoming) {
    if (incoming.body_left() && incoming.waits_for_continue()) {
        std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
        const bool sent = co_await write(std::move(go_on));
        if (!sent) co_return false;
    }
    incoming.parser.eager(true);
    std::size_t piece_end = 0;
    while (incoming.body_left()) {
        if (incoming.body_bytes() >= piece_end) {  // a client that sends a byte now and then gains no time
            set_deadline(setup_->options.body_timeout);
            piece_end = incoming.body_bytes() + body_piece_bytes;
        }
        error_code error;
        co_await http::async_read_some(socket_, buffer_, incoming.parser, into(error));
        const auto wrong = error ? incoming.refusal(error) : incoming.count_body();
        if (!error && !wrong) continue;
        clear_deadline();
        if (wrong) co_await refuse(incoming, *wrong);
        co_return false;
    }
    clear_deadline();
    incoming.take_body();
    co_return true;
}

/// Has the request handled on another thread: its JSON, its template and its tokens may take seconds, in
/// which the streams of others would stand still. This waits for it in any case, since it uses the model.
asio::awaitable<void> Connection::read_aside(Incoming& incoming, std::optional<Handled>& handled) {
    asio::post(setup_->readers, [this, &incoming, &handled, wake = waker()] {
        Handled made = handle(setup_->model, incoming.request, wake);
        asio::post(socket_.get_executor(), [this, &handled, made = std::move(made)]() mutable {
            handled = std::move(made);
            this->wake();
        });
    });
    while (!handled) {
        woken_ = false;
        co_await rest_until(Clock::time_point::max());
    }
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
        log_info(request.method + " " + excerpt(request.path) + " 200, streams");
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
            well = co_await respond(request, response, keep_alive && !flooded_);
        }
    }
    if (!well && !stopping_)
        log_info(request.method + " " + excerpt(request.path) + ": the client left before the end");
    co_await unwatch();
    lingering_ = well && flooded_ && !peer_gone_;
    co_return (well && keep_alive && !peer_gone_ && !flooded_);
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
            std::string bytes = can_chunk ? http_chunk(event) : event;
            const bool sent = co_await write(std::move(bytes));
            if (!sent) co_return false;
            spoke = Clock::now();
        }
        if (answer.finished()) break;
        if (peer_gone_) co_return false;
        co_await rest_until(spoke + setup_->options.keep_alive_interval);
    }
    if (!can_chunk) co_return true;
    std::string last_chunk = http_chunk("");
    const bool sent = co_await write(std::move(last_chunk));
    co_return sent;
}

asio::awaitable<bool> Connection::respond(const HttpRequest& request, const HttpResponse& response,
                                          bool keep_alive) {
    auto headers = cors_headers(setup_->access, request);
    headers.insert(headers.end(), response.headers.begin(), response.headers.end());
    headers.emplace_back("x-request-id", random_id("req_"));
    const std::string asked =
        request.path.empty() ? "what is no request" : excerpt(request.method) + " " + excerpt(request.path);
    log_info(asked + " " + std::to_string(response.status));
    std::string bytes =
        response_head(response.status, response.content_type, static_cast<std::int64_t>(response.body.size()),
                      keep_alive && !stopping_, headers);
    if (request.method != "HEAD") bytes += response.body;
    const bool sent = co_await write(std::move(bytes));
    co_return sent;
}

/// Answers a request whose body has not been read; the connection then ends.
asio::awaitable<void> Connection::refuse(const Incoming& incoming, const ApiError& error) {
    const HttpResponse response = openai_error(error);
    lingering_ = co_await respond(incoming.request, response, false);
}

/// Takes for a while what the client is still sending: to close on it would reset the connection, and what
/// the client has not read yet would be lost.
asio::awaitable<void> Connection::linger() {
    set_reading(true);
    error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
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
/// meanwhile is its next request. Of a client that sends too much, all is thrown away, and the connection
/// ends with the answer; it is read on, for its end cannot be seen behind what is unread.
void Connection::watch() {
    if (buffer_.size() >= watched_bytes_most) {
        flooded_ = true;
        buffer_.clear();
    }
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

void Connection::set_reading(bool reading) {
    reading_ = reading;
    waits_since_ = reading ? Clock::now() : busy;
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

void Connection::stop_waiting() {
    waits_since_ = busy;
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
        if (!self->reading_) return;
        self->stopping_ = true;
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
