#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "app/visitor_address.h"
#include "http/limits.h"
#include "log.h"

namespace shortener {

// Every option of the program, as read once at its start from flags, environment and file.
struct Config {
    std::string database;
    std::string primary; // empty: the same as database
    std::string default_workspace;
    std::vector<boost::asio::ip::tcp::endpoint> listen{{boost::asio::ip::make_address_v4("127.0.0.1"), 8080}};
    std::vector<boost::asio::ip::tcp::endpoint> admin_listen; // empty: nowhere
    unsigned threads = 1;
    std::size_t cache_size = 0; // bytes; 0: nothing is kept
    std::chrono::seconds cache_ttl{};
    std::chrono::milliseconds database_timeout{};
    std::chrono::milliseconds standby_delay{};
    bool clicks = true;
    std::size_t click_buffer = 0; // bytes
    std::size_t max_connections = 0;
    std::chrono::milliseconds idle_timeout{}, request_timeout{}, write_timeout{}, shutdown_timeout{};
    RequestLimits limits;
    std::vector<Network> trusted_proxies;
    LogLevel log_level = LogLevel::info;
};

enum class Start { serve, exit_success, exit_failure };

// Reads the configuration, or writes help, the version or a complaint. Flags win over environment,
// environment over file. `environment` is a null-terminated array of NAME=value.
Start read_config(int argc, const char* const* argv, const char* const* environment, Config& config,
                  std::ostream& out, std::ostream& error);

} // namespace shortener
