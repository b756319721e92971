#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shortener {

// What a transport hands to the program and gets back. A request is views into the transport's buffer, alive
// only during the call that passes it.

enum class Method { get, head, other };

struct Request {
    Method method = Method::get;
    std::string_view target; // as sent, in origin form: path and query
    std::string_view host;   // lower case, without port and final dot; empty if HTTP/1.0 sent none
    std::string_view accept;
    std::string_view user_agent;
    std::string_view referer;
    std::string_view forwarded_for; // X-Forwarded-For, all its lines as one list; see visitor_address.h
    std::string_view peer;          // the address at the other end of the connection
    bool prefetch = false;          // see is_prefetch()
};

// Whether Sec-Purpose, or Purpose as older browsers call it, says that nobody has followed the link yet.
inline bool is_prefetch(std::string_view purpose) {
    return purpose.starts_with("prefetch") || purpose.starts_with("preview");
}

struct Response {
    int status = 404;
    std::string location;             // empty: none
    std::string_view cache_control;   // empty: none, or max_age decides
    std::int64_t max_age = -1;        // not negative: `public, max-age=N`
    int retry_after = 0;              // seconds; 0: none
    bool allow_get_head = false;      // Allow: GET, HEAD
    bool vary_accept = false;         // the body depends on Accept
    bool noindex = false;             // X-Robots-Tag
    bool close = false;               // the transport closes the connection after it
    std::string_view content_type;    // empty: no body type
    std::string_view security_policy; // Content-Security-Policy
    std::string body;                 // for HEAD as well: the transport leaves it out and keeps its length
};

// A response with a body of plain text.
Response text_response(int status, std::string_view body);

// The answer to a request that is not served. The connection is closed after it.
Response refusal(int status);

// The reason phrase of a status that this program sends.
std::string_view reason(int status) noexcept;

// The present time as the field Date has it.
std::string http_date();

// Calls `field(name, value)` for every header field of the response but Date, Connection and Content-Length,
// which are the transport's.
template <typename Field> void for_each_field(const Response& response, Field&& field) {
    if (!response.location.empty())
        field("Location", std::string_view(response.location));
    if (response.max_age >= 0)
        field("Cache-Control", std::string_view("public, max-age=" + std::to_string(response.max_age)));
    else if (!response.cache_control.empty())
        field("Cache-Control", response.cache_control);
    if (response.retry_after > 0)
        field("Retry-After", std::string_view(std::to_string(response.retry_after)));
    if (response.allow_get_head)
        field("Allow", std::string_view("GET, HEAD"));
    if (response.vary_accept)
        field("Vary", std::string_view("Accept"));
    if (response.noindex)
        field("X-Robots-Tag", std::string_view("noindex"));
    if (!response.content_type.empty()) {
        field("Content-Type", response.content_type);
        field("X-Content-Type-Options", std::string_view("nosniff"));
    }
    if (!response.security_policy.empty())
        field("Content-Security-Policy", response.security_policy);
}

// What a response needs to know of its request and connection.
struct Framing {
    bool head = false;      // a HEAD request: no body
    bool keep_alive = true; // what the connection does afterwards
    bool http_1_0 = false;  // HTTP/1.0 has to be told about keep-alive
    std::string_view date;  // for the field of this name
};

// Appends the bytes of the response to `out`.
void append_response(const Response& response, const Framing& framing, std::string& out);

} // namespace shortener
