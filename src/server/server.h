// The HTTP server: listens, serves one model, stops. All of the network is hostile: every length is bounded,
// every wait has an end, and only pages and programs of this machine are answered unless a key is set.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace kapitsa {

class ModelService;

struct ServerOptions {
    std::string host = "127.0.0.1";  // an address or a name; not loopback only with an api_key
    std::uint16_t port = 8000;       // 0: one that is free
    std::string api_key = {};        // asked of all requests but /health; empty: none is asked
    std::vector<std::string> allowed_origins =
        {};  // of web pages, beyond those of this machine: "https://a.example"
    std::vector<std::string> allowed_hosts = {};  // names in the Host header, beyond loopback ones and `host`

    std::size_t header_bytes = 32u << 10, body_bytes = 64u << 20;
    std::size_t all_bodies_bytes = 512u << 20;  // of the requests that are being read at one time
    std::size_t connections = 1024;  // one more takes the place of the one that has been idle longest
    std::size_t send_buffer_bytes = 256u << 10;  // that the kernel keeps for a client that does not read
    std::chrono::milliseconds keep_alive_interval{10'000};  // the longest silence of a stream
    std::chrono::milliseconds idle_timeout{120'000};        // until a next request begins
    std::chrono::milliseconds header_timeout{20'000};       // for the whole of its header
    std::chrono::milliseconds body_timeout{60'000};         // for each 64 KiB of its body
    std::chrono::milliseconds write_timeout{60'000};        // without a byte being taken by the client
};

class Server {
public:
    /// Listens, and starts the I/O threads. `model` must outlive the server.
    /// Fault::invalid_input when the options do not go together or the address cannot be had.
    static Result<std::unique_ptr<Server>> start(ModelService& model, const ServerOptions& options);
    virtual ~Server() = default;

    virtual std::uint16_t port() const = 0;
    /// "http://127.0.0.1:8000"
    virtual std::string url() const = 0;

    /// Stops listening, ends what is being said, closes every connection and joins the threads; all within
    /// two seconds, unless a request of many megabytes is being read. An answer that is cut short this way
    /// ends in good form: finish_reason "length", since it is not whole, then usage and [DONE] as always. The
    /// destructor does it too.
    virtual void stop() = 0;
};

}  // namespace kapitsa
