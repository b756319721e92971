#pragma once

// Statements that are prepared once per session and kept.
//
// Every name and operator in them is qualified, so that the caller's search_path changes nothing, and the
// values travel as parameters, which have names: `$code` in the text is the parameter "code". Postgres plans
// a kept statement anew when its tables or their statistics change. Until then a plan made for an empty table
// must serve as well for a million links that came in the same transaction, so plans are generic, are made as
// if each table had a million rows at least, and never read a table whole that has an index for it.

#include <initializer_list>
#include <optional>
#include <string_view>

#include "pg/text.h"

extern "C" {
#include "postgres.h"

#include "executor/spi.h"
#include "storage/itemptr.h"
#include "utils/queryenvironment.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
}

namespace shortener {

template <typename T> T from_datum(Datum datum);
template <> inline Datum from_datum(Datum datum) {
    return datum;
}
template <> inline bool from_datum(Datum datum) {
    return DatumGetBool(datum);
}
template <> inline int16 from_datum(Datum datum) {
    return DatumGetInt16(datum);
}
template <> inline int32 from_datum(Datum datum) {
    return DatumGetInt32(datum);
}
template <> inline int64 from_datum(Datum datum) {
    return DatumGetInt64(datum);
}
template <> inline std::string_view from_datum(Datum datum) {
    return text_view(datum);
}
template <> inline Interval* from_datum(Datum datum) {
    return DatumGetIntervalP(datum);
}
template <> inline ItemPointer from_datum(Datum datum) {
    return reinterpret_cast<ItemPointer>(DatumGetPointer(datum));
}

// How Postgres stores the values that a T is read from: their length, -1 where it varies.
template <typename T> inline constexpr int16 stored_length = sizeof(T);
template <> inline constexpr int16 stored_length<Datum> = -1; // such as texts and arrays
template <> inline constexpr int16 stored_length<std::string_view> = -1;
template <> inline constexpr int16 stored_length<Interval*> = sizeof(Interval);
template <> inline constexpr int16 stored_length<ItemPointer> = sizeof(ItemPointerData);

// A row of a result; columns count from 1.
class Row {
  public:
    Row(const SPITupleTable* table, uint64 index) : table_(table), index_(index) {}

    // The owner of a table may have changed the type of a column.
    template <typename T> std::optional<T> get(int column) const {
        if (TupleDescAttr(table_->tupdesc, column - 1)->attlen != stored_length<T>)
            raise_type(column);
        bool is_null;
        const Datum value = SPI_getbinval(table_->vals[index_], table_->tupdesc, column, &is_null);
        return is_null ? std::nullopt : std::optional<T>(from_datum<T>(value));
    }

    // Of a column that only somebody else's trigger or policy can have made NULL: an error then.
    template <typename T> T required(int column) const {
        const std::optional<T> value = get<T>(column);
        if (!value)
            raise_null(column);
        return *value;
    }

  private:
    [[noreturn]] void raise_null(int column) const;
    [[noreturn]] void raise_type(int column) const;

    const SPITupleTable* table_;
    uint64 index_;
};

// The result of a statement, valid until SPI_finish.
class Rows {
  public:
    Rows(SPITupleTable* table, uint64 count) : table_(table), count_(count) {}

    uint64 count() const { return count_; }
    bool empty() const { return count_ == 0; }
    Row operator[](uint64 index) const { return {table_, index}; }

    // For results that would pile up in a loop.
    void release() const { SPI_freetuptable(table_); }

  private:
    SPITupleTable* table_; // nullptr: the statement returns no rows, and count_ is how many it changed
    uint64 count_;
};

struct Parameter {
    const char* name;
    Oid type;
};

// A value for a parameter; without one it is NULL.
struct Argument {
    const char* name;
    std::optional<Datum> value;
};

// Rows of our own that a statement reads like a table of that name, unqualified, between the constructor and
// end(). Nothing of the caller's can stand in its place.
class GivenRows {
  public:
    GivenRows(const char* name, std::initializer_list<Parameter> columns);
    void add(std::initializer_list<std::optional<Datum>> values);
    void end();

  private:
    static constexpr int max_columns = 16;

    EphemeralNamedRelationData relation_ = {};
    Tuplestorestate* rows_;
};

// Called once, when the library is loaded.
void plan_for_large_tables();

class KeptStatement {
  public:
    static constexpr int max_parameters = 16;

    constexpr KeptStatement(const char* sql, std::initializer_list<Parameter> parameters) : sql_(sql) {
        for (const Parameter& parameter : parameters)
            parameters_[count_++] = parameter;
    }

    // Between SPI_connect and SPI_finish, with an argument for each parameter in their order. Sees what the
    // transaction has done so far, and what others have committed as far as the isolation level allows.
    Rows run(std::initializer_list<Argument> arguments = {}) {
        return run(arguments, InvalidSnapshot, false);
    }

    // The same with a snapshot taken now at every isolation level, as foreign keys are checked.
    Rows run_latest(std::initializer_list<Argument> arguments = {});

    // The same for a SELECT that may run in a read-only function and in a parallel worker, where it sees no
    // more than the query that it is part of.
    Rows read_latest(std::initializer_list<Argument> arguments);

    // The same, seeing what the query that it is part of sees.
    Rows read_active(std::initializer_list<Argument> arguments);

  private:
    Rows run(std::initializer_list<Argument> arguments, Snapshot snapshot, bool read_only);
    bool needs_planning() const;
    void prepare();
    char* numbered_sql() const;
    [[noreturn]] void fail(int result) const;
    [[noreturn]] void rethrow_without_text() const;

    const char* sql_;
    const char* text_ = nullptr; // with numbers for the names
    Parameter parameters_[max_parameters] = {};
    int count_ = 0;
    SPIPlanPtr plan_ = nullptr;
    bool is_planned_ = false;
};

} // namespace shortener
