// For tests: a client that is nothing but a socket, so that the bytes on the wire are seen as they are.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace kapitsa {

class RawClient {
public:
    /// `receive_bytes`: the size of the receive buffer, 0 for the system's own.
    explicit RawClient(std::uint16_t port, int receive_bytes = 0)
        : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        const timeval patience{10, 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (receive_bytes > 0)
            ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    }
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;
    ~RawClient() { close(); }

    void close() {
        if (socket_ >= 0) ::close(socket_);
        socket_ = -1;
    }

    /// False once the server takes no more.
    bool send(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent <= 0) return false;
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }

    /// Whether anything comes by then, be it the end of the connection.
    bool has_received_within(std::chrono::milliseconds time) {
        pollfd wanted{socket_, POLLIN, 0};
        return ::poll(&wanted, 1, static_cast<int>(time.count())) > 0;
    }
    /// Whether the server ends the connection by then. What it sends is kept.
    bool ends_within(std::chrono::milliseconds time) { return has_received_within(time) && !receive(); }

    /// Everything up to and with `mark`; what came if the connection ended first. What follows is kept.
    std::string read_until(std::string_view mark) {
        for (;;) {
            if (const auto at = received_.find(mark); at != received_.npos) return take(at + mark.size());
            if (!receive()) return take(received_.size());
        }
    }

    std::string read(std::size_t bytes) {
        while (received_.size() < bytes && receive()) {
        }
        return take(std::min(bytes, received_.size()));
    }

    /// All that comes until the server closes the connection.
    std::string read_to_end() {
        while (receive()) {
        }
        EXPECT_TRUE(ended_) << "the connection was not closed";
        return take(received_.size());
    }

    /// A whole response with a Content-Length.
    std::string read_response() {
        std::string response = read_until("\r\n\r\n");
        const auto at = response.find("Content-Length: ");
        if (at == response.npos) return response;
        return response + read(std::stoul(response.substr(at + 16)));
    }

    /// The payload of the next chunk; "" for the last one, and where there is none.
    std::string read_chunk() {
        const std::string size = read_until("\r\n");
        const std::size_t bytes = size.size() < 3 ? 0 : std::stoul(size, nullptr, 16);
        std::string payload = read(bytes);
        EXPECT_EQ(read(2), "\r\n");
        return payload;
    }

private:
    std::string take(std::size_t bytes) {
        std::string taken = received_.substr(0, bytes);
        received_.erase(0, bytes);
        return taken;
    }

    bool receive() {
        char bytes[4096];
        const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
        if (got > 0) received_.append(bytes, static_cast<std::size_t>(got));
        ended_ = got == 0 || (got < 0 && errno == ECONNRESET);
        return got > 0;
    }

    int socket_;
    bool ended_ = false;
    std::string received_;
};

inline std::string post(std::string_view path, std::string_view body, std::string_view headers = "") {
    return std::string("POST ")
        .append(path)
        .append(" HTTP/1.1\r\nHost: localhost\r\n")
        .append(headers)
        .append("Content-Length: ")
        .append(std::to_string(body.size()))
        .append("\r\n\r\n")
        .append(body);
}

inline std::string get(std::string_view path, std::string_view headers = "") {
    return std::string("GET ")
        .append(path)
        .append(" HTTP/1.1\r\nHost: localhost\r\n")
        .append(headers)
        .append("\r\n");
}

}  // namespace kapitsa
