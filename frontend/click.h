#pragma once

#include <cstdint>
#include <string_view>

namespace shortener {

// A served redirect, announced once per GET, from the thread that served it. The views live during the call.
struct Click {
    std::int64_t link_id = 0;
    std::int64_t workspace_id = 0;
    std::string_view visitor; // the visitor's address, see visitor_address()
    std::string_view user_agent;
    std::string_view referer;
};

// Whoever wants to know of clicks, and of visits of codes that do not exist. Must not block: it is called on
// the event loop.
class ClickSink {
  public:
    virtual ~ClickSink() = default;
    virtual void clicked(const Click& click) = 0;
    virtual void missed(std::string_view host, std::string_view code) = 0;
};

} // namespace shortener
