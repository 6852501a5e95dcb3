#pragma once
#include "messages/log_entry.hpp"
#include "storage/name_table.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ranvier::storage {

/// Extras: what a server is owed of a room below its cursor, as intervals of positions (DESIGN section 4). Written when
/// a partial join ends, for servers that turn out to have been in the room all the time. Rule K doesn't touch them.
/// Writes happen inside the ledger's transaction.
class extra_store {
public:
  explicit extra_store(database& db)
      : db_(db) {}

  /// The server is owed the room's events in (from, to] too, as far as its cursor has passed them: what lies above the
  /// cursor is owed by its spans. Extras that touch each other become one. Nothing is written if no event lies in it.
  void add(row_id server, row_id room, position from, position to);
  /// Extra events of these positions are at the server: the starts of their rooms' extras move there, and an extra
  /// without further events goes.
  void acknowledge(row_id server, const std::vector<position>& went);
  void drop_room(row_id room);

  // Reading.
  struct event {
    position pos = 0;
    row_id room = 0;
  };
  /// The server's next extra events above `after`, in log order over all rooms.
  std::vector<event> next(row_id server, position after, std::size_t limit);
  std::int64_t count(row_id server);
  std::int64_t count(row_id server, row_id room);
  /// Rooms in which extra events stand above `after`.
  std::vector<row_id> rooms(row_id server, position after);

private:
  bool any(row_id server, row_id room, position from, position to);
  database& db_;
};

/// Changes of our users' lists that extras owed are at the server: room row -> told up to there.
void acknowledge_list_extras(database& db, row_id server, const std::vector<std::pair<row_id, position>>& went);

} // namespace ranvier::storage
