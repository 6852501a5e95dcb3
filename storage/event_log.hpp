#pragma once
#include "messages/log_entry.hpp"
#include "storage/name_table.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier::storage {

/// Where a membership line that was taken stands; negative: it changed nothing, and came when the head was one less.
struct seen_row {
  position pos = 0;
  std::string previous;
};

/// The log: one sequence of positions over everything that happens. The head is written with every commit and no
/// position is ever used twice. All writes happen inside the ledger's transaction; after a rollback `reload`.
class event_log {
public:
  explicit event_log(database& db)
      : db_(db) {
    reload();
  }

  position head() const { return head_; }
  position next() { return ++head_; }
  void rewind(position head) { head_ = head; } ///< one asker's savepoint was undone: its positions were seen by nobody
  void save_head();                            ///< before each commit
  void reload();

  /// Whether the event was taken, be it that its row has gone since.
  bool has_event(std::string_view event_id);
  struct event {
    row_id room = 0;
    std::string_view event_id, body;
    bool has_destinations = false;
    std::vector<std::string> exclude;
    std::int64_t at_ms = 0;
  };
  /// One row, whatever the number of servers.
  position append(const event& what);
  /// The event's row goes, its id stays remembered from now on.
  void drop_event(position pos, std::int64_t now_ms);
  /// `server` is owed the event at `pos` although no span of it covers that.
  void add_target(row_id server, position pos, row_id room);
  /// `message` is the seen row of the message that the part belongs to.
  position append_to_device(row_id server, row_id message, std::string_view message_id, std::string_view body,
                            std::int64_t at_ms);
  position append_device_entry(entry_kind kind, std::string_view user, std::string_view device, row_id room,
                               std::int64_t at_ms);

  /// Ids that were taken (keys are prefixed by what they are ids of). Gives the row's number if it is new, nothing if
  /// it was there.
  std::optional<row_id> see(std::string_view key, std::int64_t at_ms, position pos = 0, std::string_view previous = {});
  std::optional<seen_row> seen(std::string_view key);
  /// Forgets some ids that went before `before_ms`, of messages only when no part of them waits any more; how many.
  std::int64_t forget_seen(std::int64_t before_ms, std::int64_t at_most);

private:
  database& db_;
  position head_ = 0, saved_ = 0;
};

} // namespace ranvier::storage
