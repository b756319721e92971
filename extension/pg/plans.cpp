#include "pg/plans.h"

#include <algorithm>
#include <cstring>

#include "core/ascii.h"

#include "pg/guard.h"

extern "C" {
#include "access/tupdesc.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/pathnodes.h"
#include "optimizer/plancat.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/resowner.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
}

namespace {

// In an empty table every index that begins with the workspace is as good as any other.
constexpr double assumed_rows = 1'000'000, assumed_rows_per_page = 50;

bool is_planning = false;
get_relation_info_hook_type next_hook = nullptr;

void assume_many_rows(PlannerInfo* root, Oid relation, bool inherits, RelOptInfo* info) {
    if (next_hook)
        next_hook(root, relation, inherits, info);
    if (!is_planning || info->tuples >= assumed_rows)
        return;
    const auto pages = static_cast<BlockNumber>(assumed_rows / assumed_rows_per_page);
    info->tuples = assumed_rows;
    info->pages = std::max(info->pages, pages);
    ListCell* cell;
    foreach (cell, info->indexlist) {
        auto* const index = lfirst_node(IndexOptInfo, cell);
        index->tuples = assumed_rows;
        index->pages = std::max(index->pages, pages);
    }
}

} // namespace

namespace shortener {

void plan_for_large_tables() {
    next_hook = get_relation_info_hook;
    get_relation_info_hook = assume_many_rows;
}

void Row::raise_null(int column) const {
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                    errmsg("column \"%s\" of a link is null", SPI_fname(table_->tupdesc, column)),
                    errhint("A trigger on shortener.link may have set it.")));
}

void Row::raise_type(int column) const {
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("column \"%s\" of a table of shortener must not have type %s",
                           SPI_fname(table_->tupdesc, column),
                           format_type_be(TupleDescAttr(table_->tupdesc, column - 1)->atttypid)),
                    errdetail("Somebody has changed the type that install() gave it.")));
}

GivenRows::GivenRows(const char* name, std::initializer_list<Parameter> columns)
    : rows_(tuplestore_begin_heap(false, false, work_mem)) {
    relation_.md.name = const_cast<char*>(name);
    relation_.md.tupdesc = CreateTemplateTupleDesc(static_cast<int>(columns.size()));
    relation_.md.enrtype = ENR_NAMED_TUPLESTORE;
    AttrNumber number = 0;
    for (const Parameter& column : columns)
        TupleDescInitEntry(relation_.md.tupdesc, ++number, column.name, column.type, -1, 0);
    relation_.reldata = rows_;
    if (SPI_register_relation(&relation_) != SPI_OK_REL_REGISTER)
        elog(ERROR, "could not give rows to statements as \"%s\"", name);
}

void GivenRows::add(std::initializer_list<std::optional<Datum>> values) {
    Datum columns[max_columns];
    bool nulls[max_columns];
    int count = 0;
    for (const std::optional<Datum>& value : values) {
        columns[count] = value.value_or(0);
        nulls[count++] = !value;
    }
    tuplestore_putvalues(rows_, relation_.md.tupdesc, columns, nulls);
    relation_.md.enrtuples++;
}

void GivenRows::end() {
    SPI_unregister_relation(relation_.md.name);
    tuplestore_end(rows_);
}

// The text with $1, $2 ... in the place of the names.
char* KeptStatement::numbered_sql() const {
    StringInfoData text;
    initStringInfo(&text);
    for (const char* rest = sql_; *rest;) {
        const std::size_t plain = std::strcspn(rest, "$");
        appendBinaryStringInfo(&text, rest, static_cast<int>(plain));
        rest += plain;
        if (!*rest)
            break;
        std::size_t length = 1;
        while (is_ascii_letter(rest[length]) || rest[length] == '_')
            length++;
        const std::string_view name(rest + 1, length - 1);
        int number = 0;
        while (number < count_ && name != parameters_[number].name)
            number++;
        if (number == count_)
            elog(ERROR, "unknown parameter in: %s", sql_);
        appendStringInfo(&text, "$%d", number + 1);
        rest += length;
    }
    return text.data;
}

// SPI_plan_is_valid() does not know what SPI itself will find only when it runs the plan.
bool KeptStatement::needs_planning() const {
    if (!is_planned_ || !SPI_plan_is_valid(plan_))
        return true;
    const auto* const source = static_cast<CachedPlanSource*>(linitial(SPI_plan_get_plan_sources(plan_)));
#if PG_VERSION_NUM >= 170000
    const bool same_path = SearchPathMatchesCurrentEnvironment(source->search_path);
#else
    const bool same_path = OverrideSearchPathMatchesCurrent(source->search_path);
#endif
    return !same_path || !source->gplan || !source->gplan->is_valid ||
           (source->dependsOnRLS &&
            (source->rewriteRoleId != GetUserId() || source->rewriteRowSecurity != row_security));
}

void KeptStatement::prepare() {
    if (!plan_) {
        Oid types[max_parameters];
        for (int i = 0; i < count_; i++)
            types[i] = parameters_[i].type;
        if (!text_)
            text_ = MemoryContextStrdup(TopMemoryContext, numbered_sql());
        SPIPlanPtr plan = SPI_prepare_cursor(text_, count_, types, CURSOR_OPT_GENERIC_PLAN);
        if (!plan)
            fail(SPI_result);
        if (SPI_keepplan(plan) != 0)
            fail(SPI_ERROR_ARGUMENT);
        plan_ = plan;
    }
    // All of this holds for the planning alone, not for what triggers of the user's own do during the run.
    // Where there is no way around a sequential scan, enable_seqscan adds so much to its cost that it would
    // be worth compiling. Without statistics a key is thought to have several rows, worth a bitmap.
    const int nest_level = NewGUCNestLevel();
    for (const char* setting : {"enable_seqscan", "enable_bitmapscan", "jit"})
        set_config_option(setting, "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    CachedPlan* volatile planned = nullptr;
    // Planning may ask for the value of a policy's function, which has statements of its own.
    const bool was_planning = is_planning;
    is_planning = true;
    PG_TRY();
    { planned = SPI_plan_get_cached_plan(plan_); }
    PG_FINALLY();
    { is_planning = was_planning; }
    PG_END_TRY();
    AtEOXact_GUC(true, nest_level);
    if (planned)
        ReleaseCachedPlan(planned, CurrentResourceOwner);
    is_planned_ = true;
}

Rows KeptStatement::run_latest(std::initializer_list<Argument> arguments) {
    return run(arguments, GetLatestSnapshot(), false);
}

Rows KeptStatement::read_latest(std::initializer_list<Argument> arguments) {
    return run(arguments, IsInParallelMode() ? GetActiveSnapshot() : GetLatestSnapshot(), true);
}

Rows KeptStatement::read_active(std::initializer_list<Argument> arguments) {
    return run(arguments, GetActiveSnapshot(), true);
}

Rows KeptStatement::run(std::initializer_list<Argument> arguments, Snapshot snapshot, bool read_only) {
    const MemoryContext context = CurrentMemoryContext;
    if (needs_planning())
        prepare();
    Datum values[max_parameters];
    char nulls[max_parameters];
    int count = 0;
    for (const Argument& argument : arguments) {
        if (count == count_ || std::strcmp(argument.name, parameters_[count].name) != 0)
            elog(ERROR, "unexpected argument \"%s\" for: %s", argument.name, sql_);
        values[count] = argument.value.value_or(0);
        nulls[count++] = argument.value ? ' ' : 'n';
    }
    if (count != count_)
        elog(ERROR, "%d arguments instead of %d for: %s", count, count_, sql_);
    volatile int result;
    PG_TRY();
    { result = SPI_execute_snapshot(plan_, values, nulls, snapshot, InvalidSnapshot, read_only, true, 0); }
    PG_CATCH();
    {
        MemoryContextSwitchTo(context);
        rethrow_without_text();
    }
    PG_END_TRY();
    MemoryContextSwitchTo(context); // SPI leaves its own
    if (result < 0)
        fail(result);
    return {SPI_tuptable, SPI_processed};
}

// The line of the context that SPI adds would show the caller a statement that is none of theirs.
void KeptStatement::rethrow_without_text() const {
    ErrorData* const error = CopyErrorData();
    FlushErrorState();
    if (char* const text = error->context ? std::strstr(error->context, text_) : nullptr) {
        char* line = text;
        while (line > error->context && line[-1] != '\n')
            line--;
        const char* const rest = std::strchr(text, '\n');
        if (rest)
            std::memmove(line, rest + 1, std::strlen(rest + 1) + 1);
        else
            *(line > error->context ? line - 1 : line) = '\0';
        if (!*error->context)
            error->context = nullptr;
    }
    ReThrowError(error);
}

void KeptStatement::fail(int result) const {
    elog(ERROR, "%s: %s", SPI_result_code_string(result), sql_);
    pg_unreachable();
}

} // namespace shortener
