#include "http/request_parser.h"

#include <algorithm>
#include <functional>
#include <limits>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/rfc7230.hpp>

#include "core/ascii.h"
#include "http/host.h"

namespace shortener {

namespace http = boost::beast::http;
using boost::beast::iequals;

namespace {

constexpr std::size_t longest_method = 32;
constexpr std::size_t around_target = 64; // the rest of a request line
// Of a chunk's size with its extensions, and of the trailer section.
constexpr std::size_t longest_chunk_line = 4096;
// Of the extensions of all chunks (RFC 9112, section 7.1.1).
constexpr std::size_t most_extension_bytes = 16384;

template <typename Text> std::string_view view(const Text& text) {
    return {text.data(), text.size()};
}

} // namespace

RequestParser::RequestParser(const RequestLimits& limits, Head& head) : limits_(limits), head_(head) {
    head.request = {};
    head.host.clear();
    head.forwarded_for.clear();
    head.http_1_0 = head.expects_continue = false;
    // Beast's limit does not count the request line; ours is in read_head.
    header_limit(std::numeric_limits<std::uint32_t>::max());
    body_limit(limits.body_bytes);
}

RequestParser::State RequestParser::refuse(int status) {
    status_ = status;
    return State::refused;
}

void RequestParser::refuse(int status, error_code& error) {
    status_ = status;
    error = http::error::bad_value;
}

RequestParser::State RequestParser::read_head(std::string_view bytes) {
    bytes_ = bytes.substr(0, limits_.head_bytes);
    error_code error;
    head_size_ = put(boost::asio::const_buffer(bytes_.data(), bytes_.size()), error);
    if (is_header_done() && !error)
        return is_done() ? State::complete : State::body;
    if (error && error != http::error::need_more)
        return refuse(status_ != 0 ? status_ : error == http::error::body_limit ? 413 : 400);
    if (!has_line_ && bytes.size() > limits_.target_bytes + around_target)
        return refuse(414);
    if (bytes.size() >= limits_.head_bytes)
        return refuse(431);
    // Beast would wait for the rest of a request line such as "GET / ".
    return bytes_.find("\r\n\r\n") != std::string_view::npos ? refuse(400) : State::incomplete;
}

RequestParser::State RequestParser::read_body(std::string_view bytes, std::size_t& used) {
    bytes_ = bytes;
    used = 0;
    // Beast 1.74 asserts that the last chunk, when seen again, has become five bytes long.
    if (bytes.empty() || (chunked() && bytes.size() < 5 && !bytes.ends_with("\r\n")))
        return State::incomplete;
    eager(true);
    error_code error;
    used = put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
    if (error && error != http::error::need_more)
        return refuse(error == http::error::body_limit ? 413 : 400);
    if (is_done())
        return State::complete;
    return bytes.size() - used > longest_chunk_line ? refuse(400) : State::incomplete;
}

void RequestParser::on_request_impl(http::verb verb, text method, text target, int version,
                                    error_code& error) {
    has_line_ = true;
    head_.http_1_0 = version == 10;
    head_.request.method = verb == http::verb::get    ? Method::get
                           : verb == http::verb::head ? Method::head
                                                      : Method::other;
    if (target.size() > limits_.target_bytes)
        refuse(414, error);
    else if (method.size() > longest_method || !read_target(view(target)))
        refuse(400, error);
}

bool RequestParser::read_target(std::string_view target) {
    if (!std::all_of(target.begin(), target.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; }))
        return false;
    if (target.front() != '/' && target != "*") {
        // Absolute form, as to a proxy: its authority has to be the Host (RFC 9112, section 3.2.2 lets it
        // win; we do not want to know what a client means that says two things).
        const std::size_t colon = target.find("://");
        if (colon == std::string_view::npos)
            return false;
        const text scheme(target.data(), colon);
        if (!iequals(scheme, "http") && !iequals(scheme, "https"))
            return false;
        target.remove_prefix(colon + 3);
        authority_ = target.substr(0, target.find_first_of("/?"));
        has_authority_ = true;
        target.remove_prefix(authority_.size());
        if (!target.starts_with('/'))
            target = "/";
    }
    head_.request.target = target;
    return true;
}

// Beast joins the lines of a folded value: in storage of its own, or by leaving out empty lines in front of
// it.
bool RequestParser::is_folded(text name, text value) const {
    const char* const from = name.data() + name.size();
    const std::less<const char*> before;
    return before(value.data(), from) || before(bytes_.data() + bytes_.size(), value.data()) ||
           std::find(from, value.data(), '\r') != value.data();
}

void RequestParser::on_field_impl(field name, text name_text, text value_text, error_code& error) {
    if (is_header_done())
        return on_trailer_field_impl(name, name_text, value_text, error);
    if (++fields_ > limits_.fields)
        return refuse(431, error);
    if (is_folded(name_text, value_text))
        return refuse(400, error);
    const std::string_view value = view(value_text);
    switch (name) {
    case field::host:
        hosts_++;
        host_ = value;
        break;
    case field::content_length: // Beast takes a list of equal numbers, too
        if (++content_lengths_ > 1 || !std::all_of(value.begin(), value.end(), is_ascii_digit))
            refuse(400, error);
        break;
    case field::transfer_encoding: // Beast has refused a second one
        if (head_.http_1_0 || !iequals(value_text, "chunked"))
            refuse(400, error);
        break;
    case field::connection:
        says_close_ = says_close_ || http::token_list(value_text).exists("close");
        says_keep_alive_ = says_keep_alive_ || http::token_list(value_text).exists("keep-alive");
        break;
    case field::expect: head_.expects_continue = iequals(value_text, "100-continue"); break;
    case field::accept: head_.request.accept = value; break;
    case field::referer: head_.request.referer = value; break;
    case field::user_agent: head_.request.user_agent = value; break;
    default:
        if (iequals(name_text, "X-Forwarded-For"))
            read_forwarded_for(value);
        else if (iequals(name_text, "Sec-Purpose") || iequals(name_text, "Purpose"))
            head_.request.prefetch = head_.request.prefetch || is_prefetch(value);
    }
}

// Several lines are one list (RFC 9110, section 5.3): a proxy may add its line after one that the visitor
// forged.
void RequestParser::read_forwarded_for(std::string_view value) {
    std::string_view& list = head_.request.forwarded_for;
    if (list.data() == nullptr) {
        list = value;
        return;
    }
    if (head_.forwarded_for.empty())
        head_.forwarded_for = list;
    head_.forwarded_for.append(", ").append(value);
    list = head_.forwarded_for;
}

void RequestParser::on_header_impl(error_code& error) {
    fields_ = 0; // trailer fields are counted anew
    if (hosts_ > 1 || (hosts_ == 0 && !head_.http_1_0) || !read_host(host_, head_.host))
        return refuse(400, error);
    if (has_authority_) {
        std::string authority;
        if (!read_host(authority_, authority) || authority.empty() ||
            (hosts_ == 1 && authority != head_.host))
            return refuse(400, error);
        head_.host = authority;
    }
    head_.request.host = head_.host;
    // Not Beast's keep_alive(), which obeys Proxy-Connection.
    head_.keep_alive = !says_close_ && (!head_.http_1_0 || says_keep_alive_);
}

void RequestParser::on_chunk_header_impl(std::uint64_t, text extensions, error_code& error) {
    extension_bytes_ += extensions.size();
    // They mean nothing to us, but a control character among them would mean something to somebody.
    if (extensions.size() > longest_chunk_line || extension_bytes_ > most_extension_bytes ||
        (!extensions.empty() && extensions.front() != ';') ||
        std::any_of(extensions.begin(), extensions.end(),
                    [](unsigned char c) { return c < ' ' || c == 0x7f; }))
        refuse(400, error);
}

void RequestParser::on_trailer_field_impl(field name, text name_text, text value, error_code& error) {
    if (++fields_ > limits_.fields || is_folded(name_text, value) || name == field::content_length ||
        name == field::transfer_encoding)
        refuse(400, error);
}

} // namespace shortener
