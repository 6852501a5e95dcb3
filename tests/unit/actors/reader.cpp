#include "ledger_bench.hpp"

#include "storage/database.hpp"

#include <nlohmann/json.hpp>

using namespace ranvier;

namespace {
std::vector<feed_line> shared_room() {
  return {ledger_bench::member("@a:us.test"), ledger_bench::member("@b:one.test"),
          ledger_bench::member("@c:two.test", "invite")};
}
stream_page stream(ledger_bench& bench, std::optional<position> after, std::size_t limit = 100) {
  return bench.local_ask<stream_page>(bench.reader, read_stream{"host", after.has_value(), after.value_or(0), limit});
}
void receive(ledger_bench& bench, const std::string& txn_id, std::vector<stream_item> items) {
  inbound_transaction one;
  one.origin = "one.test";
  one.txn_id = txn_id;
  one.items = std::move(items);
  CHECK(bench.local_ask<inbound_outcome>(bench.ledger, one).ok);
}
} // namespace

TEST_CASE("reader: what was answered for is read by the next question") {
  ledger_bench bench;
  auto unknown = bench.local_ask<loaded_destination>(bench.reader, load_destination{"one.test"});
  CHECK_FALSE(unknown.known);
  CHECK(unknown.row.name == "one.test");
  auto lines = shared_room();
  lines.push_back(ledger_bench::event("$1"));
  bench.feed(lines);
  auto known = bench.local_ask<loaded_destination>(bench.reader, load_destination{"one.test"});
  CHECK(known.known);
  CHECK(known.row.at.pdu == 1);
  CHECK(known.row.rooms == 1);
  CHECK(known.head == 4);
  auto stranger = bench.local_ask<loaded_destination>(bench.reader, load_destination{"far.test"});
  CHECK(stranger.row.at == cursors{4, 4, 4});
  auto items = bench.local_ask<owed_items>(bench.reader, read_owed{"one.test", known.row.at, 4, 10, 1000, 10});
  REQUIRE(items.pdus.size() == 1);
  CHECK(items.pdus[0].subject == "$1");
  CHECK(items.pdus_through == 4);
  auto counts = bench.local_ask<owed_counts>(bench.reader, count_owed{"one.test", known.row.at});
  CHECK(counts.pdus == 1);
  CHECK(counts.oldest_at_ms == bench.now_ms);
  CHECK(counts.behind == 3);
  CHECK(bench.local_ask<names>(bench.reader, list_owed{"", 10}).list == std::vector<std::string>{"one.test"});
  auto all = bench.local_ask<destination_rows>(bench.reader, list_destinations{});
  CHECK(all.rows.size() == 1);
  CHECK(all.head == 4);
}

TEST_CASE("reader: rooms, sources and the rooms of a server") {
  ledger_bench bench;
  auto lines = shared_room();
  lines[0].source = "s";
  lines[0].seq = 7;
  bench.feed(lines);
  auto room = bench.local_ask<found_room>(bench.reader, find_room{"!r:us.test", true});
  CHECK(room.known);
  CHECK(room.members.size() == 3);
  CHECK(room.servers == std::vector<std::string>{"one.test"});
  const auto brief = bench.local_ask<found_room>(bench.reader, find_room{"!r:us.test"});
  CHECK(brief.known);
  CHECK(brief.ours_joined);
  CHECK(brief.members.empty()); // each inbound transaction asks for this
  CHECK(brief.servers.empty());
  CHECK_FALSE(bench.local_ask<found_room>(bench.reader, find_room{"!other:us.test"}).known);
  auto source = bench.local_ask<found_source>(bench.reader, find_source{"s"});
  CHECK(source.known);
  CHECK(source.seq == 7);
  CHECK_FALSE(bench.local_ask<found_source>(bench.reader, find_source{"t"}).known);
  CHECK(bench.local_ask<names>(bench.reader, find_rooms_of{"one.test"}).list == std::vector<std::string>{"!r:us.test"});
  CHECK(bench.local_ask<names>(bench.reader, find_rooms_of{"two.test"}).list.empty());
}

TEST_CASE("reader: the stream is in order, durable and ephemeral items mixed, page by page") {
  ledger_bench bench;
  auto empty = stream(bench, std::nullopt);
  CHECK(empty.instance == "instance-1");
  CHECK(empty.items.empty());
  CHECK(empty.oldest == 1);
  CHECK(empty.head == 0);
  receive(bench, "t1", {{"pdu", "{\"n\":1}"}, {"edu", "{\"n\":2}"}, {"pdu", "{\"n\":3}"}, {"edu", "{\"n\":4}"}});
  auto page = stream(bench, std::nullopt, 3);
  REQUIRE(page.items.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(page.items[i].first == static_cast<position>(i) + 1);
    CHECK(page.items[i].second.json == "{\"n\":" + std::to_string(i + 1) + "}");
  }
  CHECK(page.head == 4);
  CHECK(page.reserved == 1000);
  auto rest = stream(bench, 3);
  REQUIRE(rest.items.size() == 1);
  CHECK(rest.items[0].first == 4);
  CHECK(stream(bench, 4).items.empty());
}

TEST_CASE("reader: what all consumers have is gone, what is too old isn't given") {
  ledger_bench bench;
  receive(bench, "t1", {{"edu", R"({"edu_type":"m.typing"})"}, {"pdu", "{}"}, {"edu", R"({"edu_type":"m.receipt"})"}});
  bench.now_ms += 60'000;
  auto page = stream(bench, std::nullopt);
  REQUIRE(page.items.size() == 2);
  CHECK(page.items[0].first == 2);
  CHECK(page.oldest == 1); // nobody has acknowledged anything: `after=0` stays valid
  bench.told(acknowledge_stream{"host", 2});
  bench.told(acknowledge_stream{"index", 3});
  page = stream(bench, std::nullopt);
  REQUIRE(page.items.size() == 1);
  CHECK(page.items[0].first == 3);
  CHECK(page.oldest == 3);
}

TEST_CASE("reader: before the ledger has spoken the bounds are the stored ones") {
  ledger_bench bench;
  receive(bench, "t1", {{"pdu", "{}"}});
  auto silent = std::make_shared<storage::ephemeral_inbox>();
  auto early = spawn_reader(bench.system(), {bench.path, [] { return std::int64_t(1); }, silent, 50, "early"}, false);
  bench.drain();
  auto page = bench.local_ask<stream_page>(early, read_stream{"host", true, 0, 10});
  CHECK(page.items.size() == 1);
  CHECK(page.head == 1000);
  caf::anon_send_exit(early, caf::exit_reason::user_shutdown);
  bench.drain();
}

TEST_CASE("reader: a query that fails is answered, and the reader goes on") {
  ledger_bench bench;
  bench.feed(shared_room());
  storage::database hand(bench.path, storage::database::mode::write);
  hand.script("ALTER TABLE span RENAME TO span_gone");
  auto items = bench.local_ask<owed_items>(bench.reader, read_owed{"one.test", {}, 4, 10, 1000, 10});
  CHECK_FALSE(items.ok);
  CHECK_FALSE(items.problem.empty());
  bool refused = false;
  auto pending = bench.asker->request(bench.reader, caf::infinite, make_local(load_destination{"one.test"}));
  bench.drain();
  pending.receive([](const local<loaded_destination>&) {}, [&](const caf::error&) { refused = true; });
  CHECK(refused);
  hand.script("ALTER TABLE span_gone RENAME TO span");
  CHECK(bench.local_ask<loaded_destination>(bench.reader, load_destination{"one.test"}).known);
  auto view = nlohmann::json::parse(bench.ask<description>(bench.reader, describe{}).json);
  CHECK(view["kind"] == "reader");
  CHECK(view["name"] == "reader 1");
  CHECK(view["failed_queries"] == 2);
}
