#include "ledger_bench.hpp"

#include <nlohmann/json.hpp>

using namespace ranvier;

namespace {

nlohmann::json described(ledger_bench& bench) {
  return nlohmann::json::parse(bench.ask<description>(bench.ledger, describe{false}).json);
}
std::vector<feed_line> events(const std::string& prefix, int count) {
  std::vector<feed_line> lines;
  for (int i = 0; i < count; ++i)
    lines.push_back(ledger_bench::event(prefix + std::to_string(i)));
  return lines;
}
void acknowledge(ledger_bench& bench, const std::string& server, position upto, std::vector<position> let_go_at = {},
                 std::vector<position> went = {}) {
  delivered ack;
  ack.destination = server;
  ack.at = {upto, upto, upto};
  ack.let_go_at = std::move(let_go_at);
  ack.pdus = std::move(went);
  bench.asker->send(bench.ledger, make_local(ack));
  bench.wait(1'000);
}
std::int64_t events_left(ledger_bench& bench) {
  storage::database reader(bench.path, storage::database::mode::read);
  return reader.integer("SELECT count(*) FROM pdu").value_or(-1);
}

} // namespace

TEST_CASE("ledger: what everybody has goes some seconds later, in small steps, and then it rests") {
  ledger_bench bench;
  bench.feed({ledger_bench::member("@a:us.test"), ledger_bench::member("@b:one.test")});
  bench.feed(events("$", 600));
  acknowledge(bench, "one.test", 602);
  CHECK(events_left(bench) == 600);
  bench.wait(9'000);
  const auto first = events_left(bench);
  CHECK(first < 600);
  CHECK(first >= 300);
  bench.wait(1'000);
  CHECK(events_left(bench) == 0);
  CHECK(described(bench)["compaction"]["events"] == 600);
  // Nothing happens: no timer runs, no commit is made.
  bench.wait(60'000);
  const auto commits = described(bench)["commits"].get<int>();
  bench.wait(3'600'000);
  CHECK(described(bench)["commits"].get<int>() == commits);
  // The next reason starts it again.
  bench.feed(events("$more", 3));
  acknowledge(bench, "one.test", 605);
  bench.wait(30'000);
  CHECK(events_left(bench) == 0);
}

TEST_CASE("ledger: while a server is dead only its newest events stay, and what went is counted") {
  ledger_bench bench;
  bench.feed({ledger_bench::member("@a:us.test"), ledger_bench::member("@b:dead.test")});
  save_gate closing;
  closing.destination = "dead.test";
  closing.gate.push.closed = true;
  closing.opens_interval = true;
  CHECK(bench.told(closing).ok);
  bench.feed(events("$", 80)); // 3-82
  bench.wait(60'000);
  CHECK(events_left(bench) == 50);
  CHECK(bench.row("dead.test").let_go == 30);
  // An ack counts what is still there, and takes back what arrived after all.
  acknowledge(bench, "dead.test", 40, {3, 4, 33, 34}, {32, 35});
  CHECK(bench.row("dead.test").let_go == 31);
}

TEST_CASE("ledger: a store that can't be written isn't compacted, and is later") {
  ledger_bench bench;
  bench.feed({ledger_bench::member("@a:us.test"), ledger_bench::member("@b:one.test")});
  bench.feed(events("$", 5));
  acknowledge(bench, "one.test", 7);
  {
    storage::database other(bench.path, storage::database::mode::write);
    other.script("CREATE TRIGGER broken BEFORE DELETE ON pdu BEGIN SELECT RAISE(ABORT, 'no'); END");
    bench.wait(60'000);
    CHECK(events_left(bench) == 5);
    CHECK(described(bench)["state"] == "ready");
    other.script("DROP TRIGGER broken");
  }
  bench.feed(events("$more", 1));
  acknowledge(bench, "one.test", 8);
  bench.wait(60'000);
  CHECK(events_left(bench) == 0);
}
