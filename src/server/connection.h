// One connection and its coroutine: reads requests, has them answered, writes what comes. All that it does
// happens on its own strand, so nothing in it is locked; the engine's thread only posts notes to it.
// Only connection.cpp and listener.cpp include this: the network library takes long to compile.
#pragma once

#include <utility>  // before Boost 1.74, which forgets it

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/access.h"
#include "server/http.h"
#include "server/model_service.h"
#include "server/server.h"

namespace kapitsa {

class Incoming;

/// What all connections share and, but for the account of their bodies, none changes.
struct ServerSetup {
    ModelService& model;  // outlives the server
    ServerOptions options;
    AccessRules access;
    boost::asio::thread_pool::executor_type readers;  // where requests are read that take long
    mutable std::atomic<std::size_t> body_bytes = 0;  // in memory, of all requests that are being read
};

class Connection : public std::enable_shared_from_this<Connection> {
public:
    using Socket = boost::asio::ip::tcp::socket;
    using Clock = std::chrono::steady_clock;
    static constexpr Clock::time_point busy = Clock::time_point::max();

    /// `socket` runs on a strand of its own.
    Connection(std::shared_ptr<boost::asio::io_context> io, Socket socket,
               std::shared_ptr<const ServerSetup> setup);

    /// Serves requests until one side has had enough. Spawned on the socket's strand.
    boost::asio::awaitable<void> run();

    Socket::executor_type strand() { return socket_.get_executor(); }

    // From any thread.
    /// Ends what is being said in good form, and the connection with it.
    void stop();
    /// Ends it now.
    void abort();
    /// Since when the client has owed us a request, or the rest of one; `busy` while we owe it an answer.
    Clock::time_point waits_since() const { return waits_since_.load(); }
    /// Ends it unless an answer is owed. From here on it says that it is busy, so that it is asked once.
    void stop_waiting();

private:
    boost::asio::awaitable<bool> serve_one();
    boost::asio::awaitable<bool> hear();
    boost::asio::awaitable<bool> read_body(Incoming& incoming);
    boost::asio::awaitable<void> read_aside(Incoming& incoming, std::optional<Handled>& handled);
    boost::asio::awaitable<bool> carry(Answer& answer, const HttpRequest& request, bool keep_alive,
                                       bool can_chunk);
    boost::asio::awaitable<bool> carry_stream(Answer& answer, bool can_chunk);
    boost::asio::awaitable<bool> respond(const HttpRequest& request, const HttpResponse& response,
                                         bool keep_alive);
    boost::asio::awaitable<void> refuse(const Incoming& incoming, const ApiError& error);
    boost::asio::awaitable<bool> write(std::string bytes);
    boost::asio::awaitable<void> rest_until(Clock::time_point time);
    boost::asio::awaitable<void> linger();

    void set_reading(bool reading);
    void watch();
    void watched(const boost::system::error_code& error, std::size_t bytes);
    boost::asio::awaitable<void> unwatch();

    std::function<void()> waker();
    void wake();
    void set_deadline(std::chrono::milliseconds after);
    void clear_deadline();
    void close();

    const std::shared_ptr<boost::asio::io_context> io_;  // first: it must outlive what follows
    const std::shared_ptr<const ServerSetup> setup_;
    Socket socket_;
    boost::beast::flat_buffer buffer_;
    boost::asio::steady_timer bell_;      // the coroutine rests on it; cancelled to wake it
    boost::asio::steady_timer deadline_;  // closes the socket when an operation takes too long
    bool woken_ = false;                  // the bell has rung since it was last listened to
    bool reading_ = true;                 // a request: nothing is owed to the client
    std::atomic<Clock::time_point> waits_since_{Clock::now()};
    bool stopping_ = false;
    bool peer_gone_ = false;
    bool flooded_ = false;    // more came beside an answer than a next request; some of it was thrown away
    bool lingering_ = false;  // the client may be sending still: what it was told must reach it all the same
    bool watching_ = false;   // a read is pending beside the answer
    bool watch_wanted_ = false;
};

}  // namespace kapitsa
