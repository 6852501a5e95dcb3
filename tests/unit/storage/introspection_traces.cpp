#include "storage/introspection.hpp"

#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {

const std::string room = "!r:us.test";

void share(store_bench& bench, const std::string& server) {
  bench.feed({member_line(room, "@a:us.test", "join"), member_line(room, "@b:" + server, "join")});
}
std::string servers(const event_trace& event) {
  std::string out;
  for (const auto& one : event.servers)
    out += (out.empty() ? "" : " ") + one.server + (one.let_go ? ":let_go" : one.waits ? ":waits" : ":has");
  return out;
}
event_trace trace_of(store_bench& bench, const std::string& id, std::int64_t kept = 50) {
  return trace(*bench.reader, trace_event{id}, kept);
}

} // namespace

TEST_CASE("traces: who has an event, who waits, who is left out; once all have it, that it was here") {
  store_bench bench;
  share(bench, "one.test");
  share(bench, "two.test");
  share(bench, "out.test");
  auto event = event_of(room, "$e");
  event.exclude = {"out.test"};
  bench.feed(line_of(event));
  share(bench, "late.test");
  CHECK(servers(trace_of(bench, "$e")) == "one.test:waits two.test:waits");
  bench.acknowledge("one.test", bench.head());
  auto found = trace_of(bench, "$e");
  CHECK(servers(found) == "one.test:has two.test:waits");
  CHECK(found.room_id == room);
  CHECK(found.stored);
  for (const auto* name : {"two.test", "out.test", "late.test"})
    bench.acknowledge(name, bench.head());
  bench.compact();
  found = trace_of(bench, "$e");
  CHECK(found.known);
  CHECK(!found.stored);
  CHECK(found.servers.empty());
  CHECK(!trace_of(bench, "$never").known);
}

TEST_CASE("traces: an event that names its servers; one that rule K lets go") {
  store_bench bench(2);
  share(bench, "one.test");
  bench.acknowledge("one.test", bench.head());
  auto named = event_of(room, "$named");
  named.destinations = std::vector<std::string>{"far.test"};
  bench.feed(line_of(named));
  CHECK(servers(trace_of(bench, "$named", 2)) == "far.test:waits");
  bench.interval("one.test", true);
  for (int i = 1; i <= 4; ++i)
    bench.feed(line_of(event_of(room, "$" + std::to_string(i))));
  CHECK(servers(trace_of(bench, "$1", 2)) == "one.test:let_go");
  CHECK(servers(trace_of(bench, "$4", 2)) == "one.test:waits");
}

TEST_CASE("traces: of a room, who is how far behind") {
  store_bench bench;
  share(bench, "one.test");
  share(bench, "two.test");
  for (const auto* name : {"one.test", "two.test"})
    bench.acknowledge(name, bench.head());
  for (int i = 1; i <= 3; ++i)
    bench.feed(line_of(event_of(room, "$" + std::to_string(i))));
  bench.acknowledge("two.test", bench.head());
  auto found = trace(*bench.reader, trace_room{room}, 50);
  CHECK(found.known);
  REQUIRE(found.servers.size() == 2);
  CHECK(found.servers[0].server == "one.test");
  CHECK(found.servers[0].behind == 3);
  CHECK(found.servers[1].behind == 0);
  CHECK(!trace(*bench.reader, trace_room{"!none:us.test"}, 50).known);
}

TEST_CASE("traces: how a user's list stands, ours and another server's") {
  store_bench bench;
  share(bench, "one.test");
  bench.acknowledge("one.test", bench.head());
  device_record phone;
  phone.user_id = "@a:us.test";
  phone.device_id = "PHONE";
  phone.display_name = {change<std::string>::what::given, "phone"};
  bench.feed(line_of(phone));
  auto ours = trace(*bench.reader, trace_user{"@a:us.test"});
  CHECK(ours.ours);
  CHECK(ours.servers == 1);
  CHECK(ours.lacking == std::vector<std::string>{"one.test"});
  bench.acknowledge("one.test", bench.head());
  CHECK(trace(*bench.reader, trace_user{"@a:us.test"}).lacking_total == 0);
  auto theirs = trace(*bench.reader, trace_user{"@b:one.test"});
  CHECK(theirs.known);
  CHECK(!theirs.ours);
  CHECK(!theirs.tracked);
  CHECK(theirs.rooms == std::vector<std::string>{room});
  CHECK(!trace(*bench.reader, trace_user{"@x:none.test"}).known);
  CHECK(!trace(*bench.reader, trace_user{"@nobody:us.test"}).known);
}
