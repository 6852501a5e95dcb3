#include "tests/simulation/run.hpp"

#include <filesystem>
#include <sstream>

namespace ranvier::sim {

namespace {

constexpr std::int64_t start_ms = day; // not zero: a moment of 0 means none in many places
constexpr std::int64_t longest_healing_ms = 3 * day;
constexpr std::int64_t longest_healing_of_speakers_ms = 2 * hour; ///< evidence counts at least once an hour

config completed(config settings) {
  settings.server_name = our_name;
  return settings;
}

} // namespace

run::run(const scenario_plan& plan, config settings)
  : plan_(plan), settings_(completed(std::move(settings))), outside_(plan.seed) {
  outside_.backoff = settings_.backoff;
  script_ = make_scenario(plan, outside_, start_ms);
  const std::filesystem::path memory = "/dev/shm"; // a power loss isn't simulated, so nothing needs a disk
  const auto folder = (std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path())
                      / "ranvier-simulation";
  std::filesystem::create_directories(folder);
  std::ostringstream name;
  name << "seed-" << plan.seed << '-' << static_cast<const void*>(this) << ".db";
  database_ = (folder / name.str()).string();
  for (const char* more : {"", "-wal", "-shm"})
    std::filesystem::remove(database_ + more);
}

run::~run() {
  life_.reset();
  for (const char* more : {"", "-wal", "-shm"})
    std::filesystem::remove(database_ + more);
}

void run::step_to(std::int64_t at_ms) {
  tally_.handled += life_->time().advance_to(at_ms);
  now_ms_ = life_->time().now_ms();
}

/// Runs what the script says, in order of time. A batch is fed until it is answered, over kills too.
void run::go() {
  now_ms_ = start_ms;
  life_ = std::make_unique<life>(outside_, settings_, database_, now_ms_);
  auto batch = script_.feed.begin();
  auto inbound = script_.inbound.begin();
  auto death = script_.kills.begin();
  while (batch != script_.feed.end() || death != script_.kills.end() || inbound != script_.inbound.end()) {
    const auto never = script_.healed_ms * 2;
    const auto next_batch = batch == script_.feed.end() ? never : batch->at_ms;
    const auto next_inbound = inbound == script_.inbound.end() ? never : inbound->at_ms;
    const auto next_death = death == script_.kills.end() ? never : death->at_ms;
    if (next_death <= std::min(next_batch, next_inbound)) {
      step_to(std::max(next_death, now_ms_));
      if (batch != script_.feed.end()) { // it dies in the middle of something
        std::vector<std::string> lines;
        for (const auto& item : batch->items)
          lines.push_back(item.to_json());
        life_->feed(lines);
        for (auto jobs = outside_.random() % 20; jobs > 0; --jobs)
          life_->time().scheduler().try_run_once();
      }
      kill(*death++);
    } else if (next_inbound <= next_batch) {
      step_to(std::max(next_inbound, now_ms_));
      outside_.excuse(inbound->server);
      life_->heard(inbound->server);
      ++inbound;
    } else {
      step_to(std::max(next_batch, now_ms_));
      feed(*batch++);
    }
  }
  finish();
}

void run::feed(const feed_batch_plan& batch) {
  std::vector<std::string> lines;
  for (const auto& item : batch.items) {
    auto line = item.to_json();
    ++seq_;
    if (plan_.sources && line.front() == '{')
      line.insert(1, R"("source":"host","seq":)" + std::to_string(seq_) + ",");
    lines.push_back(std::move(line));
  }
  auto answer = life_->feed(lines);
  tally_.handled += life_->time().drain();
  for (int tries = 0; !*answer && tries < 100; ++tries)
    step_to(now_ms_ + 100);
  if (!*answer) {
    outside_.breach("a feed request wasn't answered within 10 s");
    return;
  }
  took(batch, **answer);
}

void run::took(const feed_batch_plan& batch, const feed_outcome& outcome) {
  if (!outcome.ok)
    outside_.breach("a feed request failed: " + outcome.problem);
  std::size_t rejected = 0;
  for (const auto& item : batch.items) {
    rejected += item.is == feed_item::what::rejected ? 1 : 0;
    model_.apply(item, now_ms_);
  }
  tally_.records += batch.items.size();
  if (outcome.rejected.size() != rejected)
    outside_.breach("the feed rejected " + std::to_string(outcome.rejected.size()) + " lines, "
                    + std::to_string(rejected) + " were wrong"
                    + (outcome.rejected.empty() ? "" : ": " + outcome.rejected.front().error));
}

void run::kill(const kill_plan& how) {
  life_->kill();
  life_.reset();
  outside_.killed(now_ms_, how.wall_jump_ms);
  down_.emplace_back(now_ms_, now_ms_ + how.down_for_ms);
  now_ms_ += how.down_for_ms;
  ++tally_.lives;
  life_ = std::make_unique<life>(outside_, settings_, database_, now_ms_);
}

/// All peers are well now: everything must arrive without anybody saying anything more.
void run::finish() {
  step_to(std::max(script_.healed_ms, now_ms_));
  const auto end = now_ms_ + (plan_.speak_when_well ? longest_healing_of_speakers_ms : longest_healing_ms);
  while (now_ms_ < end && !complete()) {
    if (plan_.speak_when_well)
      for (const auto& [name, p] : outside_.peers) {
        outside_.excuse(name);
        life_->heard(name);
      }
    step_to(now_ms_ + (plan_.speak_when_well ? minute : hour));
  }
  tally_.healing_ms = now_ms_ - script_.healed_ms;
  step_to(now_ms_ + 10 * minute); // acks are gathered, destinations retire
  check_everything();
}

bool run::complete() {
  for (auto& [name, p] : outside_.peers) {
    const auto at = life_->row_of(name).at;
    const auto owed = life_->owed(name, at);
    if (owed.pdus + owed.to_device > 0)
      return false;
  }
  return true;
}

std::string run::summary() const {
  std::ostringstream out;
  out << "seed " << plan_.seed << ": " << tally_.records << " records, " << tally_.lives << " lives, "
      << tally_.owed_events << " events owed, " << tally_.delivered << " delivered, " << tally_.let_go << " let go, "
      << tally_.repeated << " repeated, " << tally_.messages << " to-device, " << tally_.transactions
      << " transactions in " << tally_.attempts << " attempts, " << tally_.handled << " messages handled, slowest "
      << tally_.slowest_ms << " ms, healed in " << tally_.healing_ms / minute << " min";
  return out.str();
}

} // namespace ranvier::sim
