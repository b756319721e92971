#pragma once

// The boundary between C++ and Postgres, for every binding in this directory.
//
// Two directions are dangerous: a C++ exception must never leave an extern "C" entry, and a Postgres error
// (a longjmp) must never jump over a C++ frame that owns something. So a binding has three phases: read the
// arguments, call the core, talk to Postgres again, with nothing alive between them that has a destructor.
// SHORTENER_FUNCTION guards the entry all the same, and call_pg is for the few places where an owning C++
// object must call Postgres.
//
// Include standard and core headers first, then this file: it brings in the Postgres block.

#include <exception>
#include <new>
#include <type_traits>

extern "C" {
#include "postgres.h"

#include "fmgr.h"
}

namespace shortener {

// A Postgres error on its way through C++ frames; only call_pg throws it and only an entry may end it.
struct PostgresError {
    ErrorData* data;
};

// Calls `function`, which may raise a Postgres error, and throws it as a PostgresError. The frames inside
// `function` itself must own nothing.
template <typename Function> auto call_pg(Function&& function) {
    using Result = std::invoke_result_t<Function>;
    MemoryContext context = CurrentMemoryContext;
    ErrorData* volatile error = nullptr;
    if constexpr (std::is_void_v<Result>) {
        PG_TRY();
        { function(); }
        PG_CATCH();
        {
            MemoryContextSwitchTo(context);
            error = CopyErrorData();
            FlushErrorState();
        }
        PG_END_TRY();
        if (error)
            throw PostgresError{error};
    } else {
        static_assert(std::is_trivially_destructible_v<Result>);
        volatile Result result{};
        call_pg([&] { result = function(); });
        return static_cast<Result>(result);
    }
}

// Runs `body` and turns whatever leaves it into an ordinary SQL error.
Datum guarded_call(PGFunction body, FunctionCallInfo fcinfo);

} // namespace shortener

// Defines the SQL-callable function `name`; the block that follows is its body.
#define SHORTENER_FUNCTION(name)                                                                             \
    static Datum name##_body(FunctionCallInfo fcinfo);                                                       \
    extern "C" {                                                                                             \
    PG_FUNCTION_INFO_V1(name);                                                                               \
    Datum name(PG_FUNCTION_ARGS) {                                                                           \
        return shortener::guarded_call(name##_body, fcinfo);                                                 \
    }                                                                                                        \
    }                                                                                                        \
    static Datum name##_body([[maybe_unused]] FunctionCallInfo fcinfo)
