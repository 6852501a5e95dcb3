#pragma once
#include "messages/records.hpp"
#include "storage/name_table.hpp"

#include <string>
#include <utility>
#include <vector>

namespace ranvier::storage {

struct room_view {
  bool known = false;                                       ///< it has a roster
  std::string version, acl;                                 ///< empty if not known
  std::vector<std::pair<std::string, std::string>> members; ///< user, membership; those who left aren't told
  std::vector<std::string> servers; ///< remote servers with a joined member; while partial all that events go to
  bool partial = false, ours_joined = false;
};
/// `with_members`: and servers; without, none are read.
room_view find_room(database& db, std::string_view room_id, bool with_members = true);
/// Rooms that a server shares with us now, in order of name.
std::vector<std::string> rooms_of(database& db, std::string_view server);
/// The last seq of a source of the feed; nothing if it was never seen.
std::optional<std::int64_t> last_seq(database& db, std::string_view source);

/// What is remembered of a room beside its roster and its events.
class room_store {
public:
  room_store(database& db, name_table& names)
      : db_(db)
      , names_(names) {}

  void apply(const server_acl_record& what);

private:
  database& db_;
  name_table& names_;
};

} // namespace ranvier::storage
