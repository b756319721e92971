#include "awaitable.h"

#include "transport.h"

#include <array>
#include <atomic>
#include <ctime>
#include <exception>
#include <list>
#include <string>
#include <thread>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include "log.h"

namespace shortener {

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds tick_interval{100};
constexpr std::size_t usual_buffer = 4096;
// So much of pipelined answers is collected before it is written.
constexpr std::size_t output_limit = 65536;
// What a refused client may still send before the connection is closed under its hands.
constexpr std::size_t linger_bytes = 1 << 20;
constexpr std::chrono::seconds linger_time{1};

// Beast's parser, keeping nothing: it has to agree with read_head that this is a request, and it finds the end
// of the body.
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

// Whether Beast, too, reads exactly one request without a body.
bool agrees(std::string_view head) {
    Parser parser;
    parser.eager(true);
    parser.header_limit(static_cast<std::uint32_t>(head.size()) + 1);
    error_code error;
    std::size_t used = 0;
    while (used < head.size() && !error && !parser.is_done())
        used += parser.put(asio::const_buffer(head.data() + used, head.size() - used), error);
    return !error && parser.is_done() && used == head.size();
}

std::string http_date() {
    char text[40];
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    return std::string(text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc));
}

class Worker;

class Session : public std::enable_shared_from_this<Session> {
  public:
    Session(tcp::socket socket, Worker& worker) : socket_(std::move(socket)), worker_(worker) {}

    asio::awaitable<void> run();
    void tick(Clock::time_point now);
    // No further request; a connection on which nothing is asked is closed.
    void drain();

    std::list<Session*>::iterator place; // in the worker's list

  private:
    enum class Waiting { nothing, idle, request, writing, lingering };

    asio::awaitable<bool> serve_one();
    asio::awaitable<bool> read_body();
    asio::awaitable<bool> read_more();
    asio::awaitable<bool> write();
    asio::awaitable<void> refuse(int status);
    asio::awaitable<void> linger();
    asio::awaitable<Response> answer_later(const Request& request);
    void wait_for(Waiting what, std::chrono::milliseconds time);
    void append(const Response& response, bool keep_alive);
    std::string_view unread() const { return {buffer_.data() + begin_, end_ - begin_}; }
    void consume(std::size_t bytes);

    tcp::socket socket_;
    Worker& worker_;
    std::string peer_;
    std::vector<char> buffer_;
    std::size_t begin_ = 0, end_ = 0;
    std::string output_;
    Head head_;
    Waiting waiting_ = Waiting::nothing;
    Clock::time_point deadline_ = Clock::time_point::max();
    Clock::time_point request_deadline_ = Clock::time_point::max();
    bool timed_out_ = false, draining_ = false;
};

// A thread with its loop, handler and connections.
class Worker {
  public:
    Worker(const TransportSettings& settings, std::atomic<std::size_t>& connections)
        : settings(settings), connections_(connections), timer_(context) {}

    void start(const Transport::MakeHandler& make_handler, std::size_t number) {
        thread_ = std::thread([this, &make_handler, number] {
            handler = make_handler(context, number);
            tick();
            context.run();
        });
    }

    void adopt(tcp::socket socket) {
        auto session = std::make_shared<Session>(std::move(socket), *this);
        session->place = sessions_.insert(sessions_.end(), session.get());
        handler->opened();
        asio::co_spawn(context, [session] { return session->run(); },
                       [this, session](std::exception_ptr) {
                           sessions_.erase(session->place);
                           handler->closed();
                           connections_--;
                       });
        if (draining_)
            session->drain();
    }

    void drain() {
        draining_ = true;
        for (Session* session : sessions_)
            session->drain();
    }

    void join() {
        context.stop();
        thread_.join();
    }

    const TransportSettings& settings;
    asio::io_context context{1};
    std::unique_ptr<Handler> handler;
    std::string date = http_date();

  private:
    void tick() {
        const Clock::time_point now = Clock::now();
        date = http_date();
        handler->tick(now);
        for (Session* session : sessions_)
            session->tick(now);
        timer_.expires_at(now + tick_interval);
        timer_.async_wait([this](error_code error) {
            if (!error)
                tick();
        });
    }

    std::atomic<std::size_t>& connections_;
    asio::steady_timer timer_;
    std::list<Session*> sessions_;
    std::thread thread_;
    bool draining_ = false;
};

void Session::wait_for(Waiting what, std::chrono::milliseconds time) {
    waiting_ = what;
    deadline_ = Clock::now() + time;
}

void Session::tick(Clock::time_point now) {
    if (waiting_ == Waiting::nothing || now < deadline_)
        return;
    timed_out_ = true;
    deadline_ = Clock::time_point::max();
    error_code ignored;
    socket_.cancel(ignored);
}

void Session::drain() {
    draining_ = true;
    if (waiting_ == Waiting::idle) {
        error_code ignored;
        socket_.cancel(ignored);
    }
}

void Session::consume(std::size_t bytes) {
    begin_ += bytes;
    if (begin_ == end_) {
        begin_ = end_ = 0;
        if (buffer_.size() > usual_buffer) {
            buffer_.resize(usual_buffer);
            buffer_.shrink_to_fit();
        }
    }
}

void Session::append(const Response& response, bool keep_alive) {
    append_response(response,
                    {head_.request.method == Method::head, keep_alive, head_.http_1_0, worker_.date}, output_);
}

// Reads what there is. False: the client is gone, or it is time to go.
asio::awaitable<bool> Session::read_more() {
    if (begin_ > 0) {
        std::copy(buffer_.begin() + begin_, buffer_.begin() + end_, buffer_.begin());
        end_ -= begin_;
        begin_ = 0;
    }
    if (end_ == buffer_.size())
        buffer_.resize(std::max(usual_buffer, buffer_.size() * 2));
    error_code error;
    const std::size_t bytes = co_await socket_.async_read_some(
        asio::buffer(buffer_.data() + end_, buffer_.size() - end_), asio::redirect_error(asio::use_awaitable, error));
    waiting_ = Waiting::nothing;
    end_ += bytes;
    co_return !error;
}

// The kernel usually takes an answer at once; only if not is it waited for.
asio::awaitable<bool> Session::write() {
    error_code error;
    const std::size_t sent = socket_.write_some(asio::buffer(output_), error);
    if (error == asio::error::would_block || (!error && sent < output_.size())) {
        wait_for(Waiting::writing, worker_.settings.write_timeout);
        co_await asio::async_write(socket_, asio::buffer(output_.data() + sent, output_.size() - sent),
                                   asio::redirect_error(asio::use_awaitable, error));
        waiting_ = Waiting::nothing;
    }
    output_.clear();
    if (output_.capacity() > output_limit)
        output_.shrink_to_fit();
    co_return !error;
}

asio::awaitable<void> Session::refuse(int status) {
    worker_.handler->refused(status);
    head_.request.method = Method::get;
    append(respond_refused(status), false);
    // Not `if (co_await …) co_await …` as the last statement: g++ 12 lays out the frame of such a coroutine wrongly,
    // and resuming it ends the process.
    const bool written = co_await write();
    if (written)
        co_await linger();
}

// Closing with unread input makes the kernel send a reset that can overtake the answer.
asio::awaitable<void> Session::linger() {
    error_code error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    wait_for(Waiting::lingering, linger_time);
    std::array<char, 4096> nothing;
    for (std::size_t bytes = 0; !error && bytes < linger_bytes;)
        bytes += co_await socket_.async_read_some(asio::buffer(nothing), asio::redirect_error(asio::use_awaitable, error));
    waiting_ = Waiting::nothing;
}

asio::awaitable<Response> Session::answer_later(const Request& request) {
    Handler& handler = *worker_.handler;
    co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(Response)>(
        [&](auto&& resume) {
            auto shared = std::make_shared<std::decay_t<decltype(resume)>>(std::forward<decltype(resume)>(resume));
            handler.answer_later(request, [shared](Response&& response) { (*shared)(std::move(response)); });
        },
        asio::use_awaitable);
}

// Reads and throws away the body after a head that has been read; afterwards the request is consumed. False: the
// connection is at its end.
asio::awaitable<bool> Session::read_body() {
    Parser parser;
    parser.eager(true);
    parser.header_limit(static_cast<std::uint32_t>(worker_.settings.limits.head_bytes) + 2);
    parser.body_limit(worker_.settings.limits.body_bytes);
    for (bool asked = false;;) {
        error_code error;
        const std::size_t used = parser.put(asio::const_buffer(unread().data(), unread().size()), error);
        consume(used);
        if (error == http::error::body_limit) {
            co_await refuse(413);
            co_return false;
        }
        if (error && error != http::error::need_more) {
            co_await refuse(400);
            co_return false;
        }
        if (parser.is_done())
            co_return true;
        if (unread().size() > usual_buffer) { // a chunk's header without an end
            co_await refuse(400);
            co_return false;
        }
        if (head_.expects_continue && !head_.http_1_0 && !std::exchange(asked, true)) {
            output_.append("HTTP/1.1 100 Continue\r\n\r\n");
            if (!co_await write())
                co_return false;
        }
        waiting_ = Waiting::request;
        deadline_ = request_deadline_;
        if (!co_await read_more()) {
            if (timed_out_)
                co_await refuse(408);
            co_return false;
        }
    }
}

// Serves the request at the front of the buffer, reading more as needed. False: the connection is at its end.
asio::awaitable<bool> Session::serve_one() {
    for (;;) {
        if (!unread().empty() || end_ > 0)
            read_head(unread(), worker_.settings.limits, head_);
        else
            head_.state = Head::State::incomplete;
        if (head_.state == Head::State::complete)
            break;
        if (head_.state == Head::State::refused) {
            co_await refuse(head_.status);
            co_return false;
        }
        if (!output_.empty() && !co_await write())
            co_return false;
        if (unread().empty()) {
            if (draining_)
                co_return false;
            request_deadline_ = Clock::time_point::max();
            wait_for(Waiting::idle, worker_.settings.idle_timeout);
        } else {
            if (request_deadline_ == Clock::time_point::max())
                request_deadline_ = Clock::now() + worker_.settings.request_timeout;
            waiting_ = Waiting::request;
            deadline_ = request_deadline_;
        }
        if (!co_await read_more()) {
            if (timed_out_ && !unread().empty())
                co_await refuse(408);
            co_return false;
        }
    }
    if (request_deadline_ == Clock::time_point::max())
        request_deadline_ = Clock::now() + worker_.settings.request_timeout;
    if (unread().starts_with("\r\n")) { // RFC 9112, section 2.2; Beast's parser does not know it
        consume(2);
        head_.size -= 2;
    }

    Request request = head_.request;
    request.peer = peer_;
    const bool has_body = head_.chunked || head_.content_length > 0;
    std::string kept; // the views of a request outlive a buffer that moves
    if (has_body) {
        kept = unread().substr(0, head_.size);
        read_head(kept, worker_.settings.limits, head_);
        request = head_.request;
        request.peer = peer_;
        if (!co_await read_body())
            co_return false;
    }
    if (!has_body && !agrees(unread().substr(0, head_.size))) {
        co_await refuse(400);
        co_return false;
    }
    Response response;
    if (!worker_.handler->answer(request, response)) {
        // What is known already need not wait for this one.
        if (!output_.empty() && !co_await write())
            co_return false;
        response = co_await answer_later(request);
    }
    if (!has_body)
        consume(head_.size);
    request_deadline_ = Clock::time_point::max();
    const bool keep_alive = head_.keep_alive && !response.close && !draining_;
    append(response, keep_alive);
    if (!keep_alive) {
        if (co_await write())
            co_await linger();
        co_return false;
    }
    if (output_.size() > output_limit)
        co_return co_await write();
    co_return true;
}

asio::awaitable<void> Session::run() {
    error_code error;
    socket_.non_blocking(true, error);
    socket_.set_option(tcp::no_delay(true), error);
    const tcp::endpoint peer = socket_.remote_endpoint(error);
    if (error)
        co_return;
    peer_ = peer.address().to_string();
    while (co_await serve_one()) {
    }
    socket_.close(error);
}

} // namespace

class Transport::Implementation {
  public:
    Implementation(const TransportSettings& settings, MakeHandler make_handler)
        : settings_(settings), make_handler_(std::move(make_handler)), pause_(context_) {
        for (unsigned i = 0; i < settings_.threads; i++)
            workers_.push_back(std::make_unique<Worker>(settings_, connections_));
        for (const tcp::endpoint& endpoint : settings_.listen)
            acceptors_.emplace_back(context_, endpoint, true);
    }

    std::vector<tcp::endpoint> endpoints() const {
        std::vector<tcp::endpoint> bound;
        for (const tcp::acceptor& acceptor : acceptors_)
            bound.push_back(acceptor.local_endpoint());
        return bound;
    }

    void start() {
        for (std::size_t i = 0; i < workers_.size(); i++)
            workers_[i]->start(make_handler_, i);
        for (tcp::acceptor& acceptor : acceptors_)
            accept(acceptor);
        thread_ = std::thread([this] { context_.run(); });
    }

    void stop(std::chrono::milliseconds patience) {
        if (!thread_.joinable())
            return;
        asio::post(context_, [this] {
            for (tcp::acceptor& acceptor : acceptors_)
                acceptor.close();
            pause_.cancel();
        });
        thread_.join();
        for (auto& worker : workers_)
            asio::post(worker->context, [&worker] { worker->drain(); });
        for (const auto end = Clock::now() + patience; connections_ > 0 && Clock::now() < end;)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (connections_ > 0)
            log_line(LogLevel::warning, "closing " + std::to_string(connections_) + " connections with requests under way");
        for (auto& worker : workers_)
            worker->join();
    }

  private:
    void accept(tcp::acceptor& acceptor) {
        Worker& worker = *workers_[next_++ % workers_.size()];
        acceptor.async_accept(worker.context, [this, &acceptor, &worker](error_code error, tcp::socket socket) {
            if (!acceptor.is_open())
                return;
            if (error) {
                // Out of descriptors, most likely: trying at once would spin.
                pause_.expires_after(std::chrono::milliseconds(100));
                pause_.async_wait([this, &acceptor](error_code) {
                    if (acceptor.is_open())
                        accept(acceptor);
                });
                return;
            }
            if (connections_.fetch_add(1) >= settings_.max_connections) {
                connections_--;
                asio::post(worker.context, [&worker, socket = std::move(socket)] { worker.handler->turned_away(); });
            } else {
                asio::post(worker.context, [&worker, socket = std::move(socket)]() mutable { worker.adopt(std::move(socket)); });
            }
            accept(acceptor);
        });
    }

    const TransportSettings settings_;
    const MakeHandler make_handler_;
    std::atomic<std::size_t> connections_{0};
    std::vector<std::unique_ptr<Worker>> workers_;
    asio::io_context context_{1};
    asio::steady_timer pause_;
    std::list<tcp::acceptor> acceptors_;
    std::size_t next_ = 0;
    std::thread thread_;
};

Transport::Transport(const TransportSettings& settings, MakeHandler make_handler)
    : implementation_(std::make_unique<Implementation>(settings, std::move(make_handler))) {}
Transport::~Transport() = default;
std::vector<tcp::endpoint> Transport::endpoints() const {
    return implementation_->endpoints();
}
void Transport::start() {
    implementation_->start();
}
void Transport::stop(std::chrono::milliseconds patience) {
    implementation_->stop(patience);
}

} // namespace shortener
