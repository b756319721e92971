#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "clock.h"
#include "database/connection.h"

namespace shortener {

struct Statement {
    const char* sql;
    Parameters parameters;
    bool prepared = false; // worth being planned once; the same pointer is the same statement
};

// What there is to send on a connection of a DatabaseClient. It gathers while the connection is busy and
// leaves together in the next statement; of each queue one statement is under way at most. Used on the loop
// of its client only.
class StatementQueue {
  public:
    virtual ~StatementQueue() = default;

    // When the next statement is to be sent: in the past for at once, max() for never.
    virtual Clock::time_point due() const = 0;
    // What waits is under way now, and this is its statement; answered() or failed() follows.
    virtual Statement take() = 0;
    // The rows of the statement. False if they are not what it asks for.
    virtual bool answered(const PGresult* result) = 0;
    // No rows: an error with this SQLSTATE, or the connection was lost if it is empty.
    virtual void failed(std::string_view sqlstate) = 0;
    // Nobody should wait for the database, or may again.
    virtual void set_away(bool) {}

    // Of the first queue of a client: a statement whose rows show whether the others will work, and what is
    // wrong with them; empty: nothing.
    virtual Statement probe() const { return {"SELECT", {}}; }
    virtual std::string judge(const PGresult*) { return {}; }

    void set_wake(std::function<void()> wake) { wake_ = std::move(wake); }

  protected:
    // Tells the client that due() has changed.
    void wake() {
        if (wake_)
            wake_();
    }

  private:
    std::function<void()> wake_;
};

} // namespace shortener
