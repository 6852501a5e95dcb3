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

TEST_CASE("the list of a user says what its updates say, under the version of the last one") {
  list_bench bench;
  shared(bench);
  bench.feed({line_of(device_line(alice, "D2", "k2")), line_of(device_line(alice, "D1")),
              line_of(rename_line(alice, "D2", "phone")), line_of(device_line(alice, "D3", "k3")),
              line_of(deletion_line(alice, "D3"))});
  auto keys = signing_line(alice, "M");
  keys.self_signing_key = {change<std::string>::what::given, signing_key(alice, "self_signing", "S")};
  keys.user_signing_key = {change<std::string>::what::given, signing_key(alice, "user_signing", "U")};
  bench.feed(line_of(keys));
  auto list = bench.lists().list(alice);
  CHECK(list.known);
  CHECK(list.json == R"({"devices":[{"device_id":"D1"},{"device_display_name":"phone","device_id":"D2","keys":)" +
                         device_keys(alice, "D2", "k2") + R"(}],"master_key":)" + signing_key(alice, "master", "M") +
                         R"(,"self_signing_key":)" + signing_key(alice, "self_signing", "S") + R"(,"stream_id":)" +
                         std::to_string(bench.now_ms + 4) + R"(,"user_id":"@a:us.test"})");
  CHECK(list.json == canonical_json(list.json));
}

TEST_CASE("lists of users without devices, and of nobody") {
  list_bench bench;
  shared(bench);
  auto empty = bench.lists().list(alice);
  CHECK(empty.known);
  CHECK(empty.json == R"({"devices":[],"stream_id":0,"user_id":"@a:us.test"})");
  CHECK_FALSE(bench.lists().list(bob).known);
  // Whoever a roster names is known, joined or not.
  for (std::string membership : {"invite", "leave"}) {
    bench.feed(member_line(room, "@named:us.test", membership));
    CHECK(bench.lists().list("@named:us.test").known);
  }
  CHECK_FALSE(bench.lists().list("@x:one.test").known);
  CHECK_FALSE(bench.lists().list("no user").known);
  bench.feed(line_of(device_line(bob, "E1")));
  bench.feed(line_of(deletion_line(bob, "E1")));
  CHECK(bench.lists().list(bob).json ==
        R"({"devices":[],"stream_id":)" + std::to_string(bench.now_ms + 1) + R"(,"user_id":"@b:us.test"})");
}

TEST_CASE("keys of a local user: what was uploaded, with the name added") {
  list_bench bench;
  shared(bench);
  auto odd = device_line(alice, "D1");
  odd.keys = {
      change<std::string>::what::given,
      R"({"algorithms":[],"device_id":"D1","keys":{},"signatures":{},"unsigned":{"age":1},"user_id":"@a:us.test"})"};
  bench.feed({line_of(odd), line_of(rename_line(alice, "D1", "my \"phone\"")), line_of(device_line(alice, "D2", "k")),
              line_of(device_line(alice, "D3")), line_of(signing_line(alice, "M"))});
  auto known = bench.lists().keys(alice, {}, false, true);
  CHECK(known.state == list_state::own);
  REQUIRE(known.devices.size() == 2);
  CHECK(known.devices["D1"] == R"({"algorithms":[],"device_id":"D1","keys":{},"signatures":{},"unsigned":)"
                               R"({"device_display_name":"my \"phone\""},"user_id":"@a:us.test"})");
  CHECK(known.devices["D2"] == device_keys(alice, "D2", "k"));
  CHECK(known.master_key == signing_key(alice, "master", "M"));
  CHECK(known.self_signing_key.empty());
  CHECK(bench.lists().keys(alice, {"D2", "nothing"}, false, true).devices.size() == 1);
  auto nobody = bench.lists().keys(bob, {}, true, false);
  CHECK(nobody.state == list_state::own);
  CHECK(nobody.devices.empty());
  CHECK(bench.lists().keys("@x:one.test", {}, false, false).state != list_state::own);
}

TEST_CASE("B61: of a user with 6,000 devices a change writes and tells only what changed") {
  list_bench bench;
  shared(bench);
  std::vector<feed_line> lines;
  for (int i = 0; i < 6'000; ++i)
    lines.push_back(line_of(device_line(alice, "D" + std::to_string(i), "k")));
  bench.feed(lines);
  bench.acknowledge("one.test", bench.head());
  const auto before = bench.stores->db.total_changes();
  for (int i = 0; i < 100; ++i)
    bench.feed(line_of(device_line(alice, "D" + std::to_string(i * 7), "new")));
  // The device's entry and the mark on its older one, the version, the device, the announcement twice, the head.
  CHECK(bench.stores->db.total_changes() - before <= 100 * 10);
  auto told = bench.page("one.test");
  CHECK(told.list.size() == 100);
  CHECK_FALSE(told.more);
}
