#pragma once

// Statements that are prepared once per session and kept.
//
// Every name and operator in them is qualified, so that the caller's search_path changes nothing, and the
// values travel as parameters. Postgres plans a kept statement anew when its tables or their statistics
// change. Until then a plan made for an empty table must serve as well for a million links that came in the
// same transaction, so plans are generic and never read a table whole that has an index for it.

#include <initializer_list>

#include "pg/installation.h"

extern "C" {
#include "postgres.h"

#include "executor/spi.h"
}

namespace shortener {

class KeptStatement {
  public:
    static constexpr int max_parameters = 16;

    constexpr KeptStatement(const char* sql, std::initializer_list<Oid> types) : sql_(sql) {
        for (const Oid type : types)
            types_[count_++] = type;
    }

    // Between SPI_connect and SPI_finish. Sees what the transaction has done so far, and what others have
    // committed as far as the isolation level allows. The result is in SPI_processed and SPI_tuptable.
    void run(const Datum* values = nullptr, const char* nulls = nullptr) {
        expect(SPI_execute_plan(plan(), const_cast<Datum*>(values), nulls, false, 0));
    }

    // The same with a snapshot taken now at every isolation level, as foreign keys are checked.
    void run_latest(const Datum* values = nullptr);

  private:
    SPIPlanPtr plan() {
        if (!is_planned_ || !SPI_plan_is_valid(plan_))
            prepare();
        return plan_;
    }
    void prepare();
    void expect(int result) {
        if (result < 0)
            fail(result);
    }
    [[noreturn]] void fail(int result);

    const char* sql_;
    Oid types_[max_parameters] = {};
    int count_ = 0;
    SPIPlanPtr plan_ = nullptr;
    bool is_planned_ = false;
};

// A value of the last result.
inline Datum result_value(uint64 row, int column, bool& is_null) {
    return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, &is_null);
}

} // namespace shortener
