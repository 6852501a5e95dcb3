#pragma once
#include "messages/allowed_servers.hpp"
#include "messages/gate_row.hpp"
#include "storage/name_table.hpp"

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ranvier::storage {

/// What is remembered of each remote server: cursors, gate, hold, the intervals in which its gate was closed. Writes
/// happen inside the ledger's transaction.
class destination_store {
public:
  explicit destination_store(database& db)
      : db_(db) {}

  /// Makes the row if there is none, with all cursors at `before`: the server was owed nothing up to there. One that is
  /// denied is shut out from there on.
  void ensure(row_id server, position before, std::int64_t now_ms);

  /// An ack: one narrow row. Cursors never move back. To-device rows that went are deleted, and so are targets and
  /// closed intervals that the cursor has passed.
  void acknowledge(row_id server, const cursors& at, const std::vector<position>& to_device, std::int64_t let_go,
                   std::int64_t last_success_ms, std::int64_t now_ms);
  /// Of the events that such an ack was about: how many of those in `let_go_at` are to be counted as let go. Compaction
  /// counted those whose rows it deleted; what it deleted on behalf of this server while it was on its way (`pdus`)
  /// counts the other way. Asked before the ack.
  std::int64_t let_go_by(row_id server, const std::vector<position>& let_go_at, const std::vector<position>& pdus);
  /// True once after a cursor moved.
  bool take_moved() { return std::exchange(moved_, false); }
  /// Rows are written only if the gate differs from what is stored; an open and clean one has none.
  void save_gate(row_id server, const gate_row& gate);
  bool is_closed(row_id server); ///< an interval is open
  /// Whom the configuration allows. Says whether another word held at the last start: then those who became denied are
  /// shut out (what they are owed is let go but for rule K's newest, and nothing of it keeps rows any longer), and
  /// those who are allowed again go on at `head`. Only then all destinations are looked at.
  bool set_allowed(allowed_servers lists, position head);
  bool is_denied(row_id server);
  void let_go_extras(row_id server); ///< counted
  void open_interval(row_id server, position head);
  void close_interval(row_id server, position head);
  void save_hold(row_id server, const hold_row& hold, std::string_view who, std::int64_t now_ms);
  void heard_from(row_id server, std::int64_t now_ms);
  void count_let_go(row_id server, std::int64_t items);

  /// To-device messages older than `before_ms` are let go, some at a time; counted with their destination.
  std::int64_t expire_to_device(std::int64_t before_ms, std::int64_t now_ms, std::int64_t at_most);
  /// What may wait of to-device messages for each server.
  void set_to_device_bound(std::int64_t max_bytes) { max_to_device_bytes_ = max_bytes; }
  /// `added` bytes came: the oldest messages are let go, counted, until the rest is within the bound. Gives how many.
  std::int64_t bound_to_device(row_id server, std::int64_t added, std::int64_t now_ms);
  void forget() { waiting_bytes_.clear(); } ///< after a rollback

  // Reading.
  std::optional<destination_row> find(std::string_view name);
  std::vector<destination_row> all(); ///< in order of name
  gate_row gate(row_id server);

private:
  void shut_out(row_id server);
  void let_in(row_id server, position head);
  void delete_to_device(position at, row_id server, row_id message, std::int64_t now_ms);

  database& db_;
  allowed_servers allowed_;
  bool moved_ = false;
  std::int64_t max_to_device_bytes_ = std::numeric_limits<std::int64_t>::max();
  std::unordered_map<row_id, std::int64_t> waiting_bytes_; ///< of to-device messages, as far as known
};

} // namespace ranvier::storage
