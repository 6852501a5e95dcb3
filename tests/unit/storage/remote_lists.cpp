#include "storage/remote_lists.hpp"

#include "remote_lists_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;
using outcome = save_device_list::outcome;

TEST_CASE("L11: a first update of a list that isn't held marks it; the fetch that follows makes it true and is told") {
  lists_bench bench;
  CHECK(bench.known().state == list_state::not_held);
  bench.take({lists_bench::update(1, {}, "B1")});
  CHECK(bench.to_fetch() == "@b:remote.test");
  CHECK(names_of(bench.last.entries.at(0)) == "remote.test");
  CHECK(bench.last.entries.at(0).marks == bench.marks());
  CHECK(bench.told().empty());
  CHECK(bench.known().state == list_state::not_held);
  auto saved = bench.save(lists_bench::fetched(bench.marks(), 1, {"B1"}));
  CHECK(saved.ok);
  CHECK_FALSE(saved.still_stale);
  CHECK(bench.known().state == list_state::fresh);
  CHECK(bench.devices() == "B1");
  CHECK(bench.told_changed() == 1);
  // The next one is applied without a fetch (SyTest: "Server correctly handles incoming m.device_list_update").
  auto named = lists_bench::update(2, {1}, "B1");
  named.display_name = "phone";
  bench.take({named});
  CHECK(bench.to_fetch() == "");
  CHECK(bench.known().devices.at("B1") ==
        R"({"device_id":"B1","keys":{"ed25519:B1":"k"},"unsigned":{"device_display_name":"phone"}})");
  CHECK(bench.told_changed() == 1);
}

TEST_CASE("L8: updates chain, also within one transaction; a deletion removes the device") {
  lists_bench bench;
  bench.save(lists_bench::fetched(0, 5, {"B1"}));
  bench.take(
      {lists_bench::update(6, {5}, "B2"), lists_bench::update(8, {6}, "B3"), lists_bench::deletion(9, {8}, "B1")});
  CHECK(bench.to_fetch() == "");
  CHECK(bench.devices() == "B2 B3");
  CHECK(bench.told_changed() == 3);
  bench.take({lists_bench::update(10, {9}, "B2")}); // nothing new in it
  CHECK(bench.told().empty());
  bench.take({lists_bench::update(11, {10}, "B2", "other")});
  CHECK(bench.to_fetch() == "");
  CHECK(bench.told_changed() == 1);
}

TEST_CASE("L9: an unknown prev_id marks the list, and nothing is applied until it is fetched") {
  lists_bench bench;
  bench.save(lists_bench::fetched(0, 1, {"B1"}));
  bench.take({lists_bench::update(3, {2}, "B3")});
  CHECK(bench.to_fetch() == "@b:remote.test");
  CHECK(bench.known().state == list_state::stale);
  CHECK(bench.devices() == "B1");
  CHECK(bench.known().cause == "an update names a prev_id that isn't known");
  auto first = bench.marks();
  bench.take({lists_bench::update(4, {3}, "B4")});
  CHECK(bench.marks() > first);
  CHECK(bench.devices() == "B1");
  // The fetch that began before the second one brings a list, but the mark stays.
  auto saved = bench.save(lists_bench::fetched(first, 3, {"B1", "B3"}));
  CHECK(saved.still_stale);
  CHECK(saved.marks == bench.marks());
  CHECK(bench.devices() == "B1 B3");
  CHECK(bench.known().state == list_state::stale);
  CHECK_FALSE(bench.save(lists_bench::fetched(saved.marks, 4, {"B1", "B3", "B4"})).still_stale);
  CHECK(bench.known().state == list_state::fresh);
}
