#include "storage/introspection.hpp"

#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {

const std::string room = "!r:us.test", other_room = "!s:us.test";
constexpr std::int64_t minute = 60'000, hour = 60 * minute, day = 24 * hour;
const std::vector<std::int64_t> bounds{minute, 5 * minute, 20 * minute, hour, 6 * hour, day, 7 * day};

void share(store_bench& bench, const std::string& where, const std::string& server) {
  bench.feed({member_line(where, "@a:us.test", "join"), member_line(where, "@b:" + server, "join")});
}
void say(store_bench& bench, const std::string& where, const std::string& prefix, int count) {
  for (int i = 1; i <= count; ++i)
    bench.feed(line_of(event_of(where, prefix + std::to_string(i))));
}
shape_rows shape(store_bench& bench, const std::string& glob = "", std::int64_t kept = 50) {
  return shape_of(*bench.reader, {glob, bench.now_ms, bounds}, kept, [] { return true; });
}
std::string text_of(const std::vector<std::int64_t>& numbers) {
  std::string out;
  for (const auto one : numbers)
    out += (out.empty() ? "" : " ") + std::to_string(one);
  return out;
}
std::string kinds(const queue_page& page) {
  std::string out;
  for (const auto& one : page.items)
    out += (out.empty() ? "" : " ") + one.kind + ':' + one.subject;
  return out;
}

} // namespace

TEST_CASE("shape: what waits falls into the bucket of its age, and the sum is what is owed") {
  store_bench bench;
  share(bench, room, "one.test");
  share(bench, room, "two.test");
  say(bench, room, "$old", 3);
  bench.now_ms += 8 * day;
  say(bench, room, "$week", 2);
  bench.feed(line_of(message_of("m1", {"@b:one.test"})));
  bench.now_ms += 2 * day;
  say(bench, room, "$hour", 4);
  bench.now_ms += 2 * hour;
  say(bench, room, "$new", 1);
  auto found = shape(bench);
  REQUIRE(found.rows.size() == 2);
  CHECK(found.whole);
  CHECK(found.rows[0].destination == "one.test");
  CHECK(text_of(found.rows[0].counts) == "1 0 0 0 4 0 3 3");
  CHECK(found.rows[0].total == 11);
  CHECK(text_of(found.rows[1].counts) == "1 0 0 0 4 0 2 3");
  CHECK(shape(bench, "t*").rows.size() == 1);
  bench.acknowledge("one.test", bench.head());
  found = shape(bench);
  REQUIRE(found.rows.size() == 1);
  CHECK(found.rows[0].destination == "two.test");
}

TEST_CASE("shape: what rule K lets go isn't counted; without time it says that it isn't whole") {
  store_bench bench(2);
  share(bench, room, "one.test");
  bench.acknowledge("one.test", bench.head());
  bench.interval("one.test", true);
  say(bench, room, "$a", 5);
  bench.now_ms += 2 * hour;
  say(bench, room, "$b", 1);
  auto found = shape(bench, "", 2);
  REQUIRE(found.rows.size() == 1);
  CHECK(text_of(found.rows[0].counts) == "1 0 0 0 1 0 0 0");
  auto cut = shape_of(*bench.reader, {"", bench.now_ms, bounds}, 2, [] { return false; });
  CHECK(cut.rows.empty());
  CHECK(!cut.whole);
}

TEST_CASE("queue: item by item, to-device first, limited by kind; an unknown server has none") {
  store_bench bench;
  share(bench, room, "one.test");
  bench.acknowledge("one.test", bench.head());
  say(bench, room, "$e", 3);
  bench.feed(line_of(message_of("m1", {"@b:one.test"})));
  auto page = queue_of(*bench.reader, {"one.test", bench.at("one.test"), 10}, 50);
  CHECK(kinds(page) == "to_device:m1 pdu:$e1 pdu:$e2 pdu:$e3");
  CHECK(!page.more);
  CHECK(page.items[1].room_id == room);
  CHECK(page.items[1].at_ms == bench.now_ms);
  page = queue_of(*bench.reader, {"one.test", bench.at("one.test"), 2}, 50);
  CHECK(kinds(page) == "to_device:m1 pdu:$e1 pdu:$e2");
  CHECK(page.more);
  CHECK(queue_of(*bench.reader, {"none.test", {}, 2}, 50).items.empty());
}

TEST_CASE("rooms: those that are shared with what waits, and one that was left while something waits") {
  store_bench bench;
  share(bench, room, "one.test");
  share(bench, other_room, "one.test");
  bench.acknowledge("one.test", bench.head());
  say(bench, room, "$e", 2);
  say(bench, other_room, "$f", 1);
  bench.feed(member_line(other_room, "@b:one.test", "leave"));
  auto page = shared_rooms(*bench.reader, {"one.test", bench.at("one.test"), "", 10}, 50);
  REQUIRE(page.rooms.size() == 2);
  CHECK(page.rooms[0].room_id == room);
  CHECK(page.rooms[0].waiting == 2);
  CHECK(page.rooms[0].shared);
  CHECK(page.rooms[1].waiting == 1);
  CHECK(!page.rooms[1].shared);
  page = shared_rooms(*bench.reader, {"one.test", bench.at("one.test"), "", 1}, 50);
  CHECK(page.more);
  page = shared_rooms(*bench.reader, {"one.test", bench.at("one.test"), room, 1}, 50);
  CHECK(page.rooms[0].room_id == other_room);
  CHECK(!page.more);
}
