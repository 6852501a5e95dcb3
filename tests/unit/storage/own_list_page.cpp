#include "storage/own_list_page.hpp"

#include "own_lists_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test", other = "!s:us.test", alice = "@a:us.test", bob = "@b:us.test";
const std::string there = "@x:one.test";

struct fixture : list_bench {
  fixture() { feed(line_of(roster_line(room, {alice, bob, there, "@y:two.test"}))); }
  void put(const std::string& user, const std::string& device, const std::string& keys = "k") {
    feed(line_of(device_line(user, device, keys)));
  }
  void remove(const std::string& user, const std::string& device) { feed(line_of(deletion_line(user, device))); }
};
} // namespace

TEST_CASE_FIXTURE(fixture, "what an update says") {
  put(alice, "D1", "k1");
  feed(line_of(rename_line(alice, "D1", "phone")));
  auto told = page("one.test");
  REQUIRE(told.list.size() == 1);
  auto version = std::to_string(now_ms + 1);
  CHECK(told.list[0].edu == R"({"content":{"device_display_name":"phone","device_id":"D1","keys":)" +
                                device_keys(alice, "D1", "k1") + R"(,"prev_id":[)" + std::to_string(now_ms - 1) +
                                R"(],"stream_id":)" + version +
                                R"(,"user_id":"@a:us.test"},"edu_type":"m.device_list_update"})");
  CHECK(told.list[0].user == alice);
  CHECK_FALSE(told.list[0].signing);
  remove(alice, "D1");
  auto gone = read_update(page("one.test").list.at(0).edu);
  CHECK(gone.deleted);
  CHECK(gone.keys.empty());
  CHECK(gone.name.empty());
  // U11: without keys and name.
  put(bob, "E1", "");
  auto bare = page("one.test").list.at(1).edu;
  CHECK(bare == R"({"content":{"device_id":"E1","prev_id":[],"stream_id":)" + std::to_string(now_ms) +
                    R"(,"user_id":"@b:us.test"},"edu_type":"m.device_list_update"})");
}

TEST_CASE_FIXTURE(fixture, "names aren't told where they are hidden") {
  put(alice, "D1");
  feed(line_of(rename_line(alice, "D1", "phone")));
  auto hidden = own_lists(*reader, false).updates(question("one.test"));
  CHECK(read_update(hidden.list.at(0).edu).name.empty());
}

TEST_CASE_FIXTURE(fixture,
                  "cross-signing keys go as a signing_key_update without the user-signing key, and have no version") {
  put(alice, "D1");
  auto keys = signing_line(alice, "M");
  keys.user_signing_key = {change<std::string>::what::given, signing_key(alice, "user_signing", "U")};
  feed(line_of(keys));
  put(alice, "D2");
  auto told = page("one.test");
  CHECK(brief(told) == "D1:1< signing D2:2<1");
  CHECK(told.list[1].edu == R"({"content":{"master_key":)" + signing_key(alice, "master", "M") +
                                R"(,"user_id":"@a:us.test"},"edu_type":"m.signing_key_update"})");
  // Only the newest is sent.
  feed(line_of(signing_line(alice, "M2")));
  CHECK(brief("one.test") == "D1:1< D2:2<1 signing");
}

TEST_CASE_FIXTURE(fixture, "B46: several devices deleted at once rise strictly, each linked to the one before") {
  for (const auto* device : {"D1", "D2", "D3"})
    put(alice, device);
  CHECK(deliver("one.test") == "D1:1< D2:2<1 D3:3<2");
  feed({line_of(deletion_line(alice, "D1")), line_of(deletion_line(alice, "D2")), line_of(deletion_line(alice, "D3"))});
  CHECK(deliver("one.test") == "-D1:4<3 -D2:5<4 -D3:6<5");
  CHECK(brief("two.test") == "-D1:4<0 -D2:5<4 -D3:6<5");
}

TEST_CASE_FIXTURE(fixture, "each user has a chain of its own") {
  put(alice, "D1");
  put(bob, "E1");
  put(alice, "D2");
  put(bob, "E2");
  CHECK(deliver("one.test") == "D1:1< E1:1< D2:2<1 E2:2<1");
}

TEST_CASE_FIXTURE(fixture, "B44: 250 changed devices go in pages, none is passed over") {
  for (int i = 0; i < 250; ++i)
    put(alice, "D" + std::to_string(i));
  std::set<std::string> devices;
  std::int64_t newest = now_ms;
  int pages = 0;
  for (;; ++pages) {
    auto told = page("one.test");
    if (told.list.empty()) break;
    CHECK(told.list.size() <= 100);
    for (const auto& one : told.list) {
      auto update = read_update(one.edu);
      CHECK(devices.insert(update.device).second);
      if (update.stream_id > now_ms) CHECK(update.prev == std::vector{newest});
      newest = update.stream_id;
    }
    CHECK(told.through == (told.more ? told.list.back().through : head()));
    acknowledge("one.test", told.through);
  }
  CHECK(pages == 3);
  CHECK(devices.size() == 250);
}

TEST_CASE_FIXTURE(fixture, "B88: full is a normal state, whatever the number") {
  for (std::size_t pending : {0U, 1U, 99U, 100U, 101U})
    for (std::size_t room_left : {0U, 1U, 50U, 99U, 100U, 101U}) {
      CAPTURE(pending);
      CAPTURE(room_left);
      fixture fresh;
      std::vector<feed_line> lines;
      for (std::size_t i = 0; i < pending; ++i)
        lines.push_back(line_of(device_line(alice, "D" + std::to_string(i), "k")));
      fresh.feed(lines);
      auto ask = fresh.question("one.test");
      ask.max_edus = room_left;
      auto told = fresh.page(ask);
      CHECK(told.list.size() == std::min(pending, room_left));
      CHECK(told.more == (pending > room_left));
      if (pending > room_left) CHECK(told.through == fresh.head() - position(pending - room_left));
      else CHECK(told.through == fresh.head());
    }
}

TEST_CASE_FIXTURE(fixture, "bytes bound a page, but one update always goes") {
  put(alice, "D1", std::string(3'000, 'x'));
  put(alice, "D2", std::string(3'000, 'y'));
  auto ask = question("one.test");
  ask.max_bytes = 100;
  CHECK(brief(page(ask)) == "D1:1<");
  CHECK(page(ask).more);
  ask.max_bytes = 10'000;
  CHECK(brief(page(ask)) == "D1:1< D2:2<1");
}

TEST_CASE_FIXTURE(fixture, "senders of to-device messages come first, and what went ahead isn't told again") {
  put(alice, "D1");
  put(alice, "D2");
  put(bob, "E1");
  auto ask = question("one.test");
  ask.first = {bob};
  ask.max_edus = 2;
  auto told = page(ask);
  CHECK(brief(told) == "E1:1< D1:1<");
  CHECK(told.more);
  CHECK(told.through == told.list[1].through);
  acknowledge("one.test", told.through);
  ask = question("one.test");
  ask.sent[bob] = told.list[0].through;
  CHECK(brief(page(ask)) == "D2:2<1");
  CHECK(page(ask).through == head());
  // A change after what went ahead links to that.
  put(bob, "E2");
  ask.upto = head();
  CHECK(brief(page(ask)) == "D2:2<1 E2:2<1");
}

TEST_CASE_FIXTURE(fixture, "who is throttled waits alone and holds the cursor") {
  put(alice, "D1");
  put(bob, "E1");
  put(alice, "D2");
  auto ask = question("one.test");
  ask.throttled = {alice};
  auto told = page(ask);
  CHECK(brief(told) == "E1:1<");
  CHECK_FALSE(told.more);
  CHECK(told.through == told.list[0].through - 2);
  ask.first = {alice};
  CHECK(brief(page(ask)) == "D1:1< D2:2<1 E1:1<");
}

TEST_CASE_FIXTURE(fixture, "B56: what changes while an update is on its way leads to a further one") {
  put(alice, "D2", "unsigned");
  auto on_its_way = page("one.test");
  put(alice, "D2", "signed");
  acknowledge("one.test", on_its_way.through);
  auto after = page("one.test");
  REQUIRE(after.list.size() == 1);
  CHECK(read_update(after.list[0].edu).keys == device_keys(alice, "D2", "signed"));
  CHECK(brief(after) == "D2:2<1");
  // The other way round: made before the page is read, it is in it.
  CHECK(brief("two.test") == "D2:2<0");
}

TEST_CASE_FIXTURE(fixture, "fifty changes of one device while a server is down are one update") {
  for (int i = 0; i < 50; ++i)
    put(alice, "D1", "k" + std::to_string(i));
  auto told = page("one.test");
  REQUIRE(told.list.size() == 1);
  CHECK(read_update(told.list[0].edu).keys == device_keys(alice, "D1", "k49"));
}

TEST_CASE_FIXTURE(fixture, "nothing is owed of users who share no room, now or when it is read") {
  feed(line_of(roster_line(other, {"@c:us.test", "@y:two.test"})));
  put("@c:us.test", "F1");
  CHECK(brief("one.test").empty());
  CHECK(page("one.test").through == head());
  CHECK(brief("two.test") == "F1:1<");
  put(alice, "D1");
  feed(member_line(room, alice, "leave"));
  CHECK(brief("one.test").empty());
  CHECK(page("nobody.test").through == head());
}

TEST_CASE_FIXTURE(fixture, "prev_id when sharing began after the cursor: the version at that moment") {
  put("@c:us.test", "F1");
  put("@c:us.test", "F2");
  feed(line_of(roster_line(room, {alice, bob, "@c:us.test", there, "@y:two.test"})));
  // The roster itself makes no update, but what stands above the cursor is owed: with a gap, so that it is fetched.
  CHECK(brief("one.test") == "F1:1< F2:2<1");
  acknowledge("one.test", head());
  put("@c:us.test", "F3");
  CHECK(deliver("one.test") == "F3:3<2");
}

TEST_CASE_FIXTURE(fixture, "initial devices aren't told; their versions count") {
  auto first = device_line(alice, "D1", "k");
  first.initial = true;
  feed(line_of(first));
  CHECK(last.entries.empty());
  CHECK(brief("one.test").empty());
  CHECK(page("one.test").through == head());
  put(alice, "D2");
  CHECK(deliver("one.test") == "D2:2<1");
  auto late = device_line(alice, "D3", "k");
  late.initial = true;
  feed(line_of(late));
  put(alice, "D4");
  // The server doesn't know version 3, and nothing will tell it of D3, so it must fetch.
  CHECK(brief("one.test") == "D4:4<3");
}

TEST_CASE("a share tells the whole list, once, linked to nothing that the server could know") {
  list_bench bench;
  bench.feed(line_of(roster_line(room, {bob, there})));
  for (const auto* device : {"D1", "D2", "D3"})
    bench.feed(line_of(device_line(alice, device, "k")));
  bench.feed(line_of(deletion_line(alice, "D1")));
  bench.feed(line_of(signing_line(alice, "M")));
  bench.feed(member_line(room, alice, "join"));
  REQUIRE(bench.last.entries.size() == 1);
  CHECK(bench.last.entries[0].kind == entry_kind::share);
  CHECK(bench.last.entries[0].room_id == room);
  CHECK(names_of(bench.last.entries[0]) == "one.test");
  CHECK(bench.brief("one.test") == "D2:2<0 D3:4<2 signing");
  // A device that changes meanwhile goes by its own entry.
  bench.feed(line_of(device_line(alice, "D2", "k2")));
  auto told = bench.page("one.test");
  CHECK(bench.brief(told) == "D3:4<0 signing D2:5<4");
  CHECK(told.list[1].through == told.list[2].through - 1);
  CHECK(told.list[0].through < told.list[1].through);
  bench.acknowledge("one.test", told.through);
  // Another room that they come to share is no news.
  bench.feed({member_line(other, there, "join"), member_line(other, alice, "join")});
  CHECK(bench.brief("one.test").empty());
}

TEST_CASE("a user's first device ever, told by a share, begins the sequence") {
  list_bench bench;
  bench.feed(line_of(roster_line(room, {bob, there})));
  bench.feed(line_of(device_line(alice, "D1", "k")));
  bench.feed(member_line(room, alice, "join"));
  CHECK(bench.brief("one.test") == "D1:1<");
}

TEST_CASE("shares: who is owed one") {
  struct row {
    std::string what;
    std::vector<feed_line> lines;
    std::string told;
  };
  const std::string third = "!t:us.test";
  const std::vector<row> table{
      {"a join", {member_line(room, alice, "join")}, "D1:1<"},
      {"a roster makes none", {line_of(roster_line(room, {alice, bob, there}))}, ""},
      {"a room without that server", {member_line(other, alice, "join")}, ""},
      {"joined and left again", {member_line(room, alice, "join"), member_line(room, alice, "leave")}, ""},
      {"two rooms at once", {member_line(room, alice, "join"), member_line(third, alice, "join")}, "D1:1<"},
      {"the first of two is left",
       {member_line(room, alice, "join"), member_line(third, alice, "join"), member_line(room, alice, "leave")},
       "D1:1<"},
      {"the second of two is left",
       {member_line(room, alice, "join"), member_line(third, alice, "join"), member_line(third, alice, "leave")},
       "D1:1<"},
      {"left and joined again",
       {member_line(room, alice, "join"), member_line(room, alice, "leave"), member_line(room, alice, "join")},
       "D1:1<"},
      {"shared by a roster before",
       {line_of(roster_line(third, {alice, there})), member_line(room, alice, "join")},
       ""},
      {"shared by a roster before, and that was left since",
       {line_of(roster_line(third, {alice, there})), member_line(room, alice, "join"),
        member_line(third, alice, "leave")},
       ""},
      {"a gap between",
       {line_of(roster_line(third, {alice, there})), member_line(third, alice, "leave"),
        member_line(room, alice, "join")},
       "D1:1<"},
      {"the server came after", {member_line(other, alice, "join"), member_line(other, there, "join")}, ""},
  };
  for (const auto& one : table) {
    CAPTURE(one.what);
    list_bench bench;
    bench.feed({line_of(roster_line(room, {bob, there})), line_of(roster_line(third, {bob, there})),
                line_of(roster_line(other, {bob, "@y:two.test"}))});
    bench.feed(line_of(device_line(alice, "D1", "k")));
    bench.acknowledge("one.test", bench.head());
    bench.feed(one.lines);
    CHECK(bench.brief("one.test") == one.told);
    CHECK(bench.page("one.test").through == bench.head());
  }
}

TEST_CASE("a share waits for its delay, and the user's later changes with it; a sender doesn't") {
  list_bench bench;
  bench.feed(line_of(roster_line(room, {bob, there})));
  bench.feed(line_of(device_line(alice, "D1", "k")));
  bench.acknowledge("one.test", bench.head());
  const auto joined_ms = bench.now_ms;
  bench.feed(member_line(room, alice, "join"));
  const auto before = bench.head() - 1;
  bench.feed(line_of(device_line(alice, "D2", "k")));
  bench.feed(line_of(device_line(bob, "E1", "k")));
  auto ask = bench.question("one.test");
  ask.shares_before_ms = joined_ms - 1;
  auto told = bench.page(ask);
  CHECK(bench.brief(told) == "E1:1<");
  CHECK(told.next_share_ms == joined_ms);
  CHECK(told.through == before);
  CHECK_FALSE(told.more);
  ask.first = {alice};
  CHECK(bench.brief(bench.page(ask)) == "D1:1< D2:2<1 E1:1<");
  CHECK(bench.page(ask).next_share_ms == 0);
  ask.first.clear();
  ask.shares_before_ms = joined_ms;
  CHECK(bench.brief(bench.page(ask)) == "D1:1< D2:2<1 E1:1<");
}

TEST_CASE("a share of more than 50 devices, or of more than a page, is one update that makes the peer fetch") {
  for (int devices : {50, 51}) {
    CAPTURE(devices);
    list_bench bench;
    bench.feed(line_of(roster_line(room, {bob, there})));
    for (int i = 1; i <= devices; ++i)
      bench.feed(line_of(device_line(alice, "D" + std::to_string(i), "k")));
    bench.acknowledge("one.test", bench.head());
    bench.feed(member_line(room, alice, "join"));
    auto told = bench.page("one.test");
    if (devices == 50) CHECK(told.list.size() == 50);
    else CHECK(bench.brief(told) == "D51:51<0");
    CHECK(told.through == bench.head());
    auto ask = bench.question("one.test");
    ask.max_edus = 49;
    CHECK(bench.brief(bench.page(ask)) == "D" + std::to_string(devices) + ":" + std::to_string(devices) + "<0");
    // Behind something else it waits for the next page instead.
    bench.feed(line_of(device_line(bob, "E1", "k")));
    ask = bench.question("one.test");
    ask.first = {bob};
    ask.max_edus = 50;
    CHECK(bench.page(ask).list.size() == (devices == 50 ? 1 : 2));
    CHECK(bench.page(ask).more == (devices == 50));
  }
}

TEST_CASE("the same page, however many others changed: by entries or by users") {
  list_bench bench;
  bench.feed(line_of(roster_line(room, {alice, bob, there})));
  std::vector<feed_line> lines;
  for (int i = 0; i < 1'500; ++i)
    lines.push_back(line_of(device_line("@u" + std::to_string(i) + ":us.test", "D", "k")));
  for (int round = 0; round < 2; ++round) {
    bench.feed(lines);
    for (auto& one : lines)
      std::get<device_record>(std::get<record>(one.what)).device_id += "x",
          std::get<device_record>(std::get<record>(one.what)).keys.is = change<std::string>::what::unchanged;
    bench.feed(line_of(device_line(alice, "D" + std::to_string(round), "k")));
    bench.feed(line_of(device_line(bob, "E" + std::to_string(round), "k")));
    CHECK(bench.brief("one.test") == (round == 0 ? "D0:1< E0:1<" : "D0:1< E0:1< D1:2<1 E1:2<1"));
    CHECK(bench.page("one.test").through == bench.head());
    auto ask = bench.question("one.test");
    ask.max_edus = 1;
    CHECK(bench.brief(bench.page(ask)) == "D0:1<");
    CHECK(bench.page(ask).through == bench.page(ask).list[0].through);
    CHECK(bench.page(ask).more);
  }
}
