#pragma once

#include "database/questions.h"
#include "resolution.h"

namespace shortener {

struct TextsAnswer {
    PageTexts texts;
    bool from_standby = false;
};

class TextsQuestion : public Question<TextsAnswer> {
  public:
    virtual std::int64_t workspace_id() const = 0;
};

// Asks what workspaces say on their pages.
class TextsQueue final : public QuestionQueue<TextsAnswer> {
  public:
    using QuestionQueue::QuestionQueue;

  private:
    Statement statement(const std::vector<Asked>& batch) const override;
    std::optional<TextsAnswer> read(const PGresult* result, int row, Clock::time_point now) override;
};

} // namespace shortener
