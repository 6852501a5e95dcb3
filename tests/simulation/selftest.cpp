#include "tests/simulation/model.hpp"
#include "tests/simulation/world.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ranvier;
using namespace ranvier::sim;

// The judges judged: the model against cases that a reader can follow, the world against requests that break a rule.

namespace {

const std::string alice = "@alice:" + our_name, bob = "@bob:" + our_name, carl = "@carl:r1.org", dora = "@dora:r2.org";

struct host {
  model m;
  int ids = 0;

  void roster(std::map<std::string, std::string> members) {
    feed_item item;
    item.is = feed_item::what::roster;
    item.room = "!a";
    item.members = std::move(members);
    m.apply(item, 1);
  }
  std::string event(feed_item item) {
    item.room = "!a";
    if (item.id.empty()) item.id = "$" + std::to_string(++ids);
    m.apply(item, 1);
    return item.id;
  }
  std::string message() { return event({}); }
  std::string member_event(const std::string& user, const std::string& membership, std::string id = {}) {
    feed_item item;
    item.is = feed_item::what::member_event;
    item.user = user;
    item.membership = membership;
    item.id = std::move(id);
    return event(item);
  }
  void line(const std::string& user, const std::string& membership, const std::string& event_id = {}) {
    feed_item item;
    item.is = feed_item::what::membership;
    item.room = "!a";
    item.user = user;
    item.membership = membership;
    item.line_event_id = event_id;
    m.apply(item, 1);
  }
  bool owed(const std::string& server, const std::string& event_id) {
    const auto& list = m.must(server);
    return std::any_of(list.begin(), list.end(), [&](const auto& one) { return one.event == event_id; });
  }
};

http_call send(const std::string& id, const std::string& body) {
  http_call call;
  call.destination = "r1.org";
  call.method = "PUT";
  call.uri = "/_matrix/federation/v1/send/" + id;
  call.body = shared_text(body);
  call.authorization = "X-Matrix destination=\"r1.org\"";
  return call;
}
const std::string empty_body = R"({"origin":"e","origin_server_ts":1,"pdus":[]})";

void fail_at(world& w, const http_call& call, std::int64_t at) {
  w.ordered(call, at);
  w.answered(call, w.receive(call, at).answer, at);
}

world with_peer(conduct how = conduct::live) {
  world w(1);
  peer p;
  p.name = "r1.org";
  p.script = {{0, how}};
  w.add(p);
  return w;
}

} // namespace

TEST_CASE("simulation's model: an event goes to the servers with a joined member while one of ours is joined") {
  host h;
  h.roster({{alice, "join"}, {carl, "join"}, {dora, "invite"}});
  const auto first = h.message();
  CHECK(h.owed("r1.org", first));
  CHECK_FALSE(h.owed("r2.org", first));
  h.line(dora, "join");
  CHECK(h.owed("r2.org", h.message()));
  h.line(alice, "leave");
  CHECK_FALSE(h.owed("r1.org", h.message()));
}

TEST_CASE("simulation's model: a kicked server gets its kick, whichever line comes first, with an id or without") {
  for (const bool line_first : {true, false})
    for (const bool with_id : {true, false}) {
      CAPTURE(line_first);
      CAPTURE(with_id);
      host h;
      h.roster({{alice, "join"}, {carl, "join"}, {dora, "join"}});
      const std::string id = "$kick";
      if (line_first) h.line(carl, "leave", with_id ? id : "");
      h.member_event(carl, "leave", id);
      if (!line_first) h.line(carl, "leave", with_id ? id : "");
      CHECK(h.owed("r1.org", id));
      CHECK(h.owed("r2.org", id));
      const auto later = h.message();
      CHECK_FALSE(h.owed("r1.org", later));
      CHECK_FALSE(h.m.may("r1.org", later));
      CHECK(h.owed("r2.org", later));
    }
}

TEST_CASE("simulation's model: all servers of a room that we leave get our leave") {
  for (const bool line_first : {true, false}) {
    CAPTURE(line_first);
    host h;
    h.roster({{alice, "join"}, {carl, "join"}, {dora, "join"}});
    if (line_first) h.line(alice, "leave", "$bye");
    h.member_event(alice, "leave", "$bye");
    if (!line_first) h.line(alice, "leave", "$bye");
    CHECK(h.owed("r1.org", "$bye"));
    CHECK(h.owed("r2.org", "$bye"));
  }
}

TEST_CASE("simulation's model: an invitation that is taken back reaches the invited server") {
  host h;
  h.roster({{alice, "join"}, {carl, "join"}});
  h.line(dora, "invite");
  CHECK(h.owed("r2.org", h.member_event(dora, "leave")));
}

TEST_CASE("simulation's model: destinations stand instead of the room's, exclude takes away") {
  host h;
  h.roster({{alice, "join"}, {carl, "join"}, {dora, "join"}});
  feed_item to;
  to.destinations = std::set<std::string>{"r3.org"};
  const auto first = h.event(to);
  CHECK(h.owed("r3.org", first));
  CHECK_FALSE(h.m.may("r1.org", first));
  feed_item without;
  without.exclude = {"r1.org"};
  const auto second = h.event(without);
  CHECK_FALSE(h.m.may("r1.org", second));
  CHECK(h.owed("r2.org", second));
}

TEST_CASE("simulation's world: two transactions in flight are a breach") {
  auto w = with_peer();
  w.receive(send("a", empty_body), 1);
  CHECK(w.breaches.empty());
  w.receive(send("b", empty_body), 2);
  CHECK(w.breaches.size() == 1);
}

TEST_CASE("simulation's world: other content under the same id is a breach, over lives too") {
  auto w = with_peer();
  auto call = send("a", empty_body);
  w.answered(call, w.receive(call, 1).answer, 2);
  w.killed(3);
  w.answered(call, w.receive(call, 4).answer, 5);
  CHECK(w.breaches.empty());
  w.receive(send("a", R"({"origin":"e","origin_server_ts":2,"pdus":[]})"), 6);
  CHECK(w.breaches.size() == 1);
}

TEST_CASE("simulation's world: a failing peer that is contacted too early is a breach, unless it spoke") {
  auto w = with_peer(conduct::broken);
  const auto call = send("a", empty_body);
  const auto fail = [&](std::int64_t at) { fail_at(w, call, at); };
  fail(1);
  fail(1 + 5 * second / 2); // first 5 s, jitter a half
  CHECK(w.breaches.empty());
  fail(10 * second);
  CHECK(w.breaches.empty());
  w.excuse("r1.org");
  fail(11 * second);
  CHECK(w.breaches.empty());
  fail(12 * second);
  CHECK(w.breaches.size() == 1);
}

TEST_CASE("simulation's world: a told wait that isn't kept is a breach") {
  auto w = with_peer(conduct::limiting);
  w.peers["r1.org"].told_wait_ms = minute;
  const auto call = send("a", empty_body);
  const auto fail = [&](std::int64_t at) { fail_at(w, call, at); };
  fail(1);
  fail(1 + minute);
  CHECK(w.breaches.empty());
  fail(2 * minute - second);
  CHECK(w.breaches.size() == 1);
}

TEST_CASE("simulation's world: whoever is owed something and isn't tried when its wait is over is a breach") {
  auto w = with_peer(conduct::broken);
  const auto owed = send("a", R"({"origin":"e","origin_server_ts":1,"pdus":[{"content":{"sim":"$1"}}]})");
  fail_at(w, owed, 1);
  w.check_overdue(minute); // the longest wait of one failure is 7.5 s, and there is some slack
  CHECK(w.breaches.empty());
  w.check_overdue(2 * minute);
  CHECK(w.breaches.size() == 1);
}

TEST_CASE("simulation's world: nobody has to be tried who is owed nothing") {
  auto w = with_peer(conduct::broken);
  fail_at(w, send("a", empty_body), 1);
  w.check_overdue(day);
  CHECK(w.breaches.empty());
}

TEST_CASE(
    "simulation's world: when more than ten servers couldn't be reached for ten minutes, an answer is a promise") {
  world w(1);
  for (int i = 0; i < 12; ++i) {
    peer p;
    p.name = "r" + std::to_string(i) + ".org";
    p.script = {{0, conduct::unreachable}, {hour, conduct::live}};
    w.add(p);
  }
  auto call = send("a", empty_body);
  for (int i = 0; i < 12; ++i) {
    call.destination = "r" + std::to_string(i) + ".org";
    fail_at(w, call, minute + i);
  }
  w.answered(call, w.receive(call, hour).answer, hour + 1);
  CHECK(w.promises.size() == 12);
}

TEST_CASE("simulation's model: ids and a source's seq make it harmless to feed again") {
  host h;
  h.roster({{alice, "join"}, {carl, "join"}});
  h.line(carl, "leave", "$leave");
  h.line(carl, "join", "$join");
  h.line(carl, "leave", "$leave");
  CHECK(h.owed("r1.org", h.message()));
  feed_item item;
  item.id = "$seven";
  item.seq = 7;
  h.event(item);
  feed_item older;
  older.is = feed_item::what::membership;
  older.room = "!a";
  older.user = carl;
  older.membership = "leave";
  older.seq = 6;
  h.m.apply(older, 1);
  CHECK(h.owed("r1.org", h.message()));
}
