#include "http/head.h"

#include <algorithm>
#include <array>

namespace shortener {

namespace {

constexpr std::array<bool, 256> make_token_table() {
    std::array<bool, 256> table{};
    for (int c = 0; c < 256; c++)
        table[c] = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    for (const char c : {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'})
        table[static_cast<unsigned char>(c)] = true;
    return table;
}

constexpr std::array<bool, 256> token_table = make_token_table();

bool is_token(std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) { return token_table[c]; });
}

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// `name` is in lower case.
bool equals(std::string_view text, std::string_view name) {
    return text.size() == name.size() &&
           std::equal(text.begin(), text.end(), name.begin(), [](char a, char b) { return lower(a) == b; });
}

std::string_view trim(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
        text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
        text.remove_suffix(1);
    return text;
}

// Anything but a control character; tab is allowed in a value.
bool is_field_value(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) { return (c >= 0x20 && c != 0x7f) || c == '\t'; });
}

// Whether the comma-separated list has this (lower-case) member.
bool lists(std::string_view list, std::string_view member) {
    while (!list.empty()) {
        const std::size_t comma = std::min(list.find(','), list.size());
        if (equals(trim(list.substr(0, comma)), member))
            return true;
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return false;
}

// `host[:port]` to lower case without port and final dot; false if it is no host.
bool read_host(std::string_view text, std::string& host) {
    std::string_view name = text, port;
    if (!text.empty() && text.front() == '[') {
        const std::size_t end = text.find(']');
        if (end == std::string_view::npos)
            return false;
        name = text.substr(0, end + 1);
        port = text.substr(end + 1);
        if (!std::all_of(name.begin() + 1, name.end() - 1, [](char c) {
                return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'f') || c == ':' || c == '.';
            }))
            return false;
    } else {
        const std::size_t colon = std::min(text.find(':'), text.size());
        name = text.substr(0, colon);
        port = text.substr(colon);
        if (!std::all_of(name.begin(), name.end(), [](char c) {
                return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || c == '-' || c == '.' || c == '_';
            }))
            return false;
        if (name.size() > 1 && name.back() == '.')
            name.remove_suffix(1);
    }
    if (name.size() > 253)
        return false;
    if (!port.empty() && (port.front() != ':' || port.size() > 6 ||
                          !std::all_of(port.begin() + 1, port.end(), [](char c) { return c >= '0' && c <= '9'; })))
        return false;
    host.resize(name.size());
    std::transform(name.begin(), name.end(), host.begin(), lower);
    return true;
}

// The state of one reading.
class Reader {
  public:
    Reader(const HeadLimits& limits, Head& head) : limits_(limits), head_(head) {}

    // 0, or the status of a refusal.
    int request_line(std::string_view line);
    int field(std::string_view line);
    int finish();

  private:
    int content_length(std::string_view value);
    void forwarded_for(std::string_view value);

    const HeadLimits& limits_;
    Head& head_;
    std::string_view host_, authority_;
    std::size_t fields_ = 0;
    int hosts_ = 0, content_lengths_ = 0, transfer_encodings_ = 0;
    bool connection_close_ = false, connection_keep_alive_ = false, has_authority_ = false;
};

int Reader::request_line(std::string_view line) {
    const std::size_t first = line.find(' '), last = line.rfind(' ');
    if (first == std::string_view::npos || first == last)
        return 400;
    const std::string_view method = line.substr(0, first), version = line.substr(last + 1);
    std::string_view target = line.substr(first + 1, last - first - 1);
    if (!is_token(method) || method.size() > 32 || target.empty())
        return 400;
    if (version == "HTTP/1.0")
        head_.http_1_0 = true;
    else if (version != "HTTP/1.1")
        return 400;
    if (target.size() > limits_.target_bytes)
        return 414;
    if (!std::all_of(target.begin(), target.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; }))
        return 400;

    head_.request.method = method == "GET" ? Method::get : method == "HEAD" ? Method::head : Method::other;
    if (target.front() != '/' && target != "*") {
        // Absolute form, as to a proxy: its authority has to be the Host (RFC 9112, section 3.2.2 lets it win;
        // we do not want to know what a client means that says two things).
        const std::size_t colon = target.find("://");
        if (colon == std::string_view::npos ||
            (!equals(target.substr(0, colon), "http") && !equals(target.substr(0, colon), "https")))
            return 400;
        target.remove_prefix(colon + 3);
        const std::size_t end = std::min(target.find_first_of("/?"), target.size());
        authority_ = target.substr(0, end);
        has_authority_ = true;
        target.remove_prefix(end);
        if (target.empty() || target.front() == '?')
            target = "/";
    }
    head_.request.target = target;
    return 0;
}

int Reader::content_length(std::string_view value) {
    if (++content_lengths_ > 1 || value.empty() || value.size() > 18 ||
        !std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; }))
        return 400;
    head_.content_length = 0;
    for (const char c : value)
        head_.content_length = head_.content_length * 10 + (c - '0');
    return 0;
}

// Several lines are one list (RFC 9110, section 5.3): a proxy may add its line after one that the visitor forged.
void Reader::forwarded_for(std::string_view value) {
    std::string_view& list = head_.request.forwarded_for;
    std::string& storage = head_.forwarded_storage;
    if (list.data() == nullptr) {
        list = value;
        return;
    }
    if (storage.empty())
        storage = list;
    storage.append(", ").append(value);
    list = storage;
}

int Reader::field(std::string_view line) {
    if (++fields_ > limits_.fields)
        return 431;
    std::string_view name, value;
    if (!split_field(line, name, value))
        return 400;
    switch (name.size()) {
    case 4:
        if (equals(name, "host")) {
            hosts_++;
            host_ = value;
        }
        break;
    case 6:
        if (equals(name, "accept"))
            head_.request.accept = value;
        else if (equals(name, "expect"))
            head_.expects_continue = equals(value, "100-continue");
        break;
    case 7:
        if (equals(name, "referer"))
            head_.request.referer = value;
        break;
    case 10:
        if (equals(name, "user-agent"))
            head_.request.user_agent = value;
        else if (equals(name, "connection")) {
            connection_close_ = connection_close_ || lists(value, "close");
            connection_keep_alive_ = connection_keep_alive_ || lists(value, "keep-alive");
        }
        break;
    case 14:
        if (equals(name, "content-length"))
            return content_length(value);
        break;
    case 15:
        if (equals(name, "x-forwarded-for"))
            forwarded_for(value);
        break;
    case 17:
        if (equals(name, "transfer-encoding")) {
            transfer_encodings_++;
            if (!equals(value, "chunked"))
                return 400;
            head_.chunked = true;
        }
        break;
    }
    return 0;
}

int Reader::finish() {
    if (hosts_ > 1 || (hosts_ == 0 && !head_.http_1_0))
        return 400;
    if (transfer_encodings_ > 1 || (head_.chunked && (content_lengths_ > 0 || head_.http_1_0)))
        return 400;
    if (!read_host(host_, head_.host_storage))
        return 400;
    if (has_authority_) {
        std::string authority;
        if (!read_host(authority_, authority) || authority.empty() || (hosts_ == 1 && authority != head_.host_storage))
            return 400;
        head_.host_storage = authority;
    }
    head_.request.host = head_.host_storage;
    if (head_.content_length > limits_.body_bytes)
        return 413;
    head_.keep_alive = !connection_close_ && (!head_.http_1_0 || connection_keep_alive_);
    return 0;
}

} // namespace

bool split_field(std::string_view line, std::string_view& name, std::string_view& value) {
    const std::size_t colon = line.find(':');
    // A folded line begins with a space, which is no token; neither is a name with space before the colon.
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
        return false;
    name = line.substr(0, colon);
    value = trim(line.substr(colon + 1));
    return is_field_value(value);
}

void read_head(std::string_view bytes, const HeadLimits& limits, Head& head) {
    std::string host_storage = std::move(head.host_storage);
    head = Head{};
    head.host_storage = std::move(host_storage);
    head.host_storage.clear();

    const auto refuse = [&](int status) {
        head.state = Head::State::refused;
        head.status = status;
    };
    Reader reader(limits, head);
    std::size_t position = bytes.substr(0, 2) == "\r\n" ? 2 : 0;
    bool first = true;
    for (;;) {
        const std::size_t end = bytes.find('\n', position);
        if (end == std::string_view::npos || end >= limits.head_bytes) {
            // Too long is too long, complete or not; which part is decides the status.
            if (bytes.size() - position > limits.target_bytes + 64 && first)
                refuse(414);
            else if (end != std::string_view::npos || bytes.size() >= limits.head_bytes)
                refuse(431);
            return;
        }
        if (end == position || bytes[end - 1] != '\r')
            return refuse(400);
        const std::string_view line = bytes.substr(position, end - 1 - position);
        position = end + 1;
        int status = 0;
        if (first)
            status = line.find('\r') == std::string_view::npos ? reader.request_line(line) : 400;
        else if (!line.empty())
            status = reader.field(line);
        else
            status = reader.finish();
        if (status != 0)
            return refuse(status);
        if (!first && line.empty()) {
            head.size = position;
            head.state = Head::State::complete;
            return;
        }
        first = false;
    }
}

} // namespace shortener
