#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <list>
#include <optional>
#include <random>
#include <sstream>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include "app/service.h"
#include "config.h"
#include "database/clicks.h"
#include "database/client.h"
#include "database/listener.h"
#include "http/transport.h"
#include "log.h"
#include "systemd.h"

namespace shortener {

namespace {

SipKey random_key() {
    std::random_device device; // the kernel's
    const auto word = [&] { return std::uint64_t{device()} << 32 | device(); };
    return {word(), word()};
}

// Each connection is a descriptor; the usual soft limit of 1,024 is for programs that use select().
void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

void announce(const char* what, const Transport& transport) {
    for (const auto& endpoint : transport.endpoints()) {
        std::ostringstream line;
        line << what << " on http://" << endpoint;
        log_line(LogLevel::info, line.str());
    }
}

// Which of the addresses cannot be had, when one cannot.
std::string name_of_taken(const Config& config) {
    boost::asio::io_context context;
    std::list<boost::asio::ip::tcp::acceptor> taken; // one may be in the way of another
    for (const auto* endpoints : {&config.listen, &config.admin_listen})
        for (const auto& endpoint : *endpoints) {
            auto& acceptor = taken.emplace_back(context);
            boost::system::error_code error;
            acceptor.open(endpoint.protocol(), error);
            acceptor.set_option(boost::asio::socket_base::reuse_address(true), error);
            acceptor.bind(endpoint, error);
            if (!error)
                acceptor.listen(1, error);
            if (error) {
                std::ostringstream text;
                text << endpoint << ": " << error.message();
                return text.str();
            }
        }
    return {};
}

constexpr std::chrono::seconds click_patience{30}; // with a batch

void serve(const Config& config) {
    Shared shared({config.cache_size, config.cache_ttl}, random_key(), config.threads);
    const bool two_databases = !config.primary.empty();
    const ServiceSettings service_settings{{config.database, config.default_workspace, nullptr},
                                           config.database_timeout,
                                           config.standby_delay,
                                           two_databases,
                                           config.trusted_proxies};
    TransportSettings settings{config.listen,       config.threads,      config.max_connections,
                               config.limits,       config.idle_timeout, config.request_timeout,
                               config.write_timeout};
    Transport transport(settings, [&](boost::asio::io_context& context, std::size_t thread) {
        return std::make_unique<Service>(context, shared, thread, service_settings);
    });
    std::optional<Transport> admin;
    if (!config.admin_listen.empty()) {
        settings.listen = config.admin_listen;
        settings.threads = 1;
        settings.max_connections = 100;
        admin.emplace(settings, [&](boost::asio::io_context&, std::size_t) {
            return std::make_unique<AdminService>(shared);
        });
    }

    boost::asio::io_context context(1);
    boost::asio::signal_set signals(context, SIGTERM, SIGINT);
    signals.async_wait([&](boost::system::error_code, int) { context.stop(); });
    // LISTEN and writing work on a primary only, so of several hosts these connections want that one.
    const ConnectionSettings writing{two_databases ? config.primary : config.database,
                                     config.default_workspace, "primary"};
    Listener listener(context, writing, shared.cache, shared.workspaces, shared.database,
                      shared.metrics.shared);
    listener.start();
    ClickSender clicks(context, config.click_buffer, shared.metrics.shared);
    std::optional<DatabaseClient> click_client;
    if (config.clicks) {
        shared.clicks = &clicks;
        click_client.emplace(context, DatabaseClient::Settings{writing, "record clicks", click_patience},
                             clicks.queues(), shared.metrics.slot(config.threads), [](bool) {});
        click_client->start();
    }
    transport.start();
    announce("serving links", transport);
    if (admin) {
        admin->start();
        announce("serving /healthz, /readyz and /metrics", *admin);
    }
    notify_systemd("READY=1"); // without a database, too: it is waited for
    context.run();

    notify_systemd("STOPPING=1");
    log_line(LogLevel::info, "stopping");
    transport.stop(config.shutdown_timeout);
    // Whoever still waits belongs to a loop of the transport, which ends before what is shared.
    shared.flights.clear();
    if (clicks.clicks() + clicks.unknown_visits() > 0) {
        context.restart();
        boost::asio::steady_timer patience(context, config.shutdown_timeout);
        patience.async_wait([&](boost::system::error_code) { context.stop(); });
        clicks.drain([&] { context.stop(); });
        context.run();
        if (const std::size_t lost = clicks.clicks())
            log_line(LogLevel::warning, std::to_string(lost) + " clicks were not recorded");
        if (const std::size_t lost = clicks.unknown_visits())
            log_line(LogLevel::warning, std::to_string(lost) + " visits of unknown codes were not recorded");
    }
    if (admin)
        admin->stop(std::chrono::milliseconds(0));
    log_line(LogLevel::info, "stopped");
}

} // namespace

} // namespace shortener

int main(int argc, char** argv) {
    using namespace shortener;
    Config config;
    switch (read_config(argc, argv, environ, config, std::cout, std::cerr)) {
    case Start::exit_success: return EXIT_SUCCESS;
    case Start::exit_failure: return EXIT_FAILURE;
    case Start::serve: break;
    }
    set_log_level(config.log_level);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN); // options are read once
    raise_descriptor_limit();
    try {
        serve(config);
    } catch (const std::exception& problem) {
        const std::string taken = name_of_taken(config);
        log_line(LogLevel::error, taken.empty() ? problem.what() : "cannot listen on " + taken);
        return EXIT_FAILURE;
    }
    Connection::finish_cancelling();
    // Threads that still try to connect must not meet the destructors of the libraries they use.
    std::_Exit(EXIT_SUCCESS);
}
