#include "database/connection.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <system_error>
#include <thread>

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace shortener {

namespace {

namespace asio = boost::asio;

// The `options` parameter that sets the default workspace, after whatever the user had in it.
std::string session_options(const std::string& conninfo, const std::string& default_workspace) {
    const char* const environment = std::getenv("PGOPTIONS");
    std::string options = environment ? environment : "";
    if (PQconninfoOption* parsed = PQconninfoParse(conninfo.c_str(), nullptr)) {
        for (const PQconninfoOption* option = parsed; option->keyword; option++)
            if (std::string_view(option->keyword) == "options" && option->val)
                options = option->val;
        PQconninfoFree(parsed);
    }
    options += " -c shortener.default_workspace=";
    for (const char c : default_workspace) {
        if (c == ' ' || c == '\\')
            options.push_back('\\');
        options.push_back(c);
    }
    return options;
}

PGconn* connect_blocking(const ConnectionSettings& settings) {
    std::vector<const char*> names, values;
    const auto add = [&](const char* name, const char* value) {
        names.push_back(name);
        values.push_back(value);
    };
    // Before the connection string these are defaults, after it they win.
    add("connect_timeout", "2");
    add("fallback_application_name", "shortenerd");
    add("client_encoding", "UTF8");
    add("keepalives_idle", "10");
    add("keepalives_interval", "5");
    add("keepalives_count", "3");
    // A host that is gone, told from a database that is slow: the kernel of a slow one acknowledges what we
    // send.
    add("tcp_user_timeout", "5000");
    add("dbname", settings.conninfo.c_str());
    if (settings.session_attributes)
        add("target_session_attrs", settings.session_attributes);
    std::string options;
    if (!settings.default_workspace.empty()) {
        options = session_options(settings.conninfo, settings.default_workspace);
        add("options", options.c_str());
    }
    add(nullptr, nullptr);
    return PQconnectdbParams(names.data(), values.data(), 1);
}

constexpr std::chrono::seconds first_last_patience{10}, longest_last_patience{600};

std::atomic<int> cancelling{0}; // threads that do

std::vector<const char*> pointers(const Parameters& parameters) {
    std::vector<const char*> values;
    for (const auto& parameter : parameters)
        values.push_back(parameter ? parameter->c_str() : nullptr);
    return values;
}

} // namespace

// Between the connecting thread and the loop: whoever outlives the other closes the connection.
struct Connection::Handoff {
    std::mutex mutex;
    asio::io_context* context = nullptr; // null: nobody waits any more
    asio::steady_timer* done = nullptr;
    PGconn* connection = nullptr;

    ~Handoff() {
        if (connection)
            PQfinish(connection);
    }
};

Connection::Connection(asio::io_context& context, ConnectionSettings settings)
    : context_(context), settings_(std::move(settings)), event_(context),
      last_patience_(first_last_patience) {}

Connection::~Connection() {
    if (handoff_) {
        const std::lock_guard lock(handoff_->mutex);
        handoff_->context = nullptr;
    }
    if (busy_)
        cancel();
    close();
}

void Connection::cancel() noexcept {
    PGcancel* request = PQgetCancel(connection_);
    if (!request)
        return;
    cancelling++;
    try {
        std::thread([request] {
            char error[256];
            PQcancel(request, error, sizeof error);
            PQfreeCancel(request);
            cancelling--;
        }).detach();
    } catch (const std::system_error&) { // no thread for us
        PQfreeCancel(request);
        cancelling--;
    }
}

void Connection::finish_cancelling() {
    for (int i = 0; cancelling > 0 && i < 50; i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void Connection::close() noexcept {
    generation_ = std::make_shared<int>(0);
    readable_ = reading_ = writable_ = writing_ = busy_ = false;
    if (socket_) {
        socket_->release(); // the descriptor is libpq's
        socket_.reset();
    }
    if (connection_)
        PQfinish(std::exchange(connection_, nullptr));
}

asio::awaitable<std::string> Connection::connect() {
    close();
    asio::steady_timer done(context_, Clock::time_point::max());
    handoff_ = std::make_shared<Handoff>();
    handoff_->context = &context_;
    handoff_->done = &done;
    const auto attempt = [handoff = handoff_, settings = settings_] {
        PGconn* connection = connect_blocking(settings);
        const std::lock_guard lock(handoff->mutex);
        handoff->connection = connection;
        if (handoff->context)
            asio::post(*handoff->context, [handoff] {
                if (handoff->done)
                    handoff->done->cancel();
            });
    };
    try {
        std::thread(attempt).detach();
    } catch (const std::system_error& problem) {
        // The system has no thread for us now; the next attempt may find one.
        handoff_.reset();
        co_return std::string("no thread to connect in: ") + problem.what();
    }

    boost::system::error_code ignored;
    co_await done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    {
        const std::lock_guard lock(handoff_->mutex);
        handoff_->context = nullptr;
        handoff_->done = nullptr;
        connection_ = std::exchange(handoff_->connection, nullptr);
    }
    handoff_.reset();

    if (!connection_)
        co_return "out of memory";
    if (PQstatus(connection_) != CONNECTION_OK || PQsetnonblocking(connection_, 1) != 0) {
        std::string error = PQerrorMessage(connection_);
        while (error.ends_with('\n'))
            error.pop_back();
        close();
        co_return error.empty() ? "connection failed" : error;
    }
    // Notices would go to standard error as they are.
    PQsetNoticeReceiver(
        connection_, [](void*, const PGresult*) {}, nullptr);
    socket_.emplace(context_, PQsocket(connection_));
    co_return std::string();
}

void Connection::wake() {
    woken_ = true;
    event_.cancel();
}

void Connection::watch(asio::posix::stream_descriptor::wait_type type, bool& armed, bool& ready) {
    if (armed)
        return;
    armed = true;
    socket_->async_wait(type, [this, &armed, &ready,
                               generation = std::weak_ptr<int>(generation_)](boost::system::error_code) {
        if (generation.expired())
            return;
        armed = false;
        ready = true;
        event_.cancel();
    });
}

asio::awaitable<bool> Connection::wait(Clock::time_point deadline) {
    watch(asio::posix::stream_descriptor::wait_read, reading_, readable_);
    if (!readable_ && !writable_ && !woken_) {
        event_.expires_at(deadline);
        boost::system::error_code ignored;
        co_await event_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    woken_ = false;
    writable_ = false;
    if (std::exchange(readable_, false) && PQconsumeInput(connection_) == 0) {
        close();
        co_return false;
    }
    co_return true;
}

asio::awaitable<Result> Connection::query(const char* sql, const Parameters& parameters,
                                          std::chrono::milliseconds patience, std::string& error) {
    const auto values = pointers(parameters);
    const int sent = PQsendQueryParams(connection_, sql, static_cast<int>(values.size()), nullptr,
                                       values.data(), nullptr, nullptr, 0);
    return receive(sent, patience, Late::cancel, error);
}

asio::awaitable<Result> Connection::prepare(const std::string& name, const char* sql,
                                            std::chrono::milliseconds patience, std::string& error) {
    return receive(PQsendPrepare(connection_, name.c_str(), sql, 0, nullptr), patience, Late::cancel, error);
}

asio::awaitable<Result> Connection::query_prepared(const std::string& name, const Parameters& parameters,
                                                   std::chrono::milliseconds patience, std::string& error) {
    const auto values = pointers(parameters);
    const int sent = PQsendQueryPrepared(connection_, name.c_str(), static_cast<int>(values.size()),
                                         values.data(), nullptr, nullptr, 0);
    return receive(sent, patience, Late::cancel, error);
}

asio::awaitable<bool> Connection::answers(std::chrono::milliseconds patience) {
    std::string error;
    const Result result = co_await receive(PQsendQuery(connection_, "SELECT"), patience, Late::close, error);
    co_return result != nullptr;
}

// The result of what libpq was just given to send, if it took it; without a connection it takes nothing.
asio::awaitable<Result> Connection::receive(int sent, std::chrono::milliseconds patience, Late late,
                                            std::string& error) {
    if (!connection_) {
        error = "there is no connection to the database";
        co_return Result();
    }
    busy_ = true;
    Clock::time_point deadline = Clock::now() + patience;
    bool good = sent != 0;
    Result last;
    while (good) {
        good = co_await wait_for_result(deadline, late, error);
        if (!good)
            break;
        Result next(PQgetResult(connection_));
        if (!next)
            break;
        last = std::move(next);
    }
    busy_ = false;
    if (good && PQstatus(connection_) == CONNECTION_OK) {
        last_patience_ = first_last_patience;
        co_return last;
    }
    if (error.empty())
        error = connection_ ? PQerrorMessage(connection_) : "the connection to the database was lost";
    close();
    co_return Result();
}

// Sends all, and waits until the next result can be taken without waiting.
asio::awaitable<bool> Connection::wait_for_result(Clock::time_point& deadline, Late& late,
                                                  std::string& error) {
    for (;;) {
        const int unsent = PQflush(connection_);
        if (unsent < 0)
            co_return false;
        if (unsent == 0 && !PQisBusy(connection_))
            co_return true;
        if (Clock::now() >= deadline) {
            if (std::exchange(late, Late::close) == Late::close) {
                error = "the database does not answer";
                co_return false;
            }
            cancel();
            deadline = Clock::now() + last_patience_;
            last_patience_ = std::min(last_patience_ * 2, longest_last_patience);
        }
        if (unsent > 0)
            watch(asio::posix::stream_descriptor::wait_write, writing_, writable_);
        const bool open = co_await wait(deadline);
        if (!open)
            co_return false;
    }
}

std::optional<std::string> Connection::notification() {
    if (!connection_)
        return std::nullopt;
    PGnotify* notify = PQnotifies(connection_);
    if (!notify)
        return std::nullopt;
    std::string payload = notify->extra;
    PQfreemem(notify);
    return payload;
}

} // namespace shortener
