// Listening, the I/O threads, and the order of the end. The list of connections is touched on one strand
// only; everything that belongs to a connection happens on the connection's own.

#include "server/connection.h"  // first: see there

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <thread>
#include <unordered_set>

#include "base/log.h"
#include "server/api_error.h"
#include "server/server.h"

namespace kapitsa {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int io_threads = 2, reader_threads = 2;
constexpr std::size_t leaving_most = 64;          // connections, beyond the limit, while others end for them
constexpr std::chrono::milliseconds grace{1000};  // for answers to end in good form; then sockets are closed

class ListeningServer final : public Server {
public:
    ListeningServer(ModelService& model, const ServerOptions& options, AccessRules access,
                    std::shared_ptr<asio::io_context> io, tcp::acceptor acceptor)
        : setup_(std::make_shared<const ServerSetup>(model, options, std::move(access),
                                                     readers_.get_executor())),
          io_(std::move(io)),
          acceptor_(std::move(acceptor)),
          strand_(acceptor_.get_executor()),
          grace_over_(strand_),
          pause_(strand_),
          address_(acceptor_.local_endpoint()) {
        asio::co_spawn(strand_, accept(), [](const std::exception_ptr& failure) { report(failure); });
        for (int i = 0; i < io_threads; ++i) threads_.emplace_back([this] { run(); });
    }

    ~ListeningServer() override { stop(); }

    std::uint16_t port() const override { return address_.port(); }

    std::string url() const override {
        const std::string address = address_.address().to_string();
        const bool bracketed = address_.address().is_v6();
        return "http://" + (bracketed ? "[" + address + "]" : address) + ":" + std::to_string(port());
    }

    void stop() override {
        if (threads_.empty()) return;
        asio::post(strand_, [this] {
            stopping_ = true;
            error_code ignored;
            acceptor_.close(ignored);
            pause_.cancel();
            for (const auto& connection : connections_) connection->stop();
            if (connections_.empty()) return;
            grace_over_.expires_after(grace);
            grace_over_.async_wait([this](const error_code& error) {
                if (error) return;
                for (const auto& connection : connections_) connection->abort();
            });
        });
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

private:
    static void report(const std::exception_ptr& failure) {
        if (!failure) return;
        try {
            std::rethrow_exception(failure);
        } catch (const std::exception& exception) {
            log_error(std::string("the network library failed: ") + exception.what());
        }
    }

    void run() {
        for (;;) {  // what a handler of the library throws ends that handler, and not the server
            try {
                io_->run();
                return;
            } catch (...) {
                report(std::current_exception());
            }
        }
    }

    asio::awaitable<void> accept() {
        while (!stopping_) {
            tcp::socket socket(asio::make_strand(*io_));
            error_code error;
            co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
            if (stopping_) break;
            if (!error) {
                welcome(std::move(socket));
                continue;
            }
            if (error == asio::error::connection_aborted) continue;
            // Out of descriptors, most likely: wait until some connection has ended.
            make_room();
            log_warning("a connection could not be accepted: " + error.message());
            pause_.expires_after(std::chrono::milliseconds(100));
            co_await pause_.async_wait(asio::redirect_error(asio::use_awaitable, error));
        }
    }

    void welcome(tcp::socket socket) {
        const std::size_t most = setup_->options.connections, there = connections_.size();
        if (there >= most + leaving_most || (there >= most && !make_room())) {
            const HttpResponse busy =
                openai_error({503, "there are too many connections", {}, "overloaded", 2});
            const std::string bytes = response_head(busy.status, busy.content_type,
                                                    std::int64_t(busy.body.size()), false, busy.headers) +
                                      busy.body;
            error_code ignored;
            socket.write_some(asio::buffer(bytes),
                              ignored);  // an empty socket takes this much without waiting
            return;
        }
        auto connection = std::make_shared<Connection>(io_, std::move(socket), setup_);
        connections_.insert(connection);
        asio::co_spawn(
            connection->strand(), [connection] { return connection->run(); },
            [this, connection](const std::exception_ptr& failure) {
                report(failure);
                if (failure) connection->abort();  // it did not come to its own end
                asio::post(strand_, [this, connection] { forget(connection); });
            });
    }

    /// Ends the connection that has waited longest for its client. False when an answer is owed on all.
    bool make_room() {
        const auto longest =
            std::ranges::min_element(connections_, {}, [](const auto& one) { return one->waits_since(); });
        if (longest == connections_.end() || (*longest)->waits_since() == Connection::busy) return false;
        (*longest)->stop_waiting();
        return true;
    }

    void forget(const std::shared_ptr<Connection>& connection) {
        connections_.erase(connection);
        if (stopping_ && connections_.empty()) grace_over_.cancel();
    }

    asio::thread_pool readers_{reader_threads};  // idle whenever no connection is there
    const std::shared_ptr<const ServerSetup> setup_;
    const std::shared_ptr<asio::io_context> io_;
    tcp::acceptor acceptor_;
    const tcp::acceptor::executor_type strand_;
    asio::steady_timer grace_over_, pause_;
    const tcp::endpoint address_;
    std::unordered_set<std::shared_ptr<Connection>> connections_;
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

/// The address to listen on. Of several that a name has, an IPv4 one: that is what clients try.
Result<tcp::endpoint> resolve(asio::io_context& io, std::string host, std::uint16_t port) {
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    error_code error;
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(host, std::to_string(port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (error || found.empty() || host.empty())
        return fail(Fault::invalid_input, "--host " + host + " is no address of this machine: try 127.0.0.1");
    for (const auto& entry : found)
        if (entry.endpoint().address().is_v4()) return entry.endpoint();
    return found.begin()->endpoint();
}

Result<tcp::acceptor> listen(asio::io_context& io, const tcp::endpoint& address) {
    error_code error;
    tcp::acceptor acceptor(asio::make_strand(io));
    acceptor.open(address.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(address, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) return acceptor;
    return fail(Fault::invalid_input, "cannot listen on " + address.address().to_string() + ":" +
                                          std::to_string(address.port()) + " (" + error.message() +
                                          "); choose another --port or --host");
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ModelService& model, const ServerOptions& options) {
    auto io = std::make_shared<asio::io_context>(io_threads);
    const tcp::endpoint address = TRY(resolve(*io, options.host, options.port));
    if (!address.address().is_loopback() && options.api_key.empty())
        return fail(
            Fault::invalid_input,
            "--host " + options.host +
                " can be reached from other machines: name a key that they must know, in $KAPITSA_API_KEY "
                "or with --api-key KEY");
    AccessRules access{.bound_host = options.host,
                       .any_address = address.address().is_unspecified(),
                       .api_key = options.api_key,
                       .origins = options.allowed_origins,
                       .hosts = options.allowed_hosts};
    error_code ignored;
    if (access.any_address) access.hosts.push_back(asio::ip::host_name(ignored));
    auto acceptor = TRY(listen(*io, address));
    return std::make_unique<ListeningServer>(model, options, std::move(access), std::move(io),
                                             std::move(acceptor));
}

}  // namespace kapitsa
