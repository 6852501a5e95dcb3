#pragma once
#include "actors/destination.hpp"
#include "messages/protocol/delivery.hpp"

#include <functional>
#include <memory>

namespace ranvier {

/// How often one destination may crash before it is left alone, visibly (DESIGN section 3).
struct restart_budget {
  int restarts = 5;
  std::int64_t within_ms = 60'000;
  std::int64_t failed_for_ms = 600'000; ///< then it gets another chance
};

struct supervisor_parts {
  std::shared_ptr<const destination_parts> destinations; ///< what it makes them from
  restart_budget budget;
  /// Once: boot is over, the engine may say that it is ready.
  std::function<void()> ready;
};

/// The map destination -> actor. It starts a destination when there is work (at boot, on a new log entry, on demand),
/// hands it new entries, lets it retire, restarts it when it crashed, and answers introspection by asking.
///
/// Life: one, made by the engine, ended last but for the ledger. If it fails itself the process ends with 70: there is
/// no safe half-life without it. It is the only one that fans out, and does it in position order.
supervisor_actor spawn_supervisor(caf::actor_system& system, supervisor_parts parts);

} // namespace ranvier
