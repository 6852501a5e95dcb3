#pragma once
#include "actors/list_courier.hpp"
#include "messages/gate_row.hpp"
#include "messages/protocol/storage.hpp"
#include "messages/quarantine.hpp"
#include "messages/shared_text.hpp"

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ranvier {

/// The named limits of what one destination holds in memory; beyond them the window is dropped and read again.
struct outbox_limits {
  std::size_t transaction_pdus = 50, transaction_edus = 100, transaction_bytes = 1 << 20;
  std::size_t window_items = 400; ///< PDUs and to-device parts together
  std::size_t window_bytes = 8u << 20;
  std::size_t ephemeral_items = 500;    ///< newest per key; the oldest go first
  std::size_t ahead_positions = 10'000; ///< sent ahead of the cursor and remembered; beyond it live rooms wait too
};

/// What one transaction carries, and where the cursors stand when it is at the peer. The bytes never change.
struct built_transaction {
  std::string id;                  ///< transaction id (T4)
  shared_text body;                ///< canonical JSON of the whole body
  cursors after;                   ///< the cursors once this was answered 200
  std::vector<position> to_device; ///< positions of its to-device parts
  std::int64_t let_go = 0;         ///< items that catch-up let go in the stretch that it covers
  std::size_t pdus = 0, edus = 0;
  std::vector<position> ahead;      ///< events beyond the cursor: of rooms that have no backlog, sent while others have
  std::vector<position> events;     ///< the other events, up to the cursor
  std::vector<position> let_go_at;  ///< what catch-up let go of in the stretch that it covers
  std::vector<position> extras;     ///< events below the cursor
  std::vector<device_update> lists; ///< device-list updates in it
  std::vector<std::pair<std::int64_t, position>> list_extras;   ///< extras that these end
  std::vector<std::pair<std::string, std::uint64_t>> ephemeral; ///< keys of the ephemeral EDUs in it, and which version
  std::vector<std::int64_t> retried;                            ///< rows of the quarantine that go again with it
  refused_item sole;                                            ///< the one item, if it carries just one
  bool empty() const { return id.empty(); }
};

/// How much of what waits a transaction may carry, beside its limits: less while a refused item is looked for.
struct transaction_bounds {
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  std::size_t items = none, bytes = none;
};

/// What waits for one destination, as far as it is in memory. The log is the truth, this is a view of it: a window of
/// the durable items in order, and the ephemeral EDUs, which exist nowhere else. Pure; the destination actor owns it.
///
/// Life of the window: `closed` (nothing held) -> begin_reading(S): live entries above S are kept aside while the
/// stretch (cursor, S] is read in batches -> `live` once all of it was read. drop() closes it again. While a backlog is
/// read, rooms that have none stay live: their new events take up to half of each transaction and are remembered as
/// sent ahead.
class outbox {
public:
  explicit outbox(outbox_limits limits)
      : limits_(limits) {}

  void start_at(const cursors& at) { at_ = at; }
  const cursors& at() const { return at_; }

  enum class phase { closed, reading, live };
  phase state() const { return phase_; }

  /// Entries above `subscribed_from` will come as messages; what lies before is to be read.
  /// `extras`: something may be owed below the cursor (the end of a partial join).
  void begin_reading(position subscribed_from, bool extras = false);
  /// What to read next; only while reading and the window has room.
  bool wants_read() const;
  read_owed next_read(const std::string& destination) const;
  void take_read(const owed_items& items);
  /// A live entry. False if it didn't fit: the window is to be dropped (the log has it).
  bool add_live(const log_entry& entry);
  /// Forgets the window; ephemeral EDUs stay.
  void drop();

  /// An ephemeral EDU: the newest with the same key wins.
  void add_ephemeral(const log_entry& entry);
  /// Those that a failing server shouldn't get any more: all but receipts (DESIGN section 4).
  void forget_short_lived();
  void expire_ephemeral(std::int64_t wall_ms);

  /// True if a transaction would carry something now.
  bool has_items(bool with_ephemeral) const;
  bool has_durable() const { return !pdus_.empty() || !to_device_.empty() || !extras_.empty() || !retried_.empty(); }
  /// Something that stands below the cursors, so that it is only read if it is asked for.
  bool has_extras() const { return !extras_.empty() || !retried_.empty(); }
  std::size_t ephemeral() const { return ephemeral_.size(); }
  std::size_t window_items() const {
    return pdus_.size() + to_device_.size() + live_.size() + extras_.size() + retried_.size();
  }

  /// The next transaction; items stay in the window until delivered(). `with_ephemeral` false for a failing server.
  /// An empty transaction (a probe by hand) if nothing waits. Updates of those who sent the to-device messages in it go
  /// before these, the others after them, then signing keys, then ephemeral EDUs (DESIGN section 4). Within narrower
  /// bounds it takes the oldest of what it would take without them, EDUs before events; `lists` must be within them.
  built_transaction build(const std::string& origin, const std::string& destination, std::int64_t wall_ms,
                          bool with_ephemeral, list_courier::load lists = {}, transaction_bounds bounds = {});
  /// Senders of the to-device messages that the next transaction takes.
  std::vector<std::string> senders() const;
  std::size_t to_device_waiting() const { return to_device_.size(); }
  /// Answered 200: what it carried leaves the window, the cursors step on.
  void delivered(const built_transaction& sent);

private:
  struct item {
    position pos;
    shared_text body;
    std::string room_id; ///< of a PDU
    std::string name;    ///< event id, or message id
  };
  struct ephemeral_edu {
    std::string edu_type;
    shared_text body;
    std::int64_t at_ms;
    std::uint64_t version; ///< grows with every EDU; the transaction takes the oldest first
  };
  void keep(const log_entry& entry);
  bool room_is_behind(const std::string& room_id) const;
  // outbox_build.cpp
  struct draft;
  void take_retried(draft& next) const;
  void take_edus(draft& next, list_courier::load lists) const;
  void take_ahead(draft& next) const;
  void take_events(draft& next) const;
  void take_ephemeral(draft& next, std::int64_t wall_ms);
  void become_live();
  void forget_delivered();
  void forget_extras(const std::vector<position>& went);

  outbox_limits limits_;
  phase phase_ = phase::closed;
  cursors at_;
  position subscribed_from_ = 0;
  position pdus_read_ = 0, to_device_read_ = 0; ///< everything owed up to here is in the window, delivered or let go
  bool more_pdus_ = false, more_to_device_ = false, more_extras_ = false;
  position extras_read_ = 0;         ///< extras up to here are in the window or delivered
  std::deque<item> extras_;          ///< events below the cursor; they go first
  std::deque<retried_item> retried_; ///< of the quarantine, wanted again; they go before everything
  std::deque<position> let_go_at_;   ///< let go between the cursor and pdus_read_, in order
  std::deque<item> pdus_, to_device_;
  std::deque<log_entry> live_;         ///< came while reading
  position live_through_ = 0;          ///< the last of them that came, gone ahead or not
  bool rooms_known_ = false;           ///< a page was read, so rooms_behind_ says the truth
  std::set<std::string> rooms_behind_; ///< with events that are owed and not yet read
  std::set<position> ahead_;           ///< delivered beyond the cursor
  std::size_t bytes_ = 0;
  std::map<std::string, ephemeral_edu> ephemeral_;
  std::uint64_t ephemeral_version_ = 0;
};

} // namespace ranvier
