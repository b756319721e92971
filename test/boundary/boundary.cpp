#include <new>
#include <stdexcept>

#include "pg/guard.h"

extern "C" {
#include "utils/errcodes.h"
#include "utils/resowner.h"

PG_MODULE_MAGIC;
}

namespace {

int alive = 0;

struct Owner {
    Owner() { alive++; }
    ~Owner() { alive--; }
};

} // namespace

SHORTENER_FUNCTION(throw_exception) {
    Owner owner;
    throw std::runtime_error("thrown on purpose");
}

SHORTENER_FUNCTION(throw_nonsense) {
    Owner owner;
    throw 42;
}

SHORTENER_FUNCTION(throw_bad_alloc) {
    Owner owner;
    // By a direct call, which no compiler may leave out as it may a new expression.
    volatile std::size_t all = std::size_t{1} << 62;
    PG_RETURN_POINTER(::operator new(all));
}

// The owner's destructor must run although Postgres reports errors by longjmp.
SHORTENER_FUNCTION(postgres_error) {
    Owner owner;
    shortener::call_pg([] {
        ereport(ERROR, (errcode(ERRCODE_DIVISION_BY_ZERO), errmsg("raised on purpose"),
                        errdetail("the detail"), errhint("the hint")));
    });
    PG_RETURN_NULL();
}

// An exception out of frames that had pushed an error context and an exception stack of their own.
SHORTENER_FUNCTION(throw_over_stacks) {
    ErrorContextCallback callback{error_context_stack, [](void*) { errcontext("a frame that is gone"); },
                                  nullptr};
    error_context_stack = &callback;
    sigjmp_buf gone;
    PG_exception_stack = &gone;
    throw std::runtime_error("thrown over stacks");
}

SHORTENER_FUNCTION(call_pg_result) {
    PG_RETURN_INT64(shortener::call_pg([] { return int64{42}; }));
}

SHORTENER_FUNCTION(owners_alive) {
    PG_RETURN_INT32(alive);
}
