#include "http/head.h"

#include <string>

#include <gtest/gtest.h>

namespace shortener {
namespace {

Head read(std::string_view bytes, const HeadLimits& limits = {}) {
    Head head;
    read_head(bytes, limits, head);
    return head;
}

int refusal(std::string_view bytes, const HeadLimits& limits = {}) {
    const Head head = read(bytes, limits);
    return head.state == Head::State::refused ? head.status : 0;
}

TEST(Head, ReadsAnOrdinaryRequest) {
    const std::string bytes = "GET /abc?x=1 HTTP/1.1\r\nHost: Go.Example.COM.:8080\r\naccept: text/html\r\n"
                              "User-Agent: a b\r\nReferer: \"><script>\r\nX-Forwarded-For: 1.2.3.4\r\n\r\nGET /next";
    const Head head = read(bytes);
    ASSERT_EQ(head.state, Head::State::complete);
    EXPECT_EQ(head.size, bytes.find("GET /next"));
    EXPECT_EQ(head.request.method, Method::get);
    EXPECT_EQ(head.request.target, "/abc?x=1");
    EXPECT_EQ(head.host_storage, "go.example.com");
    EXPECT_EQ(head.request.accept, "text/html");
    EXPECT_EQ(head.request.user_agent, "a b");
    EXPECT_EQ(head.request.referer, "\"><script>");
    EXPECT_EQ(head.request.forwarded_for, "1.2.3.4");
    EXPECT_TRUE(head.keep_alive);
    EXPECT_FALSE(head.chunked);
}

TEST(Head, ReadsForwardedForInSeveralLinesAsOneList) {
    const std::string line = "GET / HTTP/1.1\r\nHost: a\r\n";
    EXPECT_EQ(read(line + "X-Forwarded-For: 6.6.6.6\r\nX-Other: 1\r\nx-forwarded-for: 5.5.5.5,1.2.3.4\r\nX-FORWARDED-FOR: 10.0.0.1\r\n\r\n")
                  .forwarded_storage,
              "6.6.6.6, 5.5.5.5,1.2.3.4, 10.0.0.1");
    EXPECT_EQ(read(line + "X-Forwarded-For:\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n").forwarded_storage, ", 1.2.3.4");
    Head head;
    read_head(line + "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n", {}, head);
    EXPECT_EQ(head.request.forwarded_for, "6.6.6.6, 1.2.3.4");
    read_head(line + "\r\n", {}, head);
    EXPECT_EQ(head.request.forwarded_for, "") << "of the request before";
}

TEST(Head, IsIncompleteUntilItsEmptyLine) {
    const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for (std::size_t length = 0; length < bytes.size(); length++)
        EXPECT_EQ(read(bytes.substr(0, length)).state, Head::State::incomplete) << length;
    EXPECT_EQ(read(bytes).state, Head::State::complete);
    EXPECT_EQ(read("\r\n" + bytes).state, Head::State::complete) << "an empty line before it";
}

TEST(Head, RefusesATargetThatIsNoPathAndNoUrl) {
    for (const char* target : {"http", "https", "http:", "http:/", "HTTP:/a", "ftp://a/", "abc", "a:443", "://a/"})
        EXPECT_EQ(refusal("GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n\r\n"), 400) << target;
}

TEST(Head, RefusesWhatTwoParsersCouldReadDifferently) {
    const std::string host = "Host: a\r\n";
    const std::string line = "GET / HTTP/1.1\r\n";
    const std::string post = "POST / HTTP/1.1\r\n" + host;
    EXPECT_EQ(refusal("GET / HTTP/1.1\nHost: a\r\n\r\n"), 400) << "bare LF in the request line";
    EXPECT_EQ(refusal(line + "Host: a\n\r\n"), 400) << "bare LF in a field";
    EXPECT_EQ(refusal(line + "Host: a\rb\r\n\r\n"), 400) << "bare CR";
    EXPECT_EQ(refusal("\n" + line + host + "\r\n"), 400) << "bare LF first";
    EXPECT_EQ(refusal(line + host + "X: a\r\n b\r\n\r\n"), 400) << "folded";
    EXPECT_EQ(refusal(line + " X: a\r\n" + host + "\r\n"), 400) << "space before the first field";
    EXPECT_EQ(refusal(line + "Host : a\r\n\r\n"), 400) << "space before the colon";
    EXPECT_EQ(refusal(line + host + "X\r\n\r\n"), 400) << "no colon";
    EXPECT_EQ(refusal(line + host + ": a\r\n\r\n"), 400) << "no name";
    EXPECT_EQ(refusal(line + host + std::string("X: a\0b\r\n\r\n", 10)), 400) << "NUL";
    EXPECT_EQ(refusal(post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"), 400) << "two lengths, even if equal";
    EXPECT_EQ(refusal(post + "Content-Length: 3, 3\r\n\r\nabc"), 400);
    EXPECT_EQ(refusal(post + "Content-Length: +5\r\n\r\n"), 400);
    EXPECT_EQ(refusal(post + "Content-Length: -5\r\n\r\n"), 400);
    EXPECT_EQ(refusal(post + "Content-Length: 0x5\r\n\r\n"), 400);
    EXPECT_EQ(refusal(post + "Content-Length:\r\n\r\n"), 400);
    EXPECT_EQ(refusal(post + "Content-Length: 99999999999999999999\r\n\r\n"), 400);
    EXPECT_EQ(refusal(post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    EXPECT_EQ(refusal(post + "Transfer-Encoding: xchunked\r\n\r\n"), 400);
    EXPECT_EQ(refusal(post + "Transfer-Encoding: gzip, chunked\r\n\r\n"), 400);
    EXPECT_EQ(refusal(post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    EXPECT_EQ(refusal("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

TEST(Head, WantsExactlyOneHost) {
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a\"b\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: user@a\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: " + std::string(254, 'a') + "\r\n\r\n"), 400);
    EXPECT_EQ(read("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").host_storage, "[::1]");
    EXPECT_EQ(read("GET / HTTP/1.0\r\n\r\n").state, Head::State::complete);
}

TEST(Head, TakesTheAbsoluteFormOnlyIfItAgrees) {
    EXPECT_EQ(read("GET http://A/x HTTP/1.1\r\nHost: a\r\n\r\n").request.target, "/x");
    EXPECT_EQ(read("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n").request.target, "/");
    EXPECT_EQ(refusal("GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET ftp://a/x HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET http:///x HTTP/1.1\r\nHost: \r\n\r\n"), 400);
    EXPECT_EQ(refusal("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}

TEST(Head, RefusesBadRequestLines) {
    const std::string rest = "\r\nHost: a\r\n\r\n";
    for (const char* line : {"GET /", "GET  HTTP/1.1", "/ HTTP/1.1", "GET / HTTP/2.0", "GET / HTTP/1.1 ", "GET / http/1.1",
                             "G(T / HTTP/1.1", "GET /a b HTTP/1.1", "GET /\x7f HTTP/1.1", "GET /\xc3\xa9 HTTP/1.1",
                             "GET\t/ HTTP/1.1", "GET x HTTP/1.1"})
        EXPECT_EQ(refusal(line + rest), 400) << line;
}

TEST(Head, KeepsItsLimits) {
    HeadLimits limits;
    limits.head_bytes = 1024;
    limits.target_bytes = 100;
    limits.fields = 5;
    limits.body_bytes = 10;
    const std::string start = "GET / HTTP/1.1\r\nHost: a\r\n";
    EXPECT_EQ(refusal("GET /" + std::string(100, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n", limits), 414);
    EXPECT_EQ(refusal("GET /" + std::string(1000, 'a'), limits), 414) << "before its end has come";
    EXPECT_EQ(refusal(start + "X: " + std::string(1024, 'a') + "\r\n\r\n", limits), 431);
    EXPECT_EQ(refusal(start + "X: " + std::string(1024, 'a'), limits), 431) << "before its end has come";
    std::string fields;
    for (int i = 0; i < 5; i++)
        fields += "X: a\r\n";
    EXPECT_EQ(refusal(start + fields + "\r\n", limits), 431);
    EXPECT_EQ(refusal("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", limits), 413);
    EXPECT_EQ(refusal("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", limits), 0);
}

TEST(Head, KnowsWhetherTheConnectionGoesOn) {
    EXPECT_TRUE(read("GET / HTTP/1.1\r\nHost: a\r\n\r\n").keep_alive);
    EXPECT_FALSE(read("GET / HTTP/1.1\r\nHost: a\r\nConnection: te, Close\r\n\r\n").keep_alive);
    EXPECT_FALSE(read("GET / HTTP/1.0\r\n\r\n").keep_alive);
    EXPECT_TRUE(read("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
}

} // namespace
} // namespace shortener
