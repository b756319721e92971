#include "http/session.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace shortener {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t usual_buffer = 4096;
// Room for answers that a connection keeps.
constexpr std::size_t usual_output = 65536;
// So many pipelined requests are answered at once; then other connections have their turn.
constexpr int requests_in_a_turn = 16;
// What the kernel may hold for a client that reads nothing (it takes twice of it). By itself it would go up
// to megabytes.
constexpr int send_buffer = 65536;
// What a refused client may still send before the connection is closed under its hands.
constexpr std::size_t linger_bytes = 1 << 20;
constexpr std::chrono::seconds linger_time{1};

} // namespace

Session::Session(tcp::socket socket, const SessionContext& context)
    : socket_(std::move(socket)), context_(context) {}

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
    error_code ignored;
    // A request that has arrived and was not read yet is under way.
    if (waiting_ == Waiting::idle && socket_.available(ignored) == 0)
        socket_.cancel(ignored);
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

void Session::append(const Response& response) {
    keep_alive_ = head_.keep_alive && !response.close && !draining_;
    append_response(response,
                    {head_.request.method == Method::head, keep_alive_, head_.http_1_0, context_.date},
                    output_);
}

// Reads what there is. False: the client is gone, or it is time to go.
asio::awaitable<bool> Session::read_more() {
    turn_ = 0;
    if (begin_ > 0) {
        std::copy(buffer_.begin() + begin_, buffer_.begin() + end_, buffer_.begin());
        end_ -= begin_;
        begin_ = 0;
    }
    if (end_ == buffer_.size())
        buffer_.resize(std::max(usual_buffer, buffer_.size() * 2));
    error_code error;
    const std::size_t bytes =
        co_await socket_.async_read_some(asio::buffer(buffer_.data() + end_, buffer_.size() - end_),
                                         asio::redirect_error(asio::use_awaitable, error));
    waiting_ = Waiting::nothing;
    end_ += bytes;
    co_return !error;
}

// The kernel usually takes an answer at once; only if not is it waited for.
asio::awaitable<bool> Session::write() {
    error_code error;
    const std::size_t sent = socket_.write_some(asio::buffer(output_), error);
    if (error == asio::error::would_block || (!error && sent < output_.size())) {
        wait_for(Waiting::writing, context_.settings.write_timeout);
        co_await asio::async_write(socket_, asio::buffer(output_.data() + sent, output_.size() - sent),
                                   asio::redirect_error(asio::use_awaitable, error));
        waiting_ = Waiting::nothing;
    }
    output_.clear();
    if (output_.capacity() > usual_output)
        output_.shrink_to_fit();
    co_return !error;
}

void Session::refuse(int status) {
    handler().request_refused(status);
    append(refusal(status));
}

// Writes the last answer. False, for the callers: the connection is at its end.
asio::awaitable<bool> Session::finish() {
    // g++ 12 lays out the frame of a coroutine wrongly that has a co_await in a condition and no variable.
    const bool written = co_await write();
    if (written)
        co_await linger();
    co_return false;
}

// Closing with unread input makes the kernel send a reset that can overtake the answer.
asio::awaitable<void> Session::linger() {
    error_code error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    wait_for(Waiting::lingering, linger_time);
    std::array<char, 4096> nothing;
    for (std::size_t bytes = 0; !error && bytes < linger_bytes;)
        bytes += co_await socket_.async_read_some(asio::buffer(nothing),
                                                  asio::redirect_error(asio::use_awaitable, error));
    waiting_ = Waiting::nothing;
}

asio::awaitable<void> Session::answer_later(PendingRequest& pending) {
    co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [&](auto&& resume) {
            auto shared =
                std::make_shared<std::decay_t<decltype(resume)>>(std::forward<decltype(resume)>(resume));
            pending.start([this, shared](Response&& response) {
                append(response);
                (*shared)();
            });
        },
        asio::use_awaitable);
}

// Reads and throws away the body after a head that has been consumed; afterwards the body is consumed as
// well. False: the connection is at its end.
asio::awaitable<bool> Session::read_body() {
    for (bool asked = false;;) {
        std::size_t used = 0;
        const RequestParser::State state = parser_->read_body(unread(), used);
        consume(used);
        if (state == RequestParser::State::complete)
            co_return true;
        if (state == RequestParser::State::refused) {
            refuse(parser_->status());
            co_return co_await finish();
        }
        if (head_.expects_continue && !head_.http_1_0 && !std::exchange(asked, true)) {
            output_.append("HTTP/1.1 100 Continue\r\n\r\n");
            if (!co_await write())
                co_return false;
        }
        waiting_ = Waiting::request;
        deadline_ = request_deadline_;
        if (!co_await read_more()) {
            if (!timed_out_)
                co_return false;
            refuse(408);
            co_return co_await finish();
        }
    }
}

// Reads the head at the front of the buffer, which stays there. False: the connection is at its end.
asio::awaitable<bool> Session::read_head(RequestParser::State& state) {
    request_deadline_ = Clock::time_point::max();
    Clock::time_point idle_deadline = Clock::time_point::max();
    for (bool empty_line = false;;) {
        // One empty line before a request is forgiven (RFC 9112, section 2.2), and is none.
        if (!empty_line && unread().starts_with("\r\n")) {
            consume(2);
            empty_line = true;
        }
        state = RequestParser::State::incomplete;
        if (!unread().empty() && (empty_line || unread() != "\r")) {
            parser_.emplace(context_.settings.limits, head_);
            state = parser_->read_head(unread());
        }
        if (state == RequestParser::State::refused) {
            refuse(parser_->status());
            co_return co_await finish();
        }
        if (state != RequestParser::State::incomplete)
            co_return true;
        if (!output_.empty() && !co_await write())
            co_return false;
        const Clock::time_point now = Clock::now();
        if (unread().empty()) {
            if (draining_)
                co_return false;
            idle_deadline = std::min(idle_deadline, now + context_.settings.idle_timeout);
            waiting_ = Waiting::idle;
            deadline_ = idle_deadline;
        } else {
            request_deadline_ = std::min(request_deadline_, now + context_.settings.request_timeout);
            waiting_ = Waiting::request;
            deadline_ = request_deadline_;
        }
        if (!co_await read_more()) {
            if (!timed_out_ || unread().empty())
                co_return false;
            refuse(408);
            co_return co_await finish();
        }
    }
}

// Serves the next request. False: the connection is at its end.
asio::awaitable<bool> Session::serve_one() {
    RequestParser::State state;
    if (!co_await read_head(state))
        co_return false;
    std::size_t size = parser_->head_size();
    std::vector<char> kept; // the request is views into it
    if (state == RequestParser::State::body) {
        request_deadline_ = std::min(request_deadline_, Clock::now() + context_.settings.request_timeout);
        const std::string_view rest = unread().substr(size);
        kept.assign(rest.begin(), rest.end());
        kept.swap(buffer_);
        begin_ = 0;
        end_ = buffer_.size();
        size = 0;
        if (!co_await read_body())
            co_return false;
    }
    head_.request.peer = peer_;
    Response response;
    const std::shared_ptr<PendingRequest> pending = handler().answer(head_.request, response);
    if (!pending) {
        append(response);
    } else {
        // What is known already need not wait for this one.
        if (!output_.empty() && !co_await write())
            co_return false;
        co_await answer_later(*pending);
    }
    consume(size);
    if (!keep_alive_)
        co_return co_await finish();
    if (++turn_ < requests_in_a_turn)
        co_return true;
    turn_ = 0;
    if (!co_await write())
        co_return false;
    co_await asio::post(socket_.get_executor(), asio::use_awaitable);
    co_return true;
}

asio::awaitable<void> Session::run() {
    error_code error;
    socket_.non_blocking(true, error);
    socket_.set_option(tcp::no_delay(true), error);
    socket_.set_option(tcp::socket::send_buffer_size(send_buffer), error);
    const tcp::endpoint peer = socket_.remote_endpoint(error);
    if (error)
        co_return;
    peer_ = peer.address().to_string();
    while (co_await serve_one()) {
    }
    socket_.close(error);
}

} // namespace shortener
