#pragma once

// Codes that no new link may have: those that are reserved, and those of removed links. What asks for them
// and what writes them stands in one file, because all of it must agree.

#include <algorithm>

#include "pg/arrays.h"
#include "pg/changed_links.h"
#include "pg/link_code.h"
#include "pg/plans.h"

extern "C" {
#include "postgres.h"

#include "catalog/pg_type.h"
}

namespace shortener {

// Marks those of the codes of these numbers that are reserved or were used before, and tells whether there
// are any.
bool find_used_codes(const Workspace& workspace, const Code* codes, const int64* ids, int count, bool* used);

// Whether the code may have been that of a link that has been removed. Asked only for a code that no link
// has. A number up to the highest that has been removed may be one whose link was never made, or is not yet
// committed: so caches keep this answer no longer than that nothing is known of a code.
bool is_retired(int32 workspace_id, std::string_view code);

// The number whose scrambled code the link has, its own or, by chance, another; −1 for any other code.
int64 number_in_code(const LinkRow& row);

// Workspaces and codes of links, as parameters of a statement.
class Codes {
  public:
    void add(const LinkRow& row, int64 number = -1) {
        workspaces_[count_] = row.values[LinkRow::workspace_id];
        numbers_[count_] = Int64GetDatum(number);
        codes_[count_++] = text_datum(row.code());
    }
    bool empty() const { return count_ == 0; }
    struct Parameters {
        Argument workspaces, codes, numbers;
    };
    Parameters take() {
        const Parameters taken{{"workspaces", array_of(workspaces_, count_, INT4OID)},
                               {"codes", array_of(codes_, count_, TEXTOID)},
                               {"numbers", array_of(numbers_, count_, INT8OID)}};
        count_ = 0;
        return taken;
    }

  private:
    Datum workspaces_[batch_size];
    Datum codes_[batch_size];
    Datum numbers_[batch_size];
    int count_ = 0;
};

// A reserved or retired code is refused after the insert, by a look at what is committed now: while the
// insert waited on the unique index, a cleanup may have retired the very code, unseen by an older snapshot.
void refuse_used_codes(Codes& codes);

// The highest of the numbers whose scrambled codes are retired, for each workspace.
class RetiredNumbers {
  public:
    void add(int32 workspace, int64 number) {
        int place = 0;
        while (place < count_ && workspaces_[place] != workspace)
            place++;
        if (place == count_) {
            workspaces_[count_] = workspace;
            highest_[count_] = number;
            codes_[count_++] = 0;
        }
        highest_[place] = std::max(highest_[place], number);
        codes_[place]++;
    }
    void retire();

  private:
    int32 workspaces_[batch_size];
    int64 highest_[batch_size];
    int64 codes_[batch_size];
    int count_ = 0;
};

// The codes of removed links, which no link may have again; the only place where that is written, with the
// numbers above. Whoever may delete a link need not have a right on that table. Somebody may have retired the
// code of a link by hand. Nobody can do so twice at once, since the link is locked; ON CONFLICT would take
// twice as long.
void retire(Codes& codes);

} // namespace shortener
