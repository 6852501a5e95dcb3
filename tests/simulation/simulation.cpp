#include "tests/simulation/run.hpp"

#include <doctest/doctest.h>

using namespace ranvier;
using namespace ranvier::sim;

// Seeded runs of the whole engine. A run that fails names its seed; a failing seed becomes a regression test below.

namespace {

void simulate(const scenario_plan& plan, config settings = {}) {
  run one(plan, std::move(settings));
  one.go();
  MESSAGE(one.summary());
  CAPTURE(plan.seed);
  for (const auto& sentence : one.breaches())
    FAIL_CHECK(sentence);
  CHECK(one.result().delivered + one.result().let_go == one.result().owed_events);
  CHECK(one.result().records >= static_cast<std::size_t>(plan.records) * 3 / 4);
  CHECK(one.result().messages > 0);
}

scenario_plan seeded(std::uint64_t seed) {
  scenario_plan plan;
  plan.seed = seed;
  plan.sources = seed % 2 == 0;
  plan.uplink_outage = seed % 5 == 0;
  plan.speak_when_well = seed % 3 == 0;
  return plan;
}

} // namespace

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

TEST_CASE("simulation: a calm day, nobody fails and nothing repeats") {
  scenario_plan plan;
  plan.seed = 100;
  plan.length_ms = day;
  plan.records = 1'000;
  plan.kills = 0;
  plan.peers = 3; // those numbered 1 to 3 of ten are always well
  simulate(plan);
}
