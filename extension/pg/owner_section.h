#pragma once

// Reading and writing with the rights of the owner of our tables, as Postgres checks foreign keys: whoever
// may change links need not be able to read the secrets behind them. The only mechanism of that kind; there
// is no SECURITY DEFINER function.
//
// The statements of a section run with rights that their caller has not, perhaps those of a superuser. So all
// that they name must be what install() made: they qualify every name and operator and call functions of
// pg_catalog alone, and the section locks each table that they name and makes sure of it. Nobody but the
// owner can add to a table what reading it would run, such as the predicate of an index; it runs as the
// owner, and what it sets, such as search_path, ends with the section. What writing runs anybody with the
// privilege TRIGGER or REFERENCES can add, and so a section that writes refuses all triggers.

#include <initializer_list>

extern "C" {
#include "postgres.h"
}

namespace shortener {

class OwnerSection {
  public:
    using Tables = std::initializer_list<const char*>; // by their names in the schema shortener

    // From here to end(), statements run with the rights of the owner. A Postgres error ends the section by
    // itself.
    static OwnerSection to_read(Tables read) { return OwnerSection(read, {}); }
    static OwnerSection to_write(Tables written, Tables read = {}) { return OwnerSection(read, written); }
    void end() const;

  private:
    OwnerSection(Tables read, Tables written);

    Oid user_;
    int context_;
    int settings_level_;
};

} // namespace shortener
