#pragma once
#include "actors/engine.hpp"
#include "messages/protocol/delivery.hpp"
#include "messages/protocol/storage.hpp"
#include "tests/simulation/virtual_time.hpp"
#include "tests/simulation/world.hpp"

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
  void heard(const std::string& server);
  void operate(const std::string& server, const std::string& verb);
  destination_row row_of(const std::string& server);
  owed_counts owed(const std::string& server, const cursors& after);
  /// Names of the destination actors that live now.
  std::size_t destinations();
  void kill();

private:
  template <class Request, class Handle, class Answer>
  std::shared_ptr<std::optional<Answer>> ask(const Handle& whom, Request what);

  world& outside_;
  config settings_;
  virtual_time time_;
  egress_actor network_;
  std::optional<engine> engine_; ///< none once it was killed
};

} // namespace ranvier::sim
