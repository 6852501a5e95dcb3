#pragma once
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <chrono>

namespace ranvier::test {

/// An actor system on one thread whose clock the test moves. Actors with timers must be ended before it goes.
class virtual_system {
public:
  virtual_system()
      : system(config_) {
    clock().current_time += std::chrono::hours(1);
  }
  ~virtual_system() { drain(); }

  void drain() {
    while (coordinator().try_run_once()) {
    }
  }
  void advance(std::chrono::milliseconds d) {
    auto end = clock().current_time + d;
    drain();
    while (!clock().schedule().empty() && clock().schedule().begin()->first <= end) {
      clock().advance_time(clock().schedule().begin()->first - clock().current_time);
      drain();
    }
    clock().current_time = end;
  }

private:
  struct config : caf::actor_system_config {
    config() {
      set("scheduler.policy", caf::atom("testing"));
      set("logger.file-verbosity", caf::atom("quiet"));
    }
  };
  caf::scheduler::test_coordinator& coordinator() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }
  caf::detail::test_actor_clock& clock() { return coordinator().clock(); }
  config config_;

public:
  caf::actor_system system;
};

} // namespace ranvier::test
