#include "storage/remote_lists.hpp"

#include "remote_lists_bench.hpp"
#include "storage/presence.hpp"

using namespace ranvier;
using namespace ranvier::storage;
using outcome = save_device_list::outcome;
using B = lists_bench;

// "An update that arrives while the resync of the same user runs is never lost", each interleaving by itself. A resync
// is three moments: the request goes out with the marks, the server makes the answer, the answer is saved.

TEST_CASE("an update before the server answers: in the answer, and yet fetched again") {
  lists_bench bench;
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.mark("a gap");
  auto marks = bench.marks(); // request
  bench.take({B::update(6, {5}, "B2")});
  auto saved = bench.save(B::fetched(marks, 6, {"B1", "B2"}));
  CHECK(saved.still_stale);
  CHECK_FALSE(bench.save(B::fetched(saved.marks, 6, {"B1", "B2"})).still_stale);
  CHECK(bench.devices() == "B1 B2");
  CHECK(bench.told_changed() == 1);
}

TEST_CASE("an update after the server answered and before that is saved isn't overwritten") {
  lists_bench bench;
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.mark("a gap");
  auto request = B::fetched(bench.marks(), 5, {"B1"}); // made before the change
  bench.take({B::update(6, {5}, "B2")});
  auto saved = bench.save(request);
  CHECK(saved.still_stale);
  CHECK(bench.known().state == list_state::stale);
  CHECK_FALSE(bench.save(B::fetched(saved.marks, 6, {"B1", "B2"})).still_stale);
  CHECK(bench.devices() == "B1 B2");
}

TEST_CASE("an update that was on its way when the list was saved: the same, or the next") {
  lists_bench bench;
  bench.take({B::update(6, {5}, "B2")});
  bench.save(B::fetched(bench.marks(), 6, {"B1", "B2"}));
  bench.take({B::update(6, {5}, "B2"), B::update(7, {6}, "B3")});
  CHECK(bench.to_fetch() == "");
  CHECK(bench.devices() == "B1 B2 B3");
}

TEST_CASE("a fetch that nothing but a query asked for: an update in between is newer") {
  lists_bench bench;
  // Nothing is held; the query's fetch runs, an update comes.
  auto answer = B::fetched(0, 5, {"B1"});
  bench.take({B::update(6, {5}, "B2")});
  auto saved = bench.save(answer);
  CHECK(saved.still_stale);
  CHECK(bench.known().state == list_state::stale);
  bench.save(B::fetched(saved.marks, 6, {"B1", "B2"}));
  CHECK(bench.devices() == "B1 B2");
  CHECK(bench.known().state == list_state::fresh);
  // A list is held; somebody fetches it without a mark, and updates go on. The older one is no reason to go back, but
  // to look again.
  bench.take({B::update(7, {6}, "B3")});
  bench.told();
  saved = bench.save(B::fetched(saved.marks, 6, {"B1", "B2"}));
  CHECK(saved.still_stale);
  CHECK(bench.devices() == "B1 B2 B3");
  CHECK_FALSE(bench.save(B::fetched(saved.marks, 7, {"B1", "B2", "B3"})).still_stale);
  CHECK(bench.told().empty());
  // The same list once more changes nothing.
  CHECK_FALSE(bench.save(B::fetched(0, 7, {"B1", "B2", "B3"})).still_stale);
  CHECK(bench.stale().empty());
}

TEST_CASE("signing keys that come while a fetch runs aren't overwritten for good") {
  lists_bench bench;
  auto list = B::fetched(0, 5, {"B1"});
  list.master_key = R"({"m":1})";
  bench.save(list);
  bench.mark("a gap");
  list.marks = bench.marks();
  bench.take({signing_key_edu{B::bob, R"({"m":2})", ""}});
  CHECK(bench.told_changed() == 1);
  auto saved = bench.save(list);
  CHECK(saved.still_stale);
  list.marks = saved.marks;
  list.master_key = R"({"m":2})";
  CHECK_FALSE(bench.save(list).still_stale);
  CHECK(bench.known().master_key == R"({"m":2})");
  // And without a mark.
  auto late = list;
  bench.take({signing_key_edu{B::bob, R"({"m":3})", ""}});
  CHECK(bench.save(late).still_stale);
  CHECK(bench.known().master_key == R"({"m":3})");
}

TEST_CASE("a mention, a mark by hand and an unusable update while a fetch runs keep the mark") {
  lists_bench bench;
  bench.save(B::fetched(0, 5, {"B1"}));
  for (int i = 0; i < 2; ++i) {
    bench.mark("by hand");
    auto marks = bench.marks();
    if (i == 0) bench.mark("again");
    else bench.take({unusable_update{B::bob, "odd"}});
    auto saved = bench.save(B::fetched(marks, 5, {"B1"}));
    CHECK(saved.still_stale);
    CHECK_FALSE(bench.save(B::fetched(saved.marks, 5, {"B1"})).still_stale);
  }
}

TEST_CASE("L14: a fetch over a moment in which no room was shared isn't trusted") {
  for (int held = 0; held < 3; ++held) {
    CAPTURE(held); // 0: nothing known, 1: a list is held, 2: it is marked
    lists_bench bench;
    if (held > 0) bench.save(B::fetched(0, 5, {"B1"}));
    if (held > 1) bench.mark("a gap");
    auto marks = std::max<std::int64_t>(0, bench.marks());
    bench.feed(member_line(B::room, B::bob, "leave"));
    CHECK(bench.rows("remote_user") == 0);
    CHECK(bench.rows("remote_device") == 0);
    CHECK_FALSE(bench.save(B::fetched(marks, 5, {"B1"})).still_stale);
    CHECK(bench.rows("remote_user") == 0);
    bench.feed(member_line(B::room, B::bob, "join"));
    CHECK(bench.known().state == list_state::not_held);
    auto saved = bench.save(B::fetched(marks, 5, {"B1"}));
    CHECK(saved.still_stale);
    CHECK(bench.known().state == list_state::stale);
    CHECK_FALSE(bench.save(B::fetched(saved.marks, 6, {"B1", "B2"})).still_stale);
    CHECK(bench.known().state == list_state::fresh);
  }
}

TEST_CASE("L14: who shared nothing for a while long ago is fetched once only") {
  lists_bench bench;
  bench.feed(member_line(B::room, B::bob, "leave"));
  bench.feed(member_line(B::room, B::bob, "join"));
  for (int hour = 0; hour < 2; ++hour) {
    bench.now_ms += 3'600'000;
    bench.write([&](writer& to, auto&) { to.lists.tidy(bench.now_ms); });
  }
  CHECK_FALSE(bench.save(B::fetched(0, 5, {"B1"})).still_stale);
}

TEST_CASE("L15: a refusal is kept with its wait, tells clients once, and shows a user that nothing was known of") {
  lists_bench bench;
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.take({unusable_update{B::bob, "a gap"}});
  auto refused = B::failure(bench.marks(), outcome::refused, "404 M_NOT_FOUND");
  refused.failures = 3;
  refused.next_attempt_ms = bench.now_ms + 240'000;
  auto saved = bench.save(refused);
  CHECK(saved.still_stale);
  CHECK(saved.marks == refused.marks);
  CHECK(bench.told_changed() == 1);
  bench.reopen();
  CHECK(bench.stale().at(0).failures == 3);
  CHECK(bench.stale().at(0).next_attempt_ms == refused.next_attempt_ms);
  CHECK(bench.stale().at(0).problem == "404 M_NOT_FOUND");
  CHECK(bench.devices() == "B1");
  CHECK_FALSE(bench.save(B::fetched(saved.marks, 5, {"B1"})).still_stale);
  bench.mark("later");
  CHECK(bench.stale().at(0).failures == 0);
  CHECK(bench.stale().at(0).next_attempt_ms == 0);
  CHECK(bench.stale().at(0).problem == "");

  lists_bench other;
  refused.marks = 0;
  CHECK(other.save(refused).still_stale);
  CHECK(other.stale().at(0).cause == "its server refused its list");
  CHECK(other.told().empty());
  // A server's own trouble says nothing of a user that only a query asked for.
  lists_bench third;
  CHECK_FALSE(third.save(B::failure(0, outcome::failed, "503")).still_stale);
  CHECK(third.rows("remote_user") == 0);
}

TEST_CASE("each new update that can't be fetched is told, each failure of the same isn't") {
  lists_bench bench;
  for (int i = 0; i < 3; ++i) {
    bench.take({B::update(10 + i, {i}, "B1")});
    for (int turn = 0; turn < 3; ++turn)
      bench.save(B::failure(bench.marks(), outcome::failed, "no route"));
    CHECK(bench.told_changed() == 1);
  }
}

TEST_CASE("B76: a doubt of our own that can't be cleared up is told to nobody; news is, also when a doubt came first") {
  lists_bench bench;
  bench.mark("its list was wanted while its server couldn't be asked");
  bench.save(B::failure(bench.marks(), outcome::failed, "no route"));
  CHECK(bench.told().empty());
  bench.take({B::update(6, {5}, "B2")});
  bench.mark("and again");
  bench.save(B::failure(bench.marks(), outcome::failed, "no route"));
  CHECK(bench.told_changed() == 1);
  bench.mark("and again");
  bench.save(B::failure(bench.marks(), outcome::failed, "no route"));
  CHECK(bench.told().empty());
  bench.save(B::fetched(bench.marks(), 6, {"B2"}));
  CHECK(bench.told_changed() == 1);
  bench.take({device_mention{B::bob, "B9"}});
  bench.save(B::failure(bench.marks(), outcome::failed, "no route"));
  CHECK(bench.told().empty());
}

TEST_CASE("L14: a list that was fetched over a gap isn't trusted, also when the clock was set back meanwhile") {
  for (const std::int64_t set_back : {0LL, 500LL, 3'600'000LL}) {
    CAPTURE(set_back);
    lists_bench bench;
    auto list = B::fetched(0, 5, {"B1"});
    list.began_ms = bench.now_ms;
    bench.now_ms += 100 - set_back; // the fetch runs
    bench.feed(member_line(B::room, B::bob, "leave"));
    bench.feed(member_line(B::room, B::bob, "join"));
    bench.now_ms += 100;
    CHECK(bench.save(list).still_stale);
  }
}

TEST_CASE("ages and waits go along when the clock is set") {
  lists_bench bench;
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.take({device_mention{B::bob, "B9"}});
  auto refused = B::failure(bench.marks(), outcome::refused, "404");
  refused.failures = 1;
  refused.next_attempt_ms = bench.now_ms + 60'000;
  bench.save(refused);
  const std::int64_t year = 365LL * 86'400'000;
  bench.now_ms -= year;
  bench.write([&](writer& to, auto&) { shift_ages(to.db, -year, bench.now_ms); });
  CHECK(bench.stale().at(0).next_attempt_ms == bench.now_ms + 60'000);
  CHECK(bench.stale().at(0).since_ms == bench.now_ms);
  bench.save(B::fetched(bench.marks(), 5, {"B1"}));
  bench.take({device_mention{B::bob, "B9"}});
  CHECK(bench.to_fetch() == "");
  bench.now_ms += 3'600'000;
  bench.take({device_mention{B::bob, "B9"}});
  CHECK(bench.to_fetch() == "@b:remote.test");
  CHECK(bench.query_number("SELECT max(at_ms) FROM device_list_item") == bench.now_ms - 3'600'000);
}

TEST_CASE("a list that is too large isn't kept, is told once, and is asked for again after a day") {
  lists_bench bench;
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.mark("a gap");
  auto answer = B::failure(bench.marks(), outcome::too_large, "");
  auto saved = bench.save(answer);
  CHECK(saved.still_stale);
  CHECK(saved.marks == bench.marks());
  CHECK(bench.known().state == list_state::too_large);
  CHECK(bench.known().devices.empty());
  CHECK(bench.stale().at(0).cause == "its list has more than 10000 devices");
  CHECK(bench.stale().at(0).next_attempt_ms == bench.now_ms + 86'400'000);
  CHECK(bench.told_changed() == 1);
  // Updates make nobody fetch it, but clients ask its server again.
  bench.take({B::update(9, {8}, "B2")});
  CHECK(bench.to_fetch() == "");
  CHECK(bench.told_changed() == 1);
  CHECK(bench.stale().at(0).cause == "its list has more than 10000 devices");
  bench.now_ms += 86'400'000;
  bench.take({B::update(10, {9}, "B2")});
  CHECK(bench.to_fetch() == "@b:remote.test");
  bench.told();
  bench.save(B::failure(bench.marks(), outcome::too_large, ""));
  CHECK(bench.told().empty());
  CHECK_FALSE(bench.save(B::fetched(bench.marks(), 11, {"B1"})).still_stale);
  CHECK(bench.known().state == list_state::fresh);
  CHECK(bench.stale().empty());
  CHECK(bench.told_changed() == 1);
}

TEST_CASE("the limit of devices holds for what updates make of a list, and for what is fetched") {
  lists_bench bench;
  auto limited = [&](auto what) {
    bench.write([&](writer& to, auto& entries) {
      remote_list_writer lists(to.db, to.names, to.inbox, to.announcements, 3);
      what(lists, entries);
    });
  };
  limited([&](auto& lists, auto& entries) { lists.save(B::fetched(0, 5, {"B1", "B2", "B3"}), bench.now_ms, entries); });
  CHECK(bench.known().state == list_state::fresh);
  limited(
      [&](auto& lists, auto& entries) { lists.take("remote.test", {B::update(6, {5}, "B4")}, bench.now_ms, entries); });
  CHECK(bench.known().state == list_state::too_large);
  CHECK(bench.devices() == "");
  CHECK(bench.told_changed() == 1);
  CHECK(bench.to_fetch() == "");
  limited([&](auto& lists, auto& entries) {
    lists.save(B::fetched(bench.marks(), 6, {"B1", "B2", "B3", "B4"}), bench.now_ms, entries);
  });
  CHECK(bench.known().state == list_state::too_large);
}

TEST_CASE("a first list after a mark is told even if the server has none") {
  lists_bench bench;
  bench.take({B::update(1, {}, "B1")});
  bench.save(B::fetched(bench.marks(), 1, {}));
  CHECK(bench.told_changed() == 1);
  CHECK(bench.known().state == list_state::fresh);
}

TEST_CASE("names and keys that differ are changes; only what differs is written") {
  lists_bench bench;
  auto list = B::fetched(0, 5, {"B1", "B2"});
  bench.save(list);
  struct row {
    std::string what;
    std::function<void(save_device_list&)> change;
  };
  for (const auto& [what, change] :
       std::vector<row>{{"a name", [](auto& l) { l.devices[0].display_name = "phone"; }},
                        {"no name", [](auto& l) { l.devices[0].display_name.clear(); }},
                        {"keys", [](auto& l) { l.devices[1].keys = B::keys_of("B2", "new"); }},
                        {"no keys", [](auto& l) { l.devices[1].keys.clear(); }},
                        {"a master key", [](auto& l) { l.master_key = R"({"m":1})"; }},
                        {"a self-signing key", [](auto& l) { l.self_signing_key = R"({"s":1})"; }},
                        {"no master key", [](auto& l) { l.master_key.clear(); }},
                        {"a device less", [](auto& l) { l.devices.pop_back(); }}}) {
    CAPTURE(what);
    for (int turn = 0; turn < 2; ++turn) {
      if (turn == 0) change(list);
      bench.mark("again");
      list.marks = bench.marks();
      CHECK_FALSE(bench.save(list).still_stale);
      CHECK(bench.told_changed() == (turn == 0 ? 1 : 0));
    }
  }
  CHECK(bench.devices() == "B1");
}
