#pragma once
#include "tests/simulation/life.hpp"
#include "tests/simulation/model.hpp"
#include "tests/simulation/scenario.hpp"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ranvier::sim {

/// What the engine held at a moment.
struct sample {
  std::int64_t at_ms = 0;
  life::footprint memory;
  std::int64_t events = 0;           ///< rows of the log
  std::uintmax_t database_bytes = 0; ///< with its write-ahead log
};

/// What a run came to, beside its breaches.
struct tally {
  std::size_t records = 0, owed_events = 0, delivered = 0, let_go = 0, repeated = 0, messages = 0, transactions = 0;
  std::size_t promises = 0;
  std::uint64_t attempts = 0, handled = 0;
  int lives = 1;
  std::int64_t slowest_ms = 0; ///< from the feed's answer to a server that is always well, while the engine is up
  std::int64_t healing_ms = 0; ///< from when all were well until nothing waited
  std::size_t their_fetches = 0, our_fetches = 0; ///< of whole device lists: of ours by peers, of theirs by us
  std::size_t most_their_fetches = 0, most_our_fetches = 0; ///< that had a reason
  std::size_t lists_compared = 0;
  std::vector<sample> samples; ///< each hour of a run with bad times, else two a day
  std::optional<bad_times> bad;
};

/// The last things that happened to the server of a breach up to a moment, or to its event.
std::string trace_of(const world& outside, const breach_note& one, std::int64_t until_ms, std::size_t lines);

/// One seeded run: the host feeds, peers misbehave, the engine is killed and comes back; then all peers are healed, and
/// everything that is owed must arrive. Every breach of a guarantee is a sentence in breaches().
class run {
public:
  explicit run(const scenario_plan& plan, config settings);
  ~run();
  void go();
  const std::vector<breach_note>& breaches() const { return outside_.breaches; }
  const tally& result() const { return tally_; }
  std::string summary() const;
  /// Keeps what happens to these servers, for trace_of().
  void trace(const std::set<std::string>& servers) { outside_.focus = servers; }
  /// The last things that happened to the server of a breach, or to its event.
  std::string trace_of(const breach_note& one, std::size_t lines = 30) const;
  std::int64_t end_ms() const { return now_ms_; }
  /// For tests of the judges, which must notice a broken engine: what is done to its database after each kill, to what
  /// it sends, and to its settings.
  std::function<void(const std::string& database)> sabotage;
  void tamper(std::function<void(http_call&)> how) { outside_.tamper = std::move(how); }
  std::function<void(config&)> misconfigure;

private:
  struct step;
  std::vector<step> steps() const;
  void step_to(std::int64_t at_ms);
  void take_samples();
  void feed(const feed_batch_plan& batch);
  void feed(const std::vector<feed_item>& items);
  void feed_again(std::int64_t from_ms, bool as_it_was);
  void took(const std::vector<feed_item>& items, const feed_outcome& outcome);
  void change_sharing(const std::set<std::pair<std::string, std::string>>& before, const feed_item& item);
  void inbound(const inbound_plan& word);
  void change(const change_plan& what);
  void fetch_wanted_lists();
  void die(const kill_plan& how, const feed_batch_plan* next);
  void lose_database();
  void restore_database();
  void back_up();
  void finish();
  bool complete();
  model& now_model() { return models_.back(); }

  // checks.cpp
  void check_everything();
  void check_events(peer& p);
  void check_missing(const peer& p, const std::vector<model::owed>& lost);
  void check_order(const peer& p);
  void check_repeats(const peer& p);
  void check_messages(peer& p);
  void check_speed(peer& p);
  void check_stored(peer& p, std::size_t missing);
  void check_promises();
  void check_idle();
  // checks_devices.cpp
  void check_our_lists();
  void check_their_lists();
  void check_fetches();
  bool may(const std::string& server, const std::string& event) const;
  bool may_message(const std::string& server, const std::string& message);

  scenario_plan plan_;
  config settings_;
  world outside_;
  std::vector<model> models_; ///< one for each generation of the database
  std::optional<model> backup_model_;
  scenario script_;
  std::string database_;
  std::unique_ptr<life> life_;
  std::unique_ptr<life> new_life();
  std::vector<std::pair<std::int64_t, std::int64_t>> down_; ///< when no engine ran
  std::vector<std::int64_t> replaced_ms_;                   ///< when the database was lost or restored
  std::vector<feed_item> said_;                             ///< everything that was ever fed, in order
  /// A success that the engine doesn't know of any more, since its database was replaced by a backup.
  bool forgotten(std::int64_t at_ms) const;
  std::int64_t backup_ms_ = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> forgotten_;
  std::size_t said_at_backup_ = 0;
  std::set<std::string> incomplete_;
  std::map<std::string, std::vector<inbound_device_change>> late_; ///< server -> what it tells us out of order
  std::size_t gaps_ = 0;                                           ///< updates that came late or never
  std::int64_t now_ms_ = 0;
  tally tally_;
};

/// Runs it; what breaks a guarantee is printed with its seed and a trace, and fails the test case.
tally simulate(const scenario_plan& plan, config settings = {});

} // namespace ranvier::sim
