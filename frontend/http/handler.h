#pragma once

#include <functional>

#include "clock.h"
#include "http/message.h"

namespace shortener {

// What stands between a transport and the program: one handler per event loop, called on that loop, or under a lock
// while that loop does not call it.
class Handler {
  public:
    using Done = std::function<void(Response&&)>;

    virtual ~Handler() = default;

    // Fills in the answer if it is known at once; otherwise the transport calls answer_later.
    virtual bool answer(const Request& request, Response& response) = 0;
    // Calls `done` once, on the same loop, not before it returns. The request may go away meanwhile.
    virtual void answer_later(const Request& request, Done done) = 0;
    // Called several times a second.
    virtual void tick(Clock::time_point) {}

    // What the transport did on its own: with a request, and with a connection.
    virtual void request_refused(int /* status */) {}
    virtual void connection_opened() {}
    virtual void connection_closed() {}
    virtual void connection_refused() {}
};

} // namespace shortener
