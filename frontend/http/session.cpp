#include "http/session.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "app/respond.h"
#include "http/body.h"

namespace shortener {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t usual_buffer = 4096;
// So much of pipelined answers is collected before it is written.
constexpr std::size_t output_limit = 65536;
// What a refused client may still send before the connection is closed under its hands.
constexpr std::size_t linger_bytes = 1 << 20;
constexpr std::chrono::seconds linger_time{1};

} // namespace

Session::Session(tcp::socket socket, const Common& common)
    : socket_(std::move(socket)), common_(common), protocol_(make_protocol(*this)) {}

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

Framing Session::frame(const Response& response) {
    keep_alive_ = head_.keep_alive && !response.close && !draining_;
    return {head_.request.method == Method::head, keep_alive_, head_.http_1_0, common_.date};
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
        wait_for(Waiting::writing, common_.settings.write_timeout);
        co_await asio::async_write(socket_, asio::buffer(output_.data() + sent, output_.size() - sent),
                                   asio::redirect_error(asio::use_awaitable, error));
        waiting_ = Waiting::nothing;
    }
    output_.clear();
    if (output_.capacity() > output_limit)
        output_.shrink_to_fit();
    co_return !error;
}

void Session::refuse(int status) {
    handler().refused(status);
    append_response(respond_refused(status), {head_.request.method == Method::head, false, head_.http_1_0, common_.date},
                    output_);
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

asio::awaitable<void> Session::answer_later() {
    co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [&](auto&& resume) {
            auto shared =
                std::make_shared<std::decay_t<decltype(resume)>>(std::forward<decltype(resume)>(resume));
            protocol_->answer_later(head_, output_, [shared] { (*shared)(); });
        },
        asio::use_awaitable);
}

// Reads and throws away the body after a head that has been read; afterwards the request is consumed. False:
// the connection is at its end.
asio::awaitable<bool> Session::read_body() {
    BodyReader reader(head_, common_.settings.limits);
    for (bool asked = false;;) {
        std::size_t used = 0;
        const BodyReader::State state = reader.read(unread(), used);
        consume(used);
        if (state == BodyReader::State::complete)
            co_return true;
        if (state != BodyReader::State::incomplete) {
            refuse(state == BodyReader::State::too_large ? 413 : 400);
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

// Serves the request at the front of the buffer, reading more as needed. False: the connection is at its end.
asio::awaitable<bool> Session::serve_one() {
    for (;;) {
        if (!unread().empty() || end_ > 0)
            read_head(unread(), common_.settings.limits, head_);
        else
            head_.state = Head::State::incomplete;
        if (head_.state == Head::State::complete)
            break;
        if (head_.state == Head::State::refused) {
            refuse(head_.status);
            co_return co_await finish();
        }
        if (!output_.empty() && !co_await write())
            co_return false;
        if (unread().empty()) {
            if (draining_)
                co_return false;
            request_deadline_ = Clock::time_point::max();
            wait_for(Waiting::idle, common_.settings.idle_timeout);
        } else {
            if (request_deadline_ == Clock::time_point::max())
                request_deadline_ = Clock::now() + common_.settings.request_timeout;
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
    if (request_deadline_ == Clock::time_point::max())
        request_deadline_ = Clock::now() + common_.settings.request_timeout;

    if (unread().starts_with("\r\n")) { // RFC 9112, section 2.2; parsers of libraries do not know it
        consume(2);
        head_.size -= 2;
    }

    std::string_view bytes = unread().substr(0, head_.size);
    std::string kept; // the views of a request outlive a buffer that moves
    const bool has_body = head_.chunked || head_.content_length > 0;
    if (has_body) {
        kept = bytes;
        bytes = kept;
        read_head(bytes, common_.settings.limits, head_);
        consume(bytes.size());
        if (!co_await read_body())
            co_return false;
    }
    head_.request.peer = peer_;
    const Protocol::Outcome outcome = protocol_->answer(bytes, head_, output_);
    if (outcome == Protocol::Outcome::refused) {
        refuse(400);
        co_return co_await finish();
    }
    if (outcome == Protocol::Outcome::later) {
        // What is known already need not wait for this one.
        if (!output_.empty() && !co_await write())
            co_return false;
        co_await answer_later();
    }
    if (!has_body)
        consume(bytes.size());
    request_deadline_ = Clock::time_point::max();
    if (!keep_alive_)
        co_return co_await finish();
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

} // namespace shortener
