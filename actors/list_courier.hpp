#pragma once
#include "actors/gate.hpp"
#include "messages/device_lists.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ranvier {

/// The named limits of device-list updates to one destination ([delivery], [limits]).
struct courier_limits {
  std::size_t transaction_edus = 100, transaction_bytes = 1 << 20;
  double burst = 20;                 ///< transactions that one user's updates may cause at once
  std::int64_t interval_ms = 30'000; ///< then one in this time
  std::int64_t share_delay_ms = 2'000;
  std::size_t users_remembered = 10'000; ///< sent ahead of the cursor, and buckets that aren't full
};

/// Which device-list updates of ours wait for one destination (DESIGN section 7). Nothing is kept but that there is
/// something above the cursor: what it is now is read right before a transaction is made of it, so fifty changes of a
/// device are one EDU. Pure; the destination actor owns one, beside its outbox.
///
/// Life, with the outbox's window: begin() when it opens -> wants_page() -> question() to a reader -> take() the page
/// -> take_page() into the transaction -> delivered(). forget() when the window closes.
class list_courier {
public:
  explicit list_courier(courier_limits limits)
      : limits_(limits) {}

  /// The window opens: everything up to `head` is in the log, everything later comes as a note.
  void begin(position cursor, position head);
  void forget();
  /// Any entry of the log that came as a message, in order.
  void note(const log_entry& entry);

  /// A page is to be read before the next transaction is made. The keys of those who sent the to-device messages that
  /// wait (`senders`) wait for no delay and no bucket (B82).
  bool wants_page(moment at, const std::vector<std::string>& senders = {}) const;
  /// What to ask, with the senders of the to-device messages that wait: their keys go first.
  read_device_updates question(const std::string& destination, position cursor, const std::vector<std::string>& senders,
                               std::size_t to_device, moment at);
  void take(const device_updates& page, moment at);
  bool has_page() const { return !page_.empty(); }
  /// Something may wait, now or later.
  bool waits() const { return work_; }

  /// The page for the transaction that is being made, and the cursor once that is at the peer.
  struct load {
    std::vector<device_update> updates;
    position after = 0;
    std::vector<std::pair<std::int64_t, position>> extras; ///< owed below the cursor, told with these
  };
  /// Each user's updates in it count as one transaction that they caused.
  load take_page(position cursor, moment at);
  /// What a transaction carried is at the peer; the cursor stands at `cursor` now.
  void delivered(const std::vector<device_update>& updates, position cursor);

  /// When everybody may send as much as at first again, monotonic ms: until then it matters what is remembered here.
  std::int64_t forgettable_at_ms(moment at) const;

  /// When something that waits may go, monotonic ms; nothing if it may at once or if nothing waits.
  std::optional<std::int64_t> next_due(moment at) const;

private:
  struct bucket {
    double tokens = 0;
    std::int64_t at_ms = 0; ///< monotonic, when `tokens` was true
  };
  double tokens(const bucket& one, std::int64_t now_ms) const;

  courier_limits limits_;
  position known_ = 0;                        ///< every entry up to here is known to exist or not to
  position asked_ = 0;                        ///< bound of the last question
  position through_ = 0;                      ///< everything owed up to here is delivered, in the page, or in `sent_`
  bool work_ = false;                         ///< something above the cursor may be owed
  bool noted_ = false;                        ///< something came after the last question
  std::optional<std::int64_t> wait_until_ms_; ///< monotonic: what is left may not go before
  std::vector<device_update> page_;
  std::vector<std::pair<std::int64_t, position>> extras_; ///< of the page
  bool more_ = false;
  bool clock_went_back_ = false;         ///< the next question waits for no share's delay
  std::map<std::string, position> sent_; ///< user -> through where it went ahead of the cursor
  std::map<std::string, bucket> buckets_;
  std::set<std::string> throttled_, first_; ///< of the last question: who had to wait, and who hadn't
};

} // namespace ranvier
