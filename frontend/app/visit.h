#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cache/asked.h"
#include "database/codes.h"
#include "database/page_texts.h"
#include "http/handler.h"
#include "http/message.h"

namespace shortener {

class Service;

// A request that waits for the database, with one copy of what it needs.
class Visit final : public PendingRequest,
                    public CodeQuestion,
                    public TextsQuestion,
                    public std::enable_shared_from_this<Visit> {
  public:
    Visit(Service& home, const Request& request, std::string_view code, Clock::time_point begun);

    const Request& request() const { return request_; }
    std::string_view host() const override { return request_.host; }
    std::string_view code() const override { return flight_.substr(request_.host.size() + 1); }
    std::string_view flight() const { return flight_; }
    std::int64_t workspace_id() const override { return resolution->workspace_id; }

    void start(Done done_) override;
    void keep(const CodeAnswer& answer) override;
    void tell(const CodeAnswer* answer) override;
    void keep(const TextsAnswer& answer) override;
    void tell(const TextsAnswer* answer) override;

    Service& home;
    const Clock::time_point begun;
    Done done;
    std::optional<Resolution> resolution; // once it is known
    bool host_known = false;
    Ticket code_ticket = 0, workspace_ticket = 0;

  private:
    std::string_view add(std::string_view text);

    std::string bytes_; // of all that are views
    std::string_view flight_;
    Request request_;
};

} // namespace shortener
