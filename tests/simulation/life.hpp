#pragma once
#include "actors/engine.hpp"
#include "messages/joins.hpp"
#include "messages/protocol/delivery.hpp"
#include "messages/protocol/storage.hpp"
#include "tests/simulation/virtual_time.hpp"
#include "tests/simulation/world.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ranvier::sim {

/// One life of the engine: the real one (ledger, readers, supervisor, destinations, keyring) over a real SQLite file,
/// on a virtual clock, with the simulated network below. It ends like a process that is killed: nothing is flushed.
class life {
public:
  life(world& outside, const config& settings, const std::string& database, std::int64_t now_ms);
  ~life() { kill(); }
  life(const life&) = delete;
  life& operator=(const life&) = delete;

  virtual_time& time() { return time_; }
  /// Starts a feed request; the answer appears when time (or the scheduler) went on. None until then.
  std::shared_ptr<std::optional<feed_outcome>> feed(const std::vector<std::string>& lines);
  /// It sends us traffic signed with this key; it counts if the engine can get that key. The answer says so.
  std::shared_ptr<std::optional<got_key>> heard(const std::string& server, const std::string& key_id);
  void operate(const std::string& server, const std::string& verb);
  destination_row row_of(const std::string& server);
  /// Our user's list as we give it to other servers.
  own_list list_of(const std::string& user);
  /// A peer's transaction with changes of its users' lists.
  void take_changes(const std::string& server, std::vector<inbound_device_change> changes);
  known_keys_of_user known_of(const std::string& user);
  std::vector<stale_user> stale();
  /// A join of ours as it is written before the host is told; the answer appears when it is.
  std::shared_ptr<std::optional<join_recorded>> join(record_join what);
  /// The partial joins that are under way, as an operator sees them.
  nlohmann::json joins();
  owed_counts owed(const std::string& server, const cursors& after);
  /// What the engine holds in memory now, as its actors tell.
  struct footprint {
    std::size_t destinations = 0, mailboxes = 0, windows = 0;
  };
  footprint memory();
  void kill();

private:
  /// Spawns one who asks; it lives until it is answered or the engine is killed.
  template <class Answer, class Ask> std::shared_ptr<std::optional<Answer>> spawn_asker(Ask how);
  template <class Answer, class Handle, class Request>
  std::shared_ptr<std::optional<Answer>> ask(const Handle& whom, Request what);

  world& outside_;
  config settings_;
  virtual_time time_;
  egress_actor network_;
  std::optional<engine> engine_; ///< none once it was killed
  /// Those who still wait for an answer: they end with the engine.
  struct asker {
    caf::actor who;
    std::function<bool()> answered;
  };
  std::vector<asker> askers_;
};

} // namespace ranvier::sim
