#include "http/transport.h"

#include <atomic>
#include <exception>
#include <list>
#include <string>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "http/session.h"
#include "log.h"

namespace shortener {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds tick_interval{100};

// A thread with its loop, handler and connections.
class Worker {
  public:
    Worker(const TransportSettings& settings, std::atomic<std::size_t>& connections)
        : session_context_{settings, nullptr, http_date()}, connections_(connections), timer_(context) {}

    void start(const Transport::MakeHandler& make_handler, std::size_t number) {
        thread_ = std::thread([this, &make_handler, number] {
            session_context_.handler = make_handler(context, number);
            tick();
            context.run();
        });
    }

    void adopt(tcp::socket socket) {
        std::shared_ptr<Session> session;
        try {
            session = std::make_shared<Session>(std::move(socket), session_context_);
        } catch (const std::exception& problem) { // out of memory
            log_line(LogLevel::warning, std::string("cannot serve a connection: ") + problem.what());
            handler().connection_refused();
            connections_--;
            return;
        }
        session->place = sessions_.insert(sessions_.end(), session.get());
        handler().connection_opened();
        asio::co_spawn(
            context, [session] { return session->run(); },
            [this, session](std::exception_ptr) {
                sessions_.erase(session->place);
                handler().connection_closed();
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

    Handler& handler() { return *session_context_.handler; }

    asio::io_context context{1};

  private:
    void tick() {
        const Clock::time_point now = Clock::now();
        session_context_.date = http_date();
        handler().tick(now);
        for (Session* session : sessions_)
            session->tick(now);
        timer_.expires_at(now + tick_interval);
        timer_.async_wait([this](error_code error) {
            if (!error)
                tick();
        });
    }

    SessionContext session_context_;
    std::atomic<std::size_t>& connections_;
    asio::steady_timer timer_;
    std::list<Session*> sessions_;
    std::thread thread_;
    bool draining_ = false;
};

} // namespace

class Transport::Implementation {
  public:
    Implementation(const TransportSettings& settings, MakeHandler make_handler)
        : settings_(settings), make_handler_(std::move(make_handler)) {
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
        });
        thread_.join();
        for (auto& worker : workers_)
            asio::post(worker->context, [&worker] { worker->drain(); });
        for (const auto end = Clock::now() + patience; connections_ > 0 && Clock::now() < end;)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (connections_ > 0)
            log_line(LogLevel::warning,
                     "closing " + std::to_string(connections_) + " connections with requests under way");
        for (auto& worker : workers_)
            worker->join();
    }

  private:
    void accept(tcp::acceptor& acceptor) {
        Worker& worker = *workers_[next_++ % workers_.size()];
        acceptor.async_accept(worker.context, [this, &acceptor, &worker](error_code error,
                                                                         tcp::socket socket) {
            if (!acceptor.is_open())
                return;
            if (error) {
                // Out of descriptors, most likely: trying at once would spin.
                const auto pause =
                    std::make_shared<asio::steady_timer>(context_, std::chrono::milliseconds(100));
                pause->async_wait([this, &acceptor, pause](error_code) {
                    if (acceptor.is_open())
                        accept(acceptor);
                });
                return;
            }
            if (connections_.fetch_add(1) >= settings_.max_connections) {
                connections_--;
                asio::post(worker.context,
                           [&worker, socket = std::move(socket)] { worker.handler().connection_refused(); });
            } else {
                asio::post(worker.context, [&worker, socket = std::move(socket)]() mutable {
                    worker.adopt(std::move(socket));
                });
            }
            accept(acceptor);
        });
    }

    const TransportSettings settings_;
    const MakeHandler make_handler_;
    std::atomic<std::size_t> connections_{0};
    std::vector<std::unique_ptr<Worker>> workers_;
    asio::io_context context_{1};
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
