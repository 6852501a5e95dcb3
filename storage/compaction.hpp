#pragma once
#include "storage/destination_store.hpp"
#include "storage/event_log.hpp"
#include "storage/room_needs.hpp"
#include "storage/roster_store.hpp"

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ranvier::storage {

/// Makes the log small in the background (DESIGN section 4): events that everybody has who is owed them, events that
/// rule K lets go of early for servers whose gate was closed (counted with the server), closed spans, forgotten rooms,
/// and what is too old. Works in passes over all rooms that have events; a pass is many small steps.
///
/// Life: one, a part of the writer. A step is a job of a commit of its own. What it holds in memory is only the place
/// where the pass stands: if a step is rolled back, the next pass does what this one missed.
class compaction {
public:
  struct settings {
    std::int64_t newest_kept = 50;
    std::size_t rows = 250;      ///< of the log looked at or deleted in one step
    std::size_t rooms = 50;      ///< looked at in one step
    std::size_t wide_room = 500; ///< rows that it takes to judge a room; above it a fruitless look isn't repeated soon
    std::uint64_t longest_wait = 16; ///< passes that such a room waits at most
  };
  compaction(database& db, destination_store& destinations, roster_store& roster, event_log& log, settings how)
      : db_(db)
      , destinations_(destinations)
      , roster_(roster)
      , log_(log)
      , how_(how) {}

  struct ages {
    std::int64_t now_ms = 0;
    std::int64_t to_device_before_ms = 0, ids_before_ms = 0;
    position spans_before = 0; ///< closed spans that end later stay
  };
  /// Something happened that may let something go: a pass has a reason.
  void wake() { due_ = true; }
  /// A pass is under way or has a reason.
  bool due() const { return due_ || phase_ != phase::idle; }
  bool under_way() const { return phase_ != phase::idle; }

  struct progress {
    std::size_t events = 0, spans = 0, rooms = 0;
    std::int64_t let_go = 0;
  };
  /// One small step. True while the pass isn't over.
  bool step(const ages& limits);
  /// All that was done since the start, for metrics and tests.
  const progress& done() const { return done_; }

private:
  enum class phase { idle, rooms, named, spans, forgotten, ages };
  static constexpr int phases = 6;
  struct visit {
    position latest = 0;
    std::uint64_t pass = 0, due = 0, wait = 0;
  };

  bool go_on(const ages& limits);
  bool rooms_step();
  bool named_step();
  bool spans_step(const ages& limits);
  bool forgotten_step();
  bool ages_step(const ages& limits);
  bool begin_room();
  bool work_on_room();
  void end_room();
  void delete_events(const std::vector<std::pair<position, std::string>>& events);

  database& db_;
  destination_store& destinations_;
  roster_store& roster_;
  event_log& log_;
  settings how_;
  phase phase_ = phase::idle;
  bool due_ = true;
  std::int64_t now_ms_ = 0;
  std::uint64_t pass_ = 0;

  row_id room_ = 0; ///< looked at last
  room_needs needs_;
  std::vector<std::pair<position, position>> gaps_;
  std::size_t gap_ = 0;
  position place_ = 0;
  bool in_room_ = false, among_excluding_ = false, fruitful_ = false;
  std::size_t budget_rows_ = 0, budget_rooms_ = 0;
  std::unordered_map<row_id, visit> visits_;

  position named_after_ = 0;
  span_place span_after_;
  position spans_done_before_ = 0;
  row_id forgotten_after_ = 0;
  progress done_;
};

} // namespace ranvier::storage
