#include "http/session.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>

namespace shortener {

namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

// Beast's parser, keeping nothing: read_head has.
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
    // Boost 1.92 wants it, 1.83 does not know it.
    virtual void on_trailer_field_impl(http::field, text, text, error_code&) {}
};

// Whether Beast, too, takes this for the head of one request, and means the same about a body.
bool agrees(std::string_view bytes, const Head& head) {
    Parser parser;
    parser.eager(true);
    parser.header_limit(static_cast<std::uint32_t>(bytes.size()) + 1);
    parser.body_limit(head.content_length); // not Beast's own: read_head allowed it
    error_code error;
    const std::size_t used = parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
    const bool has_body = head.chunked || head.content_length > 0;
    return !error && used == bytes.size() && parser.is_header_done() && parser.is_done() != has_body;
}

class BeastProtocol final : public Protocol {
  public:
    explicit BeastProtocol(Session& session) : session_(session) {}

    Outcome answer(std::string_view bytes, const Head& head, std::string& out) override {
        if (!agrees(bytes, head))
            return Outcome::refused;
        Response response;
        if (!session_.handler().answer(head.request, response))
            return Outcome::later;
        append_response(response, session_.frame(response), out);
        return Outcome::answered;
    }

    void answer_later(const Head& head, std::string& out, std::function<void()> done) override {
        session_.handler().answer_later(head.request,
                                        [this, &out, done = std::move(done)](Response&& response) {
                                            append_response(response, session_.frame(response), out);
                                            done();
                                        });
    }

  private:
    Session& session_;
};

} // namespace

std::unique_ptr<Protocol> make_protocol(Session& session) {
    return std::make_unique<BeastProtocol>(session);
}

} // namespace shortener
