#include "http/body.h"

#include <string>

#include <gtest/gtest.h>

namespace shortener {
namespace {

using State = BodyReader::State;

struct Reading {
    State state;
    std::string rest; // what comes after the body
    bool operator==(const Reading&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Reading& reading) {
    return out << static_cast<int>(reading.state) << " \"" << reading.rest << '"';
}

// As a connection does: `step` bytes at a time, what was not used again.
Reading read(const Head& head, std::string_view bytes, std::size_t step, const HeadLimits& limits) {
    BodyReader reader(head, limits);
    std::string buffer;
    std::size_t at = 0;
    for (;;) {
        std::size_t used = 0;
        const State state = reader.read(buffer, used);
        EXPECT_LE(used, buffer.size());
        buffer.erase(0, used);
        if (state != State::incomplete || at == bytes.size())
            return {state, buffer + std::string(bytes.substr(at))};
        buffer.append(bytes.substr(at, step));
        at = std::min(at + step, bytes.size());
    }
}

// The same whether it comes at once or byte by byte.
Reading chunked(std::string_view bytes, const HeadLimits& limits = {}) {
    Head head;
    head.chunked = true;
    const Reading whole = read(head, bytes, bytes.size(), limits);
    EXPECT_EQ(read(head, bytes, 1, limits), whole) << bytes.substr(0, 100);
    return whole;
}

Reading counted(std::uint64_t length, std::string_view bytes) {
    Head head;
    head.content_length = length;
    const Reading whole = read(head, bytes, bytes.size(), {});
    EXPECT_EQ(read(head, bytes, 1, {}), whole);
    return whole;
}

TEST(Body, EndsAfterItsContentLength) {
    EXPECT_EQ(counted(5, "helloGET /"), (Reading{State::complete, "GET /"}));
    EXPECT_EQ(counted(5, "hello"), (Reading{State::complete, ""}));
    EXPECT_EQ(counted(5, "hell"), (Reading{State::incomplete, ""}));
    EXPECT_EQ(counted(4, "\r\n\r\nGET /"), (Reading{State::complete, "GET /"})) << "lines mean nothing in it";
}

TEST(Body, EndsAfterItsLastChunk) {
    EXPECT_EQ(chunked("5\r\nhello\r\n0\r\n\r\nGET /"), (Reading{State::complete, "GET /"}));
    EXPECT_EQ(chunked("0\r\n\r\n"), (Reading{State::complete, ""}));
    EXPECT_EQ(chunked("00A;name=\"v\";x\r\n0\r\n\r\n01234\r\n0;y\r\n\r\nrest"),
              (Reading{State::complete, "rest"}));
    EXPECT_EQ(chunked("a\r\n0123456789\r\n0\r\nExpires: never\r\nX-Y:\r\n\r\nrest"),
              (Reading{State::complete, "rest"}));
    EXPECT_EQ(chunked("5\r\nhello\r\n0\r\n").state, State::incomplete);
    EXPECT_EQ(chunked("5\r\nhello\r\n0\r\nA: b\r\n").state, State::incomplete);
}

TEST(Body, RefusesChunksThatTwoParsersCouldReadDifferently) {
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
                                    "0\r\n: b\r\n",
                                    "0\r\nA: \x01\r\n",
                                    "0\r\n\n"})
        EXPECT_EQ(chunked(bytes).state, State::malformed) << bytes;
}

TEST(Body, IsBounded) {
    HeadLimits limits;
    limits.body_bytes = 10;
    limits.fields = 2;
    EXPECT_EQ(chunked("a\r\n0123456789\r\n0\r\n\r\n", limits).state, State::complete);
    EXPECT_EQ(chunked("b\r\n", limits).state, State::too_large);
    EXPECT_EQ(chunked("5\r\nhello\r\n6\r\n", limits).state, State::too_large);
    EXPECT_EQ(chunked("1\r\na\r\nffffffffffffffff\r\n", limits).state, State::too_large)
        << "the sum is no longer a number";
    EXPECT_EQ(chunked("10000000000000000\r\n", limits).state, State::too_large) << "2 to the 64th";
    EXPECT_EQ(chunked("0\r\nA: 1\r\nB: 2\r\n\r\n", limits).state, State::complete);
    EXPECT_EQ(chunked("0\r\nA: 1\r\nB: 2\r\nC: 3\r\n", limits).state, State::malformed);
    EXPECT_EQ(chunked("5;" + std::string(5000, 'a')).state, State::malformed)
        << "an extension without an end";
    EXPECT_EQ(chunked("0\r\nA: " + std::string(5000, 'a') + "\r\n").state, State::malformed);
    EXPECT_EQ(chunked(std::string(5000, '0') + "5\r\n").state, State::malformed);
}

} // namespace
} // namespace shortener
