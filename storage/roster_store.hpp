#pragma once
#include "storage/destination_store.hpp"
#include "storage/event_log.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ranvier::storage {

using server_list = std::shared_ptr<const std::vector<std::string>>;

/// A user of a room and the latest change of it.
struct member_row {
  std::string membership, previous;
  position changed_at = 0;
  bool has_event_id = false; ///< the change was fed with its event's id
  bool matched = false;      ///< the event that belongs to the change was fed
};

/// Who is in which room, and from it the spans: the stretches of the log in which a server is owed a room's events
/// (DESIGN section 4). Every change that changes something takes one position. Writes happen inside the ledger's
/// transaction; after a rollback `forget`.
class roster_store {
public:
  roster_store(database& db, name_table& names, event_log& log, destination_store& destinations)
      : db_(db)
      , names_(names)
      , log_(log)
      , destinations_(destinations) {}

  /// Number of a room that has a roster; nothing for one that has none.
  std::optional<row_id> known(std::string_view room_id);
  void set_version(row_id room, std::string_view version);

  /// One user's change. Does nothing if the membership is what it was, or if the event's id was taken before.
  void change(std::string_view room_id, std::string_view user, std::string_view membership, std::string_view event_id,
              std::int64_t now_ms);
  /// The whole roster: who is missing has left. All differences take effect at one position.
  void replace(std::string_view room_id, const std::map<std::string, std::string>& members, std::int64_t now_ms);

  std::optional<member_row> find_member(row_id room, std::string_view user);
  void mark_matched(row_id room, std::string_view user);

  /// Servers with an open span: those that the room's events go to. Shared and kept until the room's roster changes.
  server_list servers_of(row_id room);
  /// Servers that share a room with a user of ours.
  server_list servers_of_user(std::string_view user);
  bool has_open_span(row_id room, row_id server);
  /// Remote servers with a joined member, whether or not we are in the room.
  std::vector<row_id> joined_servers(row_id room);
  /// Servers that had a span just before `pos` (with `opened_there`: or since `pos`) which has ended since.
  std::vector<row_id> ended_since(row_id room, position pos, bool opened_there);

  /// Closed spans that end at or before `horizon` and that all cursors of their server have passed, some at a time.
  std::int64_t drop_passed_spans(position horizon);
  void forget();

private:
  row_id row_of_server(std::string_view user);
  void write_member(row_id room, row_id server, std::string_view user, std::string_view membership, position at,
                    const std::optional<member_row>& was, bool has_event_id);
  bool has_joined(row_id room, row_id server);
  void open_span(row_id room, row_id server, position at, std::int64_t now_ms);
  void close_span(row_id room, row_id server, position at);
  void close_all(row_id room, position at);
  void settle(row_id room, position at, std::int64_t now_ms);

  database& db_;
  name_table& names_;
  event_log& log_;
  destination_store& destinations_;
  std::unordered_map<row_id, server_list> servers_;
};

} // namespace ranvier::storage
