#include "storage/own_lists.hpp"

#include "own_lists_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test", alice = "@a:us.test", bob = "@b:us.test";
/// One room with alice and two servers.
void shared(list_bench& bench) { bench.feed(line_of(roster_line(room, {alice, "@x:one.test", "@y:two.test"}))); }
} // namespace

TEST_CASE("a change is one update whose prev_id is what the server knows") {
  list_bench bench;
  shared(bench);
  bench.feed(line_of(device_line(alice, "D1", "k")));
  REQUIRE(bench.last.entries.size() == 1);
  CHECK(bench.last.entries[0].kind == entry_kind::device);
  CHECK(bench.last.entries[0].subject == alice);
  CHECK(bench.last.entries[0].detail == "D1");
  CHECK(names_of(bench.last.entries[0]) == "one.test two.test");
  CHECK(bench.deliver("one.test") == "D1:1<");
  CHECK(bench.deliver("one.test").empty());
  bench.feed(line_of(device_line(alice, "D2", "k")));
  CHECK(bench.deliver("one.test") == "D2:2<1");
  bench.reopen();
  bench.feed(line_of(rename_line(alice, "D1", "phone")));
  CHECK(bench.deliver("one.test") == "D1:3<2");
  bench.feed(line_of(deletion_line(alice, "D2")));
  CHECK(bench.deliver("one.test") == "-D2:4<3");
  // Changes that were merged need no mention.
  CHECK(bench.brief("two.test") == "D1:3<0 -D2:4<3");
}

TEST_CASE("the cursor stays before the superseded versions of a user who is held back, so that its chain goes on") {
  list_bench bench;
  shared(bench);
  bench.feed(line_of(device_line(alice, "D1", "k")));
  CHECK(bench.deliver("one.test") == "D1:1<");
  for (const auto* keys : {"l", "m", "n"})
    bench.feed(line_of(device_line(alice, "D1", keys)));
  auto held = bench.question("one.test");
  held.throttled = {alice};
  const auto page = bench.page(held);
  CHECK(page.list.empty());
  bench.acknowledge("one.test", page.through);
  CHECK(bench.deliver("one.test") == "D1:4<1");
}
