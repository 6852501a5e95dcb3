#include "storage/device_pruning.hpp"

#include "list_peer.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test", alice = "@a:us.test", bob = "@b:us.test";
constexpr std::int64_t minute = 60'000, day = 86'400'000;

struct fixture : list_bench {
  fixture() { feed(line_of(roster_line(room, {alice, bob, "@x:one.test", "@y:two.test"}))); }
  void put(const std::string& device, const std::string& keys = "k") {
    feed(line_of(device_line(alice, device, keys)));
  }
  void remove(const std::string& device) { feed(line_of(deletion_line(alice, device))); }
  void tidy(std::int64_t later_ms) {
    now_ms += later_ms;
    write([&](writer& to, auto&) { to.tidy(now_ms, {}); });
  }
  /// What the peer makes of a page, and the page acknowledged.
  void receive(list_peer& peer, const std::string& server) {
    auto told = page(server);
    peer.take(told.list, [&](const std::string& user) { return lists().list(user).json; });
    acknowledge(server, told.through);
  }
  std::set<std::string> devices(const list_peer& peer) {
    std::set<std::string> out;
    for (const auto& [device, content] : peer.lists.at(alice).devices)
      out.insert(device);
    return out;
  }
};
} // namespace

TEST_CASE_FIXTURE(fixture, "1,000 changes of one device while a server is down: one update for it, one row for us") {
  put("D1", "first");
  CHECK(deliver("one.test") == "D1:1<");
  CHECK(deliver("two.test") == "D1:1<");
  for (int i = 0; i < 1'000; ++i)
    put("D1", "k" + std::to_string(i));
  CHECK(rows("device_entry") < 150);
  CHECK(brief("one.test") == "D1:1001<1");
  tidy(3 * minute);
  // The newest, and the version at which both servers stand.
  CHECK(rows("device_entry") == 2);
  CHECK(deliver("one.test") == "D1:1001<1");
  CHECK(deliver("two.test") == "D1:1001<1");
  tidy(minute);
  CHECK(rows("device_entry") == 1);
  put("D1", "last");
  CHECK(deliver("one.test") == "D1:1002<1001");
}

TEST_CASE_FIXTURE(fixture, "nobody shares: one row a device, and the versions go on") {
  for (int i = 0; i < 100; ++i)
    feed(line_of(device_line("@c:us.test", "F1", "k" + std::to_string(i))));
  tidy(3 * minute);
  CHECK(query_number("SELECT count(*) FROM device_entry WHERE user = '@c:us.test'") == 1);
  feed(member_line(room, "@c:us.test", "join"));
  CHECK(brief("one.test") == "F1:100<0");
}

TEST_CASE_FIXTURE(fixture, "a version stays while a server stands at it") {
  put("D1", "1");
  CHECK(deliver("one.test") == "D1:1<");
  put("D1", "2");
  CHECK(deliver("two.test") == "D1:2<0");
  put("D1", "3");
  put("D1", "4");
  tidy(3 * minute);
  CHECK(brief("one.test") == "D1:4<1");
  CHECK(brief("two.test") == "D1:4<2");
  CHECK(rows("device_entry") == 3);
}

TEST_CASE_FIXTURE(fixture, "what is new is left alone: a destination may have told more than its cursor says") {
  for (int i = 0; i < 20; ++i)
    put("D1", std::to_string(i));
  tidy(minute);
  CHECK(rows("device_entry") == 20);
  tidy(2 * minute);
  CHECK(rows("device_entry") == 1);
}

TEST_CASE_FIXTURE(fixture, "a deletion goes when everybody was told") {
  put("D1");
  put("D2");
  CHECK(deliver("one.test") == "D1:1< D2:2<1");
  CHECK(deliver("two.test") == "D1:1< D2:2<1");
  remove("D2");
  CHECK(deliver("one.test") == "-D2:3<2");
  tidy(3 * minute);
  CHECK(rows("local_device") == 2);
  CHECK(deliver("two.test") == "-D2:3<2");
  tidy(3 * minute);
  CHECK(rows("local_device") == 1);
  put("D3");
  CHECK(deliver("one.test") == "D3:4<3");
  // Fed again it changes nothing.
  remove("D2");
  CHECK(brief("one.test").empty());
}

TEST_CASE_FIXTURE(fixture, "B47: merged changes link to what the server has, a deletion that was let go doesn't") {
  for (int i = 1; i <= 5; ++i)
    put("D" + std::to_string(i % 2), std::to_string(i));
  list_peer peer;
  receive(peer, "one.test");
  CHECK(peer.fetches[alice] == 1);
  put("D2");
  for (int i = 0; i < 30; ++i)
    put("D0", "x" + std::to_string(i));
  tidy(3 * minute);
  CHECK(brief("one.test") == "D2:6<5 D0:36<6");
  SUBCASE("only merged") {
    receive(peer, "one.test");
    CHECK(peer.fetches[alice] == 1);
    CHECK(devices(peer) == std::set<std::string>{"D0", "D1", "D2"});
  }
  SUBCASE("let go") {
    remove("D1");
    put("D0", "y");
    tidy(31 * day);
    auto told = read_update(page("one.test").list.at(0).edu);
    CHECK(told.prev.size() == 1);
    CHECK(told.prev != std::vector{now_ms - 31 * day - 3 * minute + 4});
    receive(peer, "one.test");
    CHECK(peer.fetches[alice] == 2);
    CHECK(devices(peer) == std::set<std::string>{"D0", "D2"});
  }
}

TEST_CASE_FIXTURE(fixture,
                  "B55: deletions arrive after an outage, however long, and devices that came and went don't stay") {
  for (const auto* device : {"D1", "D2", "D3"})
    put(device);
  list_peer peer;
  receive(peer, "one.test");
  remove("D2");
  remove("D3");
  put("D4");
  remove("D4");
  SUBCASE("two hours") { tidy(120 * minute); }
  SUBCASE("longer than deletions are kept") {
    tidy(31 * day);
    tidy(minute);
    CHECK(rows("local_device") == 2);
  }
  SUBCASE("and the user changed nothing but keys since") {
    feed(line_of(signing_line(alice, "M")));
    tidy(31 * day);
  }
  reopen();
  receive(peer, "one.test");
  CHECK(devices(peer) == std::set<std::string>{"D1"});
}

TEST_CASE_FIXTURE(fixture,
                  "a deletion that came while nothing was shared is told by the gap when sharing begins again") {
  put("D1");
  put("D2");
  list_peer peer;
  receive(peer, "one.test");
  receive(peer, "two.test");
  feed(member_line(room, "@x:one.test", "leave"));
  remove("D2");
  put("D3");
  receive(peer, "two.test");
  tidy(3 * minute);
  feed(member_line(room, "@x:one.test", "join"));
  put("D1", "new");
  tidy(3 * minute);
  put("D1", "newer");
  // A server that still trusts its old list finds out.
  list_peer stubborn;
  stubborn.lists[alice] = peer.lists[alice];
  stubborn.lists[alice].stream_id = now_ms - 6 * minute + 1;
  receive(stubborn, "one.test");
  CHECK(devices(stubborn) == std::set<std::string>{"D1", "D3"});
}

TEST_CASE_FIXTURE(fixture, "B52: a thousand devices that come and go leave nothing behind") {
  list_peer peer;
  for (int i = 0; i < 1'000; ++i) {
    auto device = "D" + std::to_string(i);
    put(device);
    remove(device);
    if (i % 50 == 49) receive(peer, "one.test");
    if (i % 100 == 99) tidy(3 * minute);
  }
  CHECK(peer.lists[alice].devices.empty());
  // Each was told at most once, as deleted; nothing of it waits for the server that is up.
  CHECK(peer.edus == 1'000);
  CHECK(peer.fetches[alice] == 1);
  // The other server was down all the time: what waits for it is bounded.
  CHECK(rows("local_device") <= 501);
  CHECK(rows("device_entry") <= 700);
  list_peer late;
  for (int i = 0; i < 10; ++i)
    receive(late, "two.test");
  CHECK(late.lists[alice].devices.empty());
  tidy(3 * minute);
  tidy(3 * minute);
  CHECK(rows("local_device") == 0);
  CHECK(rows("device_entry") == 1);
}

TEST_CASE_FIXTURE(fixture, "B59: a change is one row, whatever the number of rooms and servers") {
  std::vector<feed_line> rosters;
  for (int i = 0; i < 200; ++i) {
    std::vector<std::string> users{alice};
    for (int j = 0; j < 10; ++j)
      users.push_back("@u:s" + std::to_string(i * 3 + j) + ".test");
    rosters.push_back(line_of(roster_line("!m" + std::to_string(i) + ":us.test", users)));
  }
  feed(rosters);
  const auto before = stores->db.total_changes();
  put("D1");
  // The entry, the user's version, the device, the announcement with its kept copy, and the head.
  CHECK(stores->db.total_changes() - before <= 10);
  CHECK(rows("device_entry") == 1);
}

TEST_CASE_FIXTURE(fixture, "B58: clean-up goes on in bounded steps, over restarts too") {
  std::vector<feed_line> lines;
  const int users = 3'000;
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < users; ++i)
      lines.push_back(line_of(device_line("@u" + std::to_string(i) + ":us.test", "D", std::to_string(round))));
  feed(lines);
  CHECK(rows("device_entry") == 3 * users);
  now_ms += 3 * minute;
  auto left = rows("device_entry");
  for (int step = 0; left > users; ++step) {
    REQUIRE(step < 4);
    tidy(minute);
    CHECK(left - rows("device_entry") <= 2'000);
    CHECK(rows("device_entry") < left);
    left = rows("device_entry");
  }
  CHECK(left == users);
  feed(lines);
  now_ms += 3 * minute;
  for (int step = 0; step < 3; ++step) {
    left = rows("device_entry");
    reopen();
    tidy(minute);
    CHECK(rows("device_entry") < left);
  }
}

TEST_CASE_FIXTURE(fixture, "shares go when the servers of their room have passed them") {
  acknowledge("one.test", head());
  feed(member_line(room, "@c:us.test", "join"));
  CHECK(query_number("SELECT count(*) FROM device_entry WHERE kind = 4") == 1);
  tidy(3 * minute);
  acknowledge("one.test", head());
  tidy(3 * minute);
  CHECK(query_number("SELECT count(*) FROM device_entry WHERE kind = 4") == 1);
  acknowledge("two.test", head());
  tidy(3 * minute);
  CHECK(query_number("SELECT count(*) FROM device_entry WHERE kind = 4") == 0);
  // Coming and going leaves one a room and user at most.
  for (int i = 0; i < 20; ++i)
    feed({member_line(room, "@c:us.test", "leave"), member_line(room, "@c:us.test", "join")});
  CHECK(query_number("SELECT count(*) FROM device_entry WHERE kind = 4") == 1);
}
