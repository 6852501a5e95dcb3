#pragma once
#include "messages/log_entry.hpp"

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ranvier::storage {

/// One item for the host, as the stream gives it.
struct inbox_item {
  position pos = 0;
  std::string kind, json;
};

/// Ephemeral EDUs for the host: they live in memory only, newest last, with an age and a bound (DESIGN section 4).
/// Also tells the readers how far the stream is published, so that nobody reads past a commit that isn't visible yet.
/// Shared by the ledger, which writes, and the readers; made by whoever spawns both; locks itself.
class ephemeral_inbox {
public:
  static constexpr std::size_t max_items = 10'000;

  struct bounds {
    position head = 0, reserved = 0, floor = 0; ///< newest used, highest reserved, all consumers have this and before
    bool known = false;                         ///< false: the ledger hasn't spoken yet
  };
  struct item {
    inbox_item what;
    std::int64_t expires_ms = 0;
  };

  /// After a commit: its ephemeral items, and how far the stream has come.
  void publish(std::vector<item> items, bounds now, std::int64_t now_ms);
  bounds limits() const;
  /// Those in (after, upto] that aren't too old, at most `limit`, in order.
  std::vector<inbox_item> read(position after, position upto, std::size_t limit, std::int64_t now_ms) const;
  std::size_t size() const;

private:
  mutable std::mutex mutex_;
  std::deque<item> items_;
  bounds bounds_;
};

/// How long an inbound EDU of this type may wait for the host, in ms.
std::int64_t ephemeral_age_ms(std::string_view edu_type);

} // namespace ranvier::storage
