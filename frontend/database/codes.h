#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "database/questions.h"
#include "database/status.h"
#include "resolution.h"

namespace shortener {

struct CodeAnswer {
    Resolution resolution;
    std::chrono::seconds cache_seconds{0};
    bool from_standby = false; // which may not know the last changes
};

class CodeQuestion : public Question<CodeAnswer> {
  public:
    // Both consist of characters that need no escape in quotes.
    virtual std::string_view host() const = 0; // empty: none
    virtual std::string_view code() const = 0;
};

// Asks what codes mean.
class CodeQueue final : public QuestionQueue<CodeAnswer> {
  public:
    // `default_workspace` is the one that was asked for, empty for the database's own.
    CodeQueue(boost::asio::io_context& context, std::chrono::milliseconds timeout, Counters& counters,
              DatabaseStatus& status, std::size_t thread, std::string default_workspace)
        : QuestionQueue(context, timeout, counters), status_(status), thread_(thread),
          default_workspace_(std::move(default_workspace)) {}

    Statement probe() const override;
    std::string judge(const PGresult* result) override;

  private:
    Statement statement(const std::vector<Asked>& batch) const override;
    std::optional<CodeAnswer> read(const PGresult* result, int row, Clock::time_point now) override;
    void set_workspace_missing(bool missing);

    DatabaseStatus& status_;
    const std::size_t thread_;
    const std::string default_workspace_;
    bool workspace_missing_ = false;
};

} // namespace shortener
