#include "session.h"

#include <optional>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

namespace shortener {

namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

// Beast's parser, keeping nothing: it has to agree with read_head that this is a request, and it finds the
// end of the body.
class Parser final : public http::basic_parser<true> {
    using text = boost::beast::string_view;

    void on_request_impl(http::verb, text, text, int, error_code&) override {}
    void on_response_impl(int, text, int, error_code&) override {}
    void on_field_impl(http::field, text, text, error_code&) override {}
    void on_header_impl(error_code&) override {}
    void on_body_init_impl(boost::optional<std::uint64_t> const&, error_code&) override {}
    std::size_t on_body_impl(text body, error_code&) override { return body.size(); }
    void on_chunk_header_impl(std::uint64_t, text, error_code&) override {}
    std::size_t on_chunk_body_impl(std::uint64_t, text body, error_code&) override { return body.size(); }
    void on_finish_impl(error_code&) override {}
};

class BeastProtocol final : public Protocol {
  public:
    explicit BeastProtocol(Session& session) : session_(session) {}

    bool begin(std::string_view bytes, const Head& head) override {
        parser_.emplace();
        parser_->eager(true);
        parser_->header_limit(static_cast<std::uint32_t>(bytes.size()) + 1);
        parser_->body_limit(session_.limits().body_bytes);
        error_code error;
        const bool whole = put(bytes, error) == bytes.size() && !error;
        if (head.chunked || head.content_length > 0)
            return whole && parser_->is_header_done() && !parser_->is_done();
        return whole && parser_->is_done();
    }

    Body read_body(std::string_view bytes, std::size_t& used) override {
        error_code error;
        used = put(bytes, error);
        if (error == http::error::body_limit)
            return Body::too_large;
        if (error && error != http::error::need_more)
            return Body::malformed;
        return parser_->is_done() ? Body::complete : Body::incomplete;
    }

    bool answer(const Request& request, std::string& out) override {
        Response response;
        if (!session_.handler().answer(request, response))
            return false;
        append_response(response, session_.frame(response), out);
        return true;
    }

    void answer_later(const Request& request, std::string& out, std::function<void()> done) override {
        session_.handler().answer_later(request, [this, &out, done = std::move(done)](Response&& response) {
            append_response(response, session_.frame(response), out);
            done();
        });
    }

  private:
    std::size_t put(std::string_view bytes, error_code& error) {
        return parser_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
    }

    Session& session_;
    std::optional<Parser> parser_;
};

} // namespace

std::unique_ptr<Protocol> make_protocol(Session& session) {
    return std::make_unique<BeastProtocol>(session);
}

} // namespace shortener
