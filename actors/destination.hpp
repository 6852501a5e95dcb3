#pragma once
#include "actors/metrics.hpp"
#include "actors/recent_rates.hpp"
#include "messages/config.hpp"
#include "messages/protocol/delivery.hpp"
#include "messages/signing.hpp"

#include <functional>
#include <memory>
#include <string>

namespace ranvier {

/// What all destinations have in common; one object, shared, never changed after the start.
struct destination_parts {
  config settings;
  std::shared_ptr<const signing_key> key;
  ledger_actor ledger;
  std::function<reader_actor(const std::string& destination)> reader; ///< the same one for the same name
  egress_actor egress;
  std::shared_ptr<metrics> counters;
  std::shared_ptr<recent_rates> rates;
  std::function<std::int64_t()> wall_ms;
  std::function<double(const std::string& destination)> uniform; ///< a seeded generator of numbers in [0, 1)
};

/// What one of them is told at its birth.
struct destination_birth {
  std::string name;
  bool owed = true; ///< false: made for a request only, nothing is known to wait for it
  int restarts = 0; ///< above 0: an earlier incarnation may have left something outstanding
};

/// The actor of one remote server: it alone talks to that server. It owns the gate, the window of what waits (outbox),
/// the one transaction in flight and the requests through the pull lane.
///
/// Life: made by the supervisor when the server has something to do; loads its row and, if it isn't the first of its
/// name in this process, has the egress end what is outstanding under its name; retires when idle for 30 s, by asking
/// the supervisor. In: deliver, pull, heard_from, operate, the egress' answers. Out: orders to the egress, acks and
/// gate rows to the ledger, queries to a reader. If it throws, it is made anew from what storage knows: nothing is
/// lost, what was in flight is sent again.
destination_actor spawn_destination(caf::actor_system& system, std::shared_ptr<const destination_parts> parts,
                                    supervisor_actor supervisor, destination_birth birth);

} // namespace ranvier
