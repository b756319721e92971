#include "http/body.h"

#include <algorithm>
#include <charconv>

namespace shortener {

namespace {

// Of a chunk's size with its extensions, or of a trailer field.
constexpr std::size_t longest_line = 4096;

} // namespace

BodyReader::BodyReader(const Head& head, const HeadLimits& limits)
    : limits_(limits), chunked_(head.chunked), part_(chunked_ ? Part::size : Part::data),
      left_(head.content_length) {}

BodyReader::State BodyReader::read(std::string_view bytes, std::size_t& used) {
    for (used = 0;;) {
        if (part_ == Part::data) {
            const std::uint64_t here = std::min<std::uint64_t>(left_, bytes.size() - used);
            used += here;
            left_ -= here;
            if (left_ > 0)
                return State::incomplete;
            if (!chunked_)
                return State::complete;
            part_ = Part::data_end;
        }
        const std::string_view rest = bytes.substr(used);
        const std::size_t end = rest.find('\n');
        if (std::min(end, rest.size()) > longest_line)
            return State::malformed;
        if (end == std::string_view::npos)
            return State::incomplete;
        if (end == 0 || rest[end - 1] != '\r')
            return State::malformed;
        used += end + 1;
        if (const State state = read_line(rest.substr(0, end - 1)); state != State::incomplete)
            return state;
    }
}

BodyReader::State BodyReader::read_line(std::string_view line) {
    if (part_ == Part::size)
        return read_size(line);
    if (part_ == Part::data_end) {
        part_ = Part::size;
        return line.empty() ? State::incomplete : State::malformed;
    }
    if (line.empty())
        return State::complete;
    std::string_view name, value;
    return ++trailers_ <= limits_.fields && split_field(line, name, value) ? State::incomplete
                                                                           : State::malformed;
}

BodyReader::State BodyReader::read_size(std::string_view line) {
    const char* const end = line.data() + line.size();
    std::uint64_t size = 0;
    const auto [after, error] = std::from_chars(line.data(), end, size, 16);
    if (error == std::errc::result_out_of_range)
        return State::too_large;
    // Extensions mean nothing to us, but a control character among them would mean something to somebody.
    if (error != std::errc() || (after != end && *after != ';') ||
        std::any_of(after, end, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
        return State::malformed;
    total_ += size;
    if (size > limits_.body_bytes || total_ > limits_.body_bytes)
        return State::too_large;
    left_ = size;
    part_ = size > 0 ? Part::data : Part::trailer;
    return State::incomplete;
}

} // namespace shortener
