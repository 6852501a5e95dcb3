#include "storage/room_needs.hpp"

#include "storage/extra_store.hpp"
#include "store_bench.hpp"

#include <algorithm>

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test";

std::string described(const std::vector<std::pair<position, position>>& gaps) {
  std::string out;
  for (auto [from, to] : gaps)
    out += (out.empty() ? "" : " ") + std::to_string(from) + "-" + std::to_string(to);
  return out;
}
std::string described(std::vector<room_need> needs, store_bench& bench) {
  std::string out;
  std::sort(needs.begin(), needs.end(),
            [](const auto& a, const auto& b) { return std::pair(a.server, a.from) < std::pair(b.server, b.from); });
  for (const auto& one : needs)
    out += (out.empty() ? "" : " ") +
           (one.server ? bench.stores->names.server_name(one.server).substr(0, 1) : std::string("all")) +
           std::to_string(one.from) + "-" + std::to_string(one.to);
  return out;
}
room_needs needs_of(store_bench& bench, std::int64_t newest_kept) {
  return find_needs(*bench.reader, bench.stores->names.room(room), bench.head(), newest_kept);
}
void say(store_bench& bench, int count, const std::string& excluded = "") {
  static int number = 0;
  for (; count > 0; --count) {
    auto event = event_of(room, "$" + std::to_string(++number));
    if (!excluded.empty()) event.exclude = {excluded};
    bench.feed(line_of(event));
  }
}
} // namespace

TEST_CASE("what nobody needs are the gaps between what is needed") {
  struct row {
    std::vector<room_need> kept;
    std::string gaps;
  };
  const std::vector<row> table{
      {{}, "0-10"},
      {{{1, 0, 10, ""}}, ""},
      {{{1, 4, 6, ""}}, "0-4 6-10"},
      {{{1, 4, 6, ""}, {2, 5, 8, ""}, {3, 5, 7, ""}}, "0-4 8-10"},
      {{{1, 8, 10, ""}, {2, 0, 3, ""}}, "3-8"},
      {{{1, 3, 5, ""}, {2, 5, 7, ""}}, "0-3 7-10"},
  };
  for (const auto& one : table)
    CHECK(described(gaps_between(one.kept, 10)) == one.gaps);
}

TEST_CASE("an event doesn't concern whom it excludes") {
  const room_need one{1, 4, 6, "\none.test\n"}, unnamed{1, 4, 6, ""};
  CHECK(concerns(one, 5, ""));
  CHECK(concerns(one, 6, "\ntwo.test\n"));
  CHECK_FALSE(concerns(one, 4, ""));
  CHECK_FALSE(concerns(one, 7, ""));
  CHECK_FALSE(concerns(one, 5, "\na.test\none.test\n"));
  CHECK(concerns(unnamed, 5, ""));
}

TEST_CASE("what a room's servers need: from their cursors on, the newest K of a closing, nothing after they left") {
  store_bench bench(2);
  bench.feed({member_line(room, "@a:us.test", "join"), member_line(room, "@b:behind.test", "join"),
              member_line(room, "@c:closed.test", "join"), member_line(room, "@d:done.test", "join")});
  say(bench, 1); // 5
  bench.interval("closed.test", true);
  say(bench, 4);                                            // 6-9
  bench.feed(member_line(room, "@b:behind.test", "leave")); // 10
  say(bench, 1);                                            // 11
  bench.acknowledge("done.test", 11);
  bench.acknowledge("behind.test", 6);
  auto needs = needs_of(bench, 2);
  CHECK(described(needs.kept, bench) == "b6-10 c2-5 c8-11");
  CHECK(described(needs.let_go, bench) == "c5-8");
  CHECK_FALSE(needs.excludes);
  // For one whose gate was closed before it came, and is still, the newest K are read once for all.
  bench.acknowledge("closed.test", 5);
  needs = needs_of(bench, 2);
  CHECK(described(needs.kept, bench) == "b6-10 c8-11");
  CHECK(described(needs.let_go, bench) == "c5-8");
  CHECK(described(needs_of(bench, 6).kept, bench) == "b6-10 c5-11");
  CHECK(described(needs_of(bench, 6).let_go, bench).empty());
}

TEST_CASE("events that exclude a server don't count for its newest K") {
  store_bench bench(2);
  bench.feed({member_line(room, "@a:us.test", "join"), member_line(room, "@c:closed.test", "join")});
  bench.interval("closed.test", true);
  say(bench, 3);                // 3-5
  say(bench, 3, "closed.test"); // 6-8
  auto needs = needs_of(bench, 2);
  CHECK(needs.excludes);
  CHECK(described(needs.let_go, bench) == "c2-3");
  CHECK(needs.kept.at(0).name == "\nclosed.test\n");
}

TEST_CASE("all of a partially joined room since the join is needed, and so are extras") {
  store_bench bench;
  bench.feed({member_line(room, "@a:us.test", "join"), member_line(room, "@b:one.test", "join")});
  say(bench, 5); // 3-7
  bench.acknowledge("one.test", 7);
  CHECK(needs_of(bench, 50).kept.empty());
  bench.write(
      [&](writer& to, auto&) { extra_store(to.db).add(to.names.server("one.test"), to.names.room(room), 3, 5); });
  CHECK(described(needs_of(bench, 50).kept, bench) == "o3-5");
  bench.write([&](writer& to, auto&) {
    to.db.run("INSERT INTO partial_join(room, position, user, event_id, event, joined_via, servers_in_room, since, "
              "at_ms) VALUES(?, 6, '', '', '', '', '[]', 0, 0)",
              to.names.room(room));
  });
  CHECK(described(needs_of(bench, 50).kept, bench) == "all6-7 o3-5");
}
