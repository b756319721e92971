#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <boost/beast/http/basic_parser.hpp>

#include "http/limits.h"
#include "http/message.h"

namespace shortener {

// A request, and what its head says to the connection.
struct Head {
    Request request; // views into the bytes that were read and into the two strings below; `peer` is not set
    std::string host;
    std::string forwarded_for; // if it came in several lines
    bool http_1_0 = false;
    bool keep_alive = true;
    bool expects_continue = false;
};

// Beast's parser, made stricter: it forgives what another server may read differently, and such a request is
// refused (RFC 9112, sections 2.2, 3.2, 5, 6.3 and 7.1). A parser reads one request, and its body only to
// find the end.
class RequestParser final : public boost::beast::http::basic_parser<true> {
  public:
    enum class State { incomplete, body, complete, refused };

    // `head` is overwritten.
    RequestParser(const RequestLimits& limits, Head& head);

    // Reads the head at the front of the bytes, which may go on with a body or more requests. When it is
    // incomplete, a new parser has to read all of it again with more after it.
    State read_head(std::string_view bytes);
    std::size_t head_size() const { return head_size_; }

    // After `body`: reads on behind the head. The first `used` of the bytes are done with; the others are
    // wanted again with more after them.
    State read_body(std::string_view bytes, std::size_t& used);

    // Of a refusal: 400, 413, 414 or 431.
    int status() const { return status_; }

  private:
    using error_code = boost::beast::error_code;
    using field = boost::beast::http::field;
    using text = boost::beast::string_view;

    void on_request_impl(boost::beast::http::verb verb, text method, text target, int version,
                         error_code& error) override;
    void on_field_impl(field name, text name_text, text value, error_code& error) override;
    void on_header_impl(error_code& error) override;
    void on_chunk_header_impl(std::uint64_t size, text extensions, error_code& error) override;
    // Beast before 1.84 hands trailer fields to on_field_impl and does not know this one.
    virtual void on_trailer_field_impl(field name, text name_text, text value, error_code& error);
    void on_response_impl(int, text, int, error_code&) override {}
    void on_body_init_impl(boost::optional<std::uint64_t> const&, error_code&) override {}
    std::size_t on_body_impl(text body, error_code&) override { return body.size(); }
    std::size_t on_chunk_body_impl(std::uint64_t, text body, error_code&) override { return body.size(); }
    void on_finish_impl(error_code&) override {}

    State refuse(int status);
    void refuse(int status, error_code& error);
    bool read_target(std::string_view target);
    void read_forwarded_for(std::string_view value);
    bool is_folded(text name, text value) const;

    const RequestLimits& limits_;
    Head& head_;
    std::string_view bytes_; // that are being read
    std::string_view host_, authority_;
    std::size_t head_size_ = 0, fields_ = 0, extension_bytes_ = 0;
    int hosts_ = 0, content_lengths_ = 0;
    bool has_line_ = false, has_authority_ = false, says_close_ = false, says_keep_alive_ = false;
    int status_ = 0;
};

} // namespace shortener
