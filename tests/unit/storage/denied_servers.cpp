// A server that the configuration denies keeps no rows of the log (docs/LOG.md).
#include "storage/extra_store.hpp"
#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test";

void share(store_bench& bench, const std::vector<std::string>& servers) {
  std::map<std::string, std::string> members{{"@a:us.test", "join"}};
  for (const auto& name : servers)
    members["@b:" + name] = "join";
  bench.feed(line_of(roster_record{room, "10", members}));
}
void say(store_bench& bench, const std::string& prefix, int count) {
  std::vector<feed_line> lines;
  for (int i = 1; i <= count; ++i)
    lines.push_back(line_of(event_of(room, prefix + std::to_string(i))));
  bench.feed(lines);
}
std::string rows(store_bench& bench) {
  std::string out;
  auto all = bench.reader->ask("SELECT event_id FROM pdu ORDER BY position");
  while (all.step())
    out += (out.empty() ? "" : " ") + all.text(0);
  return out;
}
void deny(store_bench& bench, std::vector<std::string> globs) {
  bench.allowed.deny = std::move(globs);
  bench.reopen();
}
} // namespace

TEST_CASE("denied servers: one that becomes denied keeps rule K's newest only, of what was owed before too, counted") {
  store_bench bench(2);
  share(bench, {"one.test", "bad.test"});
  say(bench, "$a", 5);
  bench.acknowledge("one.test", bench.head());
  bench.compact();
  CHECK(rows(bench) == "$a1 $a2 $a3 $a4 $a5");
  deny(bench, {"bad.*"});
  CHECK(bench.stores->compact.due());
  bench.compact();
  CHECK(rows(bench) == "$a4 $a5");
  CHECK(bench.let_go("bad.test") == 3);
  say(bench, "$b", 20);
  bench.acknowledge("one.test", bench.head());
  bench.compact();
  CHECK(rows(bench) == "$b19 $b20");
  CHECK(bench.let_go("bad.test") == 23);
  // The same lists at the next start: nothing more happens.
  bench.reopen();
  say(bench, "$c", 1);
  bench.acknowledge("one.test", bench.head());
  bench.compact();
  CHECK(rows(bench) == "$b20 $c1");
  CHECK(bench.let_go("bad.test") == 24);
  CHECK(bench.let_go("one.test") == 0);
}

TEST_CASE("denied servers: allowed again it gets the newest of what it missed, and from then on everything") {
  store_bench bench(2);
  share(bench, {"bad.test"});
  deny(bench, {"bad.test"});
  say(bench, "$a", 5);
  bench.compact();
  deny(bench, {});
  say(bench, "$b", 5);
  bench.compact();
  CHECK(bench.events("bad.test") == "$a4 $a5 $b1 $b2 $b3 $b4 $b5");
  CHECK(bench.let_go("bad.test") == 3);
  bench.acknowledge("bad.test", bench.head());
  bench.compact();
  CHECK(rows(bench) == "");
  CHECK(bench.rows("closed") == 0);
}

TEST_CASE("denied servers: one whose gate was closed is still in that closing when it is allowed again") {
  store_bench bench(2);
  share(bench, {"bad.test"});
  bench.interval("bad.test", true);
  gate_row closed;
  closed.push.closed = true;
  bench.write([&](writer& to, auto&) { to.destinations.save_gate(to.names.server("bad.test"), closed); });
  deny(bench, {"bad.test"});
  deny(bench, {});
  say(bench, "$a", 5);
  CHECK(bench.events("bad.test") == "$a4 $a5");
}

TEST_CASE("denied servers: one that is met while it is denied is shut out from its first event on") {
  store_bench bench(2);
  bench.allowed.allow = {"*.good.test"};
  bench.reopen();
  share(bench, {"x.good.test", "bad.test"});
  say(bench, "$a", 5);
  bench.acknowledge("x.good.test", bench.head());
  bench.compact();
  CHECK(rows(bench) == "$a4 $a5");
  CHECK(bench.let_go("bad.test") == 3);
  CHECK(bench.let_go("x.good.test") == 0);
}

TEST_CASE("denied servers: events that name one, and extras, are let go at once, counted once") {
  store_bench bench(50);
  share(bench, {"one.test", "bad.test"});
  auto named = event_of(room, "$named");
  named.destinations = {"bad.test", "one.test"};
  say(bench, "$a", 2);
  bench.acknowledge("bad.test", bench.head());
  bench.write([&](writer& to, auto&) {
    extra_store(to.db).add(to.names.server("bad.test"), *to.names.known_room(room), 1, bench.head());
  });
  bench.feed(line_of(named));
  deny(bench, {"bad.test"});
  CHECK(bench.let_go("bad.test") == 3);
  CHECK(bench.rows("extra") == 0);
  bench.acknowledge("one.test", bench.head());
  bench.compact();
  CHECK(rows(bench) == "");
  named.event_id = "$again";
  bench.feed(line_of(named));
  CHECK(bench.let_go("bad.test") == 4);
  CHECK(bench.events("one.test") == "$again");
  bench.acknowledge("one.test", bench.head());
  bench.compact();
  CHECK(rows(bench) == "");
  CHECK(bench.let_go("bad.test") == 4);
}

TEST_CASE("denied servers: a kick of one whose gate is closed is owed by its span, so it isn't counted twice") {
  store_bench bench(50);
  share(bench, {"one.test", "bad.test"});
  bench.interval("bad.test", true);
  bench.feed({line_of(member_event(room, "$kick", "@b:bad.test", "leave")),
              member_line(room, "@b:bad.test", "leave", "$kick")});
  REQUIRE(bench.rows("target") == 1);
  deny(bench, {"bad.test"});
  CHECK(bench.rows("target") == 0);
  CHECK(bench.let_go("bad.test") == 0);
}

TEST_CASE("denied servers: destinations are looked at only when the lists changed") {
  store_bench bench;
  share(bench, {"one.test"});
  auto changes = [&] { return bench.stores->destinations.set_allowed(bench.allowed, bench.head()); };
  CHECK_FALSE(changes());
  bench.allowed.deny = {"x.test", "y.test"};
  CHECK(changes());
  CHECK_FALSE(changes());
  bench.allowed = {{"x.test", "y.test"}, {}};
  CHECK(changes());
  bench.allowed = {};
  CHECK(changes());
  CHECK_FALSE(changes());
}
