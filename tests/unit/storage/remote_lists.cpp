#include "storage/remote_lists.hpp"

#include "remote_lists_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;
using outcome = save_device_list::outcome;
using B = lists_bench;

TEST_CASE("L11: a first update of a list that isn't held marks it; the fetch that follows makes it true and is told") {
  lists_bench bench;
  CHECK(bench.known().state == list_state::not_held);
  bench.take({B::update(1, {}, "B1")});
  CHECK(bench.to_fetch() == "@b:remote.test");
  CHECK(names_of(bench.last.entries.at(0)) == "remote.test");
  CHECK(bench.last.entries.at(0).marks == bench.marks());
  CHECK(bench.told().empty());
  CHECK(bench.known().state == list_state::not_held);
  auto saved = bench.save(B::fetched(bench.marks(), 1, {"B1"}));
  CHECK(saved.ok);
  CHECK_FALSE(saved.still_stale);
  CHECK(bench.known().state == list_state::fresh);
  CHECK(bench.devices() == "B1");
  CHECK(bench.told_changed() == 1);
  // The next one is applied without a fetch (SyTest: "Server correctly handles incoming m.device_list_update").
  auto named = B::update(2, {1}, "B1");
  named.display_name = "phone";
  bench.take({named});
  CHECK(bench.to_fetch() == "");
  CHECK(bench.known().devices.at("B1") ==
        R"({"device_id":"B1","keys":{"ed25519:B1":"k"},"unsigned":{"device_display_name":"phone"}})");
  CHECK(bench.told_changed() == 1);
}

TEST_CASE("L8: updates chain, also within one transaction; a deletion removes the device") {
  lists_bench bench;
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.take({B::update(6, {5}, "B2"), B::update(8, {6}, "B3"), B::deletion(9, {8}, "B1")});
  CHECK(bench.to_fetch() == "");
  CHECK(bench.devices() == "B2 B3");
  CHECK(bench.told_changed() == 3);
  bench.take({B::update(10, {9}, "B2")}); // nothing new in it
  CHECK(bench.told().empty());
  bench.take({B::update(11, {9, 10}, "B2", "other")}); // 9 is behind us: nobody knows any more whether we had it
  CHECK(bench.to_fetch() == "@b:remote.test");
}

TEST_CASE("L9: an unknown prev_id marks the list, and nothing is applied until it is fetched") {
  lists_bench bench;
  bench.save(B::fetched(0, 1, {"B1"}));
  bench.take({B::update(3, {2}, "B3")});
  CHECK(bench.to_fetch() == "@b:remote.test");
  CHECK(bench.known().state == list_state::stale);
  CHECK(bench.devices() == "B1");
  CHECK(bench.known().cause == "an update names a prev_id that isn't known");
  auto first = bench.marks();
  bench.take({B::update(4, {3}, "B4")});
  CHECK(bench.marks() > first);
  CHECK(bench.devices() == "B1");
  // The fetch that began before the second one brings a list, but the mark stays.
  auto saved = bench.save(B::fetched(first, 3, {"B1", "B3"}));
  CHECK(saved.still_stale);
  CHECK(saved.marks == bench.marks());
  CHECK(bench.devices() == "B1 B3");
  CHECK(bench.known().state == list_state::stale);
  CHECK_FALSE(bench.save(B::fetched(saved.marks, 4, {"B1", "B3", "B4"})).still_stale);
  CHECK(bench.known().state == list_state::fresh);
}

TEST_CASE("updates that mark the list") {
  struct row {
    std::string what;
    inbound_device_change change;
    std::string cause;
  };
  auto same_number = B::update(5, {4}, "B1", "other");
  for (const auto& [what, change, cause] : std::vector<row>{
           {"no prev_id", B::update(6, {}, "B2"), "an update names no prev_id though a list is held"},
           {"an unknown one", B::update(6, {4}, "B2"), "an update names a prev_id that isn't known"},
           {"one of them unknown", B::update(6, {5, 3}, "B2"), "an update names a prev_id that isn't known"},
           {"a lower number", B::update(4, {3}, "B2"), "an update has a stream_id that isn't above the last one"},
           {"another device under it", same_number, "an update has a stream_id that isn't above the last one"},
           {"unusable", unusable_update{B::bob, "keys of another user"}, "keys of another user"},
           {"a mention", device_mention{B::bob, "B9"}, "a message named an unknown device"}}) {
    CAPTURE(what);
    lists_bench bench;
    bench.save(B::fetched(0, 5, {"B1"}));
    bench.take({change});
    CHECK(bench.to_fetch() == "@b:remote.test");
    REQUIRE(bench.stale().size() == 1);
    CHECK(bench.stale()[0].cause == cause);
    CHECK(bench.stale()[0].server == "remote.test");
    CHECK(bench.stale()[0].since_ms == bench.now_ms);
    CHECK(bench.devices() == "B1");
    CHECK(bench.told().empty());
  }
}

TEST_CASE("what was applied already does nothing, when it comes again under another transaction id") {
  lists_bench bench;
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.take({B::update(5, {4}, "B1")}); // on its way while the list was fetched
  CHECK(bench.to_fetch() == "");
  std::vector<inbound_device_change> twice{B::update(6, {5}, "B2"), B::deletion(7, {6}, "B1"), B::update(8, {7}, "B3")};
  bench.take(twice);
  bench.told();
  bench.take(twice);
  CHECK(bench.to_fetch() == "");
  CHECK(bench.told().empty());
  CHECK(bench.devices() == "B2 B3");
  // After a restart of ours nobody knows.
  bench.reopen();
  bench.take({B::update(8, {7}, "B3")});
  CHECK(bench.to_fetch() == "@b:remote.test");
}

TEST_CASE("L13: of users with whom no room is shared, and of other servers' users, nothing is kept") {
  lists_bench bench;
  auto stranger = B::update(1, {}, "C1");
  stranger.user = "@c:remote.test";
  bench.take({stranger, signing_key_edu{"@c:remote.test", "{}", ""}});
  bench.take({B::update(1, {}, "B1")}, "other.test");
  CHECK(bench.to_fetch() == "");
  CHECK(bench.rows("remote_user") == 0);
  CHECK(bench.known("@c:remote.test").state == list_state::not_shared);
  CHECK_FALSE(bench.save(B::fetched(0, 1, {"C1"}, "@c:remote.test")).still_stale);
  CHECK(bench.rows("remote_user") == 0);
  bench.mark("by hand", "@c:remote.test");
  bench.mark("by hand", B::alice);
  CHECK(bench.rows("remote_user") == 0);
  bench.mark("by hand");
  CHECK(bench.to_fetch() == "@b:remote.test");
  CHECK(bench.stale().at(0).cause == "by hand");
}

TEST_CASE("L17: signing keys replace what is held and are told once") {
  lists_bench bench;
  auto list = B::fetched(0, 5, {"B1"});
  list.master_key = R"({"m":1})";
  bench.save(list);
  CHECK(bench.known().master_key == R"({"m":1})");
  bench.take({signing_key_edu{B::bob, R"({"m":2})", ""}});
  CHECK(bench.told_changed() == 1);
  bench.take({signing_key_edu{B::bob, "", R"({"s":1})"}});
  CHECK(bench.told_changed() == 1);
  bench.take({signing_key_edu{B::bob, R"({"m":2})", R"({"s":1})"}});
  CHECK(bench.told_changed() == 0);
  CHECK(bench.to_fetch() == "");
  CHECK(bench.known().master_key == R"({"m":2})");
  CHECK(bench.known().self_signing_key == R"({"s":1})");
  CHECK(bench.known().state == list_state::fresh);
  // No list is held: it is fetched, with them.
  lists_bench other;
  other.take({signing_key_edu{B::bob, R"({"m":2})", ""}});
  CHECK(other.to_fetch() == "@b:remote.test");
}

TEST_CASE("L16: a device that is named by a cross-signing key of its user isn't kept") {
  lists_bench bench;
  auto list = B::fetched(0, 5, {"B1"});
  list.master_key = R"({"keys":{"ed25519:PUBLIC":"PUBLIC"}})";
  bench.save(list);
  bench.take({B::update(6, {5}, "PUBLIC"), B::update(7, {6}, "B2")});
  CHECK(bench.devices() == "B1 B2");
  CHECK(bench.to_fetch() == "");
}

TEST_CASE("B62: a failed resync keeps the list and the mark over a restart, tells clients once, and heals") {
  lists_bench bench;
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.take({B::update(8, {7}, "B3")});
  auto marks = bench.marks();
  CHECK(bench.save(B::failure(marks, outcome::failed, "503")).still_stale);
  CHECK(bench.told_changed() == 1);
  CHECK(bench.save(B::failure(marks, outcome::failed, "504")).marks == marks);
  CHECK(bench.told_changed() == 0);
  bench.now_ms += 300'000;
  bench.reopen();
  REQUIRE(bench.stale("remote.test").size() == 1);
  CHECK(bench.stale("remote.test")[0].problem == "504");
  CHECK(bench.stale("remote.test")[0].marks == marks);
  CHECK(bench.stale("remote.test")[0].since_ms == bench.now_ms - 300'000);
  CHECK(remote_list_reader(*bench.reader).servers_with_stale("", 10) == std::vector<std::string>{"remote.test"});
  CHECK(remote_list_reader(*bench.reader).servers_with_stale("remote.test", 10).empty());
  CHECK(bench.stale("other.test").empty());
  CHECK(bench.known().state == list_state::stale);
  CHECK(bench.devices() == "B1");
  CHECK_FALSE(bench.save(B::fetched(marks, 8, {"B1", "B2", "B3"})).still_stale);
  CHECK(bench.told_changed() == 1);
  CHECK(bench.stale().empty());
  CHECK(bench.known().state == list_state::fresh);
  CHECK(bench.known().cause == "");
}

TEST_CASE("B64: a finished fetch clears the mark, whatever was in it") {
  for (auto devices : std::vector<std::vector<std::string>>{{"B1"}, {}, {"B1", "B2"}}) {
    CAPTURE(devices.size());
    lists_bench bench;
    bench.save(B::fetched(0, 5, {"B1"}));
    bench.mark("by suspicion");
    CHECK_FALSE(bench.save(B::fetched(bench.marks(), 5, devices)).still_stale);
    CHECK(bench.stale().empty());
    CHECK(bench.known().state == list_state::fresh);
    CHECK(bench.told_changed() == (devices == std::vector<std::string>{"B1"} ? 0 : 1));
  }
}

TEST_CASE("B68: all users of one transaction that must be fetched are named, each once") {
  lists_bench bench;
  std::vector<inbound_device_change> changes;
  for (int i = 1; i <= 5; ++i) {
    auto user = "@u" + std::to_string(i) + ":remote.test";
    bench.feed(member_line(B::room, user, "join"));
    bench.save(B::fetched(0, 1, {"D"}, user));
    for (int turn = 0; turn < 2; ++turn) {
      auto gap = B::update(9 + turn, {8 + turn}, "D2");
      gap.user = user;
      changes.emplace_back(gap);
    }
  }
  bench.take(changes);
  CHECK(bench.to_fetch() == "@u1:remote.test @u2:remote.test @u3:remote.test @u4:remote.test @u5:remote.test");
  CHECK(bench.stale("remote.test").size() == 5);
}

TEST_CASE("B70: a server that was rebuilt under its name is believed") {
  lists_bench bench;
  bench.save(B::fetched(0, 900, {"D1"}));
  bench.take({B::update(3, {}, "D7")});
  CHECK(bench.to_fetch() == "@b:remote.test");
  CHECK_FALSE(bench.save(B::fetched(bench.marks(), 3, {"D7"})).still_stale);
  CHECK(bench.devices() == "D7");
  CHECK(bench.told_changed() == 1);
  bench.take({B::update(4, {3}, "D8")});
  CHECK(bench.to_fetch() == "");
  CHECK(bench.devices() == "D7 D8");
}

TEST_CASE("B73: an update that can't be stored marks its user and is counted; all else is stored") {
  lists_bench bench;
  bench.feed(member_line(B::room, "@c:remote.test", "join"));
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.save(B::fetched(0, 5, {"C1"}, "@c:remote.test"));
  bench.told();
  bench.stores->db.script("CREATE TRIGGER broken BEFORE INSERT ON remote_device WHEN NEW.user = '@b:remote.test' "
                          "BEGIN SELECT RAISE(ABORT, 'no index'); END");
  auto other = B::update(6, {5}, "C2");
  other.user = "@c:remote.test";
  bench.take({B::update(6, {5}, "B2"), other, B::update(7, {6}, "B3")});
  CHECK(bench.to_fetch() == "@b:remote.test");
  CHECK(bench.stale().at(0).cause == "an update of it couldn't be stored");
  CHECK(bench.stores->lists.failures() == 1);
  CHECK(bench.devices("@c:remote.test") == "C1 C2");
  CHECK(bench.devices() == "B1");
  CHECK(bench.told_changed("@c:remote.test") == 1);
  bench.stores->db.script("DROP TRIGGER broken");
  CHECK_FALSE(bench.save(B::fetched(bench.marks(), 7, {"B1", "B2", "B3"})).still_stale);
  CHECK(bench.devices() == "B1 B2 B3");
  CHECK(bench.told_changed() == 1);
}

TEST_CASE("B73: if not even a mark can be stored the whole transaction fails, and with it nothing is kept") {
  lists_bench bench;
  bench.stores->db.script("CREATE TRIGGER broken BEFORE INSERT ON remote_user BEGIN SELECT RAISE(ABORT, 'x'); END");
  auto result = bench.stores->commit({[&](writer& to, auto& entries) {
    to.inbox.append("pdu", "{}", bench.now_ms);
    to.lists.take("remote.test", {B::update(1, {}, "B1")}, bench.now_ms, entries);
  }});
  CHECK(result.committed);
  CHECK(result.problems.at(0) != "");
  CHECK(result.entries.empty());
  CHECK(read_stream(*bench.reader, 0, 1'000'000, 100).size() == 1); // of the joins
}

TEST_CASE("B74: an unknown device in use marks the list, once an hour unless it was found") {
  lists_bench bench;
  bench.save(B::fetched(0, 5, {"D1"}));
  bench.take({device_mention{B::bob, "D1"}});
  CHECK(bench.to_fetch() == "");
  bench.take({device_mention{B::bob, "D9"}, device_mention{B::bob, "D9"}});
  CHECK(bench.to_fetch() == "@b:remote.test");
  CHECK(bench.save(B::fetched(bench.marks(), 5, {"D1"})).still_stale == false);
  CHECK(bench.told_changed() == 0);
  for (int i = 0; i < 100; ++i) {
    bench.now_ms += 600;
    bench.take({device_mention{B::bob, i % 2 == 0 ? "D9" : "D8"}});
    CHECK(bench.to_fetch() == "");
  }
  bench.now_ms += 3'600'000;
  bench.take({device_mention{B::bob, "D9"}});
  CHECK(bench.to_fetch() == "@b:remote.test");
  bench.save(B::fetched(bench.marks(), 6, {"D1", "D9"}));
  CHECK(bench.told_changed() == 1);
  // It helped, so the next one may at once; of a list that isn't held nobody says anything.
  bench.take({device_mention{B::bob, "D10"}});
  CHECK(bench.to_fetch() == "@b:remote.test");
  lists_bench other;
  other.take({device_mention{B::bob, "D9"}});
  CHECK(other.to_fetch() == "");
  CHECK(other.rows("remote_user") == 0);
}

TEST_CASE("B76: a query's fetch is no change, whatever it finds") {
  for (auto devices : std::vector<std::vector<std::string>>{{}, {"nokeys"}, {"B1"}}) {
    CAPTURE(devices.size());
    lists_bench bench;
    for (int i = 0; i < 10; ++i) {
      auto list = B::fetched(0, 5, devices);
      for (auto& device : list.devices)
        if (device.device == "nokeys") device.keys.clear();
      CHECK_FALSE(bench.save(list).still_stale);
    }
    CHECK(bench.told().empty());
    CHECK(bench.known().devices.size() == (devices == std::vector<std::string>{"B1"} ? 1 : 0));
    CHECK(bench.known().state == list_state::fresh);
  }
}
