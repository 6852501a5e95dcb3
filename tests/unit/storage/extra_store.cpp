#include "storage/extra_store.hpp"

#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test", other_room = "!s:us.test", server = "one.test";

/// Two rooms shared with one server, ten events in turn at 5 to 14; all of it acked.
struct extras_bench : store_bench {
  extras_bench() {
    feed({member_line(room, "@a:us.test", "join"), member_line(room, "@b:one.test", "join"),
          member_line(other_room, "@a:us.test", "join"), member_line(other_room, "@b:one.test", "join")});
    for (int i = 5; i < 15; ++i) {
      auto event = event_of(i % 2 ? room : other_room, "$" + std::to_string(i));
      if (i == 9) event.exclude = {server};
      feed(line_of(event));
    }
    acknowledge(server, head());
  }
  void add(const std::string& where, position from, position to) {
    write([&](writer& all, auto&) {
      extra_store(all.db).add(all.names.server(server), all.names.room(where), from, to);
    });
  }
  void went(const std::vector<position>& at) {
    write([&](writer& all, auto&) { extra_store(all.db).acknowledge(all.names.server(server), at); });
  }
  owed_page page(std::size_t max_extras, position after = 0) {
    return owed_reader(*reader, 50).page(server, at(server), head(), {10, 1 << 20, 10, max_extras, after});
  }
  std::string extras(std::size_t max_extras = 100, position after = 0) {
    std::string out;
    for (const auto& one : page(max_extras, after).extras)
      out += (out.empty() ? "" : " ") + one.subject;
    return out;
  }
  std::string stored() {
    std::string out;
    auto rows =
        reader->ask("SELECT room.name, from_position, to_position FROM extra JOIN room ON id = room ORDER BY 1, 2");
    while (rows.step())
      out += (out.empty() ? "" : " ") + rows.text(0).substr(1, 1) + rows.text(1) + "-" + rows.text(2);
    return out;
  }
};
} // namespace

TEST_CASE("extras: what is owed below the cursor, in log order over all rooms, without what excludes the server") {
  extras_bench bench;
  CHECK(bench.extras().empty());
  bench.add(room, 4, 12);
  bench.add(other_room, 5, 8);
  CHECK(bench.extras() == "$5 $6 $7 $8 $11");
  CHECK(bench.extras(2) == "$5 $6");
  CHECK(bench.extras(2, 6) == "$7 $8");
  CHECK(bench.page(2).more_extras);
  CHECK_FALSE(bench.page(5).more_extras);
  auto totals = owed_reader(*bench.reader, 50).count(server, bench.at(server));
  CHECK(totals.pdus == 5);
  CHECK(totals.oldest_at_ms == bench.now_ms);
  CHECK(bench.owed_servers() == std::vector<std::string>{server});
}

TEST_CASE("extras: each ack moves their starts; an empty one goes") {
  extras_bench bench;
  bench.add(room, 4, 12);
  bench.add(other_room, 5, 8);
  bench.went({5, 6});
  CHECK(bench.stored() == "r5-12 s6-8");
  bench.went({7, 8});
  CHECK(bench.stored() == "r7-12"); // 9 excludes the server, 11 is still owed
  bench.went({11});
  CHECK(bench.stored().empty());
  bench.went({11, 5}); // acked twice
  CHECK(bench.owed_servers().empty());
}

TEST_CASE("extras: what has no event, or isn't below the cursor, isn't written; those that touch become one") {
  extras_bench bench;
  bench.add(room, 14, 20);
  bench.add(room, 8, 9);
  bench.add(room, 7, 7);
  CHECK(bench.stored().empty());
  bench.add(room, 10, 1'000);
  CHECK(bench.stored() == "r10-14");
  bench.add(room, 4, 6);
  bench.add(room, 6, 8);
  CHECK(bench.stored() == "r4-8 r10-14");
  bench.add(room, 7, 12);
  CHECK(bench.stored() == "r4-14");
}

TEST_CASE("extras go before newer events: while there are more, those wait") {
  extras_bench bench;
  bench.add(room, 4, 12);
  bench.feed({line_of(event_of(room, "$new")), line_of(event_of(other_room, "$other"))});
  auto page = bench.page(2);
  CHECK(page.extras.size() == 2);
  CHECK(page.pdus.empty());
  CHECK(page.more_pdus);
  CHECK(page.pdus_through == bench.at(server).pdu);
  CHECK(page.rooms_behind == std::vector<std::string>{room, other_room});
  page = bench.page(10);
  CHECK(page.extras.size() == 3);
  CHECK(page.pdus.size() == 2);
  // Who doesn't ask for extras isn't held back by them.
  page = bench.page(0);
  CHECK(page.extras.empty());
  CHECK(page.pdus.size() == 2);
}

TEST_CASE("compaction keeps what an extra says, and no longer") {
  extras_bench bench;
  bench.add(room, 5, 8);
  bench.compact();
  CHECK(bench.query_number("SELECT group_concat(position) FROM pdu") == 7);
  CHECK(bench.extras() == "$7");
  bench.went({7});
  bench.compact();
  CHECK(bench.rows("pdu") == 0);
}
