#include "storage/owed.hpp"

#include "storage/owed_stretches.hpp"
#include "store_bench.hpp"

#include <sqlite3.h>

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test", other_room = "!s:us.test";

void share(store_bench& bench, const std::string& where, const std::string& server = "one.test") {
  bench.feed({member_line(where, "@a:us.test", "join"), member_line(where, "@b:" + server, "join")});
}
void say(store_bench& bench, const std::string& where, const std::string& prefix, int from, int to) {
  std::vector<feed_line> lines;
  for (int i = from; i <= to; ++i)
    lines.push_back(line_of(event_of(where, prefix + std::to_string(i))));
  bench.feed(lines);
}
std::string described(const std::vector<stretch>& all) {
  std::string out;
  for (const auto& one : all)
    out += (out.empty() ? "" : " ") + std::to_string(one.from) + "-" + std::to_string(one.to) + ":" +
           std::to_string(one.interval);
  return out;
}
} // namespace

TEST_CASE("stretches are cut at the borders of intervals") {
  struct row {
    std::vector<stretch> whole;
    std::vector<closed_interval> intervals;
    std::string expected;
  };
  const std::vector<row> table{
      {{{1, 0, 10}}, {}, "0-10:-1"},
      {{{1, 0, 10}}, {{3, 5}}, "0-3:-1 3-5:0 5-10:-1"},
      {{{1, 0, 10}}, {{0, 10}}, "0-10:0"},
      {{{1, 4, 6}}, {{0, 10}}, "4-6:0"},
      {{{1, 4, 6}}, {{0, 4}, {6, 9}}, "4-6:-1"},
      {{{1, 0, 10}}, {{2, 4}, {4, 6}, {8, 20}}, "0-2:-1 2-4:0 4-6:1 6-8:-1 8-10:2"},
      {{{1, 0, 3}, {1, 5, 9}}, {{2, 7}}, "0-2:-1 2-3:0 5-7:0 7-9:-1"},
      {{{1, 4, 5, true}}, {{4, 9}}, "4-5:0"},
  };
  for (const auto& one : table)
    CHECK(described(cut_at(one.whole, one.intervals)) == one.expected);
}

TEST_CASE("pages come in log order over all rooms, and say how far they reach") {
  store_bench bench;
  share(bench, room);
  share(bench, other_room);
  for (int i = 1; i <= 6; ++i)
    bench.feed(line_of(event_of(i % 2 ? room : other_room, "$" + std::to_string(i))));
  auto first = bench.owed("one.test", 4);
  REQUIRE(first.pdus.size() == 4);
  CHECK(first.more_pdus);
  CHECK(first.pdus_through == first.pdus[3].pos);
  CHECK(first.pdus[3].subject == "$4");
  CHECK(first.pdus[3].room_id == other_room);
  CHECK(first.pdus[0].body.str() == R"({"event":"$1"})");
  bench.acknowledge("one.test", first.pdus_through);
  auto second = bench.owed("one.test", 4);
  CHECK(second.pdus.size() == 2);
  CHECK_FALSE(second.more_pdus);
  CHECK(second.pdus_through == bench.head());
}

TEST_CASE("the byte budget counts to-device first, and one event always goes") {
  store_bench bench;
  share(bench, room);
  say(bench, room, "$", 1, 3);
  bench.feed({line_of(message_of("m1", {"@b:one.test"})), line_of(message_of("m2", {"@b:one.test"}))});
  owed_reader reader(*bench.reader, 50);
  auto page = reader.page("one.test", bench.at("one.test"), bench.head(), {10, 1, 10});
  CHECK(page.to_device.size() == 1);
  CHECK(page.more_to_device);
  CHECK(page.to_device_through == page.to_device[0].pos);
  CHECK(page.pdus.size() == 1);
  CHECK(page.more_pdus);
  page = reader.page("one.test", bench.at("one.test"), bench.head(), {0, 1000, 0});
  CHECK(page.pdus.empty());
  CHECK(page.more_pdus);
  CHECK(page.pdus_through == bench.at("one.test").pdu);
  CHECK(page.to_device_through == bench.at("one.test").to_device);
}

TEST_CASE("what is above `upto` isn't given yet") {
  store_bench bench;
  share(bench, room);
  say(bench, room, "$", 1, 4);
  auto page = owed_reader(*bench.reader, 50).page("one.test", bench.at("one.test"), 4, {10, 1000, 10});
  CHECK(page.pdus.size() == 2);
  CHECK_FALSE(page.more_pdus);
  CHECK(page.pdus_through == 4);
}

TEST_CASE("rule K: of what was logged while a gate was closed each room's newest K go, the rest is counted") {
  store_bench bench(3);
  share(bench, room);
  share(bench, other_room);
  say(bench, room, "$open", 1, 5); // owed from before the closing: all of it goes
  bench.interval("one.test", true);
  say(bench, room, "$r", 1, 10);
  say(bench, other_room, "$s", 1, 2);
  CHECK(bench.events("one.test") == "$open1 $open2 $open3 $open4 $open5 $r8 $r9 $r10 $s1 $s2");
  CHECK(bench.owed("one.test").let_go == 7);
  CHECK(owed_reader(*bench.reader, 3).count("one.test", bench.at("one.test")).pdus == 10);
  bench.interval("one.test", false);
  say(bench, room, "$after", 1, 5);
  CHECK(bench.events("one.test") ==
        "$open1 $open2 $open3 $open4 $open5 $r8 $r9 $r10 $s1 $s2 $after1 $after2 $after3 $after4 $after5");
  // Taken in pages it is the same, and what is let go is counted once.
  std::string all;
  std::int64_t let_go = 0;
  for (bool more = true; more;) {
    auto page = bench.owed("one.test", 2);
    for (const auto& entry : page.pdus)
      all += entry.subject + " ";
    let_go += page.let_go;
    bench.acknowledge("one.test", page.pdus_through);
    more = page.more_pdus;
  }
  CHECK(all == "$open1 $open2 $open3 $open4 $open5 $r8 $r9 $r10 $s1 $s2 $after1 $after2 $after3 $after4 $after5 ");
  CHECK(let_go == 7);
  CHECK(bench.rows("closed") == 0);
}

TEST_CASE("rule K: two outages keep K each, and what names the server by itself is never let go") {
  store_bench bench(2);
  share(bench, room);
  for (int outage = 1; outage <= 2; ++outage) {
    bench.interval("one.test", true);
    say(bench, room, "$" + std::to_string(outage) + "-", 1, 4);
    bench.interval("one.test", false);
  }
  CHECK(bench.events("one.test") == "$1-3 $1-4 $2-3 $2-4");
  bench.interval("one.test", true);
  say(bench, room, "$3-", 1, 2);
  bench.feed({member_line(room, "@b:one.test", "leave", "$kick"),
              line_of(member_event(room, "$kick", "@b:one.test", "leave"))});
  CHECK(bench.events("one.test") == "$1-3 $1-4 $2-3 $2-4 $3-1 $3-2 $kick");
}

TEST_CASE("rule K doesn't count events that exclude the server") {
  store_bench bench(2);
  share(bench, room);
  bench.interval("one.test", true);
  say(bench, room, "$", 1, 2);
  for (int i = 3; i <= 6; ++i) {
    auto event = event_of(room, "$" + std::to_string(i));
    event.exclude = {"one.test"};
    bench.feed(line_of(event));
  }
  CHECK(bench.events("one.test") == "$1 $2");
  CHECK(bench.owed("one.test").let_go == 0);
}

TEST_CASE("counts tell what waits and since when") {
  store_bench bench;
  share(bench, room);
  owed_reader reader(*bench.reader, 50);
  CHECK(reader.count("one.test", bench.at("one.test")).oldest_at_ms == 0);
  CHECK(reader.count("unknown.test", {}).pdus == 0);
  bench.now_ms = 5'000;
  say(bench, room, "$", 1, 3);
  bench.now_ms = 4'000; // a wall clock that jumped back
  bench.feed(line_of(message_of("m1", {"@b:one.test"})));
  auto totals = reader.count("one.test", bench.at("one.test"));
  CHECK(totals.pdus == 3);
  CHECK(totals.to_device == 1);
  CHECK(totals.oldest_at_ms == 4'000);
}

TEST_CASE("who is owed something is found by name, page by page") {
  store_bench bench;
  for (const std::string name : {"c.test", "a.test", "b.test", "d.test"})
    share(bench, "!" + name, name);
  for (const std::string name : {"c.test", "a.test", "d.test"})
    say(bench, "!" + name, "$" + name, 1, 1);
  bench.feed(line_of(message_of("m", {"@x:b.test"})));
  bench.acknowledge("d.test", bench.head());
  CHECK(bench.owed_servers() == std::vector<std::string>{"a.test", "b.test", "c.test"});
  owed_reader reader(*bench.reader, 50);
  CHECK(reader.list("", 2) == std::vector<std::string>{"a.test", "b.test"});
  CHECK(reader.list("b.test", 2) == std::vector<std::string>{"c.test"});
  CHECK(reader.list("c.test", 2).empty());
}

TEST_CASE("who is owed something is found through indexes, quickly among 10,000") {
  store_bench bench;
  std::vector<feed_line> lines;
  // 2,000 rooms of 25 servers each: every one of 10,000 servers in five rooms.
  for (int r = 0; r < 2'000; ++r) {
    std::map<std::string, std::string> members{{"@a:us.test", "join"}};
    for (int i = 0; i < 25; ++i)
      members["@u:s" + std::to_string((r * 25 + i) % 10'000) + ".test"] = "join";
    lines.push_back(line_of(roster_record{"!" + std::to_string(r), "10", members}));
  }
  bench.feed(lines);
  REQUIRE(bench.rows("destination") == 10'000);
  lines.clear();
  bench.write([&](writer& to, auto&) {
    for (int i = 0; i < 10'000; ++i)
      to.destinations.acknowledge(to.names.server("s" + std::to_string(i) + ".test"), {2'000, 2'000, 2'000}, {}, 0, 0,
                                  0);
  });
  // 40 rooms speak: 1,000 servers are owed.
  for (int r = 0; r < 40; ++r)
    lines.push_back(line_of(event_of("!" + std::to_string(r), "$" + std::to_string(r))));
  bench.feed(lines);
  // Time would depend on the machine: counted are steps of SQLite's virtual machine, some 30 million of them a second.
  int thousands = 0;
  sqlite3_progress_handler(
      bench.reader->handle(), 1'000, [](void* count) { return ++*static_cast<int*>(count), 0; }, &thousands);
  auto found = bench.owed_servers();
  sqlite3_progress_handler(bench.reader->handle(), 0, nullptr, nullptr);
  CHECK(found.size() == 1'000);
  MESSAGE("steps to list 1,000 owed among 10,000: ", thousands, " thousand");
  CHECK(thousands < 300);
}

namespace {
/// The plans of all statements that a connection has prepared, in one text.
std::vector<std::string> plans_of(database& db) {
  std::vector<std::string> texts, plans;
  for (auto* at = sqlite3_next_stmt(db.handle(), nullptr); at; at = sqlite3_next_stmt(db.handle(), at))
    texts.emplace_back(sqlite3_sql(at));
  for (const auto& text : texts) {
    sqlite3_stmt* plan = nullptr;
    auto sql = "EXPLAIN QUERY PLAN " + text;
    REQUIRE(sqlite3_prepare_v2(db.handle(), sql.c_str(), -1, &plan, nullptr) == SQLITE_OK);
    while (sqlite3_step(plan) == SQLITE_ROW)
      plans.push_back(std::string(reinterpret_cast<const char*>(sqlite3_column_text(plan, 3))) + "   in: " + text);
    sqlite3_finalize(plan);
  }
  return plans;
}
} // namespace

TEST_CASE("neither what is asked nor what is written walks the log, the spans or the roster") {
  store_bench bench;
  share(bench, room);
  say(bench, room, "$", 1, 3);
  bench.feed(
      line_of(roster_record{room, "10", {{"@a:us.test", "join"}, {"@b:one.test", "join"}, {"@c:c.test", "join"}}}));
  bench.feed({line_of(message_of("m", {"@b:one.test"})), member_line(room, "@b:one.test", "leave"),
              line_of(member_event(room, "$kick", "@b:one.test", "leave")),
              line_of(edu_record{"m.presence", "{}", "", "", "@a:us.test", {}})});
  bench.interval("one.test", true);
  bench.interval("one.test", false);
  bench.owed("one.test");
  bench.owed_servers();
  owed_reader(*bench.reader, 50).count("one.test", bench.at("one.test"));
  find_room(*bench.reader, room);
  rooms_of(*bench.reader, "one.test");
  bench.acknowledge("one.test", bench.head());
  auto plans = plans_of(*bench.reader);
  auto written = plans_of(bench.stores->db);
  plans.insert(plans.end(), written.begin(), written.end());
  REQUIRE(plans.size() > 40);
  for (const auto& step : plans) {
    CAPTURE(step);
    // Walked in whole are only: what waits (its rows go when they are delivered), the narrow table of cursors for the
    // smallest one, and tables of a few rows.
    bool small = false;
    for (const std::string table : {"SCAN to_device", "SCAN target", "SCAN extra", "SCAN cursor", "SCAN CONSTANT",
                                    "SCAN consumer", "SCAN stream", "SCAN (subquery", "SCAN partial_join"})
      small = small || step.rfind(table, 0) == 0;
    CHECK((step.rfind("SCAN", 0) != 0 || small));
  }
}
