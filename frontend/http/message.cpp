#include "http/message.h"

#include <charconv>
#include <ctime>

namespace shortener {

std::string_view reason(int status) noexcept {
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 410: return "Gone";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Internal Server Error";
    }
}

Response text_response(int status, std::string_view body) {
    Response response;
    response.status = status;
    response.content_type = "text/plain; charset=utf-8";
    response.body = body;
    return response;
}

Response refusal(int status) {
    Response response = text_response(status, std::string(reason(status)) + "\n");
    response.close = true;
    return response;
}

std::string http_date() {
    char text[40];
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    return std::string(text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc));
}

void append_response(const Response& response, const Framing& framing, std::string& out) {
    char digits[24];
    const auto number = [&](std::size_t value) {
        return std::string_view(digits, std::to_chars(digits, digits + sizeof digits, value).ptr - digits);
    };
    const auto field = [&](std::string_view name, std::string_view value) {
        out.append(name).append(": ").append(value).append("\r\n");
    };
    out.append("HTTP/1.1 ")
        .append(number(response.status))
        .append(" ")
        .append(reason(response.status))
        .append("\r\n");
    field("Date", framing.date);
    for_each_field(response, field);
    if (response.status != 204)
        field("Content-Length", number(response.body.size()));
    if (!framing.keep_alive)
        field("Connection", "close");
    else if (framing.http_1_0)
        field("Connection", "keep-alive");
    out.append("\r\n");
    if (!framing.head)
        out.append(response.body);
}

} // namespace shortener
