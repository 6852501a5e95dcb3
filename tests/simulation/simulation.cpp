#include "tests/simulation/run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

using namespace ranvier;
using namespace ranvier::sim;

// Seeded runs of the whole engine. A run that fails names its seed and prints a trace; a failing seed becomes a
// regression test below.

namespace {

scenario_plan seeded(std::uint64_t seed) {
  scenario_plan plan;
  plan.seed = seed;
  plan.sources = seed % 2 == 0;
  plan.uplink_outage = seed % 5 == 0;
  plan.speak_when_well = seed % 3 == 0;
  plan.host_away = seed % 7 == 1;
  if (seed % 4 == 3) plan.database = seed % 8 == 3 ? loss::lost : loss::restored;
  return plan;
}

using trouble = void (*)(scenario_plan&);
void away(scenario_plan& plan) { plan.host_away = true; }
void lost(scenario_plan& plan) { plan.database = loss::lost; }
void restored(scenario_plan& plan) { plan.database = loss::restored; }
void uplink(scenario_plan& plan) { plan.uplink_outage = true; }
void tarpits(scenario_plan& plan) {
  plan.tarpits = 30; // of a hundred
  plan.max_in_flight = 64;
}
void bad_day(scenario_plan& plan) { plan.failing_percent = 30; }

/// 500 servers and two weeks.
scenario_plan whole(std::uint64_t seed, trouble of_its_own = nullptr) {
  scenario_plan plan;
  plan.seed = seed;
  plan.sources = seed % 2 == 0;
  plan.peers = 500;
  plan.rooms = 250;
  plan.local_users = 60;
  plan.length_ms = 14 * day;
  plan.records = 12'000;
  plan.kills = 8;
  if (of_its_own != nullptr) of_its_own(plan);
  return plan;
}

struct most_held {
  std::size_t windows = 0, mailboxes = 0;
  std::int64_t events = 0;
  std::uintmax_t database_bytes = 0;
  void add(const sample& one) {
    windows = std::max(windows, one.memory.windows);
    mailboxes = std::max(mailboxes, one.memory.mailboxes);
    events = std::max(events, one.events);
    database_bytes = std::max(database_bytes, one.database_bytes);
  }
};

/// Every trouble that the seed's digits name.
scenario_plan any(std::uint64_t seed) {
  auto plan = seed % 10 == 0 ? whole(seed) : seeded(seed);
  plan.uplink_outage = plan.uplink_outage || seed % 6 == 5;
  if (seed % 9 == 4) bad_day(plan);
  if (seed % 11 == 7) tarpits(plan);
  return plan;
}

} // namespace

// Small ones first: every kind of trouble, in seconds.
TEST_CASE("simulation: seed 1") { simulate(seeded(1)); }
TEST_CASE("simulation: seed 2") { simulate(seeded(2)); }
TEST_CASE("simulation: seed 3") { simulate(seeded(3)); }
TEST_CASE("simulation: seed 4") { simulate(seeded(4)); }
TEST_CASE("simulation: seed 5") { simulate(seeded(5)); }
TEST_CASE("simulation: seed 6") { simulate(seeded(6)); }
TEST_CASE("simulation: seed 7") { simulate(seeded(7)); }
TEST_CASE("simulation: seed 8") { simulate(seeded(8)); }
TEST_CASE("simulation: seed 9") { simulate(seeded(9)); }
TEST_CASE("simulation: seed 10") { simulate(seeded(10)); }

TEST_CASE("simulation: seed 101, 500 servers for 14 days") { simulate(whole(101)); }
TEST_CASE("simulation: seed 102, 500 servers for 14 days, the host away for a day") { simulate(whole(102, away)); }
TEST_CASE("simulation: seed 103, 500 servers for 14 days, the database lost") { simulate(whole(103, lost)); }
TEST_CASE("simulation: seed 104, 500 servers for 14 days, a database of yesterday") { simulate(whole(104, restored)); }
TEST_CASE("simulation: seed 105, 500 servers for 14 days, our uplink away") { simulate(whole(105, uplink)); }
TEST_CASE("simulation: seed 106, 500 servers for 14 days, a third of them tarpits") { simulate(whole(106, tarpits)); }
TEST_CASE("simulation: seed 107, 500 servers for 14 days, 30 % of all requests fail for a day") {
  simulate(whole(107, bad_day));
}

TEST_CASE("simulation: seed 108, 30 % of all requests fail for a day: nothing grows") {
  auto plan = seeded(108);
  bad_day(plan);
  plan.kills = 0;
  plan.records = 12'000;
  const auto seen = simulate(plan);
  REQUIRE(seen.bad);
  most_held early, late; // of the bad day: hours 3 to 12, and the twelve after that
  for (const auto& one : seen.samples) {
    if (one.at_ms < seen.bad->from_ms + 3 * hour || one.at_ms > seen.bad->to_ms) continue;
    (one.at_ms < seen.bad->from_ms + 12 * hour ? early : late).add(one);
  }
  MESSAGE("windows ", early.windows, " then ", late.windows, ", mailboxes ", early.mailboxes, " then ", late.mailboxes,
          ", events ", early.events, " then ", late.events, ", database ", early.database_bytes, " then ",
          late.database_bytes, " bytes");
  constexpr std::size_t one_window = 400;
  CHECK(late.windows <= 2 * early.windows + one_window);
  CHECK(late.mailboxes <= 100);
  // The log has what the dead are owed, K events of a room at most; the file doesn't shrink, and needn't grow.
  CHECK(late.events <= early.events + early.events / 4 + 500);
  CHECK(late.database_bytes <= early.database_bytes + early.database_bytes / 4 + (1 << 20));
}

TEST_CASE("simulation: seed 109, two outages in one process life") {
  auto plan = seeded(109);
  plan.kills = 0;
  simulate(plan);
}

TEST_CASE("simulation: a calm day, nobody fails and nothing repeats") {
  scenario_plan plan;
  plan.seed = 100;
  plan.length_ms = day;
  plan.records = 1'000;
  plan.kills = 0;
  plan.peers = 3; // those numbered 1 to 3 of ten are always well
  CHECK(simulate(plan).repeated == 0);
}

TEST_CASE("simulation: seed 1014, a share of a device list logged before the clock is set back") {
  simulate(any(1014));
}

TEST_CASE("simulation: seed 1030, what a cut left with the peer goes again as it is") {
  scenario_plan plan;
  plan.seed = 1030;
  tarpits(plan);
  bad_day(plan);
  plan.max_in_flight = 8; // few slots: requests are cut, and a later round of them fails to connect
  simulate(plan);
}

TEST_CASE("simulation: seed 1023, events let go in a closing that a backup brought back") { simulate(any(1023)); }

/// bin/test --full: as many as are asked for, a whole one among ten.
TEST_CASE("simulation: more seeds" * doctest::skip()) {
  const auto number = [](const char* name, std::uint64_t otherwise) {
    const char* given = std::getenv(name);
    return given == nullptr ? otherwise : std::stoull(given);
  };
  const auto first = number("RANVIER_SEED", 1'000), count = number("RANVIER_SEEDS", 10);
  for (auto seed = first; seed < first + count; ++seed)
    simulate(any(seed));
}
