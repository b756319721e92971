#include "config.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <thread>

#include <boost/asio/ip/address.hpp>
#include <boost/program_options.hpp>

#include <libpq-fe.h>

namespace shortener {

namespace {

namespace po = boost::program_options;
using boost::asio::ip::tcp;

[[noreturn]] void refuse(const std::string& option, const std::string& value, const std::string& wanted) {
    throw std::runtime_error("--" + option + ": \"" + value + "\" is not " + wanted);
}

struct Unit {
    const char* name;
    std::uint64_t factor;
};

constexpr Unit byte_units[] = {{"", 1}, {"kB", 1 << 10}, {"MB", 1 << 20}, {"GB", 1 << 30}};
constexpr Unit time_units[] = {{"", 1}, {"ms", 1}, {"s", 1000}, {"min", 60 * 1000}, {"h", 3600 * 1000}};

// A whole number with an optional unit, between two bounds in the smallest unit.
template <typename Units>
std::uint64_t parse(const std::string& option, const std::string& text, const Units& units, std::uint64_t least,
                    std::uint64_t most, const std::string& wanted) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view suffix(end, text.data() + text.size() - end);
    const auto unit = std::find_if(std::begin(units), std::end(units), [&](const Unit& u) { return suffix == u.name; });
    if (error != std::errc() || unit == std::end(units) || number > most / unit->factor || number * unit->factor < least)
        refuse(option, text, wanted);
    return number * unit->factor;
}

tcp::endpoint parse_endpoint(const std::string& option, const std::string& text) {
    const std::size_t colon = text.rfind(':');
    std::string host = text.substr(0, std::min(colon, text.size()));
    if (host.size() > 1 && host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(host, error);
    const std::string wanted = "an address and a port, such as 127.0.0.1:8080 or [::1]:8080";
    if (error || colon == std::string::npos)
        refuse(option, text, wanted);
    constexpr Unit none[] = {{"", 1}};
    std::uint64_t port = 0;
    try {
        port = parse(option, text.substr(colon + 1), none, 0, 65535, wanted);
    } catch (const std::runtime_error&) {
        refuse(option, text, wanted);
    }
    return {address, static_cast<unsigned short>(port)};
}

// The string as it is, if libpq can read it. Neither the string nor libpq's complaint is repeated: parts of a
// password may be in them.
std::string checked_conninfo(const std::string& option, const std::string& text) {
    PQconninfoOption* parsed = PQconninfoParse(text.c_str(), nullptr);
    if (!parsed)
        throw std::runtime_error("--" + option + ": not a libpq connection string, such as \"host=db.example dbname=links\" or "
                                 "\"postgresql://db.example/links\"");
    PQconninfoFree(parsed);
    return text;
}

LogLevel parse_level(const std::string& text) {
    static const std::map<std::string, LogLevel> levels = {{"error", LogLevel::error},
                                                           {"warning", LogLevel::warning},
                                                           {"info", LogLevel::info},
                                                           {"debug", LogLevel::debug}};
    const auto found = levels.find(text);
    if (found == levels.end())
        refuse("log-level", text, "one of error, warning, info, debug");
    return found->second;
}

po::options_description all_options() {
    const auto text = [](const char* name, const char* fallback) {
        return po::value<std::string>()->default_value(fallback)->value_name(name);
    };
    po::options_description options("Options", 100, 50);
    options.add_options()
        ("database", text("CONNINFO", ""), "libpq connection string of the database to read from; several hosts are allowed. "
                                            "Parts left out come from libpq's own PG… variables")
        ("primary", text("CONNINFO", ""), "connection string of the primary, for LISTEN, when --database is a standby")
        ("default-workspace", text("SLUG", ""), "workspace for hosts that belong to none; "
                                                 "empty: the database's setting shortener.default_workspace")
        ("listen", po::value<std::vector<std::string>>()->value_name("ADDRESS:PORT"),
         "where to serve links; may be given several times (default 127.0.0.1:8080)")
        ("admin-listen", text("ADDRESS:PORT", "127.0.0.1:8081"), "where to serve /healthz, /readyz and /metrics; \"off\" for nowhere")
        ("threads", text("N", "0"), "event loops, each with a database connection; 0: one per processor")
        ("cache-size", text("BYTES", "256MB"), "memory for cached answers (kB, MB, GB); 0 caches nothing")
        ("cache-ttl", text("TIME", "1h"), "keep no answer for longer, whatever the database allows (ms, s, min, h)")
        ("database-timeout", text("TIME", "700ms"), "answer 503 when the database took so long")
        ("standby-delay", text("TIME", "1s"), "with --primary: after a change, cache nothing of that link for so long, "
                                              "because the standby may not know yet")
        ("max-connections", text("N", "10000"), "connections open at once; more are closed as they come")
        ("max-header-size", text("BYTES", "16kB"), "431 for more")
        ("max-headers", text("N", "100"), "431 for more")
        ("max-target-size", text("BYTES", "4kB"), "414 for more")
        ("max-body-size", text("BYTES", "64kB"), "413 for more; bodies are read and thrown away")
        ("idle-timeout", text("TIME", "60s"), "close a connection on which nothing was asked for so long")
        ("request-timeout", text("TIME", "10s"), "408 for a request that took longer to arrive")
        ("write-timeout", text("TIME", "10s"), "close a connection whose client takes no answer for so long")
        ("shutdown-timeout", text("TIME", "10s"), "on SIGTERM, time for requests under way")
        ("trusted-proxy", po::value<std::vector<std::string>>()->value_name("NETWORK"),
         "believe X-Forwarded-For from this network; may be given several times")
        ("log-level", text("LEVEL", "info"), "error, warning, info or debug");
    return options;
}

std::string environment_name(const std::string& option) {
    std::string name = "SHORTENERD_";
    for (const char c : option)
        name.push_back(c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
    return name;
}

// A variable of ours that is no option is a mistake somebody would look for long.
po::parsed_options parse_environment(const char* const* environment, const po::options_description& options) {
    po::parsed_options parsed(&options);
    std::map<std::string, std::string> names;
    for (const auto& option : options.options())
        names[environment_name(option->long_name())] = option->long_name();
    for (; *environment; environment++) {
        const std::string_view entry = *environment;
        const std::size_t equals = std::min(entry.find('='), entry.size());
        const std::string name(entry.substr(0, equals));
        if (!name.starts_with("SHORTENERD_") || name == "SHORTENERD_CONFIG")
            continue;
        const auto found = names.find(name);
        if (found == names.end())
            throw std::runtime_error("unknown environment variable " + name);
        po::option option;
        option.string_key = found->second;
        option.value.emplace_back(entry.substr(std::min(equals + 1, entry.size())));
        parsed.options.push_back(std::move(option));
    }
    return parsed;
}

std::optional<std::string> environment_value(const char* const* environment, std::string_view name) {
    for (; *environment; environment++) {
        const std::string_view entry = *environment;
        if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
            return std::string(entry.substr(name.size() + 1));
    }
    return std::nullopt;
}

void fill(const po::variables_map& values, Config& config) {
    const auto text = [&](const char* name) { return values[name].as<std::string>(); };
    const auto bytes = [&](const char* name, std::uint64_t least, std::uint64_t most) -> std::size_t {
        return parse(name, text(name), byte_units, least, most,
                     "a size from " + std::to_string(least) + " to " + std::to_string(most) + " bytes, such as 64kB");
    };
    const auto count = [&](const char* name, std::uint64_t least, std::uint64_t most) -> std::size_t {
        constexpr Unit none[] = {{"", 1}};
        return parse(name, text(name), none, least, most,
                     "a number from " + std::to_string(least) + " to " + std::to_string(most));
    };
    const auto time = [&](const char* name, std::uint64_t least, std::uint64_t most) {
        return std::chrono::milliseconds(parse(name, text(name), time_units, least, most,
                                               "a time from " + std::to_string(least) + "ms to " +
                                                   std::to_string(most / 1000) + "s, such as 500ms or 10s"));
    };
    constexpr std::uint64_t hour = 3600 * 1000, gigabyte = 1 << 30;

    config.database = checked_conninfo("database", text("database"));
    config.primary = checked_conninfo("primary", text("primary"));
    config.default_workspace = text("default-workspace");
    const auto listen = values.count("listen") ? values["listen"].as<std::vector<std::string>>()
                                               : std::vector<std::string>{"127.0.0.1:8080"};
    for (const std::string& address : listen)
        config.listen.push_back(parse_endpoint("listen", address));
    config.admin = text("admin-listen") != "off";
    if (config.admin)
        config.admin_listen = parse_endpoint("admin-listen", text("admin-listen"));
    config.threads = static_cast<unsigned>(count("threads", 0, 256));
    if (config.threads == 0)
        config.threads = std::max(1u, std::thread::hardware_concurrency());
    config.cache_size = bytes("cache-size", 0, 1024 * gigabyte);
    config.cache_ttl = std::chrono::duration_cast<std::chrono::seconds>(time("cache-ttl", 1000, 24 * hour));
    config.database_timeout = time("database-timeout", 10, hour);
    config.standby_delay = time("standby-delay", 0, hour);
    config.max_connections = count("max-connections", 1, 10000000);
    config.limits.head_bytes = bytes("max-header-size", 256, 1 << 20);
    config.limits.fields = count("max-headers", 1, 10000);
    config.limits.target_bytes = bytes("max-target-size", 64, 1 << 20);
    config.limits.body_bytes = bytes("max-body-size", 0, gigabyte);
    config.idle_timeout = time("idle-timeout", 100, 24 * hour);
    config.request_timeout = time("request-timeout", 100, hour);
    config.write_timeout = time("write-timeout", 100, hour);
    config.shutdown_timeout = time("shutdown-timeout", 0, hour);
    if (values.count("trusted-proxy"))
        for (const std::string& network : values["trusted-proxy"].as<std::vector<std::string>>()) {
            const auto parsed = parse_network(network);
            if (!parsed)
                refuse("trusted-proxy", network, "an address or a network such as 10.0.0.0/8");
            config.trusted_proxies.push_back(*parsed);
        }
    config.log_level = parse_level(text("log-level"));
}

void print_help(std::ostream& out, const po::options_description& options) {
    out << "shortenerd serves the links of a database with the extension shortener.\n\n"
           "Usage: shortenerd [OPTION …]\n\n"
        << options
        << "\nEvery option may also be given in the environment, as --cache-size is in SHORTENERD_CACHE_SIZE,\n"
           "and, without the dashes, in the file that --config names: one NAME = VALUE a line, # begins a comment.\n"
           "A flag wins over the environment, the environment over the file.\n";
}

} // namespace

Start read_config(int argc, const char* const* argv, const char* const* environment, Config& config, std::ostream& out,
                  std::ostream& error) {
    try {
        const po::options_description options = all_options();
        po::options_description flags;
        flags.add(options);
        flags.add_options()("config", po::value<std::string>()->value_name("FILE"), "file with options");
        flags.add_options()("help", "write this and exit")("version", "write the version and exit");

        po::variables_map values;
        const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing &
                           ~po::command_line_style::allow_short;
        const auto parsed = po::command_line_parser(argc, argv).options(flags).style(style).positional({}).run();
        po::store(parsed, values);
        if (values.count("help")) {
            print_help(out, flags);
            return Start::exit_success;
        }
        if (values.count("version")) {
            out << "shortenerd " SHORTENER_VERSION "\n";
            return Start::exit_success;
        }
        po::store(parse_environment(environment, options), values);
        std::optional<std::string> path = environment_value(environment, "SHORTENERD_CONFIG");
        if (values.count("config"))
            path = values["config"].as<std::string>();
        if (path) {
            std::ifstream file(*path);
            if (!file || (file.peek(), file.bad())) // a directory can be opened, not read
                throw std::runtime_error("cannot read the configuration file " + *path);
            po::store(po::parse_config_file(file, options), values);
        }
        po::notify(values);
        fill(values, config);
        return Start::serve;
    } catch (const std::exception& problem) {
        error << "shortenerd: " << problem.what() << "\n";
        error << "Try \"shortenerd --help\".\n";
        return Start::exit_failure;
    }
}

} // namespace shortener
