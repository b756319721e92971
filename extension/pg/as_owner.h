#pragma once

// Reading and writing as the owner of a table, as Postgres does for foreign keys: whoever may change links
// need not be able to read the secrets behind them.

extern "C" {
#include "postgres.h"

#include "miscadmin.h"
}

namespace shortener {

// From its making to end(), statements run with the rights of `owner`. A Postgres error restores the user by
// itself.
class AsOwner {
  public:
    explicit AsOwner(Oid owner) {
        GetUserIdAndSecContext(&user_, &context_);
        SetUserIdAndSecContext(owner, context_ | SECURITY_LOCAL_USERID_CHANGE | SECURITY_NOFORCE_RLS);
    }
    void end() const { SetUserIdAndSecContext(user_, context_); }

  private:
    Oid user_;
    int context_;
};

} // namespace shortener
