#include "storage/destination_store.hpp"

#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test";

gate_row closed_gate() {
  gate_row gate;
  gate.push = {true, 3, 11, 22, 33, true, {failure_class::server_error, failure_stage::answer, 503, "$x", "busy", 44}};
  gate.pull.closed = true;
  gate.last_success_ms = 55;
  return gate;
}
} // namespace

TEST_CASE("a destination's row comes with its first span, its cursors just before it") {
  store_bench bench;
  bench.feed({member_line(room, "@a:us.test", "join"), line_of(event_of(room, "$0")),
              member_line(room, "@b:one.test", "join")});
  CHECK(bench.at("one.test") == cursors{2, 2, 2});
  CHECK_FALSE(destination_store(*bench.reader).find("far.test").has_value());
  auto row = destination_store(*bench.reader).find("one.test").value();
  CHECK(row.rooms == 1);
  CHECK(row.gate == gate_row{});
  CHECK_FALSE(row.hold.set);
}

TEST_CASE("a gate comes back as it was saved, over a restart too; an open one leaves nothing") {
  store_bench bench;
  bench.feed({member_line(room, "@a:us.test", "join"), member_line(room, "@b:one.test", "join")});
  auto save = [&](const gate_row& gate) {
    bench.write([&](writer& to, auto&) { to.destinations.save_gate(to.names.server("one.test"), gate); });
  };
  save(closed_gate());
  bench.reopen();
  CHECK(destination_store(*bench.reader).find("one.test")->gate == closed_gate());
  auto before = bench.stores->db.total_changes();
  save(closed_gate());
  CHECK(bench.stores->db.total_changes() == before);
  gate_row open;
  open.last_success_ms = 77;
  save(open);
  CHECK(bench.rows("gate") == 0);
  CHECK(destination_store(*bench.reader).find("one.test")->gate == open);
  CHECK(destination_store(*bench.reader).all().at(0).gate == open);
}

TEST_CASE("cursors never move back") {
  store_bench bench;
  bench.feed({member_line(room, "@a:us.test", "join"), member_line(room, "@b:one.test", "join"),
              line_of(event_of(room, "$1"))});
  bench.acknowledge("one.test", 3);
  bench.acknowledge("one.test", 2);
  CHECK(bench.at("one.test") == cursors{3, 3, 3});
}

TEST_CASE("to-device messages that went are gone, by position or behind the cursor") {
  store_bench bench;
  bench.feed({line_of(message_of("m1", {"@b:one.test"})), line_of(message_of("m2", {"@b:one.test"})),
              line_of(message_of("m3", {"@b:one.test"})), line_of(message_of("m4", {"@c:two.test"}))});
  bench.write([&](writer& to, auto&) {
    to.destinations.acknowledge(to.names.server("one.test"), {0, 0, 1}, {3, 4}, 5, 0, 0);
  });
  auto page = bench.owed("one.test");
  REQUIRE(page.to_device.size() == 1);
  CHECK(page.to_device[0].subject == "m2");
  // A position of somebody else's message is left alone.
  CHECK(bench.owed("two.test").to_device.size() == 1);
  CHECK(destination_store(*bench.reader).find("one.test")->let_go == 5);
}

TEST_CASE("a hold stays until it is released") {
  store_bench bench;
  auto save = [&](const hold_row& hold) {
    bench.write([&](writer& to, auto&) {
      to.destinations.ensure(to.names.server("one.test"), 0, 1);
      to.destinations.save_hold(to.names.server("one.test"), hold, "root", 1);
    });
  };
  save({true, "maintenance", 99});
  bench.reopen();
  CHECK(destination_store(*bench.reader).find("one.test")->hold == hold_row{true, "maintenance", 99});
  save({});
  CHECK(destination_store(*bench.reader).find("one.test")->hold == hold_row{});
}

TEST_CASE("to-device messages that waited too long are let go, counted, and nothing younger") {
  store_bench bench;
  bench.feed({line_of(message_of("m1", {"@b:one.test"})), line_of(message_of("m2", {"@b:one.test"}))});
  bench.now_ms += 1000;
  bench.feed(line_of(message_of("m3", {"@b:one.test"})));
  bench.write(
      [&](writer& to, auto&) { CHECK(to.destinations.expire_to_device(bench.now_ms, bench.now_ms, 100) == 2); });
  auto page = bench.owed("one.test");
  REQUIRE(page.to_device.size() == 1);
  CHECK(page.to_device[0].subject == "m3");
  CHECK(destination_store(*bench.reader).find("one.test")->let_go == 2);
}

TEST_CASE("of to-device messages only so much waits for a server: the oldest are let go, counted") {
  store_bench bench;
  const std::string b = "@b:one.test", c = "@c:two.test";
  bench.feed({line_of(message_of("m1", {b})), line_of(message_of("m2", {b, c}))});
  const auto one = bench.query_number("SELECT max(bytes) FROM to_device");
  CHECK(one == bench.query_number("SELECT max(length(body)) FROM to_device"));
  bench.stores->destinations.set_to_device_bound(2 * one);
  auto waiting = [&](const std::string& server) {
    std::string out;
    for (const auto& entry : bench.owed(server).to_device)
      out += entry.subject + " ";
    return out;
  };
  bench.feed({line_of(message_of("m3", {b})), line_of(message_of("m4", {b}))});
  CHECK(waiting("one.test") == "m3 m4 ");
  CHECK(waiting("two.test") == "m2 ");
  CHECK(bench.let_go("one.test") == 2);
  CHECK(bench.let_go("two.test") == 0);
  // What was delivered makes room; what was let go stays known.
  bench.write([&](writer& to, auto&) {
    to.destinations.acknowledge(to.names.server("one.test"), {0, 0, bench.owed("one.test").to_device[0].pos}, {}, 0, 0,
                                0);
  });
  bench.feed({line_of(message_of("m5", {b})), line_of(message_of("m1", {b}))});
  CHECK(waiting("one.test") == "m4 m5 ");
  CHECK(bench.let_go("one.test") == 2);
  // An asker's failure leaves no false sum behind.
  bench.stores->commit({[&](writer& to, std::vector<log_entry>& entries) {
    to.feed.apply({line_of(message_of("m6", {b}))}, 1, entries);
    throw error("undone");
  }});
  bench.reopen();
  bench.stores->destinations.set_to_device_bound(2 * one);
  bench.feed(line_of(message_of("m7", {b})));
  CHECK(waiting("one.test") == "m5 m7 ");
}

TEST_CASE("a closing is an interval that goes when the cursor passes its end") {
  store_bench bench;
  bench.feed({member_line(room, "@a:us.test", "join"), member_line(room, "@b:one.test", "join")});
  bench.interval("one.test", true);
  bench.interval("one.test", true);
  CHECK(bench.rows("closed") == 1);
  bench.interval("one.test", false);
  CHECK(bench.rows("closed") == 0); // nothing was logged in it
  bench.interval("one.test", true);
  bench.feed(line_of(event_of(room, "$1")));
  bench.interval("one.test", false);
  CHECK(bench.rows("closed") == 1);
  bench.acknowledge("one.test", 2);
  CHECK(bench.rows("closed") == 1);
  bench.acknowledge("one.test", 3);
  CHECK(bench.rows("closed") == 0);
}
