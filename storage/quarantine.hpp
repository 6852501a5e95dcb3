#pragma once
#include "messages/quarantine.hpp"
#include "storage/name_table.hpp"

#include <optional>
#include <vector>

namespace ranvier::storage {

/// Items that a server refuses, with its words (DESIGN section 6, "Poison"). A row has the item's own bytes: the log
/// may let the entry go. Writes happen inside the ledger's transaction.
class quarantine {
public:
  /// Of one server; beyond it the oldest are let go.
  static constexpr std::int64_t most_of_a_server = 1'000;

  explicit quarantine(database& db)
      : db_(db) {}

  /// An item that was retried and refused again keeps its row. Gives how many old ones were let go for it.
  std::int64_t take(row_id server, const set_aside_item& what, std::int64_t now_ms);
  /// These went again and were taken.
  void taken(row_id server, const std::vector<std::int64_t>& rows);
  /// The row as it was; nothing if there is none. What goes again is in the quarantine no longer, unless it is refused
  /// again.
  std::optional<quarantine_row> retry(std::int64_t row);
  std::optional<quarantine_row> drop(std::int64_t row);

  // Reading.
  std::vector<quarantine_row> list(); ///< oldest first
  /// Those of a server that are to go again, oldest first, and how many of a kind.
  std::vector<retried_item> retried(row_id server, std::size_t limit);
  std::int64_t count_retried(row_id server, item_kind kind);
  /// An item of it was set aside and no transaction passed since `last_success_ms`.
  bool nothing_passed(row_id server, std::int64_t last_success_ms);

private:
  std::optional<quarantine_row> find(std::int64_t row);
  database& db_;
};

} // namespace ranvier::storage
