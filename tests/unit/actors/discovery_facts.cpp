#include "actors/discovery_facts.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

namespace {

kept_file delegated(const std::string& host, const std::string& server, std::int64_t until) {
  kept_file k;
  k.host = host;
  k.until_ms = until;
  k.file.what.what = well_known_result::outcome::delegated;
  k.file.what.server = k.file.last_good = server;
  k.file.what.note = "delegated to " + server;
  k.file.last_good_until = until + 5;
  return k;
}

} // namespace

TEST_CASE("discovery_facts: what a look at a file means for the next one (D17, D18, B112)") {
  using outcome = well_known_result::outcome;
  well_known_result good, none, passing, unknown;
  good.what = outcome::delegated;
  good.server = "m.example";
  good.lifetime_ms = 300'000;
  none.what = passing.what = outcome::none;
  passing.passing = true;
  unknown.what = outcome::unknown;
  auto look = [](known_file& f, const well_known_result& found, std::int64_t now) {
    return learn_file(f, found, now, 60'000, 3'600'000);
  };
  known_file f;
  for (std::int64_t minutes : {1, 2, 4, 8, 16, 32, 60, 60})
    CHECK(look(f, none, 0) == minutes * 60'000);
  CHECK(look(f, unknown, 0) == 0);
  CHECK(f.what.what == outcome::unknown);
  CHECK(look(f, good, 1'000) == 300'000);
  for (const auto& fault : {passing, unknown}) {
    CHECK(look(f, fault, 2'000) > 0);
    CHECK(f.what.what == outcome::delegated);
    CHECK(f.what.server == "m.example");
  }
  auto late = f;
  CHECK(look(late, passing, 1'000 + well_known_walk::ceiling_ms) > 0);
  CHECK(late.what.what == outcome::none);
  look(f, none, 3'000); // an answer, so the old one is over
  CHECK(f.what.what == outcome::none);
  look(f, passing, 4'000);
  CHECK(f.what.what == outcome::none);
}

TEST_CASE("discovery_facts: what is written is read") {
  kept_file none;
  none.host = "none.example";
  none.until_ms = 7;
  none.file.refusals = 3;
  none.file.what.note = "status 404";
  auto all = read_facts(write_facts({delegated("r.example", "m.example:443", 1'000), none}), 10'000);
  REQUIRE(all.size() == 2);
  CHECK(all[0].host == "r.example");
  CHECK(all[0].until_ms == 1'000);
  CHECK(all[0].file.what.what == well_known_result::outcome::delegated);
  CHECK(all[0].file.what.server == "m.example:443");
  CHECK(all[0].file.last_good == "m.example:443");
  CHECK(all[0].file.last_good_until == 1'005);
  CHECK(all[0].file.refusals == 0);
  CHECK(all[1].file.what.what == well_known_result::outcome::none);
  CHECK(all[1].file.what.note == "status 404");
  CHECK(all[1].file.refusals == 3);
  CHECK(all[1].file.last_good.empty());
}

TEST_CASE("discovery_facts: moments too far ahead are pulled back") {
  auto all = read_facts(write_facts({delegated("r.example", "m.example", 1'000)}), 600);
  REQUIRE(all.size() == 1);
  CHECK(all[0].until_ms == 600);
  CHECK(all[0].file.last_good_until == 600);
}

TEST_CASE("discovery_facts: what can't be read is left out") {
  CHECK(read_facts("", 1).empty());
  CHECK(read_facts("[]", 1).empty());
  CHECK(read_facts(R"({"version":2,"well_known":[{"host":"a","until_ms":1}]})", 1).empty());
  CHECK(read_facts(R"({"version":1,"well_known":7})", 1).empty());
  auto all = read_facts(R"({"version":1,"well_known":[
      {"host":"a"}, {"until_ms":1}, 7, {"host":"b","until_ms":"x"}, {"host":"","until_ms":1},
      {"host":"c","until_ms":1,"server":"no name"}, {"host":"d","until_ms":1,"refusals":-5}]})",
                        1);
  REQUIRE(all.size() == 1);
  CHECK(all[0].host == "d");
  CHECK(all[0].file.refusals == 0);
}
