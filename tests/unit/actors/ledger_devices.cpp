#include "ledger_bench.hpp"

#include "storage/database.hpp"

#include <nlohmann/json.hpp>

using namespace ranvier;

namespace {

const std::string bob = "@b:one.test";

device_list_edu update(std::int64_t stream_id, std::vector<std::int64_t> prev, const std::string& device) {
  return {bob, device, stream_id, std::move(prev), false, R"({"device_id":")" + device + "\"}", ""};
}

/// A ledger whose entries are heard, with a room that bob shares with our alice.
struct scene {
  scene() {
    auto heard = std::make_shared<std::vector<log_entry>>();
    entries = heard;
    bench.told(listen{bench.system().spawn([heard]() -> commit_listener::behavior_type {
      return {[heard](const local<committed>& what) {
        heard->insert(heard->end(), what->entries.begin(), what->entries.end());
      }};
    })});
    bench.feed({ledger_bench::member("@a:us.test"), ledger_bench::member(bob)});
    bench.stream_moves = 0;
  }

  inbound_outcome take(std::vector<inbound_device_change> changes, std::vector<stream_item> items = {}) {
    inbound_transaction one;
    one.origin = "one.test";
    one.txn_id = "t" + std::to_string(++transactions);
    one.answer = "{}";
    one.items = std::move(items);
    one.device_changes = std::move(changes);
    return bench.local_ask<inbound_outcome>(bench.ledger, one);
  }
  device_list_saved save(std::int64_t marks, std::int64_t stream_id, const std::vector<std::string>& devices) {
    save_device_list list;
    list.user = bob;
    list.marks = marks;
    list.is = save_device_list::outcome::list;
    list.stream_id = stream_id;
    for (const auto& device : devices)
      list.devices.push_back({device, R"({"device_id":")" + device + "\"}", ""});
    return bench.local_ask<device_list_saved>(bench.ledger, list);
  }
  known_keys_of_user known() {
    return bench.local_ask<known_keys>(bench.reader, find_known_keys{{{bob, {}}}, "", false}).users.at(bob);
  }
  std::vector<std::string> stream_kinds() {
    std::vector<std::string> out;
    for (const auto& [at, item] : bench.local_ask<stream_page>(bench.reader, read_stream{"host", false, 0, 100}).items)
      out.push_back(item.kind);
    return out;
  }

  ledger_bench bench;
  std::shared_ptr<std::vector<log_entry>> entries;
  int transactions = 0;
};

} // namespace

TEST_CASE("ledger: a gap in a list is told to the listener, the list that heals it to whoever reads the stream") {
  scene s;
  CHECK(s.take({update(7, {6}, "B2")}).ok);
  REQUIRE(s.entries->size() == 1);
  CHECK(s.entries->at(0).kind == entry_kind::stale);
  CHECK(s.entries->at(0).subject == bob);
  CHECK(*s.entries->at(0).servers == std::vector<std::string>{"one.test"});
  CHECK(s.bench.stream_moves == 0);
  auto stale = s.bench.local_ask<stale_users>(s.bench.reader, list_stale{"one.test"}).list;
  REQUIRE(stale.size() == 1);
  CHECK(stale[0].marks == s.entries->at(0).marks);
  auto saved = s.save(stale[0].marks, 7, {"B1", "B2"});
  CHECK(saved.ok);
  CHECK_FALSE(saved.still_stale);
  CHECK(s.bench.stream_moves == 1);
  CHECK(s.known().state == list_state::fresh);
  CHECK(s.known().devices.size() == 2);
  // An update that is applied wakes them too; one that changes nothing doesn't.
  CHECK(s.take({update(8, {7}, "B3")}).ok);
  CHECK(s.bench.stream_moves == 2);
  CHECK(s.take({update(9, {8}, "B3")}).ok);
  CHECK(s.bench.stream_moves == 2);
  CHECK(s.known().devices.size() == 3);
  CHECK(s.entries->size() == 1);
}

TEST_CASE("ledger: whatever makes stream items durable wakes whoever reads them, and nothing else does") {
  scene s;
  s.bench.feed({ledger_bench::member("@c:two.test")});
  CHECK(s.bench.stream_moves == 1);
  s.bench.feed({ledger_bench::member("@c:two.test"), ledger_bench::event("$1")});
  CHECK(s.bench.stream_moves == 1);
  s.take({}, {{"pdu", "{}"}});
  CHECK(s.bench.stream_moves == 2);
  s.take({}, {{"edu", R"({"edu_type":"m.typing"})"}});
  CHECK(s.bench.stream_moves == 3);
  s.take({});
  CHECK(s.bench.stream_moves == 3);
}

TEST_CASE("ledger: new lists stand in the stream before the messages that came with them") {
  scene s;
  s.save(0, 1, {"B1"});
  s.take({update(2, {1}, "B2")}, {{"to_device", "{}"}, {"pdu", "{}"}});
  CHECK(s.stream_kinds() == std::vector<std::string>{"device_lists", "device_lists", "to_device", "pdu"});
}

TEST_CASE("ledger: a transaction that comes again is no second reason to fetch") {
  scene s;
  inbound_transaction one;
  one.origin = "one.test";
  one.txn_id = "same";
  one.answer = "{}";
  one.device_changes = {update(7, {6}, "B2")};
  for (int turn = 0; turn < 2; ++turn)
    CHECK(s.bench.local_ask<inbound_outcome>(s.bench.ledger, one).repeated == (turn == 1));
  CHECK(s.entries->size() == 1);
}

TEST_CASE("ledger: lists are marked by hand; only of users whose list may be known") {
  scene s;
  CHECK(s.bench.told(mark_stale{{bob, "@nobody:one.test", "@a:us.test"}, "by hand"}).ok);
  REQUIRE(s.entries->size() == 1);
  CHECK(s.bench.local_ask<stale_users>(s.bench.reader, list_stale{""}).list.at(0).cause == "by hand");
  CHECK(s.known().state == list_state::not_held);
}

TEST_CASE("ledger: B73: an update that can't be stored is counted where an operator looks") {
  scene s;
  s.save(0, 1, {"B1"});
  storage::database other(s.bench.path, storage::database::mode::write);
  other.script("CREATE TRIGGER broken BEFORE INSERT ON remote_device BEGIN SELECT RAISE(ABORT, 'no index'); END");
  CHECK(s.take({update(2, {1}, "B2")}, {{"pdu", "{}"}}).ok);
  CHECK(s.stream_kinds() == std::vector<std::string>{"device_lists", "pdu"});
  REQUIRE(s.entries->size() == 1);
  CHECK(s.entries->at(0).kind == entry_kind::stale);
  auto view = nlohmann::json::parse(s.bench.ask<description>(s.bench.ledger, describe{}).json);
  CHECK(view["device_updates_not_stored"] == 1);
}

TEST_CASE("ledger: what a user missed is read by range") {
  scene s;
  s.save(0, 1, {"B1"});
  s.take({update(2, {1}, "B2")});
  auto page = s.bench.local_ask<stream_page>(s.bench.reader, read_stream{"host", false, 0, 100});
  REQUIRE(page.items.size() == 2);
  auto all = s.bench.local_ask<device_changes>(
      s.bench.reader, find_device_changes{"@a:us.test", page.items[0].first, page.items[1].first});
  CHECK(all.changed == std::vector<std::string>{bob});
  CHECK(all.left.empty());
  CHECK_FALSE(all.limited);
  s.bench.feed({ledger_bench::member(bob, "leave")});
  all = s.bench.local_ask<device_changes>(s.bench.reader,
                                          find_device_changes{"@a:us.test", page.items[1].first, page.head + 1});
  CHECK(all.left == std::vector<std::string>{bob});
}
