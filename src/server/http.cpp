#include "server/http.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "base/check.h"

namespace kapitsa {
namespace {

char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? char(letter + ('a' - 'A')) : letter; }

std::string_view reason(int status) {
    switch (status) {
        case 200: return "OK";
        case 204: return "No Content";
        case 400: return "Bad Request";
        case 401: return "Unauthorized";
        case 403: return "Forbidden";
        case 404: return "Not Found";
        case 405: return "Method Not Allowed";
        case 413: return "Content Too Large";
        case 415: return "Unsupported Media Type";
        case 417: return "Expectation Failed";
        case 431: return "Request Header Fields Too Large";
        case 500: return "Internal Server Error";
        case 501: return "Not Implemented";
        case 503: return "Service Unavailable";
        default: return "Unknown";
    }
}

/// RFC 9110, section 5.6.7, in the C locale whatever the process has.
std::string date_now() {
    static constexpr const char* days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr const char* months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                             "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char text[64];
    std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[utc.tm_wday], utc.tm_mday,
                  months[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
    return text;
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
    for (const auto& [key, value] : headers)
        if (same_but_case(key, name)) return value;
    return {};
}

std::size_t HttpRequest::count_headers(std::string_view name) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        headers, [name](const auto& header) { return same_but_case(header.first, name); }));
}

std::string lowered(std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(), lower);
    return result;
}

bool same_but_case(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::uint64_t random_number() {
    std::uint64_t number = 0;
    CHECK(getentropy(&number, sizeof number) == 0);
    return number;
}

std::string random_id(std::string_view prefix) {
    unsigned char bytes[12];
    CHECK(getentropy(bytes, sizeof bytes) == 0);
    std::string id(prefix);
    for (const unsigned char byte : bytes) {
        id += "0123456789abcdef"[byte >> 4];
        id += "0123456789abcdef"[byte & 15];
    }
    return id;
}

std::string http_chunk(std::string_view data) {
    char size[24];
    std::snprintf(size, sizeof size, "%zx\r\n", data.size());
    return std::string(size).append(data).append("\r\n");
}

std::string response_head(int status, std::string_view content_type, std::int64_t length, bool keep_alive,
                          const std::vector<std::pair<std::string, std::string>>& headers) {
    std::string head = "HTTP/1.1 " + std::to_string(status) + " ";
    head.append(reason(status)).append("\r\nDate: ").append(date_now()).append("\r\n");
    if (!content_type.empty()) head.append("Content-Type: ").append(content_type).append("\r\n");
    if (length == chunked) head += "Transfer-Encoding: chunked\r\n";
    if (length < 0)  // a stream: nobody on the way should keep it
        head += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
    else if (status != 204)
        head.append("Content-Length: ").append(std::to_string(length)).append("\r\n");
    head.append(keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n");
    for (const auto& [name, value] : headers) head.append(name).append(": ").append(value).append("\r\n");
    return head.append("\r\n");
}

}  // namespace kapitsa
