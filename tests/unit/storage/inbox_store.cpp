#include "storage/inbox_store.hpp"

#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {
position append(store_bench& bench, const std::string& kind, const std::string& json = "{}") {
  position at = 0;
  bench.write([&](writer& to, auto&) { at = to.inbox.append(kind, json, bench.now_ms); });
  return at;
}
bool acknowledge(store_bench& bench, const std::string& consumer, position upto) {
  bool known = false;
  bench.write([&](writer& to, auto&) { known = to.inbox.acknowledge(consumer, upto); });
  return known;
}
} // namespace

TEST_CASE("stream positions grow and none is used twice over a kill") {
  store_bench bench;
  CHECK(append(bench, "pdu") == 1);
  CHECK(append(bench, "edu") == 2);
  CHECK(append(bench, "pdu") == 3);
  CHECK(bench.stores->inbox.bounds().reserved == inbox_store::block);
  bench.reopen();
  CHECK(append(bench, "pdu") == inbox_store::block + 1);
  auto items = read_stream(*bench.reader, 0, 1'000'000, 10);
  REQUIRE(items.size() == 3);
  CHECK(items[1].pos == 3);
  CHECK(items[2].pos == 1001);
  CHECK(read_stream(*bench.reader, 1, 1'000'000, 1).at(0).pos == 3);
  CHECK(read_stream(*bench.reader, 1, 2, 10).empty());
}

TEST_CASE("an item goes when all consumers have it") {
  store_bench bench;
  bench.write([](writer& to, auto&) { to.inbox.set_consumers({"host", "index"}); });
  for (int i = 0; i < 4; ++i)
    append(bench, "pdu", "12345");
  CHECK(bench.stores->inbox.bytes() == 20);
  CHECK(acknowledge(bench, "host", 3));
  CHECK(bench.rows("stream") == 4);
  CHECK(acknowledge(bench, "index", 2));
  CHECK(bench.rows("stream") == 2);
  CHECK(bench.stores->inbox.bytes() == 10);
  CHECK(bench.stores->inbox.bounds().floor == 2);
  CHECK(acknowledge(bench, "index", 1)); // older: nothing happens
  CHECK(bench.stores->inbox.bounds().floor == 2);
  CHECK_FALSE(acknowledge(bench, "nobody", 4));
  // One that isn't configured any more holds nothing back; a new one begins where the slowest stands.
  bench.write([](writer& to, auto&) { to.inbox.set_consumers({"host", "fresh"}); });
  CHECK(bench.stores->inbox.bounds().floor == 2);
  CHECK(acknowledge(bench, "fresh", 4));
  CHECK(bench.stores->inbox.bounds().floor == 3);
}

TEST_CASE("an acknowledgement beyond the head skips what was reserved, and no further") {
  store_bench bench;
  append(bench, "pdu");
  CHECK(acknowledge(bench, "host", 500));
  CHECK(append(bench, "pdu") == 501);
  CHECK(acknowledge(bench, "host", 5'000));
  CHECK(bench.stores->inbox.bounds().floor == 1'000);
  CHECK(append(bench, "pdu") == 1'001);
}

TEST_CASE("the inbox is bounded in bytes") {
  store_bench bench;
  CHECK(bench.stores->inbox.has_room_for(1'000'000));
  CHECK_FALSE(bench.stores->inbox.has_room_for(1'000'001));
  append(bench, "pdu", std::string(999'990, 'x'));
  CHECK(bench.stores->inbox.has_room_for(10));
  CHECK_FALSE(bench.stores->inbox.has_room_for(11));
  bench.reopen();
  CHECK_FALSE(bench.stores->inbox.has_room_for(11));
}

TEST_CASE("answers are remembered for their time") {
  store_bench bench;
  bench.write([](writer& to, auto&) { to.inbox.remember_answer("one.test", "t1", "{\"pdus\":{}}", 1000); });
  bench.reopen();
  CHECK(bench.stores->inbox.find_answer("one.test", "t1") == std::string("{\"pdus\":{}}"));
  CHECK_FALSE(bench.stores->inbox.find_answer("two.test", "t1").has_value());
  bench.write([](writer& to, auto&) { to.inbox.forget_answers(1000); });
  CHECK(bench.stores->inbox.find_answer("one.test", "t1").has_value());
  bench.write([](writer& to, auto&) { to.inbox.forget_answers(1001); });
  CHECK_FALSE(bench.stores->inbox.find_answer("one.test", "t1").has_value());
}

TEST_CASE("U9: a message of one sender is given once; another sender's of the same id too") {
  store_bench bench;
  bench.write([](writer& to, auto&) {
    CHECK(to.inbox.take_message("@x:one.test|m1", 1));
    CHECK_FALSE(to.inbox.take_message("@x:one.test|m1", 1));
    CHECK(to.inbox.take_message("@y:one.test|m1", 1));
  });
  bench.reopen();
  bench.write([](writer& to, auto&) { CHECK_FALSE(to.inbox.take_message("@x:one.test|m1", 1)); });
}

TEST_CASE("ephemeral items have an age by type, a bound, and go when all have them") {
  ephemeral_inbox inbox;
  auto item = [](position pos, std::int64_t expires) { return ephemeral_inbox::item{{pos, "edu", "{}"}, expires}; };
  CHECK(ephemeral_age_ms("m.typing") == 60'000);
  CHECK(ephemeral_age_ms("m.presence") == 600'000);
  CHECK(ephemeral_age_ms("m.receipt") == 86'400'000);
  inbox.publish({item(1, 100), item(3, 200)}, {3, 1000, 0}, 0);
  CHECK(inbox.limits().head == 3);
  CHECK(inbox.read(0, 3, 10, 50).size() == 2);
  CHECK(inbox.read(0, 3, 1, 50).size() == 1);
  CHECK(inbox.read(0, 2, 10, 50).size() == 1);
  CHECK(inbox.read(1, 3, 10, 50).at(0).pos == 3);
  CHECK(inbox.read(0, 3, 10, 100).at(0).pos == 3);
  inbox.publish({}, {3, 1000, 3}, 50);
  CHECK(inbox.size() == 0);
  std::vector<ephemeral_inbox::item> many;
  for (position pos = 4; pos < 20'000; ++pos)
    many.push_back(item(pos, 1'000));
  inbox.publish(std::move(many), {20'000, 20'000, 3}, 50);
  CHECK(inbox.size() == ephemeral_inbox::max_items);
  CHECK(inbox.read(0, 20'000, 1, 50).at(0).pos == 10'000);
}

TEST_CASE("the age of an edu comes from its type") {
  store_bench bench;
  append(bench, "edu", R"({"edu_type":"m.typing"})");
  append(bench, "edu", "no json");
  auto items = bench.stores->inbox.take_ephemeral();
  REQUIRE(items.size() == 2);
  CHECK(items[0].expires_ms == bench.now_ms + 60'000);
  CHECK(items[1].expires_ms == bench.now_ms + 86'400'000);
  CHECK(bench.rows("stream") == 0);
}

TEST_CASE("K15: keys are merged and never forgotten") {
  store_bench bench;
  auto save = [&](remote_key_row key) { bench.write([&](writer& to, auto&) { to.keys.save(key); }); };
  save({"one.test", "ed25519:a", "AAA", 100, 0});
  save({"one.test", "ed25519:b", "BBB", 100, 0});
  save({"one.test", "ed25519:a", "AAA", 50, 0});
  key_store keys(*bench.reader);
  REQUIRE(keys.find("one.test").size() == 2);
  CHECK(keys.find("one.test")[0].valid_until_ms == 100);
  save({"one.test", "ed25519:a", "AAA", 0, 77});
  CHECK(keys.find("one.test")[0].expired_ms == 77);
  save({"one.test", "ed25519:a", "AAA", 200, 0});
  CHECK(keys.find("one.test")[0].expired_ms == 77);
  save({"one.test", "ed25519:a", "NEW", 20, 0});
  CHECK(keys.find("one.test")[0].key == "NEW");
  CHECK(keys.find("one.test")[0].valid_until_ms == 20);
  CHECK(keys.find("one.test")[0].expired_ms == 0);
  CHECK(keys.find("two.test").empty());
}
