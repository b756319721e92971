#include "pg/guard.h"

namespace shortener {

namespace {

// What is known of a failure once the handler is left: plain values, so that raising may jump over it.
struct Failure {
    ErrorData* postgres_error = nullptr;
    int sqlstate = ERRCODE_INTERNAL_ERROR;
    char message[256] = "unknown C++ exception";
};

} // namespace

Datum guarded_call(PGFunction body, FunctionCallInfo fcinfo) {
    sigjmp_buf* const exception_stack = PG_exception_stack;
    ErrorContextCallback* const context_stack = error_context_stack;
    Failure failure;
    try {
        return body(fcinfo);
    } catch (const PostgresError& error) {
        failure.postgres_error = error.data;
    } catch (const std::bad_alloc&) {
        failure.sqlstate = ERRCODE_OUT_OF_MEMORY;
        strlcpy(failure.message, "out of memory", sizeof failure.message);
    } catch (const std::exception& error) {
        strlcpy(failure.message, error.what(), sizeof failure.message);
    } catch (...) {
    }

    // The exception may have passed frames that had pushed their own.
    PG_exception_stack = exception_stack;
    error_context_stack = context_stack;
    if (failure.postgres_error)
        ReThrowError(failure.postgres_error);
    ereport(ERROR, (errcode(failure.sqlstate), errmsg("%s", failure.message)));
}

} // namespace shortener
