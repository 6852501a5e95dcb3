#include "storage/writer.hpp"

#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test";

std::vector<feed_line> shared_room() {
  return {member_line(room, "@a:us.test", "join"), member_line(room, "@b:one.test", "join")};
}
writer::job feeding(std::vector<feed_line> lines) {
  return [lines = std::move(lines)](writer& to, std::vector<log_entry>& entries) { to.feed.apply(lines, 1, entries); };
}
/// Takes positions, names and stream positions, and then fails.
writer::job failing() {
  return [](writer& to, std::vector<log_entry>& entries) {
    to.feed.apply({member_line("!lost:us.test", "@a:us.test", "join"),
                   member_line("!lost:us.test", "@x:lost.test", "join"), line_of(event_of("!lost:us.test", "$lost"))},
                  1, entries);
    to.inbox.append("to_device", "{}", 1);
    to.inbox.append("edu", "{}", 1);
    to.db.run("INSERT INTO meta(key, value) VALUES('head', 1)");
  };
}
} // namespace

TEST_CASE("one bad statement fails one asker") {
  store_bench bench;
  bench.feed(shared_room());
  auto waiting = bench.stores->inbox.bytes();
  auto group = bench.stores->commit(
      {feeding({line_of(event_of(room, "$1"))}), failing(), feeding({line_of(event_of(room, "$2"))})});
  CHECK(group.committed);
  CHECK(group.problems[0].empty());
  CHECK(group.problems[1].find("UNIQUE") != std::string::npos);
  CHECK(group.problems[2].empty());
  REQUIRE(group.entries.size() == 2);
  CHECK(group.entries[0].pos == 3);
  CHECK(group.entries[1].pos == 4);
  CHECK(group.head == 4);
  CHECK(bench.events("one.test") == "$1 $2");
  CHECK(bench.query_number("SELECT count(*) FROM room WHERE name = '!lost:us.test'") == 0);
  CHECK(bench.query_number("SELECT count(*) FROM server WHERE name = 'lost.test'") == 0);
  CHECK(bench.stores->inbox.take_ephemeral().empty());
  CHECK(bench.stores->inbox.bytes() == waiting);
  // What the failed one had interned in memory isn't believed afterwards.
  bench.feed({member_line("!lost:us.test", "@a:us.test", "join"), member_line("!lost:us.test", "@x:lost.test", "join"),
              line_of(event_of("!lost:us.test", "$found"))});
  CHECK(bench.events("lost.test") == "$found");
}

TEST_CASE("a full disk fails the askers, and everything goes on when there is room") {
  store_bench bench;
  bench.feed(shared_room());
  auto head = bench.head();
  auto pages = bench.stores->db.integer("PRAGMA page_count").value();
  bench.stores->db.script("PRAGMA max_page_count = " + std::to_string(pages));
  auto big = event_of(room, "$big");
  big.event = "\"" + std::string(60'000, 'x') + "\"";
  auto group = bench.stores->commit({feeding({line_of(big)}), feeding({line_of(event_of(room, "$1"))})});
  CAPTURE(group.problems[0]);
  // Whether SQLite gives up the statement or the whole transaction: what wasn't committed isn't told.
  CHECK(group.problems[0].find("full") != std::string::npos);
  CHECK(group.problems[0].find("free space") != std::string::npos);
  for (const auto& entry : group.entries)
    CHECK(entry.subject != "$big");
  CHECK(bench.stores->log.head() == bench.query_number("SELECT value FROM meta WHERE key = 'head'"));
  bench.stores->db.script("PRAGMA max_page_count = 1000000");
  bench.feed({line_of(big), line_of(event_of(room, "$1"))});
  CHECK(bench.stores->log.head() == head + 2);
  CHECK(bench.owed("one.test").pdus.size() == 2);
}

TEST_CASE("after a kill everything that was committed is there, and nothing else") {
  store_bench bench;
  bench.feed(shared_room());
  bench.feed(line_of(event_of(room, "$1")));
  bench.stores->db.run("BEGIN IMMEDIATE");
  bench.stores->db.run("DELETE FROM pdu");
  // What a kill -9 leaves: the file and its log as they are on disk, without a checkpoint and in mid-transaction.
  temporary_folder after;
  std::filesystem::copy(bench.folder.file("db"), after.file("db"));
  std::filesystem::copy(bench.folder.file("db-wal"), after.file("db-wal"));
  bench.stores->db.run("ROLLBACK");
  auto report = prepare(after.file("db"), us, false, "other");
  CHECK(report.instance == "instance-1");
  writer again({after.file("db"), 1'000'000, {"host"}});
  CHECK(again.log.head() == 3);
  CHECK(again.db.integer("SELECT count(*) FROM pdu") == 1);
  auto group = again.commit({feeding({line_of(event_of(room, "$1")), line_of(event_of(room, "$2"))})});
  CHECK(group.entries.size() == 1);
  CHECK(group.head == 4);
  CHECK(names_of(group.entries[0]) == "one.test");
}

TEST_CASE("an ack is one row of a narrow table: at most 400 bytes of WAL when 1,000 of 10,000 are gathered") {
  store_bench bench;
  std::vector<feed_line> lines{member_line(room, "@a:us.test", "join")};
  for (int i = 0; i < 10'000; ++i)
    lines.push_back(member_line(room, "@u:s" + std::to_string(i) + ".test", "join"));
  bench.feed(lines);
  bench.feed(line_of(event_of(room, "$1")));
  bench.reader.reset();
  auto checkpoint = [&] { bench.stores->db.run("PRAGMA wal_checkpoint(TRUNCATE)"); };
  checkpoint();
  constexpr std::int64_t wall = 1'790'000'000'000;
  bench.write([&](writer& to, auto&) {
    for (int i = 0; i < 1000; ++i) {
      auto server = to.names.server("s" + std::to_string(i * 7919 % 10'000) + ".test");
      gate_row gate;
      gate.last_success_ms = wall + i;
      to.destinations.acknowledge(server, {10'002, 10'002, 10'002}, {}, 0, wall + i, wall);
      to.destinations.save_gate(server, gate);
    }
  });
  auto bytes = std::filesystem::file_size(bench.folder.file("db-wal"));
  MESSAGE("bytes of WAL for an ack: ", bytes / 1000);
  CHECK(bytes <= 400'000);
}

TEST_CASE("closed spans go when all have passed them for an hour") {
  store_bench bench;
  constexpr std::int64_t hour = 3'600'000;
  auto tidy = [&] {
    bench.write([&](writer& to, auto&) { to.tidy(bench.now_ms, {hour * 1000}); });
    bench.compact();
  };
  bench.feed(shared_room());
  bench.feed(member_line(room, "@b:one.test", "leave"));
  bench.acknowledge("one.test", 3);
  tidy();
  CHECK(bench.rows("span") == 1);
  bench.now_ms += hour;
  tidy();
  CHECK(bench.rows("span") == 0);
  bench.feed({member_line(room, "@b:one.test", "join"), line_of(event_of(room, "$owed")),
              member_line(room, "@b:one.test", "leave")});
  bench.now_ms += hour;
  tidy();
  bench.now_ms += hour;
  tidy();
  CHECK(bench.rows("span") == 1);
}
