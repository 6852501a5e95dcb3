#pragma once
#include "storage/inbox_store.hpp"
#include "storage/name_table.hpp"

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier::storage {

/// What one record changed of a room's joined members. Told once the roster's rows are written.
struct roster_change {
  row_id room = 0;
  std::vector<std::string> joined, parted;
  std::int64_t at_ms = 0;
  /// Seen joining a partially joined room again: perhaps they were out of it meanwhile, unseen.
  std::vector<std::string> rejoined = {};
};

/// The `device_lists` items of the stream (API section 3.2): whose list changed, and who shares a room no more. Each is
/// kept in a table of its own for GET /device_lists/changes too, until it is older than the horizon. Writes happen
/// inside the ledger's transaction.
class list_announcements {
public:
  list_announcements(database& db, inbox_store& inbox)
      : db_(db)
      , inbox_(inbox) {}

  /// Their lists or keys are new. `concerned`: the local users to whom it matters; empty: all who share a room.
  void changed(const std::vector<std::string>& users, std::int64_t now_ms,
               const std::vector<std::string>& concerned = {});
  /// They share no room with `concerned` any more (F7).
  void left(const std::vector<std::string>& users, const std::vector<std::string>& concerned, std::int64_t now_ms);

  /// Who newly shares a room is changed, whose last shared room ended has left (F6, F7): some items a record, not one a
  /// user.
  void roster_changed(const roster_change& what);

  /// Drops some of the kept items that are older.
  void forget(std::int64_t before_ms);

private:
  using names = std::set<std::string>;
  void append(const std::string& changed, const std::string& left, const std::string& concerned, std::int64_t now_ms);
  names joined_in(row_id room);
  names ours_in(row_id room);
  names sharing_elsewhere(const std::string& ours, row_id room, std::size_t candidates);
  std::int64_t cost_of_strangers(const std::string& user, row_id room);
  names strangers_to(const std::string& user, row_id room);
  void tell_movers(const roster_change& what, const names& movers, const names& others, bool came);
  void tell_stayers(const roster_change& what, const std::vector<std::string>& movers, const names& stayed, bool came);

  database& db_;
  inbox_store& inbox_;
};

/// True if a remote user and one of ours are joined in some room. In a room that is joined partially only who was seen
/// joining after us counts: of the others nobody knows whether they are still there (P12).
bool shares_a_room(database& db, std::string_view user);

} // namespace ranvier::storage
