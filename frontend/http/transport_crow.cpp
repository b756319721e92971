// The frontend on Crow. Crow's own server forgives what the contract refuses, answers one request per read,
// writes while the thread waits, and closes after five seconds. So each crow::Connection runs inside a
// Session: what it takes for a socket is a stream that hands it one request at a time, rewritten from what
// read_head understood, and collects what it writes. Crow parses that request, calls the handler and forms
// the response.

#include "http/session.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#define CROW_USE_BOOST 1
// Above its highest level: Crow says nothing on its own.
#define CROW_LOG_LEVEL 5
#include <crow/http_connection.h>

namespace shortener {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// What Crow wants to share among the connections of a thread.
struct CrowThread {
    asio::io_context never_run;
    // The clock by which Crow closes connections stands still: deadlines are the session's.
    crow::detail::task_timer timer{never_run};
    std::function<std::string()> date = [] { return std::string(); }; // not called, we set the field
    std::string server_name;
    std::tuple<> middlewares;
    std::atomic<unsigned> connections{0};
};

class CrowProtocol;

// The socket of a crow::Connection, as far as it uses one.
class Stream {
  public:
    using executor_type = asio::io_context::executor_type;

    Stream(asio::io_context& context, CrowProtocol& protocol) : context_(context), protocol_(protocol) {}

    executor_type get_executor() { return context_.get_executor(); }
    template <typename Resume> void async_read_some(const asio::mutable_buffer& buffer, Resume&& resume);
    template <typename Buffers> std::size_t write_some(const Buffers& buffers);
    template <typename Buffers> std::size_t write_some(const Buffers& buffers, error_code& error) {
        error = {};
        return write_some(buffers);
    }
    // Crow 1.2 writes like this, and counts on nothing happening in between.
    template <typename Buffers, typename Resume>
    void async_write_some(const Buffers& buffers, Resume&& resume) {
        const std::size_t bytes = write_some(buffers);
        std::forward<Resume>(resume)(error_code(), bytes);
    }

  private:
    asio::io_context& context_;
    CrowProtocol& protocol_;
};

class Adaptor {
  public:
    using context = CrowProtocol;

    Adaptor(asio::io_context& context, CrowProtocol* protocol)
        : context_(context), protocol_(*protocol), stream_(context, *protocol) {}

    Stream& socket() { return stream_; }
    Stream& raw_socket() { return stream_; }
    asio::io_context& get_io_context() { return context_; }
    asio::io_context& get_io_service() { return context_; } // its name in Crow 1.2
    // Requests know their peer from the session.
    crow::tcp::endpoint remote_endpoint() const { return {}; }
    std::string address() const { return {}; }
    template <typename Begin> void start(Begin begin) { begin(error_code()); }
    bool is_open() const;
    void close();
    void shutdown_readwrite() {}
    void shutdown_read() {}
    void shutdown_write() {}

  private:
    asio::io_context& context_;
    CrowProtocol& protocol_;
    Stream stream_;
};

// The methods that this program tells apart. Crow knows some more and refuses the rest; we refuse none.
std::string_view method_name(Method method) {
    return method == Method::get ? "GET" : method == Method::head ? "HEAD" : "POST";
}

// The request without what Crow would act upon: the body, which has been read, Connection, Upgrade, Expect.
// For a version above 1.1 Crow leaves it to the response what becomes of the connection.
void write_request(const Request& request, std::string& text) {
    const auto field = [&](std::string_view name, std::string_view value) {
        if (!value.empty())
            text.append(name).append(": ").append(value).append("\r\n");
    };
    text.append(method_name(request.method)).append(" ").append(request.target).append(" HTTP/1.2\r\n");
    field("Host", request.host);
    field("Accept", request.accept);
    field("User-Agent", request.user_agent);
    field("Referer", request.referer);
    field("X-Forwarded-For", request.forwarded_for);
    text.append("\r\n");
}

Request read_request(const crow::request& asked, std::string_view peer) {
    Request request;
    request.method = asked.method == crow::HTTPMethod::Get    ? Method::get
                     : asked.method == crow::HTTPMethod::Head ? Method::head
                                                              : Method::other;
    request.target = asked.raw_url;
    request.host = asked.get_header_value("Host");
    request.accept = asked.get_header_value("Accept");
    request.user_agent = asked.get_header_value("User-Agent");
    request.referer = asked.get_header_value("Referer");
    request.forwarded_for = asked.get_header_value("X-Forwarded-For");
    request.peer = peer;
    return request;
}

void write_response(Response& response, const Framing& framing, crow::response& out) {
    out.headers.clear();
    out.code = response.status;
    out.add_header("Date", std::string(framing.date));
    for_each_field(response, [&](std::string_view name, std::string_view value) {
        out.add_header(std::string(name), std::string(value));
    });
    out.manual_length_header = true;
    if (response.status != 204)
        out.add_header("Content-Length", std::to_string(response.body.size()));
    if (!framing.keep_alive)
        out.add_header("Connection", "close");
    else if (framing.http_1_0)
        out.add_header("Connection", "keep-alive");
    out.body = std::move(response.body);
}

// To a crow::Connection both the context of its socket and the application.
class CrowProtocol final : public Protocol {
  public:
    CrowProtocol(Session& session, std::shared_ptr<CrowThread> thread)
        : session_(session), thread_(std::move(thread)),
          connection_(std::make_shared<crow::Connection<Adaptor, CrowProtocol>>(
              thread_->never_run, this, thread_->server_name, &thread_->middlewares, thread_->date,
              thread_->timer, this, thread_->connections)) {
        connection_->start();
    }

    // Crow's connection holds on to itself while it waits.
    ~CrowProtocol() override {
        open_ = false;
        if (response_)
            response_->end();
        if (resume_)
            std::exchange(resume_, nullptr)(asio::error::operation_aborted, 0);
    }

    Outcome answer(std::string_view, const Head& head, std::string& out) override {
        out_ = &out;
        peer_ = head.request.peer;
        answered_ = false;
        std::string text;
        write_request(head.request, text);
        for (std::string_view rest = text; !rest.empty() && resume_;) {
            const std::size_t bytes = std::min(rest.size(), buffer_.size());
            std::memcpy(buffer_.data(), rest.data(), bytes);
            rest.remove_prefix(bytes);
            std::exchange(resume_, nullptr)(error_code(), bytes);
        }
        return answered_ ? Outcome::answered : response_ ? Outcome::later : Outcome::refused;
    }

    void answer_later(const Head&, std::string& out, std::function<void()> done) override {
        out_ = &out;
        session_.handler().answer_later(read_request(*request_, peer_),
                                        [this, done = std::move(done)](Response&& response) {
                                            respond(response);
                                            done();
                                        });
    }

    // What a crow::Connection asks of an application:

    std::size_t stream_threshold() const { return std::numeric_limits<std::size_t>::max(); }

    // Every request has a route.
    std::unique_ptr<crow::routing_handle_result> handle_initial(crow::request&, crow::response&) {
        auto route = std::make_unique<crow::routing_handle_result>();
        route->rule_index = 1;
        return route;
    }

    void handle(crow::request& request, crow::response& response,
                std::unique_ptr<crow::routing_handle_result>&) {
        request_ = &request;
        response_ = &response;
        Response answer;
        if (session_.handler().answer(read_request(request, peer_), answer))
            respond(answer);
    }

    // Not called: it never sees an Upgrade.
    void handle_upgrade(const crow::request&, crow::response& response, Adaptor&&) { response.end(); }

  private:
    friend class Stream;
    friend class Adaptor;

    void respond(Response& response) {
        const Framing framing = session_.frame(response);
        const std::size_t begin = out_->size(), body = framing.head ? 0 : response.body.size();
        write_response(response, framing, *response_);
        std::exchange(response_, nullptr)->end();
        answered_ = true;
        // Crow puts a body of its own where there is none, and before 1.3 an empty Server.
        const std::size_t end = out_->find("\r\n\r\n", begin) + 4;
        out_->resize(end + body);
        if (const std::size_t server = out_->find("\r\nServer: \r\n", begin); server < end)
            out_->erase(server, std::strlen("\r\nServer: "));
    }

    Session& session_;
    const std::shared_ptr<CrowThread> thread_;
    std::string_view peer_;
    std::string* out_ = nullptr;
    bool open_ = true, answered_ = false;
    // Crow's, while it has an answer to give.
    crow::request* request_ = nullptr;
    crow::response* response_ = nullptr;
    // Crow's read that waits for the next request.
    asio::mutable_buffer buffer_;
    std::function<void(const error_code&, std::size_t)> resume_;
    const std::shared_ptr<crow::Connection<Adaptor, CrowProtocol>> connection_;
};

template <typename Resume> void Stream::async_read_some(const asio::mutable_buffer& buffer, Resume&& resume) {
    protocol_.buffer_ = buffer;
    protocol_.resume_ = std::forward<Resume>(resume);
}

template <typename Buffers> std::size_t Stream::write_some(const Buffers& buffers) {
    std::size_t bytes = 0;
    for (auto each = asio::buffer_sequence_begin(buffers); each != asio::buffer_sequence_end(buffers);
         ++each) {
        const asio::const_buffer part = *each;
        bytes += part.size();
        if (protocol_.open_)
            protocol_.out_->append(static_cast<const char*>(part.data()), part.size());
    }
    return bytes;
}

bool Adaptor::is_open() const {
    return protocol_.open_;
}

void Adaptor::close() {
    protocol_.open_ = false;
}

} // namespace

std::unique_ptr<Protocol> make_protocol(Session& session) {
    // Connections can outlive their thread.
    thread_local const auto thread = std::make_shared<CrowThread>();
    return std::make_unique<CrowProtocol>(session, thread);
}

} // namespace shortener
