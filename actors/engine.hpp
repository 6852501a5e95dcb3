#pragma once
#include "actors/destination.hpp"
#include "actors/keyring.hpp"
#include "actors/metrics.hpp"
#include "actors/supervisor.hpp"
#include "messages/config.hpp"
#include "messages/signing.hpp"
#include "storage/ephemeral_inbox.hpp"

#include <caf/all.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ranvier {

/// What differs between the real engine and one under test: clocks, chance, threads, and the way out.
struct engine_parts {
  config settings;
  std::shared_ptr<const signing_key> key;
  std::string database;                  ///< path; it has been through storage::prepare
  std::function<std::int64_t()> wall_ms; ///< called from any thread
  std::uint64_t seed = 0;                ///< of jitter
  bool detached = true; ///< ledger and readers on threads of their own; false under the test coordinator
  egress_actor egress;
  std::shared_ptr<metrics> counters;
  std::function<void()> ready;                       ///< boot is over
  std::function<void(const std::string& why)> fatal; ///< supervisor or ledger ended by itself: no safe half-life
  std::function<void(const std::string& problem)> storage_health; ///< writing fails (why), or works again (empty)
  std::function<void()> stream_moved; ///< the host's stream has new items; called on the ledger's thread
};

/// The actors that make an engine, without its ears (those are in ingress.hpp): ledger, readers, supervisor, keyring.
/// Made in an order in which each finds what it needs, stopped in the other.
class engine {
public:
  engine(caf::actor_system& system, engine_parts parts);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  const supervisor_actor& supervisor() const { return supervisor_; }
  const ledger_actor& ledger() const { return ledger_; }
  const keyring_actor& keyring() const { return keyring_; }
  reader_actor reader(const std::string& about) const;
  reader_actor next_reader() const;
  /// All single actors but the supervisor, for introspection.
  std::vector<describable> single_actors() const;

  /// Ends all of them; what was gathered is written. With threads of their own it blocks until the ledger has ended.
  void stop();

private:
  caf::actor_system& system_;
  engine_parts parts_;
  std::shared_ptr<storage::ephemeral_inbox> inbox_;
  ledger_actor ledger_;
  std::vector<reader_actor> readers_;
  supervisor_actor supervisor_;
  keyring_actor keyring_;
  caf::actor guard_;
  mutable std::atomic<std::size_t> turn_{0};
  bool stopped_ = false;
};

} // namespace ranvier
