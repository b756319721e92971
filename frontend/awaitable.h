#pragma once

#include <exception>
// Boost 1.74's awaitable.hpp uses std::exchange without including it.
#include <utility>

#include <boost/asio/awaitable.hpp>

namespace shortener {

// For a coroutine that must never end: an exception, such as a lack of memory, ends the program, which is
// started again, instead of vanishing with the coroutine.
inline void end_program(std::exception_ptr error) {
    if (error)
        std::rethrow_exception(error);
}

} // namespace shortener
