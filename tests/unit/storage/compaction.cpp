#include "storage/compaction.hpp"

#include "store_bench.hpp"

#include <sqlite3.h>

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test", other_room = "!s:us.test";
constexpr std::int64_t hour = 3'600'000, day = 24 * hour;

void share(store_bench& bench, const std::string& where, const std::vector<std::string>& servers) {
  std::map<std::string, std::string> members{{"@a:us.test", "join"}};
  for (const auto& name : servers)
    members["@b:" + name] = "join";
  bench.feed(line_of(roster_record{where, "10", members}));
}
void say(store_bench& bench, const std::string& where, const std::string& prefix, int count) {
  std::vector<feed_line> lines;
  for (int i = 1; i <= count; ++i)
    lines.push_back(line_of(event_of(where, prefix + std::to_string(i))));
  bench.feed(lines);
}
std::string rows(store_bench& bench) {
  std::string out;
  auto all = bench.reader->ask("SELECT event_id FROM pdu ORDER BY position");
  while (all.step())
    out += (out.empty() ? "" : " ") + all.text(0);
  return out;
}
} // namespace

TEST_CASE("an event's row goes when every server that is owed it has passed it; its id stays for 7 days") {
  store_bench bench;
  share(bench, room, {"one.test", "two.test"});
  say(bench, room, "$", 3); // 2-4
  bench.acknowledge("one.test", 4);
  bench.compact();
  CHECK(rows(bench) == "$1 $2 $3");
  bench.acknowledge("two.test", 3);
  bench.compact();
  CHECK(rows(bench) == "$3");
  CHECK(bench.events("two.test") == "$3");
  CHECK(bench.stores->compact.done().events == 2);
  // Fed again it does nothing.
  CHECK(bench.feed(line_of(event_of(room, "$1"))).accepted == 1);
  CHECK(bench.last.entries.empty());
  auto tidy = [&] { bench.write([&](writer& to, auto&) { to.tidy(bench.now_ms, {30 * day}); }); };
  bench.now_ms += 7 * day - hour;
  tidy();
  CHECK(bench.feed(line_of(event_of(room, "$1"))).accepted == 1);
  CHECK(bench.last.entries.empty());
  bench.now_ms += 2 * hour;
  tidy();
  bench.feed(line_of(event_of(room, "$1")));
  CHECK(bench.last.entries.size() == 1);
  CHECK(bench.feed(line_of(event_of(room, "$3"))).accepted == 1);
  CHECK(bench.last.entries.empty());
}

TEST_CASE("what was logged while a gate was closed goes early beyond the newest K, counted with the server") {
  store_bench bench(3);
  share(bench, room, {"dead.test", "live.test"});
  say(bench, room, "$open", 2);
  bench.interval("dead.test", true);
  say(bench, room, "$", 10);
  bench.acknowledge("live.test", bench.head());
  CHECK(bench.owed("dead.test").let_go == 7);
  bench.compact();
  CHECK(rows(bench) == "$open1 $open2 $8 $9 $10");
  CHECK(bench.let_go("dead.test") == 7);
  CHECK(bench.let_go("live.test") == 0);
  CHECK(bench.events("dead.test") == "$open1 $open2 $8 $9 $10");
  CHECK(bench.owed("dead.test").let_go == 0);
  // Dead for ever, with ever new events: the rows stay as many.
  for (int i = 0; i < 5; ++i) {
    say(bench, room, "$more" + std::to_string(i) + "-", 10);
    bench.acknowledge("live.test", bench.head());
    bench.compact();
    CHECK(bench.rows("pdu") == 5);
  }
  CHECK(bench.let_go("dead.test") == 57);
}

TEST_CASE("what somebody else still needs stays, and isn't counted yet") {
  store_bench bench(2);
  share(bench, room, {"dead.test", "slow.test"});
  bench.interval("dead.test", true);
  say(bench, room, "$", 5);
  bench.compact();
  CHECK(bench.rows("pdu") == 5);
  CHECK(bench.let_go("dead.test") == 0);
  CHECK(bench.owed("dead.test").let_go == 3);
  bench.acknowledge("slow.test", bench.head());
  bench.compact();
  CHECK(rows(bench) == "$4 $5");
  CHECK(bench.let_go("dead.test") == 3);
}

TEST_CASE("never early: what ends a span, whichever line comes first, and rows with destinations of their own") {
  store_bench bench(1);
  for (const auto& where : {room, other_room})
    share(bench, where, {"dead.test"});
  bench.interval("dead.test", true);
  auto named = event_of(room, "$named");
  named.destinations = {"dead.test"};
  bench.feed({line_of(named), line_of(member_event(room, "$kick", "@b:dead.test", "leave"))});
  say(bench, room, "$between", 5);
  bench.compact();
  bench.feed({member_line(room, "@b:dead.test", "leave", "$kick"), member_line(room, "@b:dead.test", "join")});
  bench.feed({member_line(other_room, "@b:dead.test", "ban", "$ban"), member_line(other_room, "@b:dead.test", "join"),
              line_of(member_event(other_room, "$ban", "@b:dead.test", "ban"))});
  say(bench, room, "$", 5);
  say(bench, other_room, "$o", 5);
  bench.compact();
  CHECK(rows(bench) == "$named $kick $ban $5 $o5");
  CHECK(bench.events("dead.test") == "$named $kick $ban $5 $o5");
  bench.acknowledge("dead.test", bench.head());
  bench.compact();
  CHECK(rows(bench).empty());
}

TEST_CASE("an event that excludes those who haven't passed it goes all the same") {
  store_bench bench;
  share(bench, room, {"one.test", "two.test"});
  auto not_one = event_of(room, "$1");
  not_one.exclude = {"one.test"};
  bench.feed({line_of(not_one), line_of(event_of(room, "$2"))});
  bench.acknowledge("two.test", bench.head());
  bench.compact();
  CHECK(rows(bench) == "$2");
  CHECK(bench.events("one.test") == "$2");
}

TEST_CASE("a transaction on its way while compaction runs is counted right") {
  store_bench bench(2);
  share(bench, room, {"dead.test"});
  bench.interval("dead.test", true);
  say(bench, room, "$a", 4); // 2-5
  auto page = bench.owed("dead.test");
  CHECK(page.let_go_at == std::vector<position>{2, 3});
  CHECK(page.pdus.size() == 2);
  say(bench, room, "$b", 4); // 6-9
  bench.compact();
  CHECK(bench.let_go("dead.test") == 6);
  // It arrives: 4 and 5 went after all.
  bench.write([&](writer& to, auto&) {
    auto id = to.names.server("dead.test");
    auto let_go = to.destinations.let_go_by(id, page.let_go_at, {4, 5});
    CHECK(let_go == -2);
    to.destinations.acknowledge(id, {5, 5, 5}, {}, let_go, 1, 1);
  });
  CHECK(bench.let_go("dead.test") == 4);
  CHECK(bench.events("dead.test") == "$b3 $b4");
}

TEST_CASE("a forgotten room: what is owed still goes, nothing new is taken, then all of it is dropped") {
  store_bench bench;
  share(bench, room, {"one.test", "two.test"});
  bench.feed({line_of(server_acl_record{room, "{}"}), line_of(event_of(room, "$1"))});
  bench.acknowledge("two.test", bench.head());
  bench.feed(line_of(room_forgotten_record{room, false}));
  CHECK(bench.feed(line_of(event_of(room, "$2"))).rejected.at(0).errcode == "M_RANVIER_UNKNOWN_ROOM");
  CHECK(bench.feed(line_of(event_of(room, "$1"))).accepted == 1); // taken before
  CHECK_FALSE(find_room(*bench.reader, room).known);
  CHECK(bench.rows("member") == 0);
  bench.compact();
  CHECK(bench.events("one.test") == "$1");
  CHECK(bench.owed_servers() == std::vector<std::string>{"one.test"});
  bench.acknowledge("one.test", bench.head());
  bench.compact();
  CHECK(bench.rows("span") == 0);
  CHECK(bench.rows("pdu") == 0);
  CHECK(bench.let_go("one.test") == 0);
  // Its name goes with the ids of its events.
  CHECK(bench.rows("room") == 1);
  bench.now_ms += 7 * day + hour;
  bench.compact();
  CHECK(bench.rows("room") == 0);
  share(bench, room, {"one.test"});
  bench.feed(line_of(event_of(room, "$3")));
  CHECK(bench.events("one.test") == "$3");
}

TEST_CASE("a room that is forgotten at once lets go of all that is owed of it, counted") {
  store_bench bench;
  share(bench, room, {"one.test", "two.test"});
  share(bench, other_room, {"one.test"});
  auto named = event_of(room, "$named");
  named.destinations = {"three.test"};
  bench.feed({line_of(event_of(room, "$1")), line_of(named), line_of(event_of(other_room, "$o")),
              line_of(event_of(room, "$2"))});
  bench.acknowledge("two.test", 3);
  bench.feed(line_of(room_forgotten_record{room, true}));
  CHECK(bench.let_go("one.test") == 2);
  CHECK(bench.let_go("two.test") == 1);
  CHECK(bench.let_go("three.test") == 1);
  CHECK(bench.events("one.test") == "$o");
  CHECK(bench.owed_servers() == std::vector<std::string>{"one.test"});
  bench.compact();
  CHECK(rows(bench) == "$o");
  CHECK(bench.let_go("one.test") == 2);
  bench.feed(line_of(room_forgotten_record{"!never-heard-of:us.test", true}));
  CHECK(bench.rows("room") == 2);
}

TEST_CASE("an old line doesn't bring a forgotten room back, a new one does") {
  store_bench bench;
  auto join = member_line(room, "@b:one.test", "join", "$join");
  bench.feed({member_line(room, "@a:us.test", "join"), join, line_of(event_of(room, "$1"))});
  bench.feed({line_of(room_forgotten_record{room, false}), join});
  CHECK_FALSE(find_room(*bench.reader, room).known);
  bench.feed({member_line(room, "@a:us.test", "join"), member_line(room, "@c:two.test", "join"),
              line_of(event_of(room, "$2"))});
  CHECK(bench.events("one.test") == "$1");
  CHECK(bench.events("two.test") == "$2");
  bench.acknowledge("one.test", bench.head());
  bench.compact();
  CHECK(rows(bench) == "$2");
  CHECK(find_room(*bench.reader, room).known);
}

TEST_CASE("closed spans go though no ack passed their very end") {
  store_bench bench;
  share(bench, room, {"one.test", "dead.test"});
  // The event first, then its line: the last ack ends before the span does.
  bench.feed({line_of(event_of(room, "$1")), line_of(member_event(room, "$kick", "@b:one.test", "leave")),
              member_line(room, "@b:one.test", "leave", "$kick")});
  bench.feed({member_line(room, "@b:dead.test", "leave")});
  bench.acknowledge("one.test", 3);
  for (int i = 0; i < 3; ++i) {
    bench.write([&](writer& to, auto&) { to.tidy(bench.now_ms, {30 * day}); });
    bench.compact();
    bench.now_ms += hour;
  }
  CHECK(bench.rows("span") == 1);
  bench.acknowledge("dead.test", bench.head());
  bench.now_ms += hour;
  bench.feed(member_line(other_room, "@a:us.test", "join"));
  for (int i = 0; i < 3; ++i) {
    bench.write([&](writer& to, auto&) { to.tidy(bench.now_ms, {30 * day}); });
    bench.compact();
    bench.now_ms += hour;
  }
  CHECK(bench.rows("span") == 0);
}

TEST_CASE("a pass goes in small steps, each within its bound, and ends when there is nothing to do") {
  compaction::settings how;
  how.rows = 10;
  how.rooms = 3;
  store_bench bench(50, how);
  for (int r = 0; r < 20; ++r) {
    share(bench, "!" + std::to_string(r), {"one.test"});
    say(bench, "!" + std::to_string(r), "$" + std::to_string(r) + "-", 12);
  }
  bench.acknowledge("one.test", bench.head());
  CHECK(bench.stores->compact.due());
  std::int64_t left = 240, steps = 0;
  for (; bench.stores->compact.due(); ++steps) {
    bench.write([&](writer& to, auto&) { to.compact_step(bench.now_ms, {30 * day}); });
    auto now = bench.rows("pdu");
    CHECK(left - now <= 10 + 10);
    left = now;
  }
  CHECK(left == 0);
  CHECK(steps > 20);
  // An idle engine has no reason for another pass; a step without one does nothing.
  bench.write([&](writer& to, auto&) { to.tidy(bench.now_ms, {30 * day}); });
  CHECK_FALSE(bench.stores->compact.due());
  CHECK_FALSE(bench.stores->compact.step({}));
}

TEST_CASE("old to-device messages go, however many, and are counted") {
  store_bench bench;
  std::vector<feed_line> lines;
  for (int i = 0; i < 3'000; ++i)
    lines.push_back(line_of(message_of("m" + std::to_string(i), {"@b:one.test"})));
  bench.feed(lines);
  bench.now_ms += 31 * day;
  bench.feed(line_of(message_of("young", {"@b:one.test"})));
  bench.compact();
  bench.write([&](writer& to, auto&) { to.tidy(bench.now_ms, {30 * day}); });
  bench.compact();
  CHECK(bench.rows("to_device") == 1);
  CHECK(bench.let_go("one.test") == 3'000);
}

TEST_CASE("what compaction asks walks neither the log nor the spans") {
  store_bench bench(2);
  share(bench, room, {"one.test", "two.test", "three.test"});
  bench.interval("one.test", true);
  bench.interval("two.test", true);
  say(bench, room, "$", 6);
  auto event = event_of(room, "$not");
  event.exclude = {"two.test"};
  auto named = event_of(room, "$named");
  named.destinations = {"two.test"};
  bench.feed({line_of(event), line_of(named), line_of(room_forgotten_record{other_room, true}),
              member_line(room, "@b:three.test", "leave"), line_of(room_forgotten_record{room, false})});
  bench.compact();
  bench.write([&](writer& to, auto&) { to.tidy(bench.now_ms, {30 * day}); });
  auto& db = bench.stores->db;
  std::vector<std::string> texts;
  for (auto* at = sqlite3_next_stmt(db.handle(), nullptr); at; at = sqlite3_next_stmt(db.handle(), at))
    texts.emplace_back(sqlite3_sql(at));
  REQUIRE(texts.size() > 40);
  for (const auto& text : texts) {
    sqlite3_stmt* plan = nullptr;
    auto sql = "EXPLAIN QUERY PLAN " + text;
    REQUIRE(sqlite3_prepare_v2(db.handle(), sql.c_str(), -1, &plan, nullptr) == SQLITE_OK);
    while (sqlite3_step(plan) == SQLITE_ROW) {
      std::string step = reinterpret_cast<const char*>(sqlite3_column_text(plan, 3));
      CAPTURE(step);
      CAPTURE(text);
      // Walks in order that a LIMIT ends, and tables of a few rows.
      bool small = step.rfind("SCAN", 0) != 0;
      for (const std::string table : {"SCAN to_device", "SCAN consumer", "SCAN stream", "SCAN CONSTANT", "SCAN s USING",
                                      "SCAN (subquery", "SCAN partial_join"})
        small = small || step.rfind(table, 0) == 0;
      CHECK(small);
    }
    sqlite3_finalize(plan);
  }
}
