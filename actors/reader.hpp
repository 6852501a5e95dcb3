#pragma once
#include "messages/protocol/storage.hpp"
#include "storage/ephemeral_inbox.hpp"

#include <functional>
#include <memory>
#include <string>

namespace ranvier {

struct reader_settings {
  std::string path; ///< of a database that the ledger has opened before
  std::function<std::int64_t()> wall_ms;
  std::shared_ptr<storage::ephemeral_inbox> inbox; ///< the ledger's
  std::int64_t catch_up_events_per_room = 50;
  std::string name = "reader";
  bool display_names = true;                                 ///< [federation]
  std::int64_t device_changes_horizon_ms = 7LL * 86'400'000; ///< [delivery]
};

/// Answers questions about what is stored over a read-only connection; each answer is of one moment. What a commit
/// wrote is seen by every question that is asked after the ledger answered or told its listener.
///
/// Life: some, made by the engine after the ledger, each on a thread of its own. If a query fails, its asker gets
/// `ok` = false where the answer has that member, else an error; the reader goes on.
reader_actor spawn_reader(caf::actor_system& system, reader_settings settings, bool detached);

} // namespace ranvier
