#include "ledger_bench.hpp"

#include "storage/database.hpp"

#include <nlohmann/json.hpp>

using namespace ranvier;

namespace {

/// What a listener was told, in order.
struct heard {
  std::vector<log_entry> entries;
  std::vector<position> heads;
};
commit_listener listener(ledger_bench& bench, std::shared_ptr<heard> into) {
  return bench.system().spawn([into]() -> commit_listener::behavior_type {
    return {[into](const local<committed>& what) {
      into->entries.insert(into->entries.end(), what->entries.begin(), what->entries.end());
      into->heads.push_back(what->head);
    }};
  });
}

std::vector<feed_line> shared_room() {
  return {ledger_bench::member("@a:us.test"), ledger_bench::member("@b:one.test")};
}

nlohmann::json described(ledger_bench& bench) {
  return nlohmann::json::parse(bench.ask<description>(bench.ledger, describe{}).json);
}

} // namespace

TEST_CASE("ledger: a batch is answered and told to the listener after its commit") {
  ledger_bench bench;
  auto told = std::make_shared<heard>();
  bench.told(listen{listener(bench, told)});
  auto lines = shared_room();
  lines.push_back(ledger_bench::event("$1"));
  feed_line bad;
  bad.number = 9;
  bad.what = record_problem{"M_BAD_JSON", "no"};
  lines.push_back(bad);
  lines.push_back(ledger_bench::event("$2"));
  auto outcome = bench.feed(lines);
  CHECK(outcome.ok);
  CHECK(outcome.accepted == 4);
  CHECK(outcome.head == 4);
  REQUIRE(outcome.rejected.size() == 1);
  CHECK(outcome.rejected[0].line == 9);
  REQUIRE(told->entries.size() == 2);
  CHECK(told->entries[0].pos == 3);
  CHECK(*told->entries[0].servers == std::vector<std::string>{"one.test"});
  CHECK((told->heads == std::vector<position>{0, 4})); // the head at hand first: from there nothing is missed
  // Roster changes move the head without an entry; it is told all the same.
  bench.feed({ledger_bench::member("@c:two.test")});
  CHECK((told->heads == std::vector<position>{0, 4, 5}));
  bench.feed({ledger_bench::member("@c:two.test")});
  CHECK(told->heads.size() == 3);
}

TEST_CASE("ledger: what waits in the mailbox shares one commit") {
  ledger_bench bench;
  bench.feed(shared_room());
  auto commits = described(bench)["commits"].get<int>();
  for (int i = 0; i < 50; ++i)
    bench.asker->send(bench.ledger, make_local(feed_batch{{ledger_bench::event("$" + std::to_string(i))}}));
  bench.drain();
  auto view = described(bench);
  CHECK(view["commits"].get<int>() == commits + 1);
  CHECK(view["largest_group"].get<int>() == 50);
  CHECK(view["head"].get<int>() == 52);
  CHECK(view["kind"] == "ledger");
  CHECK(view["state"] == "ready");
}

TEST_CASE("ledger: acks are gathered for a second and written in one commit") {
  ledger_bench bench;
  auto lines = shared_room();
  lines.push_back(ledger_bench::member("@c:two.test"));
  lines.push_back(ledger_bench::event("$1"));
  bench.feed(lines);
  auto commits = described(bench)["commits"].get<int>();
  delivered ack;
  ack.destination = "one.test";
  ack.at = {4, 4, 4};
  ack.gate.last_success_ms = 77;
  bench.asker->send(bench.ledger, make_local(ack));
  ack.destination = "two.test";
  ack.at = {3, 3, 3};
  bench.asker->send(bench.ledger, make_local(ack));
  ack.at = {4, 4, 4};
  ack.let_go = 2;
  bench.asker->send(bench.ledger, make_local(ack));
  bench.drain();
  bench.wait(999);
  CHECK(bench.row("one.test").at.pdu == 1);
  bench.wait(1);
  CHECK(bench.row("one.test").at == cursors{4, 4, 4});
  CHECK(bench.row("one.test").gate.last_success_ms == 77);
  CHECK(bench.row("two.test").at == cursors{4, 4, 4});
  CHECK(bench.row("two.test").let_go == 2);
  CHECK(described(bench)["commits"].get<int>() == commits + 1);
}

TEST_CASE("ledger: a gate that is saved comes after the acks of its destination") {
  ledger_bench bench;
  auto lines = shared_room();
  lines.push_back(ledger_bench::event("$1"));
  bench.feed(lines);
  delivered ack;
  ack.destination = "one.test";
  ack.at = {3, 3, 3};
  bench.asker->send(bench.ledger, make_local(ack));
  save_gate closing;
  closing.destination = "one.test";
  closing.gate.push.closed = true;
  closing.gate.push.last_error = {failure_class::unreachable, failure_stage::connect, 0, "", "refused", -1};
  closing.opens_interval = true;
  CHECK(bench.told(closing).ok);
  auto row = bench.row("one.test");
  CHECK(row.at.pdu == 3);
  CHECK(row.gate == closing.gate);
  // The ack isn't written a second time over it.
  bench.wait(2'000);
  CHECK(bench.row("one.test").gate == closing.gate);
}

TEST_CASE("ledger: a destination that nobody knew is owed nothing from before") {
  ledger_bench bench;
  auto lines = shared_room();
  lines.push_back(ledger_bench::event("$1"));
  bench.feed(lines);
  save_gate closing;
  closing.destination = "new.test";
  closing.gate.pull.closed = true;
  CHECK(bench.told(closing).ok);
  CHECK(bench.row("new.test").at == cursors{3, 3, 3});
  CHECK(bench.told(save_hold{"held.test", "why", "root", true, 0}).ok);
  CHECK(bench.row("held.test").hold == hold_row{true, "why", 0});
  CHECK(bench.told(save_hold{"held.test", "", "root", false, 0}).ok);
  CHECK_FALSE(bench.row("held.test").hold.set);
}

TEST_CASE("ledger: acks that were gathered are written at its end") {
  ledger_bench bench;
  auto lines = shared_room();
  lines.push_back(ledger_bench::event("$1"));
  bench.feed(lines);
  delivered ack;
  ack.destination = "one.test";
  ack.at = {3, 3, 3};
  bench.asker->send(bench.ledger, make_local(ack));
  bench.drain();
  bench.stop();
  storage::database db(bench.path, storage::database::mode::read);
  CHECK(db.integer("SELECT min(pdu) FROM cursor") == 3);
}

TEST_CASE("ledger: a transaction of another server is taken once, its answer is remembered") {
  ledger_bench bench;
  inbound_transaction one;
  one.origin = "one.test";
  one.txn_id = "t1";
  one.answer = R"({"pdus":{}})";
  one.items = {{"pdu", "{\"n\":1}"},
               {"to_device", "{\"n\":2}"},
               {"edu", R"({"edu_type":"m.typing","n":3})"},
               {"to_device", "{\"n\":4}"}};
  one.message_keys = {"@x:one.test|m1", "@x:one.test|m1"};
  auto first = bench.local_ask<inbound_outcome>(bench.ledger, one);
  CHECK(first.ok);
  CHECK_FALSE(first.repeated);
  CHECK(first.answer == one.answer);
  auto again = one;
  again.answer = "another";
  auto second = bench.local_ask<inbound_outcome>(bench.ledger, again);
  CHECK(second.repeated);
  CHECK(second.answer == one.answer);
  auto page = bench.local_ask<stream_page>(bench.reader, read_stream{"host", false, 0, 100});
  REQUIRE(page.items.size() == 3);
  CHECK(page.items[0].second.json == "{\"n\":1}");
  CHECK(page.items[1].second.kind == "to_device");
  CHECK(page.items[2].second.kind == "edu");
  CHECK(page.items[2].first == 3);
  auto found = bench.local_ask<found_transaction>(bench.reader, find_transaction{"one.test", "t1"});
  CHECK(found.known);
  CHECK(found.answer == one.answer);
  CHECK_FALSE(bench.local_ask<found_transaction>(bench.reader, find_transaction{"one.test", "t2"}).known);
}

TEST_CASE("ledger: a full inbox takes nothing, and takes again when the host has read") {
  ledger_bench bench(100);
  inbound_transaction one;
  one.origin = "one.test";
  one.txn_id = "t1";
  one.items = {{"pdu", std::string(90, 'x')}};
  CHECK_FALSE(bench.local_ask<inbound_outcome>(bench.ledger, one).full);
  one.txn_id = "t2";
  auto refused = bench.local_ask<inbound_outcome>(bench.ledger, one);
  CHECK(refused.ok);
  CHECK(refused.full);
  CHECK_FALSE(bench.local_ask<found_transaction>(bench.reader, find_transaction{"one.test", "t2"}).known);
  CHECK(bench.told(acknowledge_stream{"host", 1}).ok);
  CHECK(bench.local_ask<inbound_outcome>(bench.ledger, one).full); // the other consumer hasn't read it
  CHECK(bench.told(acknowledge_stream{"index", 1}).ok);
  CHECK_FALSE(bench.local_ask<inbound_outcome>(bench.ledger, one).full);
  auto stranger = bench.told(acknowledge_stream{"stranger", 1});
  CHECK_FALSE(stranger.ok);
  CHECK(stranger.problem.find("stranger") != std::string::npos);
}

TEST_CASE("ledger: if nothing can be written the askers are told, and it goes on when it can") {
  ledger_bench bench;
  bench.feed(shared_room());
  storage::database blocker(bench.path, storage::database::mode::write);
  // A damaged table stands for a failing disk.
  blocker.script("ALTER TABLE pdu RENAME TO pdu_gone");
  auto failed = bench.feed({ledger_bench::event("$1")});
  CHECK_FALSE(failed.ok);
  CHECK(failed.accepted == 0);
  CHECK(failed.problem.find("pdu") != std::string::npos);
  blocker.script("ALTER TABLE pdu_gone RENAME TO pdu");
  auto well = bench.feed({ledger_bench::event("$1")});
  CHECK(well.ok);
  CHECK(well.head == 3);
}

TEST_CASE("ledger: a commit that fails is told as the state, and so is the recovery") {
  ledger_bench bench;
  bench.feed(shared_room());
  delivered ack;
  ack.destination = "one.test";
  ack.at = {2, 2, 2};
  {
    storage::database blocker(bench.path, storage::database::mode::write);
    blocker.script("ALTER TABLE meta RENAME TO meta_gone");
    CHECK_FALSE(bench.feed({ledger_bench::event("$1")}).ok);
    REQUIRE(bench.health.size() == 1);
    CHECK_FALSE(bench.health[0].empty());
    CHECK(described(bench)["state"] == "failing");
    blocker.script("ALTER TABLE meta_gone RENAME TO meta");
  }
  CHECK(bench.feed({ledger_bench::event("$1")}).ok);
  REQUIRE(bench.health.size() == 2);
  CHECK(bench.health[1].empty());
  CHECK(described(bench)["state"] == "ready");
}

TEST_CASE("ledger: acks that couldn't be written are kept and written later") {
  ledger_bench bench;
  bench.feed(shared_room());
  delivered ack;
  ack.destination = "one.test";
  ack.at = {2, 2, 2};
  bench.asker->send(bench.ledger, make_local(ack));
  storage::database blocker(bench.path, storage::database::mode::write);
  blocker.script("ALTER TABLE target RENAME TO target_gone");
  bench.wait(1'500);
  CHECK(bench.row("one.test").at.pdu == 1);
  blocker.script("ALTER TABLE target_gone RENAME TO target");
  bench.wait(1'500);
  CHECK(bench.row("one.test").at == cursors{2, 2, 2});
}

TEST_CASE("ledger: keys are saved, and the heartbeat is what the next start finds") {
  ledger_bench bench;
  CHECK(bench.told(save_keys{{{"one.test", "ed25519:a", "AAA", 5, 0}}}).ok);
  auto keys = bench.local_ask<found_keys>(bench.reader, find_keys{"one.test"});
  REQUIRE(keys.keys.size() == 1);
  CHECK(keys.keys[0].key == "AAA");
  bench.asker->send(bench.ledger, make_local(heartbeat{bench.now_ms}));
  bench.drain();
  bench.stop();
  CHECK(storage::prepare(bench.path, {"us.test", "ed25519:a", "KEY"}, false, "x").last_heartbeat_ms == bench.now_ms);
}
