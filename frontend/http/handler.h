#pragma once

#include <functional>
#include <memory>

#include "clock.h"
#include "http/message.h"

namespace shortener {

using Done = std::function<void(Response&&)>;

// A request whose answer is not known at once, with what was found out about it.
class PendingRequest {
  public:
    virtual ~PendingRequest() = default;
    // Once, on the loop of the handler. Calls `done` once, not before it returns.
    virtual void start(Done done) = 0;
};

// What stands between a transport and the program: one handler per event loop, called on that loop, or under
// a lock while that loop does not call it.
class Handler {
  public:
    virtual ~Handler() = default;

    // Fills in the answer and returns null if it is known at once. Else the transport starts what is
    // returned, which needs the request no longer.
    virtual std::shared_ptr<PendingRequest> answer(const Request& request, Response& response) = 0;
    // Called several times a second.
    virtual void tick(Clock::time_point now) = 0;

    // What the transport did on its own: with a request, and with a connection.
    virtual void request_refused(int status) = 0;
    virtual void connection_opened() = 0;
    virtual void connection_closed() = 0;
    virtual void connection_refused() = 0;
};

} // namespace shortener
