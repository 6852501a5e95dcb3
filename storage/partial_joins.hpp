#pragma once
#include "messages/joins.hpp"
#include "storage/device_store.hpp"
#include "storage/event_log.hpp"
#include "storage/list_announcements.hpp"
#include "storage/roster_store.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier::storage {

/// Joins of ours: intents that may have happened elsewhere, rooms that are partially joined, and the state at a join
/// that the host may still ask for (DESIGN section 8). Writes happen inside the ledger's transaction; nothing is kept
/// in memory.
class partial_join_store {
public:
  partial_join_store(database& db, name_table& names, event_log& log, roster_store& roster, device_store& devices,
                     list_announcements& announcements)
      : db_(db)
      , names_(names)
      , log_(log)
      , roster_(roster)
      , devices_(devices)
      , announcements_(announcements) {}

  void begin(const begin_join& what);
  void drop(std::string_view room_id, std::string_view user);
  /// Intents that a crash left behind: each is told on the stream as `settled`, with what is known, and goes. How many.
  std::size_t settle_intents(inbox_store& inbox, std::int64_t now_ms);

  /// Our user is in the room. What others must hear of is added to `entries`: the user's devices (share), and that a
  /// partial join began. A host's record that was taken before changes nothing.
  join_recorded record(const record_join& what, std::int64_t now_ms, std::vector<log_entry>& entries);
  /// Nothing happens if that generation has ended.
  void save_progress(const save_join_progress& what);
  /// The room is forgotten: nothing of its joins stays. Adds an entry if a partial join ended; unless `now`, those who
  /// may be in the room are owed what our users changed meanwhile, as at every end (P13).
  void forget(std::string_view room_id, bool now, std::int64_t now_ms, std::vector<log_entry>& entries);

  /// `doubt` hears of remote users whose membership was believed wrongly: their lists aren't to be trusted.
  void watch(std::function<void(const std::vector<std::string>&, std::int64_t)> doubt) { doubt_ = std::move(doubt); }

  /// After a membership line: without one of ours in the room its partial join is over.
  void ours_changed(std::string_view room_id, std::int64_t now_ms, std::vector<log_entry>& entries);

  /// Everything that was owed to servers that weren't known is written down as extras, at most one row each.
  partial_join_ended complete(const complete_join& what, inbox_store& inbox, std::int64_t now_ms,
                              std::vector<log_entry>& entries);
  partial_join_ended end(const end_partial_join& what, inbox_store& inbox, std::int64_t now_ms,
                         std::vector<log_entry>& entries);

private:
  void insert(row_id room, const record_join& what, position at, std::int64_t generation, std::int64_t now_ms);
  bool add_servers(row_id room, const record_join& what);
  void share(row_id room, const record_join& what, std::int64_t now_ms, std::vector<log_entry>& entries);
  std::vector<std::string> hand_over_lists(row_id room, const partial_join_row& row);
  void drop_rows(row_id room);
  std::vector<std::string> lacking(row_id room, const std::vector<roster_store::completed::lack>& lacks);
  void keep_state(row_id room, const complete_join& what, std::int64_t now_ms);
  void settle_kept(std::int64_t now_ms);
  /// What the host hears of an end, and who is owed something because of it.
  struct end_said {
    std::string_view state;
    const std::string& reason;
    const std::map<std::string, server_verdict>& servers;
    std::vector<std::string> affected;
  };
  std::optional<partial_join_row> row_of(std::string_view room_id, std::int64_t generation);
  partial_join_ended ended(const partial_join_row& row, end_said said, inbox_store& inbox, std::int64_t now_ms,
                           std::vector<log_entry>& entries);
  void tell_end(inbox_store& inbox, const partial_join_row& row, const end_said& said, std::int64_t now_ms);
  std::int64_t next_generation();
  std::optional<std::int64_t> generation_of(row_id room);

  database& db_;
  name_table& names_;
  event_log& log_;
  roster_store& roster_;
  device_store& devices_;
  list_announcements& announcements_;
  std::function<void(const std::vector<std::string>&, std::int64_t)> doubt_;
};

// Reading.

/// In order of room id; of one room if it is named.
std::vector<partial_join_row> list_partial_joins(database& db, std::string_view room_id);
std::vector<join_event> read_join_events(database& db, std::string_view room_id, bool bodies);
room_state read_room_state(database& db, std::string_view room_id);

} // namespace ranvier::storage
