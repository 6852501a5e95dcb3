#include "actors/outbox.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ranvier;

namespace {

log_entry pdu(position pos, std::size_t size = 0) {
  log_entry entry;
  entry.pos = pos;
  entry.body = shared_text("{\"n\":" + std::to_string(pos) + ",\"x\":\"" + std::string(size, 'x') + "\"}");
  return entry;
}
log_entry to_device(position pos, std::size_t size = 0) {
  auto entry = pdu(pos, size);
  entry.kind = entry_kind::to_device;
  return entry;
}
log_entry edu(const std::string& type, const std::string& key, std::int64_t at_ms = 1000) {
  log_entry entry;
  entry.kind = entry_kind::ephemeral;
  entry.detail = type;
  entry.subject = key;
  entry.at_ms = at_ms;
  entry.body = shared_text("{\"edu_type\":\"" + type + "\",\"key\":\"" + key + "\"}");
  return entry;
}
owed_items read(std::vector<log_entry> pdus, position through, bool more = false) {
  owed_items items;
  items.pdus = std::move(pdus);
  items.pdus_through = items.to_device_through = through;
  items.more_pdus = more;
  return items;
}
std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}
outbox live_at(position head, outbox_limits limits = {}) {
  outbox box(limits);
  box.start_at({head, head, head});
  box.begin_reading(head);
  return box;
}

} // namespace

TEST_CASE("outbox: a cursor at the head is live at once, one behind reads first") {
  auto box = live_at(10);
  CHECK(box.state() == outbox::phase::live);
  CHECK_FALSE(box.wants_read());
  outbox behind({});
  behind.start_at({3, 3, 3});
  behind.begin_reading(10);
  CHECK(behind.state() == outbox::phase::reading);
  REQUIRE(behind.wants_read());
  const auto query = behind.next_read("r");
  CHECK(query.after.pdu == 3);
  CHECK(query.upto == 10);
}

TEST_CASE("outbox: entries that come while it reads go after what was read, in order") {
  outbox box({});
  box.start_at({0, 0, 0});
  box.begin_reading(5);
  CHECK(box.add_live(pdu(7)));
  CHECK_FALSE(box.has_items(true));
  box.take_read(read({pdu(2), pdu(4)}, 5));
  REQUIRE(box.state() == outbox::phase::live);
  const auto made = box.build("us", "them", 1, true);
  CHECK(made.pdus == 3);
  CHECK(made.after.pdu == 7);
  const auto& text = made.body.str();
  CHECK(text.find("\"n\":2") < text.find("\"n\":4"));
  CHECK(text.find("\"n\":4") < text.find("\"n\":7"));
}

TEST_CASE("outbox: caps are 50 PDUs and 100 EDUs, and the cursor only passes what went") {
  auto box = live_at(0, {.window_items = 1000});
  for (position p = 1; p <= 60; ++p)
    CHECK(box.add_live(pdu(p)));
  for (position p = 61; p <= 180; ++p)
    CHECK(box.add_live(to_device(p)));
  const auto first = box.build("us", "them", 1, true);
  CHECK(first.pdus == 50);
  CHECK(first.edus == 100);
  CHECK(first.after.pdu == 50);
  CHECK(first.after.to_device == 160);
  box.delivered(first);
  const auto second = box.build("us", "them", 2, true);
  CHECK(second.pdus == 10);
  CHECK(second.edus == 20);
  CHECK(second.after.pdu == 180); // all that is owed up to the newest entry is in it
  CHECK(second.after.to_device == 180);
  CHECK(second.id != first.id);
  box.delivered(second);
  CHECK_FALSE(box.has_items(true));
}

TEST_CASE("outbox: B88, exactly full is a normal state") {
  for (const int waiting : {99, 100, 101}) {
    auto box = live_at(0, {.window_items = 1000});
    for (position p = 1; p <= waiting; ++p)
      CHECK(box.add_live(to_device(p)));
    for (position p = 201; p <= 250; ++p)
      CHECK(box.add_live(pdu(p)));
    int transactions = 0;
    std::size_t edus = 0, pdus = 0;
    while (box.has_items(true) && transactions < 10) {
      const auto made = box.build("us", "them", ++transactions, true);
      edus += made.edus;
      pdus += made.pdus;
      box.delivered(made);
    }
    CHECK(edus == std::size_t(waiting));
    CHECK(pdus == 50);
    CHECK(transactions == (waiting > 100 ? 2 : 1));
  }
}

TEST_CASE("outbox: the byte budget splits, but one item always goes, however large") {
  auto box = live_at(0, {.transaction_bytes = 10'000});
  CHECK(box.add_live(pdu(1, 30'000)));
  CHECK(box.add_live(pdu(2, 4'000)));
  CHECK(box.add_live(pdu(3, 4'000)));
  CHECK(box.add_live(pdu(4, 4'000)));
  auto made = box.build("us", "them", 1, true);
  CHECK(made.pdus == 1);
  CHECK(made.after.pdu == 1);
  box.delivered(made);
  made = box.build("us", "them", 2, true);
  CHECK(made.pdus == 2);
  CHECK(made.body.size() <= 10'000);
}

TEST_CASE("outbox: to-device doesn't starve PDUs of bytes, nor the other way round") {
  auto box = live_at(0, {.transaction_bytes = 20'000});
  for (position p = 1; p <= 20; ++p)
    CHECK(box.add_live(to_device(p, 3'000)));
  CHECK(box.add_live(pdu(30, 3'000)));
  const auto made = box.build("us", "them", 1, true);
  CHECK(made.pdus == 1);
  CHECK(made.edus >= 2);
}

TEST_CASE("outbox: build changes nothing until it was delivered") {
  auto box = live_at(0);
  CHECK(box.add_live(pdu(1)));
  const auto one = box.build("us", "them", 7, true), two = box.build("us", "them", 7, true);
  CHECK(one.id == two.id);
  CHECK(one.body.str() == two.body.str());
  CHECK(box.at().pdu == 0);
}

TEST_CASE("outbox: a full window refuses, and after drop() the log is read again from the cursor") {
  auto box = live_at(0, {.window_items = 3});
  for (position p = 1; p <= 3; ++p)
    CHECK(box.add_live(pdu(p)));
  CHECK_FALSE(box.add_live(pdu(4)));
  const auto made = box.build("us", "them", 1, true);
  box.drop();
  box.delivered(made); // it was in flight
  CHECK(box.at().pdu == 3);
  box.begin_reading(9);
  CHECK(box.next_read("r").after.pdu == 3);
}

TEST_CASE("outbox: a frozen transaction that is answered after a new reading takes its items with it") {
  auto box = live_at(0);
  CHECK(box.add_live(pdu(1)));
  CHECK(box.add_live(pdu(2)));
  const auto frozen = box.build("us", "them", 1, true);
  box.drop();
  box.begin_reading(5);
  box.take_read(read({pdu(1), pdu(2), pdu(4)}, 5));
  box.delivered(frozen);
  const auto next = box.build("us", "them", 2, true);
  CHECK(next.pdus == 1);
  CHECK(next.after.pdu == 5);
}

TEST_CASE("outbox: what catch-up let go is counted once, when the stretch was passed") {
  outbox box({});
  box.start_at({0, 0, 0});
  box.begin_reading(10);
  auto items = read({pdu(8), pdu(9)}, 10);
  items.let_go_at = {1, 2, 3, 5, 7};
  box.take_read(items);
  const auto made = box.build("us", "them", 1, true);
  CHECK(made.let_go == 5);
  box.delivered(made);
  CHECK(box.add_live(pdu(11)));
  CHECK(box.build("us", "them", 2, true).let_go == 0);
}

TEST_CASE("outbox: what was let go counts with the transaction that passes it, also if the window is dropped between") {
  outbox box({.transaction_pdus = 2});
  box.start_at({0, 0, 0});
  box.begin_reading(20);
  auto items = read({pdu(8), pdu(9), pdu(18)}, 20);
  items.let_go_at = {1, 2, 15};
  box.take_read(items);
  const auto made = box.build("us", "them", 1, true);
  CHECK(made.let_go == 2);
  box.delivered(made);
  box.drop();
  box.begin_reading(20);
  items = read({pdu(18)}, 20);
  items.let_go_at = {15};
  box.take_read(items);
  CHECK(box.build("us", "them", 2, true).let_go == 1);
}

TEST_CASE("outbox: a batch that isn't the last leaves the cursor at what was read") {
  outbox box({});
  box.start_at({0, 0, 0});
  box.begin_reading(100);
  box.take_read(read({pdu(10), pdu(20)}, 25, true));
  CHECK(box.state() == outbox::phase::reading);
  const auto made = box.build("us", "them", 1, true);
  CHECK(made.after.pdu == 25);
  box.delivered(made);
  CHECK(box.wants_read());
  CHECK(box.next_read("r").after.pdu == 25);
}

TEST_CASE("outbox: of ephemeral EDUs with the same key the newest goes, once") {
  auto box = live_at(0);
  box.add_ephemeral(edu("m.typing", "a", 1000));
  box.add_ephemeral(edu("m.typing", "a", 2000));
  box.add_ephemeral(edu("m.typing", "b", 2000));
  const auto made = box.build("us", "them", 3000, true);
  CHECK(made.edus == 2);
  box.delivered(made);
  CHECK_FALSE(box.has_items(true));
}

TEST_CASE("outbox: an ephemeral EDU that changed while its elder was in flight goes again") {
  auto box = live_at(0);
  box.add_ephemeral(edu("m.typing", "a", 1000));
  const auto made = box.build("us", "them", 1000, true);
  box.add_ephemeral(edu("m.typing", "a", 1500));
  box.delivered(made);
  CHECK(box.has_items(true));
}

TEST_CASE("outbox: ephemeral EDUs are kept from a failing server, and age") {
  auto box = live_at(0);
  box.add_ephemeral(edu("m.typing", "t", 0));
  box.add_ephemeral(edu("m.presence", "p", 0));
  box.add_ephemeral(edu("m.receipt", "r", 0));
  CHECK_FALSE(box.has_items(false));
  CHECK(box.build("us", "them", 1, false).edus == 0);
  box.expire_ephemeral(60'001);
  CHECK(box.ephemeral() == 2);
  box.expire_ephemeral(600'001);
  CHECK(box.ephemeral() == 1);
  box.expire_ephemeral(86'400'001);
  CHECK(box.ephemeral() == 0);
}

TEST_CASE("outbox: B37, 500 presence changes for a waiting server leave nothing") {
  auto box = live_at(0);
  for (int i = 0; i < 500; ++i)
    box.add_ephemeral(edu("m.presence", "@u" + std::to_string(i), 1));
  box.forget_short_lived();
  CHECK(box.ephemeral() == 0);
}

TEST_CASE("outbox: ephemeral EDUs are bounded, the oldest go") {
  auto box = live_at(0, {.ephemeral_items = 10});
  for (int i = 0; i < 25; ++i)
    box.add_ephemeral(edu("m.receipt", "k" + std::to_string(i), 1000 + i));
  CHECK(box.ephemeral() == 10);
  const auto text = box.build("us", "them", 2000, true).body.str();
  CHECK(count_of(text, "\"key\":\"k24\"") == 1);
  CHECK(count_of(text, "\"key\":\"k14\"") == 0);
}

namespace {

log_entry in_room(position pos, const std::string& room) {
  auto entry = pdu(pos);
  entry.room_id = room;
  return entry;
}

} // namespace

TEST_CASE("outbox: B26, while a backlog is read rooms without one stay live, with at most half of a transaction") {
  outbox box({});
  box.start_at({0, 0, 0});
  box.begin_reading(1000);
  std::vector<log_entry> first;
  for (position p = 1; p <= 60; ++p)
    first.push_back(in_room(p, "!old"));
  auto page = read(first, 60, true);
  page.rooms_behind = {"!older"};
  box.take_read(page);
  for (position p = 1001; p <= 1040; ++p)
    CHECK(box.add_live(in_room(p, "!live")));
  CHECK(box.add_live(in_room(1041, "!old")));
  CHECK(box.add_live(in_room(1042, "!older")));
  auto made = box.build("us", "them", 1, true);
  CHECK(made.pdus == 50);
  CHECK(made.ahead.size() == 25);
  CHECK(made.ahead.front() == 1001);
  CHECK(made.after.pdu == 25);
  box.delivered(made);
  made = box.build("us", "them", 2, true);
  CHECK(made.ahead.size() == 15); // the other two rooms have a backlog: they wait for their turn
  box.delivered(made);
  // What went ahead isn't sent again, neither from memory nor from the log.
  box.drop();
  box.begin_reading(1100);
  std::vector<log_entry> rest;
  for (position p = 61; p <= 62; ++p)
    rest.push_back(in_room(p, "!older"));
  for (position p = 1001; p <= 1042; ++p)
    rest.push_back(in_room(p, p <= 1040 ? "!live" : "!old"));
  box.take_read(read(rest, 1100));
  made = box.build("us", "them", 3, true);
  CHECK(made.pdus == 4);
  CHECK(made.after.pdu == 1100);
}

TEST_CASE("outbox: what goes ahead isn't sent again if the backlog's end is read while it is under way") {
  outbox box({});
  box.start_at({0, 0, 0});
  box.begin_reading(1000);
  box.take_read(read({in_room(1, "!old")}, 1, true));
  for (position p = 1001; p <= 1003; ++p)
    CHECK(box.add_live(in_room(p, "!live")));
  const auto under_way = box.build("us", "them", 1, true);
  REQUIRE(under_way.ahead.size() == 3);
  box.take_read(read({in_room(2, "!old")}, 1000));
  CHECK(box.state() == outbox::phase::live);
  CHECK(box.add_live(in_room(1004, "!live")));
  box.delivered(under_way);
  const auto next = box.build("us", "them", 2, true);
  CHECK(next.pdus == 2); // the second old one and the fourth live one
  CHECK(next.after.pdu == 1004);
  box.delivered(next);
  CHECK_FALSE(box.has_durable());
  CHECK(box.window_items() == 0);
}

TEST_CASE("outbox: the cursor passes what went ahead, also if nothing comes after it") {
  for (const bool read_meanwhile : {true, false}) {
    CAPTURE(read_meanwhile);
    outbox box({});
    box.start_at({0, 0, 0});
    box.begin_reading(1000);
    box.take_read(read({in_room(1, "!old")}, 1, true));
    CHECK(box.add_live(in_room(1001, "!live")));
    const auto under_way = box.build("us", "them", 1, true);
    REQUIRE(under_way.ahead.size() == 1);
    if (read_meanwhile) box.take_read(read({}, 1000));
    box.delivered(under_way);
    if (!read_meanwhile) {
      box.take_read(read({in_room(2, "!old")}, 1000));
      box.delivered(box.build("us", "them", 2, true));
    }
    CHECK(box.state() == outbox::phase::live);
    CHECK(box.at().pdu == 1001); // a next incarnation reads from here
  }
}

TEST_CASE("outbox: what is remembered of events sent ahead is bounded") {
  outbox box({.window_items = 1000, .ahead_positions = 10});
  box.start_at({0, 0, 0});
  box.begin_reading(1000);
  auto page = read({in_room(1, "!old")}, 1, true);
  page.rooms_behind = {"!old"};
  box.take_read(page);
  for (position p = 1001; p <= 1030; ++p)
    CHECK(box.add_live(in_room(p, "!live")));
  auto made = box.build("us", "them", 1, true);
  CHECK(made.ahead.size() == 10);
  box.delivered(made);
  CHECK(box.build("us", "them", 2, true).ahead.empty());
}
