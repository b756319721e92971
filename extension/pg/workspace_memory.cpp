#include "pg/workspace_memory.h"

#include <cstring>

#include "core/host.h"

#include "pg/arrays.h"
#include "pg/errors.h"
#include "pg/guard.h"
#include "pg/installation.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/session.h"
#include "pg/settings.h"
#include "pg/url.h"

extern "C" {
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
}

using namespace shortener;

namespace {

struct SlugEntry {
    char slug[64];
    Workspace workspace;
};

struct IdEntry {
    int32 id;
    Workspace workspace;
};

struct HostEntry {
    char host[host_max_length + 1];
    int32 workspace_id; // that it serves; 0: none of its own
    HostStatus status;
};

// So many entries of a kind are kept; whoever asks for more hosts begins anew.
constexpr long max_entries = 4096;

constexpr const char* tables[] = {"workspace", "workspace_key", "domain", "blocked_host"};

struct Memory {
    MemoryContext context; // of all that follows
    HTAB* by_slug;
    HTAB* by_id;
    HTAB* hosts;
    Oid tables[std::size(::tables)];
    uint64 generation; // that it was begun in
};

Memory memory;
uint64 generation = 1; // rises whenever what is known may be known no longer

void relation_changed(Datum, Oid relation) {
    for (const Oid table : memory.tables)
        if (!OidIsValid(relation) || relation == table)
            generation++;
}

void schema_changed(Datum, int, uint32) {
    generation++;
}

HTAB* make_table(const char* name, Size key_size, Size entry_size, int kind) {
    HASHCTL control{};
    control.keysize = key_size;
    control.entrysize = entry_size;
    control.hcxt = memory.context;
    return hash_create(name, 64, &control, HASH_ELEM | HASH_CONTEXT | kind);
}

void begin_anew() {
    static bool is_listening = false;
    if (!is_listening) {
        CacheRegisterRelcacheCallback(relation_changed, 0);
        CacheRegisterSyscacheCallback(NAMESPACEOID, schema_changed, 0);
        is_listening = true;
    }
    if (memory.context)
        MemoryContextDelete(memory.context);
    memory = Memory{};
    const uint64 begun = generation;
    const Oid schema = get_namespace_oid("shortener", false);
    for (std::size_t i = 0; i < std::size(tables); i++)
        memory.tables[i] = get_relname_relid(tables[i], schema);
    memory.context =
        AllocSetContextCreate(CacheMemoryContext, "shortener workspaces", ALLOCSET_DEFAULT_SIZES);
    memory.by_slug =
        make_table("shortener workspaces by slug", sizeof(SlugEntry::slug), sizeof(SlugEntry), HASH_STRINGS);
    memory.by_id = make_table("shortener workspaces by id", sizeof(int32), sizeof(IdEntry), HASH_BLOBS);
    memory.hosts = make_table("shortener hosts", sizeof(HostEntry::host), sizeof(HostEntry), HASH_STRINGS);
    memory.generation = begun;
}

// What others have committed until now is heard of first.
void refresh() {
    require_install();
    AcceptInvalidationMessages();
    if (memory.generation != generation)
        begin_anew();
}

// Whether what was read since `begun` may be kept: nothing has changed, and it was read as of now.
bool may_keep(uint64 begun) {
    return begun == generation && memory.generation == generation && !IsInParallelMode();
}

void make_room(HTAB* table) {
    if (hash_get_num_entries(table) >= max_entries)
        begin_anew();
}

// A key of a table; false if no entry can have it.
template <std::size_t size> bool set_key(char (&key)[size], std::string_view text) {
    if (text.size() >= size)
        return false;
    text.copy(key, text.size());
    key[text.size()] = '\0';
    return true;
}

template <typename Entry> Entry* find_entry(HTAB* table, const void* key) {
    return static_cast<Entry*>(hash_search(table, key, HASH_FIND, nullptr));
}

template <typename Entry> Entry* make_entry(HTAB* table, const void* key) {
    return static_cast<Entry*>(hash_search(table, key, HASH_ENTER, nullptr));
}

CodeStyle code_style(std::string_view name) {
    if (name == "scrambled")
        return CodeStyle::scrambled;
    if (name == "sequential")
        return CodeStyle::sequential;
    if (name == "snowflake")
        return CodeStyle::snowflake;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("unknown code style \"%.*s\"", static_cast<int>(name.size()), name.data())));
}

// One of the two is NULL.
std::optional<Workspace> read_workspace(std::optional<Datum> slug, std::optional<Datum> id) {
    static KeptStatement statement(
        "SELECT w.id::pg_catalog.int4, w.code_style::pg_catalog.text, w.rules::pg_catalog.text[],"
        " w.default_ttl::pg_catalog.interval, w.redirect_status::pg_catalog.int2, k.key::pg_catalog.bytea,"
        " w.deleted_at IS NOT NULL "
        "FROM shortener.workspace w JOIN shortener.workspace_key k ON k.workspace_id OPERATOR(pg_catalog.=) "
        "w.id "
        "WHERE w.slug OPERATOR(pg_catalog.=) $slug OR w.id OPERATOR(pg_catalog.=) $id",
        {{"slug", TEXTOID}, {"id", INT4OID}});
    SPI_connect();
    const auto section = OwnerSection::to_read({"workspace", "workspace_key"});
    const Rows rows = statement.read_latest({{"slug", slug}, {"id", id}});
    section.end();
    std::optional<Workspace> workspace;
    if (!rows.empty()) {
        const Row row = rows[0];
        workspace = Workspace{};
        workspace->id = row.required<int32>(1);
        workspace->code_style = code_style(row.required<std::string_view>(2));
        workspace->rules = url_rules_from_array(DatumGetArrayTypeP(row.required<Datum>(3)));
        if (const std::optional<Interval*> ttl = row.get<Interval*>(4)) {
            workspace->has_default_ttl = true;
            workspace->default_ttl = **ttl;
        }
        workspace->redirect_status = row.required<int16>(5);
        row.required<std::string_view>(6).copy(reinterpret_cast<char*>(workspace->key),
                                               sizeof workspace->key);
        workspace->is_deleted = row.required<bool>(7);
    }
    SPI_finish();
    return workspace;
}

std::optional<Workspace> look_up_workspace(std::string_view slug) {
    refresh();
    char key[sizeof(SlugEntry::slug)];
    if (!set_key(key, slug))
        return std::nullopt;
    if (const SlugEntry* const entry = find_entry<SlugEntry>(memory.by_slug, key))
        return entry->workspace;
    const uint64 begun = generation;
    const std::optional<Workspace> workspace = read_workspace(text_datum(slug), std::nullopt);
    if (workspace && may_keep(begun)) {
        make_room(memory.by_slug);
        make_entry<SlugEntry>(memory.by_slug, key)->workspace = *workspace;
    }
    return workspace;
}

// Texts for a statement, each with the place of the host that it belongs to.
class PlacedTexts {
  public:
    void add(std::string_view text, int place) {
        if (count_ == capacity_) {
            capacity_ = capacity_ ? 2 * capacity_ : 16;
            const Size size = sizeof(Datum) * capacity_;
            texts_ = static_cast<Datum*>(texts_ ? repalloc(texts_, size) : palloc(size));
            places_ = static_cast<Datum*>(places_ ? repalloc(places_, size) : palloc(size));
        }
        texts_[count_] = text_datum(text);
        places_[count_++] = Int32GetDatum(place);
    }
    int count() const { return count_; }
    Datum texts() const { return array_of(texts_, count_, TEXTOID); }
    Datum places() const { return array_of(places_, count_, INT4OID); }

  private:
    Datum* texts_ = nullptr;
    Datum* places_ = nullptr;
    int count_ = 0;
    int capacity_ = 0;
};

// Hosts that nothing is known of yet.
class UnknownHosts {
  public:
    // So that many hosts take no more memory than some.
    static constexpr int max_hosts = 1000;
    static constexpr int max_patterns = 10'000;

    void add(HostEntry& entry) {
        const std::string_view host = entry.host;
        char storage[host_max_length + 1], twin_storage[twin_max_length];
        hosts_.add(host, count_);
        each_host_pattern(host, storage, [&](std::string_view pattern) { patterns_.add(pattern, count_); });
        if (const std::string_view twin = address_twin(host, twin_storage); !twin.empty()) {
            twins_.add(twin, count_);
            patterns_.add(twin, count_);
        }
        entries_[count_++] = &entry;
    }
    bool is_empty() const { return count_ == 0; }
    bool is_full() const { return patterns_.count() >= max_patterns; }

    // Fills in the entries, and keeps them.
    void read() {
        static KeptStatement statement(
            "SELECT h.place, d.workspace_id::pg_catalog.int4 FROM ROWS FROM (pg_catalog.unnest($hosts),"
            "  pg_catalog.unnest($host_places)) h (host, place) CROSS JOIN LATERAL (SELECT k.workspace_id"
            "  FROM shortener.domain k WHERE k.host OPERATOR(pg_catalog.=) h.host OFFSET 0) d "
            "UNION ALL "
            "SELECT t.place, 0 FROM ROWS FROM (pg_catalog.unnest($twins), pg_catalog.unnest($twin_places))"
            "  t (twin, place) CROSS JOIN LATERAL (SELECT FROM shortener.domain k"
            "  WHERE k.host OPERATOR(pg_catalog.=) t.twin OFFSET 0) d "
            "UNION ALL "
            "SELECT p.place, NULL FROM ROWS FROM (pg_catalog.unnest($patterns), "
            "pg_catalog.unnest($pattern_places))"
            "  p (pattern, place) CROSS JOIN LATERAL (SELECT FROM shortener.blocked_host k"
            "  WHERE k.pattern OPERATOR(pg_catalog.=) p.pattern OFFSET 0) b",
            {{"hosts", TEXTARRAYOID},
             {"host_places", INT4ARRAYOID},
             {"twins", TEXTARRAYOID},
             {"twin_places", INT4ARRAYOID},
             {"patterns", TEXTARRAYOID},
             {"pattern_places", INT4ARRAYOID}});
        const uint64 begun = generation;
        SPI_connect();
        const auto section = OwnerSection::to_read({"domain", "blocked_host"});
        const Rows rows = statement.read_latest({{"hosts", hosts_.texts()},
                                                 {"host_places", hosts_.places()},
                                                 {"twins", twins_.texts()},
                                                 {"twin_places", twins_.places()},
                                                 {"patterns", patterns_.texts()},
                                                 {"pattern_places", patterns_.places()}});
        section.end();
        for (uint64 i = 0; i < rows.count(); i++) {
            HostEntry& entry = *entries_[rows[i].required<int32>(1)];
            if (const std::optional<int32> workspace_id = rows[i].get<int32>(2)) {
                entry.status = HostStatus::own_domain;
                if (*workspace_id != 0)
                    entry.workspace_id = *workspace_id;
            } else if (entry.status == HostStatus::free)
                entry.status = HostStatus::blocked;
        }
        SPI_finish();
        for (int i = 0; i < count_ && may_keep(begun); i++) {
            make_room(memory.hosts);
            *make_entry<HostEntry>(memory.hosts, entries_[i]->host) = *entries_[i];
        }
    }

  private:
    PlacedTexts hosts_;    // by which they may be domains of ours
    PlacedTexts twins_;    // the same, without serving anybody's codes
    PlacedTexts patterns_; // by which they may be blocked
    HostEntry* entries_[max_hosts];
    int count_ = 0;
};

// False when nothing is known of it yet; `entry` is one of a free host then, to be read.
bool find_host(std::string_view host, HostEntry& entry) {
    entry.workspace_id = 0;
    entry.status = HostStatus::free;
    if (!set_key(entry.host, host)) // no link may lead to a host so long
        return true;
    const HostEntry* const known = find_entry<HostEntry>(memory.hosts, entry.host);
    if (known)
        entry = *known;
    return known != nullptr;
}

} // namespace

namespace shortener {

TimestampTz Workspace::default_expiry() const {
    if (!has_default_ttl)
        return DT_NOEND;
    Interval ttl = default_ttl;
    return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
                                                   TimestampTzGetDatum(GetCurrentStatementStartTimestamp()),
                                                   IntervalPGetDatum(&ttl)));
}

Workspace find_workspace(std::string_view slug) {
    const std::optional<int32> working = slug.data() ? std::nullopt : working_workspace();
    if (working == 0)
        raise_no_workspace();
    if (!slug.data())
        slug = settings.default_workspace;
    const std::optional<Workspace> workspace =
        working ? find_workspace_if_any(*working) : look_up_workspace(slug);
    if (!workspace || workspace->is_deleted || !may_use_workspace(workspace->id))
        raise(LinkError::unknown_workspace, slug);
    return *workspace;
}

std::optional<Workspace> find_workspace_if_any(int32 id) {
    refresh();
    if (const IdEntry* const entry = find_entry<IdEntry>(memory.by_id, &id))
        return entry->workspace;
    const uint64 begun = generation;
    const std::optional<Workspace> workspace = read_workspace(std::nullopt, Int32GetDatum(id));
    if (workspace && may_keep(begun)) {
        make_room(memory.by_id);
        make_entry<IdEntry>(memory.by_id, &id)->workspace = *workspace;
    }
    return workspace;
}

Workspace find_workspace(int32 id) {
    const std::optional<Workspace> workspace = find_workspace_if_any(id);
    if (!workspace)
        ereport(ERROR, (errcode(ERRCODE_FOREIGN_KEY_VIOLATION), errmsg("workspace %d has no key", id)));
    return *workspace;
}

void find_host_statuses(const std::string_view* hosts, HostStatus* statuses, int count) {
    refresh();
    const MemoryContext batch =
        AllocSetContextCreate(CurrentMemoryContext, "shortener hosts", ALLOCSET_DEFAULT_SIZES);
    const MemoryContext caller = MemoryContextSwitchTo(batch);
    for (int begin = 0; begin < count;) {
        UnknownHosts unknown;
        int end = begin;
        HostEntry* entries[UnknownHosts::max_hosts];
        for (; end < count && end - begin < UnknownHosts::max_hosts && !unknown.is_full(); end++) {
            HostEntry* const entry = static_cast<HostEntry*>(palloc(sizeof(HostEntry)));
            if (!find_host(hosts[end], *entry))
                unknown.add(*entry);
            entries[end - begin] = entry;
        }
        if (!unknown.is_empty())
            unknown.read();
        for (int i = begin; i < end; i++)
            statuses[i] = entries[i - begin]->status;
        begin = end;
        MemoryContextReset(batch);
        CHECK_FOR_INTERRUPTS();
    }
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(batch);
}

std::optional<int32> serving_workspace(std::string_view header) {
    refresh();
    char storage[2 * host_max_length];
    if (!header.empty() && header.size() <= sizeof storage) {
        HostEntry entry;
        if (!find_host(host_from_header(header, storage), entry)) {
            UnknownHosts unknown;
            unknown.add(entry);
            unknown.read();
        }
        if (entry.workspace_id != 0)
            return entry.workspace_id;
    }
    const std::optional<Workspace> workspace = look_up_workspace(settings.default_workspace);
    return workspace ? std::optional<int32>(workspace->id) : std::nullopt;
}

} // namespace shortener

SHORTENER_FUNCTION(shortener_serving_workspace) {
    const std::optional<int32> id =
        serving_workspace(PG_ARGISNULL(0) ? std::string_view() : text_argument(fcinfo, 0));
    if (!id)
        PG_RETURN_NULL();
    PG_RETURN_INT32(*id);
}

// On whatever table it is, it makes others read that table's description anew and does nothing else.
SHORTENER_FUNCTION(shortener_forget_workspaces) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("function was not called by trigger manager")));
    CacheInvalidateRelcache(reinterpret_cast<TriggerData*>(fcinfo->context)->tg_relation);
    return 0;
}
