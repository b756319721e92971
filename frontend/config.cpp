#include "config.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/program_options.hpp>

#include <libpq-fe.h>

namespace shortener {

namespace {

namespace po = boost::program_options;
using boost::asio::ip::tcp;

struct Unit {
    const char* name;
    std::uint64_t factor;
};

constexpr Unit no_units[] = {{"", 1}};
constexpr Unit byte_units[] = {{"", 1}, {"kB", 1 << 10}, {"MB", 1 << 20}, {"GB", 1 << 30}};
constexpr Unit time_units[] = {{"", 1}, {"ms", 1}, {"s", 1000}, {"min", 60 * 1000}, {"h", 3600 * 1000}};

constexpr std::uint64_t second = 1000, hour = 3600 * second, gigabyte = 1 << 30;

// What an option was given, and how to read it.
class Value {
  public:
    Value(std::string option, const std::vector<std::string>& texts)
        : option_(std::move(option)), texts_(texts) {}

    const std::vector<std::string>& texts() const { return texts_; }
    const std::string& text() const { return texts_.front(); }

    std::size_t bytes(std::uint64_t least, std::uint64_t most) const {
        return number(byte_units, least, most,
                      "a size from " + std::to_string(least) + " to " + std::to_string(most) +
                          " bytes, such as 64kB; the units are kB, MB and GB");
    }
    std::size_t count(std::uint64_t least, std::uint64_t most) const {
        return number(no_units, least, most,
                      "a number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    std::chrono::milliseconds time(std::uint64_t least, std::uint64_t most) const {
        return std::chrono::milliseconds(
            number(time_units, least, most,
                   "a time from " + std::to_string(least) + "ms to " + std::to_string(most / second) +
                       "s, such as 500ms or 10s; the units are ms, s, min and h"));
    }
    bool on_or_off() const {
        if (text() != "on" && text() != "off")
            refuse(text(), "on or off");
        return text() == "on";
    }
    LogLevel log_level() const {
        for (const LogLevel level : {LogLevel::error, LogLevel::warning, LogLevel::info, LogLevel::debug})
            if (text() == name_of(level))
                return level;
        refuse(text(), "one of error, warning, info, debug");
    }
    // The string as it is, if libpq can read it. Neither the string nor libpq's complaint is repeated: parts
    // of a password may be in them.
    std::string conninfo() const {
        PQconninfoOption* parsed = PQconninfoParse(text().c_str(), nullptr);
        if (!parsed)
            throw std::runtime_error(
                "--" + option_ +
                ": not a libpq connection string, such as \"host=db.example dbname=links\" "
                "or \"postgresql://db.example/links\"");
        PQconninfoFree(parsed);
        return text();
    }
    std::vector<Network> networks() const {
        std::vector<Network> networks;
        for (const std::string& text : texts_) {
            const auto network = parse_network(text);
            if (!network)
                refuse(text, "an address or a network such as 10.0.0.0/8");
            networks.push_back(*network);
        }
        return networks;
    }
    std::vector<tcp::endpoint> endpoints() const {
        std::vector<tcp::endpoint> all;
        for (const std::string& text : texts_)
            for (const tcp::endpoint& endpoint : endpoints_of(text))
                all.push_back(endpoint);
        return all;
    }

  private:
    [[noreturn]] void refuse(const std::string& value, const std::string& wanted) const {
        throw std::runtime_error("--" + option_ + ": \"" + value + "\" is not " + wanted);
    }

    // A whole number with an optional unit, between two bounds in the smallest unit.
    template <typename Units>
    static std::optional<std::uint64_t> parse(std::string_view text, const Units& units, std::uint64_t least,
                                              std::uint64_t most) {
        std::uint64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        const std::string_view suffix(end, text.data() + text.size() - end);
        const auto unit =
            std::find_if(std::begin(units), std::end(units), [&](const Unit& u) { return suffix == u.name; });
        if (error != std::errc() || unit == std::end(units) || number > most / unit->factor ||
            number * unit->factor < least)
            return std::nullopt;
        return number * unit->factor;
    }
    template <typename Units>
    std::uint64_t number(const Units& units, std::uint64_t least, std::uint64_t most,
                         const std::string& wanted) const {
        const auto parsed = parse(text(), units, least, most);
        if (!parsed)
            refuse(text(), wanted);
        return *parsed;
    }

    // A name may stand for several addresses.
    std::vector<tcp::endpoint> endpoints_of(const std::string& text) const {
        const std::size_t colon = text.rfind(':');
        std::string host = text.substr(0, std::min(colon, text.size()));
        const bool bracketed = host.size() > 1 && host.front() == '[' && host.back() == ']';
        if (bracketed)
            host = host.substr(1, host.size() - 2);
        const auto port_given =
            parse(std::string_view(text).substr(std::min(colon, text.size() - 1) + 1), no_units, 0, 65535);
        const auto port = static_cast<unsigned short>(port_given.value_or(0));
        boost::system::error_code error;
        const auto address = boost::asio::ip::make_address(host, error);
        // An IPv6 address without brackets may end in what looks like a port. The resolver would take * for
        // the loopback addresses.
        if (colon == text.npos || !port_given || host.empty() || host == "*" ||
            (error && (bracketed || host.find(':') != host.npos)))
            refuse(text, "an address and a port, such as 127.0.0.1:8080, [::1]:8080 or localhost:8080");
        if (!error)
            return {{address, port}};

        boost::asio::io_context context;
        std::vector<tcp::endpoint> found;
        for (const auto& result : tcp::resolver(context).resolve(host, std::to_string(port),
                                                                 tcp::resolver::numeric_service, error))
            if (is_of_this_machine(context, result.endpoint().address()))
                found.push_back(result.endpoint());
        if (error)
            throw std::runtime_error("--" + option_ + ": cannot find the address of \"" + host +
                                     "\": " + error.message());
        if (found.empty())
            throw std::runtime_error("--" + option_ + ": \"" + host + "\" has no address of this machine");
        return found;
    }
    static bool is_of_this_machine(boost::asio::io_context& context,
                                   const boost::asio::ip::address& address) {
        const tcp::endpoint any_port(address, 0);
        tcp::acceptor acceptor(context);
        boost::system::error_code error;
        acceptor.open(any_port.protocol(), error);
        if (!error)
            acceptor.bind(any_port, error);
        return !error;
    }

    const std::string option_;
    const std::vector<std::string>& texts_;
};

struct Option {
    const char* name;
    const char* value_name;
    const char* fallback; // null: may be given several times
    const char* help;
    void (*set)(Config& config, const Value& value);
};

constexpr const char* several = nullptr;

const Option all_options[] = {
    {"database", "CONNINFO", "",
     "libpq connection string of the database to read from; several hosts are allowed. What it leaves out is "
     "taken from libpq's environment variables, such as PGHOST",
     [](Config& c, const Value& v) { c.database = v.conninfo(); }},
    {"primary", "CONNINFO", "",
     "connection string of the primary, for LISTEN and clicks, when --database is a standby",
     [](Config& c, const Value& v) { c.primary = v.conninfo(); }},
    {"default-workspace", "SLUG", "",
     "workspace for hosts that belong to none; empty: the database's setting shortener.default_workspace",
     [](Config& c, const Value& v) { c.default_workspace = v.text(); }},
    {"listen", "ADDRESS:PORT", several,
     "where to serve links, an address or a name; may be given several times (default 127.0.0.1:8080)",
     [](Config& c, const Value& v) { c.listen = v.endpoints(); }},
    {"admin-listen", "ADDRESS:PORT", "127.0.0.1:8081",
     "where to serve /healthz, /readyz and /metrics; \"off\" to serve them nowhere",
     [](Config& c, const Value& v) {
         c.admin_listen = v.text() == "off" ? std::vector<tcp::endpoint>() : v.endpoints();
     }},
    {"threads", "N", "0", "event loops, each with a database connection; 0: one per processor",
     [](Config& c, const Value& v) {
         const auto threads = static_cast<unsigned>(v.count(0, 256));
         c.threads = threads ? threads : std::max(1u, std::thread::hardware_concurrency());
     }},
    {"cache-size", "SIZE", "256MB", "memory for cached answers; 0 caches nothing",
     [](Config& c, const Value& v) { c.cache_size = v.bytes(0, 1024 * gigabyte); }},
    {"cache-ttl", "TIME", "1h", "longest time that an answer is kept, even if the database allows more",
     [](Config& c, const Value& v) {
         c.cache_ttl = std::chrono::duration_cast<std::chrono::seconds>(v.time(second, 24 * hour));
     }},
    {"database-timeout", "TIME", "700ms", "answer 503 when the database takes longer",
     [](Config& c, const Value& v) { c.database_timeout = v.time(10, hour); }},
    {"standby-delay", "TIME", "1s",
     "how long after a change of a link the answers of a standby about it are not cached, because it may not "
     "know of the change yet",
     [](Config& c, const Value& v) { c.standby_delay = v.time(0, hour); }},
    {"clicks", "on|off", "on", "record clicks in the database",
     [](Config& c, const Value& v) { c.clicks = v.on_or_off(); }},
    {"click-buffer", "SIZE", "64MB",
     "memory for clicks, and visits of unknown codes, that wait for the database; more are dropped and "
     "counted",
     [](Config& c, const Value& v) { c.click_buffer = v.bytes(1 << 20, 1024 * gigabyte); }},
    {"max-connections", "N", "10000",
     "connections open at the same time; further ones are closed immediately",
     [](Config& c, const Value& v) { c.max_connections = v.count(1, 10000000); }},
    {"max-header-size", "SIZE", "16kB", "size of request line and header fields; 431 for more",
     [](Config& c, const Value& v) { c.limits.head_bytes = v.bytes(256, 1 << 20); }},
    {"max-headers", "N", "100", "number of header fields; 431 for more",
     [](Config& c, const Value& v) { c.limits.fields = v.count(1, 10000); }},
    {"max-target-size", "SIZE", "4kB", "size of path and query; 414 for more",
     [](Config& c, const Value& v) { c.limits.target_bytes = v.bytes(64, 1 << 20); }},
    {"max-body-size", "SIZE", "64kB", "size of a body, which is read and discarded; 413 for more",
     [](Config& c, const Value& v) { c.limits.body_bytes = v.bytes(0, gigabyte); }},
    {"idle-timeout", "TIME", "60s", "close a connection without a request for this long",
     [](Config& c, const Value& v) { c.idle_timeout = v.time(100, 24 * hour); }},
    {"request-timeout", "TIME", "10s", "answer 408 if a request takes longer to arrive",
     [](Config& c, const Value& v) { c.request_timeout = v.time(100, hour); }},
    {"write-timeout", "TIME", "10s", "close a connection whose client does not read the answer for this long",
     [](Config& c, const Value& v) { c.write_timeout = v.time(100, hour); }},
    {"shutdown-timeout", "TIME", "10s",
     "on SIGTERM, time for requests under way, and as long again for clicks",
     [](Config& c, const Value& v) { c.shutdown_timeout = v.time(0, hour); }},
    {"trusted-proxy", "NETWORK", several,
     "trust X-Forwarded-For from this address or network; may be given several times",
     [](Config& c, const Value& v) { c.trusted_proxies = v.networks(); }},
    {"log-level", "LEVEL", "info", "error, warning, info or debug",
     [](Config& c, const Value& v) { c.log_level = v.log_level(); }},
};

po::options_description describe_options() {
    po::options_description options("Options", 100, 50);
    for (const Option& option : all_options)
        if (option.fallback)
            options.add_options()(
                option.name,
                po::value<std::string>()->default_value(option.fallback)->value_name(option.value_name),
                option.help);
        else
            options.add_options()(option.name,
                                  po::value<std::vector<std::string>>()->value_name(option.value_name),
                                  option.help);
    return options;
}

void fill(const po::variables_map& values, Config& config) {
    for (const Option& option : all_options) {
        const po::variable_value& value = values[option.name];
        if (option.fallback)
            option.set(config, Value(option.name, {value.as<std::string>()}));
        else if (!value.empty())
            option.set(config, Value(option.name, value.as<std::vector<std::string>>()));
    }
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

void print_help(std::ostream& out, const po::options_description& options) {
    out << "shortenerd serves the links of a database with the extension shortener.\n\n"
           "Usage: shortenerd [OPTION …]\n\n"
        << options
        << "\nSIZE is a number of bytes, or of kB, MB or GB, such as 64kB.\n"
           "TIME is a number of milliseconds, or of ms, s, min or h, such as 10s.\n"
           "\nEvery option may also be given in the environment, as --cache-size is in "
           "SHORTENERD_CACHE_SIZE,\n"
           "and, without the dashes, in the file that --config names: one NAME = VALUE per line; # begins a "
           "comment.\n"
           "A flag wins over the environment, the environment over the file.\n";
}

} // namespace

Start read_config(int argc, const char* const* argv, const char* const* environment, Config& config,
                  std::ostream& out, std::ostream& error) {
    try {
        const po::options_description options = describe_options();
        po::options_description flags;
        flags.add(options);
        flags.add_options()("config", po::value<std::string>()->value_name("FILE"), "file with options");
        flags.add_options()("help,h", "write this and exit")("version", "write the version and exit");

        po::variables_map values;
        const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
        const auto parsed =
            po::command_line_parser(argc, argv).options(flags).style(style).positional({}).run();
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
            try {
                po::store(po::parse_config_file(file, options), values);
            } catch (const po::error& problem) {
                throw std::runtime_error(*path + ": " + problem.what());
            }
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
