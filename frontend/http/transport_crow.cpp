// The frontend as a small Crow application. Crow's threads call the route; it answers at once what the
// handler knows, and else waits for a loop that asks the database. It waits because Crow 1.2 and 1.3 free a
// response twice that is ended from another thread (CrowCpp/Crow, issues 843 and 258).

#include "http/transport.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#define CROW_USE_BOOST 1
#define CROW_DISABLE_STATIC_DIR // or Crow would serve what is in ./static
#include <crow.h>

#include "http/host.h"
#include "log.h"

namespace shortener {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds tick_interval{100};
// Crow's threads wait, so there are many.
constexpr std::size_t most_threads = 256;
// With them, at the end.
constexpr std::chrono::seconds last_patience{1};

// An answer is two writes, of which the second would wait for the visitor's acknowledgement of the first.
template <typename App> void send_at_once(App& app) {
    if constexpr (requires { app.tcp_nodelay(true); }) // not in Crow 1.2
        app.tcp_nodelay(true);
}

// An event loop with its handler, on a thread of its own.
class Loop {
  public:
    Loop(const Transport::MakeHandler& make_handler, std::size_t number) {
        std::promise<void> made;
        thread_ = std::thread([&, number] {
            handler_ = make_handler(context_, number);
            made.set_value();
            tick();
            context_.run();
        });
        made.get_future().wait();
    }

    ~Loop() { stop(); }

    // Whoever still waits is told that there is no answer.
    void stop() {
        context_.stop();
        if (thread_.joinable())
            thread_.join();
        stopped_ = true;
    }

    // After stop(): whoever asks from here on is refused, and what the handler uses may go.
    void forget_handler() {
        const std::lock_guard lock(mutex_);
        handler_.reset();
    }

    Response answer(const Request& request) {
        Response response;
        std::shared_ptr<PendingRequest> pending;
        {
            const std::lock_guard lock(mutex_);
            if (!handler_)
                return refusal(503);
            pending = handler_->answer(request, response);
            if (!pending)
                return response;
        }
        const auto promise = std::make_shared<std::promise<Response>>();
        asio::post(context_, [this, promise, pending] {
            const std::lock_guard lock(mutex_);
            pending->start([promise](Response&& later) { promise->set_value(std::move(later)); });
        });
        std::future<Response> later = promise->get_future();
        while (later.wait_for(tick_interval) != std::future_status::ready) {
            if (stopped_)
                return refusal(503);
        }
        return later.get();
    }

  private:
    void tick() {
        {
            const std::lock_guard lock(mutex_);
            handler_->tick(Clock::now());
        }
        timer_.expires_after(tick_interval);
        timer_.async_wait([this](boost::system::error_code error) {
            if (!error)
                tick();
        });
    }

    std::mutex mutex_; // the handler expects to be called by one thread at a time
    asio::io_context context_{1};
    asio::steady_timer timer_{context_};
    std::unique_ptr<Handler> handler_;
    std::atomic<bool> stopped_{false};
    std::thread thread_;
};

std::string_view field(const crow::request& request, const char* name) {
    return request.get_header_value(name);
}

} // namespace

class Transport::Implementation {
  public:
    Implementation(const TransportSettings& settings, MakeHandler make_handler)
        : settings_(settings), make_handler_(std::move(make_handler)) {
        // Crow does not say why it cannot listen, nor on which port it does.
        for (tcp::endpoint& endpoint : settings_.listen)
            endpoint.port(places_.emplace_back(context_, endpoint, true).local_endpoint().port());
    }

    const std::vector<tcp::endpoint>& endpoints() const { return settings_.listen; }

    void start() {
        for (std::size_t i = 0; i < settings_.threads; i++)
            loops_.emplace_back(make_handler_, i);
        places_.clear();
        for (const tcp::endpoint& endpoint : settings_.listen)
            start(apps_.emplace_back(), endpoint);
    }

    void stop(std::chrono::milliseconds patience) {
        stopping_ = true;
        for (const auto end = Clock::now() + patience; under_way_ > 0 && Clock::now() < end;)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (under_way_ > 0)
            log_line(LogLevel::warning,
                     "closing " + std::to_string(under_way_) + " connections with requests under way");
        for (Loop& loop : loops_)
            loop.stop();
        for (crow::SimpleApp& app : apps_)
            app.stop();
        // Since 1.3 a thread of Crow waits for as long as its client likes, if that one reads nothing.
        for (const auto end = Clock::now() + last_patience; running_ > 0 && Clock::now() < end;)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        stuck_ = running_ > 0;
        for (Loop& loop : loops_)
            loop.forget_handler();
        for (std::thread& thread : threads_)
            stuck_ ? thread.detach() : thread.join();
    }

    // Whether threads of Crow live on after stop().
    bool stuck() const { return stuck_; }

  private:
    void start(crow::SimpleApp& app, const tcp::endpoint& endpoint) {
        using enum crow::HTTPMethod;
        // Crow answers HEAD from the route of GET.
        CROW_ROUTE(app, "/").methods(Get, Post, Put, Delete, Patch)(
            [this](const crow::request& request, crow::response& response) { serve(request, response); });
        CROW_ROUTE(app, "/<path>")
            .methods(Get, Post, Put, Delete,
                     Patch)([this](const crow::request& request, crow::response& response,
                                   const std::string&) { serve(request, response); });
        send_at_once(app);
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(settings_.idle_timeout).count();
        app.bindaddr(endpoint.address().to_string())
            .port(endpoint.port())
            .concurrency(static_cast<std::uint16_t>(1 + std::min(most_threads, settings_.max_connections)))
            .timeout(static_cast<std::uint8_t>(std::clamp<std::int64_t>(seconds, 1, 255)))
            .server_name("shortenerd")
            .signal_clear()
            .loglevel(crow::LogLevel::Critical);
        running_++;
        threads_.emplace_back([this, &app] {
            app.run();
            running_--;
            if (stopping_)
                return;
            log_line(LogLevel::error, "Crow has stopped serving");
            std::_Exit(EXIT_FAILURE);
        });
        app.wait_for_server_start();
    }

    void serve(const crow::request& asked, crow::response& out) {
        under_way_++;
        Request request;
        std::string host;
        Response response;
        if (asked.headers.count("Host") > 1 || !read_host(field(asked, "Host"), host)) {
            response = refusal(400);
        } else {
            request.method = asked.method == crow::HTTPMethod::Get    ? Method::get
                             : asked.method == crow::HTTPMethod::Head ? Method::head
                                                                      : Method::other;
            request.target = asked.raw_url;
            request.host = host;
            request.accept = field(asked, "Accept");
            request.user_agent = field(asked, "User-Agent");
            request.referer = field(asked, "Referer");
            // Crow keeps no order among several lines of a field, and only the last address is trustworthy.
            if (asked.headers.count("X-Forwarded-For") == 1)
                request.forwarded_for = field(asked, "X-Forwarded-For");
            request.peer = asked.remote_ip_address;
            request.prefetch =
                is_prefetch(field(asked, "Sec-Purpose")) || is_prefetch(field(asked, "Purpose"));
            response = loop_of_this_thread().answer(request);
        }
        out.code = response.status;
        out.set_header("Date", http_date()); // Crow 1.3 sends none
        for_each_field(response, [&](std::string_view name, std::string_view value) {
            out.set_header(std::string(name), std::string(value));
        });
        out.manual_length_header = response.status == 204;
        out.body = std::move(response.body);
        out.end();
        under_way_--;
    }

    Loop& loop_of_this_thread() {
        static std::atomic<std::size_t> threads{0};
        thread_local const std::size_t number = threads++;
        return *std::next(loops_.begin(), number % loops_.size());
    }

    TransportSettings settings_;
    const MakeHandler make_handler_;
    asio::io_context context_;
    std::list<tcp::acceptor> places_; // kept for Crow until it starts
    std::list<Loop> loops_;
    std::list<crow::SimpleApp> apps_;
    std::list<std::thread> threads_;
    std::atomic<int> under_way_{0};
    std::atomic<int> running_{0}; // applications
    std::atomic<bool> stopping_{false};
    bool stuck_ = false;
};

Transport::Transport(const TransportSettings& settings, MakeHandler make_handler)
    : implementation_(std::make_unique<Implementation>(settings, std::move(make_handler))) {}
Transport::~Transport() {
    if (implementation_->stuck())
        static_cast<void>(implementation_.release()); // until the program ends, which is soon
}
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
