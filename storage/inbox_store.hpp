#pragma once
#include "storage/ephemeral_inbox.hpp"
#include "storage/event_log.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ranvier::storage {

/// What other servers sent and the host has yet to take: the stream, its consumers, and the transactions that were
/// answered. Stream positions are given out from blocks that were reserved durably before, so none is used twice, not
/// even by an item that lived in memory only. Writes happen inside the ledger's transaction; after a rollback `rewind`.
class inbox_store {
public:
  /// Positions reserved at a time.
  static constexpr position block = 1'000;

  inbox_store(database& db, event_log& log, std::int64_t max_bytes)
      : db_(db)
      , log_(log)
      , max_bytes_(max_bytes) {
    reload();
  }
  /// Consumers that are configured; others are forgotten, so that they hold nothing back. A new one begins where the
  /// slowest stands.
  void set_consumers(const std::vector<std::string>& names);

  std::optional<std::string> find_answer(std::string_view origin, std::string_view txn_id);
  void remember_answer(std::string_view origin, std::string_view txn_id, std::string_view answer, std::int64_t at_ms);
  void forget_answers(std::int64_t before_ms);

  /// False if the host was given this to-device message before (U9). `key` names sender and message id.
  bool take_message(std::string_view key, std::int64_t now_ms) {
    return log_.see("i|" + std::string(key), now_ms).has_value();
  }

  bool has_room_for(std::size_t bytes) const { return bytes_ + static_cast<std::int64_t>(bytes) <= max_bytes_; }
  /// Gives its position; edus go to memory, everything else into the database.
  position append(std::string_view kind, std::string json, std::int64_t now_ms);
  /// False if no such consumer is configured.
  bool acknowledge(std::string_view consumer, position upto);

  /// Ephemeral items that were appended since the last call; to be published after the commit.
  std::vector<ephemeral_inbox::item> take_ephemeral() { return std::exchange(ephemeral_, {}); }
  ephemeral_inbox::bounds bounds() const { return {head_, reserved_, floor_, true}; }
  std::int64_t bytes() const { return bytes_; }

  /// State before an asker's writes, to go back to if its savepoint is undone.
  struct mark {
    position head = 0, reserved = 0, floor = 0;
    std::int64_t bytes = 0;
    std::size_t ephemeral = 0;
  };
  mark now() const { return {head_, reserved_, floor_, bytes_, ephemeral_.size()}; }
  void rewind(const mark& to);
  void reload();

private:
  position next();
  database& db_;
  event_log& log_;
  std::int64_t max_bytes_, bytes_ = 0;
  position head_ = 0, reserved_ = 0, floor_ = 0;
  std::vector<ephemeral_inbox::item> ephemeral_;
};

/// Bounds as they are stored: what holds before the ledger has published any.
ephemeral_inbox::bounds stored_bounds(database& db);
/// Durable items of the stream in (after, upto], at most `limit`, in order.
std::vector<inbox_item> read_stream(database& db, position after, position upto, std::size_t limit);

} // namespace ranvier::storage
