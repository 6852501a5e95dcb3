#pragma once
#include "messages/gate_row.hpp"
#include "storage/name_table.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier::storage {

/// What is remembered of each remote server: cursors, gate, hold, the intervals in which its gate was closed. Writes
/// happen inside the ledger's transaction.
class destination_store {
public:
  explicit destination_store(database& db)
      : db_(db) {}

  /// Makes the row if there is none, with all cursors at `before`: the server was owed nothing up to there.
  void ensure(row_id server, position before, std::int64_t now_ms);

  /// An ack: one narrow row. Cursors never move back. To-device rows that went are deleted, and so are targets and
  /// closed intervals that the cursor has passed.
  void acknowledge(row_id server, const cursors& at, const std::vector<position>& to_device, std::int64_t let_go,
                   std::int64_t last_success_ms, std::int64_t now_ms);
  /// Rows are written only if the gate differs from what is stored; an open and clean one has none.
  void save_gate(row_id server, const gate_row& gate);
  void open_interval(row_id server, position head);
  void close_interval(row_id server, position head);
  void save_hold(row_id server, const hold_row& hold, std::string_view who, std::int64_t now_ms);
  void heard_from(row_id server, std::int64_t now_ms);
  void count_let_go(row_id server, std::int64_t items);

  /// To-device messages older than `before_ms` are let go, some at a time; counted with their destination.
  std::int64_t expire_to_device(std::int64_t before_ms, std::int64_t now_ms);

  // Reading.
  std::optional<destination_row> find(std::string_view name);
  std::vector<destination_row> all(); ///< in order of name
  gate_row gate(row_id server);

private:
  void delete_to_device(position at, row_id message, std::int64_t now_ms);
  database& db_;
};

} // namespace ranvier::storage
