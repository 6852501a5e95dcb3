#pragma once
#include "messages/allowed_servers.hpp"
#include "messages/config.hpp"
#include "messages/protocol/storage.hpp"
#include "storage/ephemeral_inbox.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ranvier {

/// What the ledger gets at its birth. The database must have been through storage::prepare.
struct ledger_settings {
  std::string path;
  std::function<std::int64_t()> wall_ms;           ///< wall clock
  std::shared_ptr<storage::ephemeral_inbox> inbox; ///< shared with the readers
  std::int64_t stream_bytes = 1'073'741'824;       ///< [limits]
  std::vector<std::string> consumers{"host"};      ///< [host]
  std::int64_t devices_per_user = 10'000;          ///< [limits]
  bool display_names = true;                       ///< [federation]
  allowed_servers servers{};                       ///< [federation] allow and deny
  std::int64_t to_device_max_age_ms = 30LL * 86'400'000;
  std::int64_t device_changes_horizon_ms = 30LL * 86'400'000; ///< [delivery]
  std::int64_t to_device_max_bytes = 100LL * 1'048'576;       ///< of to-device messages that wait for one server
  std::int64_t catch_up_events_per_room = 50;                 ///< [delivery]
  std::int64_t compact_after_ms = 10'000;                     ///< from a reason to make the log small to the first step
  std::int64_t compact_pause_ms = 20;                         ///< between two steps, at least
  std::int64_t announce_after_ms = 0;                         ///< [delivery] announce_after_outage; 0: off
  std::int64_t clock_jump_ms = 600'000;                       ///< wall and monotonic clock drift apart by more: a jump
  std::int64_t gather_acks_ms = 1'000;                        ///< acks wait so long for others, then go in one commit
  std::int64_t look_again_ms = 2'000;                         ///< between trials while writing fails
  std::size_t max_group = 500;                                ///< askers in one commit
  /// Called when writing begins to fail (with the reason) and when it works again (empty); may be absent.
  std::function<void(const std::string& problem)> on_health;
  /// Called when the stream has new items, after they are durable and published; may be absent.
  std::function<void()> on_stream;
};
/// With the slices of a configuration filled in.
ledger_settings ledger_settings_of(const config& from, std::string path, std::function<std::int64_t()> wall_ms,
                                   std::shared_ptr<storage::ephemeral_inbox> inbox);

/// The only writer to the database. Everything that was asked while a commit ran shares the next one; each asker's
/// writes stand in a savepoint of it. Answers go out after the commit only.
///
/// Life: one, made by the engine before all others, on a thread of its own (`detached`; tests run it on the
/// coordinator). In: feed batches, acks, gates, holds, inbound transactions, keys. Out: answers, and to the listener
/// every committed entry in position order. A failing disk fails the askers, not the ledger; if it throws all the same,
/// it ends, and the engine with it (DESIGN section 3). At its end what was gathered is written.
ledger_actor spawn_ledger(caf::actor_system& system, ledger_settings settings, bool detached);

} // namespace ranvier
