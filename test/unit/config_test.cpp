#include "config.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace shortener {
namespace {

struct Outcome {
    Start start;
    Config config;
    std::string out, error;
};

Outcome read(std::vector<const char*> arguments, std::vector<const char*> environment = {}) {
    arguments.insert(arguments.begin(), "shortenerd");
    environment.push_back(nullptr);
    std::ostringstream out, error;
    Outcome outcome;
    outcome.start = read_config(static_cast<int>(arguments.size()), arguments.data(), environment.data(),
                                outcome.config, out, error);
    outcome.out = out.str();
    outcome.error = error.str();
    return outcome;
}

TEST(Config, HasDefaults) {
    const Outcome outcome = read({});
    ASSERT_EQ(outcome.start, Start::serve) << outcome.error;
    ASSERT_EQ(outcome.config.listen.size(), 1u);
    EXPECT_EQ(outcome.config.listen[0].port(), 8080);
    ASSERT_EQ(outcome.config.admin_listen.size(), 1u);
    EXPECT_TRUE(outcome.config.admin_listen[0].address().is_loopback());
    EXPECT_GE(outcome.config.threads, 1u);
    EXPECT_EQ(outcome.config.cache_size, std::size_t{256} << 20);
    EXPECT_LT(outcome.config.database_timeout, std::chrono::seconds(1));
}

TEST(Config, TakesFlagsThenEnvironmentThenFile) {
    const std::string path = testing::TempDir() + "/shortenerd.conf";
    std::ofstream(path) << "# a comment\ncache-size = 1MB\nthreads = 3\nmax-headers = 7\nlisten = "
                           "127.0.0.1:1\nlisten = [::1]:2\n";
    const std::string flag = "--config=" + path;
    const Outcome outcome = read({flag.c_str(), "--cache-size=3MB"},
                                 {"SHORTENERD_CACHE_SIZE=2MB", "SHORTENERD_THREADS=5", "OTHER=1"});
    ASSERT_EQ(outcome.start, Start::serve) << outcome.error;
    EXPECT_EQ(outcome.config.cache_size, std::size_t{3} << 20);
    EXPECT_EQ(outcome.config.threads, 5u);
    EXPECT_EQ(outcome.config.limits.fields, 7u);
    EXPECT_EQ(outcome.config.listen.size(), 2u);
    std::remove(path.c_str());
}

TEST(Config, TakesListsFromOnePlace) {
    const Outcome outcome = read({"--listen=127.0.0.1:1", "--listen=127.0.0.1:2", "--trusted-proxy=10.0.0.1"},
                                 {"SHORTENERD_LISTEN=0.0.0.0:3", "SHORTENERD_TRUSTED_PROXY=0.0.0.0/0"});
    ASSERT_EQ(outcome.start, Start::serve) << outcome.error;
    ASSERT_EQ(outcome.config.listen.size(), 2u);
    EXPECT_EQ(outcome.config.listen[1].port(), 2);
    ASSERT_EQ(outcome.config.trusted_proxies.size(), 1u);
    EXPECT_EQ(outcome.config.trusted_proxies[0].prefix, 32u);
}

TEST(Config, ListensOnNames) {
    const Outcome outcome =
        read({"--listen=localhost:80", "--listen=[::1]:81", "--admin-listen=localhost:82"});
    ASSERT_EQ(outcome.start, Start::serve) << outcome.error;
    ASSERT_GE(outcome.config.listen.size(), 2u);
    EXPECT_TRUE(outcome.config.listen[0].address().is_loopback());
    EXPECT_EQ(outcome.config.listen[0].port(), 80);
    ASSERT_GE(outcome.config.admin_listen.size(), 1u);
    EXPECT_EQ(outcome.config.admin_listen[0].port(), 82);
    EXPECT_TRUE(read({"--admin-listen=off"}).config.admin_listen.empty());
}

TEST(Config, ComplainsBeforeAnythingStarts) {
    const auto complaint = [](const char* argument) {
        const Outcome outcome = read({argument});
        EXPECT_EQ(outcome.start, Start::exit_failure) << argument;
        return outcome.error;
    };
    EXPECT_NE(complaint("--nonsense").find("nonsense"), std::string::npos);
    EXPECT_NE(complaint("nonsense").find("positional"), std::string::npos);
    EXPECT_NE(complaint("--cache-size=5x").find("--cache-size: \"5x\" is not a size"), std::string::npos);
    EXPECT_NE(complaint("--cache-size=-1").find("--cache-size"), std::string::npos);
    EXPECT_NE(complaint("--cache-size=99999999999999GB").find("--cache-size"), std::string::npos);
    EXPECT_NE(complaint("--cache-size=1kb").find("the units are kB, MB and GB"), std::string::npos);
    EXPECT_NE(complaint("--cache-ttl=1m").find("the units are ms, s, min and h"), std::string::npos);
    for (const char* bad : {"--listen=:80", "--listen=::1", "--listen=[localhost]:80", "--listen=localhost",
                            "--listen=localhost:http", "--listen=*:80"})
        EXPECT_NE(complaint(bad).find("is not an address and a port"), std::string::npos) << bad;
    EXPECT_NE(complaint("--listen=no-such-host.invalid:80").find("cannot find the address"),
              std::string::npos);
    EXPECT_NE(complaint("--threads=1000").find("--threads"), std::string::npos);
    EXPECT_NE(complaint("--cache-ttl=5 days").find("--cache-ttl"), std::string::npos);
    EXPECT_NE(complaint("--listen=8080").find("--listen"), std::string::npos);
    EXPECT_NE(complaint("--listen=127.0.0.1:99999").find("--listen: \"127.0.0.1:99999\""), std::string::npos);
    EXPECT_NE(complaint("--trusted-proxy=10.0.0.0/33").find("--trusted-proxy"), std::string::npos);
    EXPECT_NE(complaint("--log-level=loud").find("--log-level"), std::string::npos);
    EXPECT_NE(complaint("--config=/nonexistent").find("cannot read"), std::string::npos);
    const Outcome environment = read({}, {"SHORTENERD_CACHESIZE=1"});
    EXPECT_EQ(environment.start, Start::exit_failure);
    EXPECT_NE(environment.error.find("SHORTENERD_CACHESIZE"), std::string::npos);
}

TEST(Config, RefusesConnectionStringsWithoutRepeatingThem) {
    for (const char* good : {"", "host=a,b port=1,2 dbname=links",
                             "postgresql://user@[::1]:5433/links?target_session_attrs=any"}) {
        EXPECT_EQ(read({"--database", good}).start, Start::serve) << good;
        EXPECT_EQ(read({"--primary", good}).start, Start::serve) << good;
    }
    for (const char* bad :
         {"links", "host", "hots=a password=hunter2", "password=hunter2 hunter2", "password='hunter2",
          "postgresql://u:hunter2@[::1", "postgresql://u:hunter2@a/b?hunter2=1"}) {
        for (const char* option : {"--database", "--primary"}) {
            const Outcome outcome = read({option, bad});
            EXPECT_EQ(outcome.start, Start::exit_failure) << bad;
            EXPECT_NE(outcome.error.find(std::string(option) + ": not a libpq connection string"),
                      std::string::npos)
                << outcome.error;
            EXPECT_EQ(outcome.error.find("hunter2"), std::string::npos) << outcome.error;
        }
    }
    const Outcome environment = read({}, {"SHORTENERD_DATABASE=password=hunter2 hunter2"});
    EXPECT_EQ(environment.start, Start::exit_failure);
    EXPECT_EQ(environment.error.find("hunter2"), std::string::npos);
}

TEST(Config, HelpsAndTellsItsVersion) {
    const Outcome help = read({"--help"});
    EXPECT_EQ(help.start, Start::exit_success);
    EXPECT_NE(help.out.find("--cache-size"), std::string::npos);
    EXPECT_EQ(read({"-h"}).out, help.out);
    const Outcome version = read({"--version"});
    EXPECT_EQ(version.start, Start::exit_success);
    EXPECT_EQ(version.out, "shortenerd " SHORTENER_VERSION "\n");
}

TEST(VisitorAddress, CountsForwardingOnlyFromTheTrusted) {
    const std::vector<Network> trusted = {*parse_network("10.0.0.0/8"), *parse_network("::1")};
    EXPECT_EQ(visitor_address("10.1.2.3", "1.2.3.4", trusted), "1.2.3.4");
    EXPECT_EQ(visitor_address("10.1.2.3", "6.6.6.6, 1.2.3.4", trusted), "1.2.3.4") << "forged by the visitor";
    EXPECT_EQ(visitor_address("10.1.2.3", "1.2.3.4, 10.9.9.9", trusted), "1.2.3.4") << "through two proxies";
    EXPECT_EQ(visitor_address("10.1.2.3", "6.6.6.6,\t1.2.3.4 \t, 10.9.9.9 ", trusted), "1.2.3.4")
        << "with blanks";
    EXPECT_EQ(visitor_address("11.1.2.3", "1.2.3.4", trusted), "11.1.2.3");
    EXPECT_EQ(visitor_address("10.1.2.3", "", trusted), "10.1.2.3");
    EXPECT_EQ(visitor_address("10.1.2.3", "<script>", trusted), "10.1.2.3");
    EXPECT_EQ(visitor_address("::ffff:10.1.2.3", "2001:db8::1", trusted), "2001:db8::1");
    EXPECT_EQ(visitor_address("fe80::1%1", "", trusted), "fe80::1") << "inet has no interfaces";
    EXPECT_EQ(visitor_address("10.1.2.3", "2001:db8::1%25eth0", trusted), "2001:db8::1");
    EXPECT_EQ(visitor_address("::1", "1.2.3.4", trusted), "1.2.3.4");
}

TEST(VisitorAddress, ReadsNetworks) {
    EXPECT_TRUE(parse_network("10.0.0.0/8"));
    EXPECT_TRUE(parse_network("2001:db8::/32"));
    for (const char* bad : {"", "10.0.0.0/", "10.0.0.0/33", "10.0.0/8", "a", "10.0.0.0/8x", "::/129"})
        EXPECT_FALSE(parse_network(bad)) << bad;
    EXPECT_TRUE(parse_network("10.0.0.0/9")->contains(boost::asio::ip::make_address("10.127.0.1")));
    EXPECT_FALSE(parse_network("10.0.0.0/9")->contains(boost::asio::ip::make_address("10.128.0.1")));
}

} // namespace
} // namespace shortener
