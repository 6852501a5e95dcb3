#include "actors/list_courier.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

namespace {

moment at(std::int64_t ms) { return {ms, 1'000'000 + ms}; }

log_entry entry(entry_kind kind, position pos, const std::string& user = "@u:us") {
  log_entry one;
  one.kind = kind;
  one.pos = pos;
  one.subject = user;
  return one;
}
device_update update(const std::string& user, position through) {
  return {user, "{\"u\":\"" + user + "\"}", through, false};
}
device_updates page(std::vector<device_update> list, position through, bool more = false) {
  device_updates out;
  out.list = std::move(list);
  out.through = through;
  out.more = more;
  return out;
}
/// A courier whose window is open and who has asked for everything up to `head`.
list_courier asked_up_to(position head, courier_limits limits = {}) {
  list_courier one(limits);
  one.begin(0, head);
  one.question("r", 0, {}, 0, at(0));
  return one;
}

} // namespace

TEST_CASE("list_courier: a cursor at the head has nothing to ask, one behind asks once") {
  list_courier level({});
  level.begin(7, 7);
  CHECK_FALSE(level.wants_page(at(0)));
  CHECK_FALSE(level.waits());
  list_courier behind({});
  behind.begin(3, 7);
  REQUIRE(behind.wants_page(at(0)));
  const auto ask = behind.question("r", 3, {"@s:us"}, 0, at(0));
  CHECK(ask.after == 3);
  CHECK(ask.upto == 7);
  CHECK(ask.first == std::vector<std::string>{"@s:us"});
  behind.take(page({}, 7), at(0));
  CHECK_FALSE(behind.waits());
  CHECK(behind.take_page(3, at(0)).after == 7); // the cursor passes what held nothing for this server
}

TEST_CASE("list_courier: only entries of device lists are work; others move what is known") {
  list_courier one({});
  one.begin(5, 5);
  one.note(entry(entry_kind::pdu, 6));
  CHECK_FALSE(one.waits());
  CHECK(one.take_page(5, at(0)).after == 6);
  one.note(entry(entry_kind::device, 7));
  CHECK(one.wants_page(at(0)));
}

TEST_CASE("list_courier: a page goes once, and the cursor steps to where it is complete") {
  auto one = asked_up_to(9);
  one.take(page({update("@a:us", 4), update("@b:us", 9)}, 9), at(0));
  CHECK(one.has_page());
  CHECK_FALSE(one.wants_page(at(0)));
  const auto load = one.take_page(0, at(0));
  CHECK(load.updates.size() == 2);
  CHECK(load.after == 9);
  CHECK_FALSE(one.has_page());
  one.delivered(load.updates, 9);
  CHECK_FALSE(one.waits());
}

TEST_CASE("list_courier: what comes while a page is under way is asked for after it (B56)") {
  auto one = asked_up_to(9);
  one.take(page({update("@a:us", 9)}, 9), at(0));
  const auto load = one.take_page(0, at(0));
  one.note(entry(entry_kind::device, 10));
  one.delivered(load.updates, 9);
  CHECK(one.wants_page(at(0)));
  CHECK(one.question("r", 9, {}, 0, at(0)).upto == 10);
}

TEST_CASE("list_courier: an entry that comes while an empty answer is on its way isn't missed") {
  auto one = asked_up_to(9);
  one.note(entry(entry_kind::device, 10));
  one.take(page({}, 9), at(0));
  CHECK(one.wants_page(at(0)));
}

TEST_CASE("list_courier: a user beyond its burst waits for the next turn, and what was sent ahead isn't asked twice") {
  courier_limits limits;
  limits.burst = 2;
  limits.interval_ms = 1'000;
  list_courier one(limits);
  one.begin(0, 0);
  for (position pos = 1; pos <= 2; ++pos) {
    one.note(entry(entry_kind::device, pos, "@bot:us"));
    CHECK(one.question("r", pos - 1, {}, 0, at(0)).throttled.empty());
    one.take(page({update("@bot:us", pos)}, pos), at(0));
    one.delivered(one.take_page(pos - 1, at(0)).updates, pos);
  }
  one.note(entry(entry_kind::device, 3, "@bot:us"));
  one.note(entry(entry_kind::device, 4, "@a:us"));
  auto ask = one.question("r", 2, {}, 0, at(0));
  CHECK(ask.throttled == std::vector<std::string>{"@bot:us"});
  one.take(page({update("@a:us", 4)}, 2), at(0)); // the cursor stays before the one who waits
  const auto load = one.take_page(2, at(0));
  CHECK(load.after == 2);
  one.delivered(load.updates, 2);
  ask = one.question("r", 2, {}, 0, at(0));
  CHECK(ask.sent == std::map<std::string, position>{{"@a:us", 4}});
  one.take(page({}, 2), at(0));
  CHECK_FALSE(one.wants_page(at(0)));
  REQUIRE(one.next_due(at(0)));
  CHECK(*one.next_due(at(0)) >= 1'000);
  CHECK(*one.next_due(at(0)) <= 1'002);
  CHECK(one.wants_page(at(1'002)));
  CHECK(one.question("r", 2, {}, 0, at(1'002)).throttled.empty());
}

TEST_CASE("list_courier: who sent a to-device message that waits is never held back (B82)") {
  courier_limits limits;
  limits.burst = 1;
  list_courier one(limits);
  one.begin(0, 1);
  one.question("r", 0, {}, 0, at(0));
  one.take(page({update("@u:us", 1)}, 1), at(0));
  one.delivered(one.take_page(0, at(0)).updates, 1);
  one.note(entry(entry_kind::device, 2));
  CHECK(one.question("r", 1, {"@u:us"}, 1, at(0)).throttled.empty());
  CHECK(one.question("r", 1, {}, 0, at(0)).throttled.size() == 1);
}

TEST_CASE("list_courier: a share waits for its delay, then is asked for") {
  courier_limits limits;
  limits.share_delay_ms = 2'000;
  list_courier one(limits);
  one.begin(0, 0);
  one.note(entry(entry_kind::share, 1));
  const auto ask = one.question("r", 0, {}, 0, at(500));
  CHECK(ask.shares_before_ms == at(500).wall_ms - 1'999);
  auto none = page({}, 0);
  none.next_share_ms = at(400).wall_ms;
  one.take(none, at(500));
  CHECK_FALSE(one.wants_page(at(2'399)));
  CHECK(one.wants_page(at(2'400)));
}

TEST_CASE("list_courier: a to-device message that comes meanwhile takes its sender's share along at once (B82)") {
  list_courier one({});
  one.begin(0, 0);
  one.note(entry(entry_kind::share, 1));
  one.question("r", 0, {}, 0, at(500));
  auto none = page({}, 0);
  none.next_share_ms = at(400).wall_ms;
  one.take(none, at(500));
  CHECK_FALSE(one.wants_page(at(600)));
  REQUIRE(one.wants_page(at(600), {"@a:us"}));
  CHECK(one.question("r", 0, {"@a:us"}, 1, at(600)).first == std::vector<std::string>{"@a:us"});
  one.take(none, at(600)); // nothing of hers is owed: asked once, and no more
  CHECK_FALSE(one.wants_page(at(700), {"@a:us"}));
  CHECK(one.wants_page(at(700), {"@a:us", "@b:us"}));
}

TEST_CASE("list_courier: a share that was logged before the clock was set back goes at once") {
  courier_limits limits;
  limits.share_delay_ms = 2'000;
  list_courier one(limits);
  one.begin(0, 1);
  one.question("r", 0, {}, 0, at(500));
  auto none = page({}, 0);
  none.next_share_ms = at(500).wall_ms + 3'600'000;
  one.take(none, at(500));
  REQUIRE(one.wants_page(at(500)));
  CHECK(one.question("r", 0, {}, 0, at(500)).shares_before_ms > none.next_share_ms);
  CHECK(one.question("r", 0, {}, 0, at(600)).shares_before_ms == at(600).wall_ms - 1'999); // later ones wait again
}

TEST_CASE("list_courier: EDUs are shared with to-device messages, each has at least half") {
  list_courier one({});
  one.begin(0, 1);
  CHECK(one.question("r", 0, {}, 0, at(0)).max_edus == 100);
  CHECK(one.question("r", 0, {}, 30, at(0)).max_edus == 70);
  CHECK(one.question("r", 0, {}, 500, at(0)).max_edus == 50);
}

TEST_CASE("list_courier: it matters until everybody's burst is whole again") {
  courier_limits limits;
  limits.burst = 20;
  limits.interval_ms = 30'000;
  list_courier one(limits);
  CHECK(one.forgettable_at_ms(at(5)) == 5);
  one.begin(0, 1);
  one.question("r", 0, {}, 0, at(0));
  one.take(page({update("@u:us", 1)}, 1), at(0));
  one.take_page(0, at(0));
  CHECK(one.forgettable_at_ms(at(0)) == 30'000);
}

TEST_CASE("list_courier: a window that closes forgets the page; the next one asks again from the cursor") {
  auto one = asked_up_to(9);
  one.take(page({update("@a:us", 9)}, 9), at(0));
  one.forget();
  CHECK_FALSE(one.has_page());
  one.begin(0, 12);
  CHECK(one.wants_page(at(0)));
  CHECK(one.question("r", 0, {}, 0, at(0)).after == 0);
}
