#pragma once
#include "messages/log_entry.hpp"
#include "storage/name_table.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier::storage {

/// Keeps what is remembered of our users' list changes small (DESIGN section 4): superseded entries whose version no
/// server stands at, deletions that everybody was told or that waited too long, shares that nobody is owed.
///
/// A server that wasn't told of a deletion that is let go gets a prev_id that it can't know, so it fetches (L6); the
/// newest device entry of a user is therefore never let go, since something must carry that prev_id.
///
/// Life: one, a part of the device store. It holds in memory only where its walk over all users stands: if a step is
/// rolled back, the next walk does what this one missed.
class device_pruning {
public:
  explicit device_pruning(database& db)
      : db_(db) {}

  /// One step of the walk, bounded in work; a step always gets further. For the heartbeat.
  void step(std::int64_t now_ms);
  /// Right after a change: many superseded entries of one user don't wait for the walk.
  void after_change(std::string_view user, std::int64_t now_ms);

private:
  struct tombstone {
    std::string device;
    std::int64_t deleted_ms = 0;
    position entry = 0; ///< 0: nobody waits for it
    std::int64_t version = 0;
  };
  struct superseded {
    position pos = 0, next = 0;
    std::int64_t next_at_ms = 0;
  };

  std::vector<std::string> next_users(std::size_t limit);
  void prune(const std::string& user, std::int64_t now_ms);
  std::vector<tombstone> tombstones(std::string_view user);
  std::vector<superseded> superseded_of(std::string_view user);
  const std::vector<position>& bases_of(std::string_view user);
  void drop_tombstones(const std::string& user, const std::vector<tombstone>& all, std::int64_t now_ms);
  void let_go(const std::string& user, const tombstone& one);
  void drop_superseded(std::string_view user, std::int64_t now_ms, std::size_t kept_if_young);
  void drop_shares();

  database& db_;
  std::string last_user_;
  row_id last_room_ = 0;
  std::string based_;           ///< the user of bases_
  std::vector<position> bases_; ///< where the servers that share a room with the user stand, in order
  std::size_t work_ = 0;        ///< rows looked at in this step
};

} // namespace ranvier::storage
