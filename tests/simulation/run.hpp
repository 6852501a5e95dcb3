#pragma once
#include "tests/simulation/life.hpp"
#include "tests/simulation/model.hpp"
#include "tests/simulation/scenario.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ranvier::sim {

/// What a run came to, beside its breaches.
struct tally {
  std::size_t records = 0, owed_events = 0, delivered = 0, let_go = 0, repeated = 0, messages = 0, transactions = 0;
  std::uint64_t attempts = 0, handled = 0;
  int lives = 1;
  std::int64_t slowest_ms = 0; ///< from the feed's answer to a server that is always well, while the engine is up
  std::int64_t healing_ms = 0; ///< from when all were well until nothing waited
};

/// One seeded run: the host feeds, peers misbehave, the engine is killed and comes back; then all peers are healed, and
/// everything that is owed must arrive. Every breach of a guarantee is a sentence in breaches().
class run {
public:
  explicit run(const scenario_plan& plan, config settings);
  ~run();
  void go();
  const std::vector<std::string>& breaches() const { return outside_.breaches; }
  const tally& result() const { return tally_; }
  std::string summary() const;

private:
  void step_to(std::int64_t at_ms);
  void feed(const feed_batch_plan& batch);
  void took(const feed_batch_plan& batch, const feed_outcome& outcome);
  void kill(const kill_plan& how);
  void finish();
  bool complete();

  // checks.cpp
  void check_everything();
  void check_events(peer& p);
  void check_missing(const peer& p, const model::owed& lost);
  void check_order(const peer& p);
  void check_repeats(const peer& p);
  void check_messages(peer& p);
  void check_speed(peer& p);
  void check_stored(peer& p, std::size_t missing);

  scenario_plan plan_;
  config settings_;
  world outside_;
  model model_;
  scenario script_;
  std::string database_;
  std::unique_ptr<life> life_;
  std::vector<std::pair<std::int64_t, std::int64_t>> down_; ///< when no engine ran
  std::vector<feed_batch_plan> unanswered_;
  std::int64_t now_ms_ = 0;
  std::uint64_t seq_ = 0;
  tally tally_;
};

} // namespace ranvier::sim
