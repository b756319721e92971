// Requests, as one parser reads them at once and in pieces: the outcome must be the same, and every view of a
// complete head must lie in what was read.

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/request_parser.h"

namespace {

using shortener::Head;
using shortener::RequestLimits;
using shortener::RequestParser;
using State = RequestParser::State;

struct Outcome {
    State state = State::incomplete;
    int status = 0;
    std::size_t size = 0; // of the whole request
};

void require(bool condition) {
    if (!condition)
        std::abort();
}

// As a connection does: `step` more bytes at a time, of which a parser sees a copy without anything behind
// it.
Outcome read(std::string_view bytes, std::size_t step, const RequestLimits& limits) {
    Head head;
    std::unique_ptr<RequestParser> parser;
    std::vector<char> seen;
    State state = State::incomplete;
    std::size_t end = 0;
    while (state == State::incomplete && end < bytes.size()) {
        end += std::min(step, bytes.size() - end);
        seen.assign(bytes.begin(), bytes.begin() + end);
        parser = std::make_unique<RequestParser>(limits, head);
        state = parser->read_head({seen.data(), seen.size()});
    }
    if (state == State::refused)
        return {state, parser->status(), 0};
    if (state == State::incomplete)
        return {};
    const char* const first = seen.data();
    const char* const last = first + parser->head_size();
    for (const std::string_view view : {head.request.accept, head.request.user_agent, head.request.referer})
        require(view.data() == nullptr || (view.data() >= first && view.data() + view.size() <= last));
    require(head.request.host == head.host);
    require(!head.request.target.empty() &&
            (head.request.target.front() == '/' || head.request.target == "*"));
    for (const char c : head.request.target)
        require(c > ' ' && c < 0x7f);
    if (state == State::complete)
        return {state, 0, parser->head_size()};

    std::size_t done = parser->head_size();
    for (;;) {
        const std::vector<char> unread(bytes.begin() + done, bytes.begin() + end);
        std::size_t used = 0;
        state = parser->read_body({unread.data(), unread.size()}, used);
        require(used <= unread.size());
        done += used;
        if (state == State::refused)
            return {state, parser->status(), 0};
        if (state == State::complete)
            return {state, 0, done};
        if (end == bytes.size())
            return {};
        end += std::min(step, bytes.size() - end);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
    // The first byte chooses what stands in front of the others.
    static constexpr std::string_view fronts[] = {
        "", "GET /a HTTP/1.1\r\n", "GET /a HTTP/1.1\r\nHost: a\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"};
    if (size == 0)
        return 0;
    std::string bytes(fronts[data[0] % std::size(fronts)]);
    bytes.append(reinterpret_cast<const char*>(data) + 1, size - 1);
    RequestLimits limits;
    limits.head_bytes = 2048;
    limits.target_bytes = 256;
    limits.fields = 20;
    limits.body_bytes = 1024;
    const Outcome whole = read(bytes, bytes.size(), limits);
    for (const std::size_t step : {1, 7}) {
        const Outcome pieces = read(bytes, step, limits);
        // One of them may still wait for more where the other has seen a mistake.
        require((pieces.state == State::complete) == (whole.state == State::complete));
        require(pieces.size == whole.size);
    }
    return 0;
}
