#pragma once
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <chrono>
#include <cstdint>

namespace ranvier::sim {

/// An actor system whose clock and scheduler belong to the test: one thread, first in first out, time moves only by
/// advance_to(). Each life of the engine gets a new one; time goes on where the last one stopped.
class virtual_time {
public:
  explicit virtual_time(std::int64_t now_ms = 0)
      : config_()
      , system(config_) {
    clock().current_time = caf::actor_clock::time_point{} + std::chrono::milliseconds(now_ms);
  }

  /// On the same scale as destinations see it through self->clock().
  std::int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock().current_time.time_since_epoch()).count();
  }
  /// Runs everything that can run without time passing.
  std::size_t drain() {
    std::size_t n = 0;
    while (scheduler().try_run_once())
      ++n;
    return n;
  }
  /// Fires every timer that is due until then, in order, each at its own moment. Gives the number of messages handled.
  std::size_t advance_to(std::int64_t end_ms) {
    const auto end = caf::actor_clock::time_point{} + std::chrono::milliseconds(end_ms);
    std::size_t n = drain();
    while (!clock().schedule().empty() && clock().schedule().begin()->first <= end) {
      const auto due = clock().schedule().begin()->first;
      clock().advance_time(std::max(due - clock().current_time, caf::actor_clock::duration_type{0}));
      n += drain();
    }
    clock().current_time = std::max(clock().current_time, end);
    return n;
  }
  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }
  caf::detail::test_actor_clock& clock() { return scheduler().clock(); }

private:
  struct config : caf::actor_system_config {
    config() {
      set("scheduler.policy", caf::atom("testing"));
      set("logger.file-verbosity", caf::atom("quiet"));
    }
  };
  config config_;

public:
  caf::actor_system system;
};

} // namespace ranvier::sim
