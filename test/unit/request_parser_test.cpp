#include "http/request_parser.h"

#include <string>

#include <gtest/gtest.h>

namespace shortener {
namespace {

using State = RequestParser::State;

struct Reading {
    State state = State::incomplete;
    int status = 0;
    std::size_t size = 0;
    Head head;
};

// The views of the head are into the bytes.
Reading read(std::string_view bytes, const RequestLimits& limits = {}) {
    Reading reading;
    RequestParser parser(limits, reading.head);
    reading.state = parser.read_head(bytes);
    reading.status = parser.status();
    reading.size = parser.head_size();
    return reading;
}

int refusal(std::string_view bytes, const RequestLimits& limits = {}) {
    const Reading reading = read(bytes, limits);
    return reading.state == State::refused ? reading.status : 0;
}

// With its own copy of the host.
std::string host_of(std::string_view bytes) {
    return read(bytes).head.host;
}

bool keeps_alive(std::string_view bytes) {
    const Reading reading = read(bytes);
    EXPECT_EQ(reading.state, State::complete);
    return reading.head.keep_alive;
}

TEST(RequestHead, ReadsAnOrdinaryRequest) {
    const std::string bytes =
        "GET /abc?x=1 HTTP/1.1\r\nHost: Go.Example.COM.:8080\r\naccept: text/html\r\n"
        "User-Agent: a b\r\nReferer: \"><script>\r\nX-Forwarded-For: 1.2.3.4\r\n\r\nGET /next";
    const Reading reading = read(bytes);
    const Head& head = reading.head;
    ASSERT_EQ(reading.state, State::complete);
    EXPECT_EQ(reading.size, bytes.find("GET /next"));
    EXPECT_EQ(head.request.method, Method::get);
    EXPECT_EQ(head.request.target, "/abc?x=1");
    EXPECT_EQ(head.host, "go.example.com");
    EXPECT_EQ(head.request.accept, "text/html");
    EXPECT_EQ(head.request.user_agent, "a b");
    EXPECT_EQ(head.request.referer, "\"><script>");
    EXPECT_EQ(head.request.forwarded_for, "1.2.3.4");
    EXPECT_TRUE(head.keep_alive);
    EXPECT_FALSE(head.expects_continue);
}

TEST(RequestHead, ReadsForwardedForInSeveralLinesAsOneList) {
    const std::string line = "GET / HTTP/1.1\r\nHost: a\r\n";
    EXPECT_EQ(read(line + "X-Forwarded-For: 6.6.6.6\r\nX-Other: 1\r\nx-forwarded-for: "
                          "5.5.5.5,1.2.3.4\r\nX-FORWARDED-FOR: 10.0.0.1\r\n\r\n")
                  .head.forwarded_for,
              "6.6.6.6, 5.5.5.5,1.2.3.4, 10.0.0.1");
    EXPECT_EQ(read(line + "X-Forwarded-For:\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n").head.forwarded_for,
              ", 1.2.3.4");
    Head head;
    const std::string two = line + "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n";
    RequestParser({}, head).read_head(two);
    EXPECT_EQ(head.request.forwarded_for, "6.6.6.6, 1.2.3.4");
    RequestParser({}, head).read_head(line + "\r\n");
    EXPECT_EQ(head.request.forwarded_for, "") << "of the request before";
}

TEST(RequestHead, IsIncompleteUntilItsEmptyLine) {
    const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for (std::size_t length = 0; length < bytes.size(); length++)
        EXPECT_EQ(read(bytes.substr(0, length)).state, State::incomplete) << length;
    EXPECT_EQ(read(bytes).state, State::complete);
    EXPECT_EQ(refusal("GET / \r\n\r\n"), 400) << "no more can make it a request";
}

TEST(RequestHead, RefusesATargetThatIsNoPathAndNoUrl) {
    for (const char* target :
         {"http", "https", "http:", "http:/", "HTTP:/a", "ftp://a/", "abc", "a:443", "://a/"})
        EXPECT_EQ(refusal("GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n\r\n"), 400) << target;
}

TEST(RequestHead, RefusesWhatTwoParsersCouldReadDifferently) {
    const std::string host = "Host: a\r\n";
    const std::string line = "GET / HTTP/1.1\r\n";
    const std::string post = "POST / HTTP/1.1\r\n" + host;
    EXPECT_EQ(refusal("GET / HTTP/1.1\nHost: a\r\n\r\n"), 400) << "bare LF in the request line";
    EXPECT_EQ(refusal(line + "Host: a\n\r\n"), 400) << "bare LF in a field";
    EXPECT_EQ(refusal(line + "Host: a\rb\r\n\r\n"), 400) << "bare CR";
    EXPECT_EQ(refusal("\n" + line + host + "\r\n"), 400) << "bare LF first";
    EXPECT_EQ(refusal(line + host + "X: a\r\n b\r\n\r\n"), 400) << "folded";
    EXPECT_EQ(refusal(line + host + "X: a\r\n\tb\r\n\r\n"), 400) << "folded with a tab";
    EXPECT_EQ(refusal(line + host + "X:\r\n b\r\n\r\n"), 400) << "folded, with an empty first line";
    EXPECT_EQ(refusal(line + host + "X: a\r\n \r\n\r\n"), 400) << "folded, with an empty second line";
    EXPECT_EQ(refusal(line + host + "X:\r\n \r\n \r\n\r\n"), 400) << "folded, and nothing in it";
    EXPECT_EQ(refusal(line + host + "X: a\r\n " + std::string(5000, 'b') + "\r\n\r\n"), 400)
        << "folded, and long";
    EXPECT_EQ(refusal(line + "Host:\r\n a\r\n\r\n"), 400) << "a folded Host";
    EXPECT_EQ(refusal(post + "Content-Length:\r\n 3\r\n\r\nabc"), 400) << "a folded length";
    EXPECT_EQ(refusal(line + " X: a\r\n" + host + "\r\n"), 400) << "space before the first field";
    EXPECT_EQ(refusal(line + "Host : a\r\n\r\n"), 400) << "space before the colon";
    EXPECT_EQ(refusal(line + host + "X\r\n\r\n"), 400) << "no colon";
    EXPECT_EQ(refusal(line + host + ": a\r\n\r\n"), 400) << "no name";
    EXPECT_EQ(refusal(line + host + std::string("X: a\0b\r\n\r\n", 10)), 400) << "NUL";
    EXPECT_EQ(refusal(post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"), 400)
        << "two lengths, even if equal";
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

TEST(RequestHead, WantsExactlyOneHost) {
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a\"b\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: user@a\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n"), 400);
    for (const char* name :
         {"[::1", "[]", "[]:80", "[1]", "[::1]x", "[::1]:x", "[g::1]", "a:1234567", "a b", "::1"})
        EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: " + std::string(name) + "\r\n\r\n"), 400) << name;
    EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: " + std::string(254, 'a') + "\r\n\r\n"), 400);
    EXPECT_EQ(host_of("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), "[::1]");
    EXPECT_EQ(read("GET / HTTP/1.0\r\n\r\n").state, State::complete);
}

TEST(RequestHead, TakesTheAbsoluteFormOnlyIfItAgrees) {
    EXPECT_EQ(read("GET http://A/x HTTP/1.1\r\nHost: a\r\n\r\n").head.request.target, "/x");
    EXPECT_EQ(read("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n").head.request.target, "/");
    EXPECT_EQ(refusal("GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET ftp://a/x HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    EXPECT_EQ(refusal("GET http:///x HTTP/1.1\r\nHost: \r\n\r\n"), 400);
    EXPECT_EQ(refusal("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}

TEST(RequestHead, RefusesBadRequestLines) {
    const std::string rest = "\r\nHost: a\r\n\r\n";
    for (const char* line : {"GET /", "GET  HTTP/1.1", "/ HTTP/1.1", "GET / HTTP/2.0", "GET / HTTP/1.1 ",
                             "GET / http/1.1", "G(T / HTTP/1.1", "GET /a b HTTP/1.1", "GET /\x7f HTTP/1.1",
                             "GET /\xc3\xa9 HTTP/1.1", "GET\t/ HTTP/1.1", "GET x HTTP/1.1"})
        EXPECT_EQ(refusal(line + rest), 400) << line;
}

TEST(RequestHead, KeepsItsLimits) {
    RequestLimits limits;
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

TEST(RequestHead, KnowsWhetherTheConnectionGoesOn) {
    EXPECT_TRUE(keeps_alive("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    EXPECT_FALSE(keeps_alive("GET / HTTP/1.1\r\nHost: a\r\nConnection: te, Close\r\n\r\n"));
    EXPECT_TRUE(keeps_alive("GET / HTTP/1.1\r\nHost: a\r\nProxy-Connection: close\r\n\r\n"));
    EXPECT_FALSE(keeps_alive("GET / HTTP/1.0\r\nProxy-Connection: keep-alive\r\n\r\n"));
    EXPECT_FALSE(keeps_alive("GET / HTTP/1.0\r\n\r\n"));
    EXPECT_TRUE(keeps_alive("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
}

struct BodyReading {
    State state;
    int status;
    std::string rest; // what comes after the body
    bool operator==(const BodyReading&) const = default;
};

std::ostream& operator<<(std::ostream& out, const BodyReading& reading) {
    return out << static_cast<int>(reading.state) << " " << reading.status << " \"" << reading.rest << '"';
}

std::string post(std::string_view field) {
    return "POST / HTTP/1.1\r\nHost: a\r\n" + std::string(field) + "\r\n\r\n";
}

// As a connection does: `step` bytes at a time, what was not used again.
BodyReading read_body(const std::string& head_bytes, std::string_view bytes, std::size_t step,
                      const RequestLimits& limits) {
    Head head;
    RequestParser parser(limits, head);
    EXPECT_EQ(parser.read_head(head_bytes), State::body);
    std::string buffer;
    std::size_t at = 0;
    for (;;) {
        std::size_t used = 0;
        const State state = parser.read_body(buffer, used);
        EXPECT_LE(used, buffer.size());
        buffer.erase(0, used);
        if (state == State::refused)
            return {state, parser.status(), ""};
        if (state == State::complete || at == bytes.size())
            return {state, 0, state == State::complete ? buffer + std::string(bytes.substr(at)) : ""};
        buffer.append(bytes.substr(at, step));
        at = std::min(at + step, bytes.size());
    }
}

// The same whether it comes at once or byte by byte.
BodyReading body(std::string_view field, std::string_view bytes, const RequestLimits& limits = {}) {
    const BodyReading whole = read_body(post(field), bytes, bytes.size(), limits);
    EXPECT_EQ(read_body(post(field), bytes, 1, limits), whole) << bytes.substr(0, 100);
    return whole;
}

BodyReading chunked(std::string_view bytes, const RequestLimits& limits = {}) {
    return body("Transfer-Encoding: chunked", bytes, limits);
}

BodyReading counted(std::uint64_t length, std::string_view bytes) {
    return body("Content-Length: " + std::to_string(length), bytes);
}

std::string trailers(int count) {
    std::string fields;
    for (int i = 0; i < count; i++)
        fields += "A: " + std::string(100, 'a') + "\r\n";
    return fields;
}

TEST(RequestBody, EndsAfterItsContentLength) {
    EXPECT_EQ(counted(5, "helloGET /"), (BodyReading{State::complete, 0, "GET /"}));
    EXPECT_EQ(counted(5, "hello"), (BodyReading{State::complete, 0, ""}));
    EXPECT_EQ(counted(5, "hell"), (BodyReading{State::incomplete, 0, ""}));
    EXPECT_EQ(counted(4, "\r\n\r\nGET /"), (BodyReading{State::complete, 0, "GET /"}))
        << "lines mean nothing in it";
}

TEST(RequestBody, EndsAfterItsLastChunk) {
    EXPECT_EQ(chunked("5\r\nhello\r\n0\r\n\r\nGET /"), (BodyReading{State::complete, 0, "GET /"}));
    EXPECT_EQ(chunked("0\r\n\r\n"), (BodyReading{State::complete, 0, ""}));
    EXPECT_EQ(chunked("00A;name=\"v\";x\r\n0\r\n\r\n01234\r\n0;y\r\n\r\nrest"),
              (BodyReading{State::complete, 0, "rest"}));
    EXPECT_EQ(chunked("a\r\n0123456789\r\n0\r\nExpires: never\r\nX-Y:\r\n\r\nrest"),
              (BodyReading{State::complete, 0, "rest"}));
    EXPECT_EQ(chunked("5\r\nhello\r\n0\r\n").state, State::incomplete);
    EXPECT_EQ(chunked("5\r\nhello\r\n0\r\nA: b\r\n").state, State::incomplete);
}

TEST(RequestBody, RefusesChunksThatTwoParsersCouldReadDifferently) {
    for (const std::string bytes : {"\r\n",
                                    "-5\r\nhello",
                                    "+5\r\n",
                                    "0x5\r\n",
                                    " 5\r\n",
                                    "5 \r\n",
                                    "5\t;a\r\n",
                                    "5\n",
                                    "5\rX\r\n",
                                    "g\r\n",
                                    ";a\r\n",
                                    "5;a\nb\r\n",
                                    "5;a\x01\r\n",
                                    "5;a\x7f\r\n",
                                    "5\r\nhelloX\r\n",
                                    "5\r\nhello\n",
                                    "5\r\nhello0\r\n\r\n",
                                    "0\r\nA: b\n\r\n",
                                    "0\r\nA b\r\n\r\n",
                                    "0\r\nA : b\r\n",
                                    "0\r\nA: b\r\n c\r\n",
                                    "0\r\nA:\r\n c\r\n",
                                    "0\r\nA: b\r\n \r\n",
                                    "0\r\nContent-Length: 1\r\n",
                                    "0\r\nTransfer-Encoding: chunked\r\n",
                                    "5;a=\"b\nc\"\r\n",
                                    "0;a=\"b\nc\"\r\n",
                                    "0\r\n: b\r\n",
                                    "0\r\nA: \x01\r\n",
                                    "0\r\n\n"})
        EXPECT_EQ(chunked(bytes + "\r\n\r\n").status, 400) << bytes;
}

TEST(RequestBody, IsBounded) {
    RequestLimits limits;
    limits.body_bytes = 10;
    limits.fields = 2;
    EXPECT_EQ(chunked("a\r\n0123456789\r\n0\r\n\r\n", limits).state, State::complete);
    EXPECT_EQ(chunked("b\r\n", limits).status, 413);
    EXPECT_EQ(chunked("5\r\nhello\r\n6\r\n", limits).status, 413);
    EXPECT_EQ(chunked("1\r\na\r\nffffffffffffffff\r\n", limits).status, 413)
        << "the sum is no longer a number";
    EXPECT_EQ(chunked("10000000000000000\r\n", limits).status, 400) << "2 to the 64th is no number any more";
    EXPECT_EQ(chunked("0\r\nA: 1\r\nB: 2\r\n\r\n", limits).state, State::complete);
    EXPECT_EQ(chunked("0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n", limits).status, 400);
    EXPECT_EQ(chunked("5;" + std::string(5000, 'a')).status, 400) << "an extension without an end";
    EXPECT_EQ(chunked("0\r\n" + trailers(120)).status, 400) << "trailers without an end";
    EXPECT_EQ(chunked(std::string(5000, '0')).status, 400) << "a size without an end";
    limits.body_bytes = 1000;
    std::string chunk = "1;" + std::string(1000, 'a') + "\r\nx\r\n", chunks;
    for (int i = 0; i < 20; i++)
        chunks += chunk;
    EXPECT_EQ(chunked(chunks, limits).status, 400) << "extensions of many chunks";
}

} // namespace
} // namespace shortener
