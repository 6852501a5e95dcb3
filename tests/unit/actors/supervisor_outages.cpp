#include "storage/presence.hpp"
#include "tests/unit/actors/supervisor_bench.hpp"

#include <sys/resource.h>

#include <csignal>
#include <set>

// Outages of our own (DESIGN section 5) and of our clock, as supervisor, destinations and ledger live through them.

using namespace ranvier;
using namespace std::chrono_literals;
using supervisor_bench::fixture;

namespace {

constexpr std::int64_t second = 1'000, minute = 60 * second, hour = 60 * minute;
constexpr const char* empty_pdus = R"("pdus":[])";

std::vector<std::string> servers(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i)
    names.push_back("s" + std::to_string(100 + i) + ".test");
  return names;
}

void send_to(fixture& f, const std::vector<std::string>& names, const std::string& id) {
  std::vector<std::string> lines;
  for (const auto& name : names)
    lines.push_back(fixture::to_device(id + name.substr(0, 20), name));
  f.feed(lines);
}

bool empty(const std::string& body) {
  return body.find(empty_pdus) != std::string::npos && body.find("m.direct_to_device") == std::string::npos;
}

std::int64_t stored(fixture& f, const std::string& key) {
  storage::database db(f.path(), storage::database::mode::read);
  return db.integer("SELECT value FROM meta WHERE key = ?", key).value_or(0);
}

std::int64_t waiting_messages(fixture& f) {
  storage::database db(f.path(), storage::database::mode::read);
  return db.integer("SELECT count(*) FROM to_device").value_or(-1);
}

/// While it lives no file of this process may grow: every write of the ledger fails, as on a full disk.
class broken_disk {
public:
  broken_disk() {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    set(1);
  }
  ~broken_disk() { set(before_.rlim_cur); }
  broken_disk(const broken_disk&) = delete;
  broken_disk& operator=(const broken_disk&) = delete;

private:
  void set(rlim_t most) const {
    const rlimit limit{most, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  rlimit before_{};
};

done wind_down_within(fixture& f, std::int64_t within_ms, std::int64_t pass_ms) {
  caf::scoped_actor self{f.time.system};
  auto answer = self->request(f.supervisor, 600s, wind_down{within_ms});
  f.time.drain();
  f.pass(pass_ms);
  done out{false, "no answer"};
  answer.receive([&](const done& d) { out = d; }, [&](const caf::error& e) { out.problem = f.time.system.render(e); });
  return out;
}

} // namespace

TEST_CASE("own outage: the heartbeat is never older than a minute") {
  fixture f;
  CHECK(stored(f, "heartbeat_ms") == f.wall_ms());
  for (int i = 0; i < 20; ++i) {
    f.pass(17 * second);
    CHECK(f.wall_ms() - stored(f, "heartbeat_ms") < minute);
  }
}

TEST_CASE("own outage: after long silence everybody who is open gets one empty transaction, once") {
  fixture f(10 * hour);
  f.world.status["dead.test"] = 0;
  send_to(f, {"a.test", "b.test", "c.test", "dead.test"}, "m");
  f.pass(5 * second);
  REQUIRE(f.world.asked.size() == 4);
  f.die();
  f.pass(11 * minute);
  f.forget_the_past();
  f.live();
  CHECK(stored(f, "announce_since") == f.wall_ms());
  f.pass(minute);
  CHECK(std::multiset<std::string>(f.world.asked.begin(), f.world.asked.end()) ==
        std::multiset<std::string>{"a.test", "b.test", "c.test"}); // the closed gate isn't disturbed
  for (const auto& body : f.world.bodies)
    CHECK(empty(body));
  CHECK(stored(f, "announce_since") == 0);
  f.die();
  f.live(); // a start after a short silence
  f.pass(hour);
  CHECK(f.world.asked.size() == 3);
}

TEST_CASE("own outage: up to announce_after_outage is no outage, and 0 switches it off") {
  for (const auto& [silence, after, told] : {std::tuple{9 * minute, 10 * minute, 0}, std::tuple{61 * minute, hour, 1},
                                             std::tuple{30 * 24 * hour, std::int64_t(0), 0}}) {
    CAPTURE(silence);
    CAPTURE(after);
    fixture f;
    send_to(f, {"a.test"}, "m");
    f.pass(5 * second);
    f.die();
    f.parts->settings.delivery.announce_after_outage_ms = after;
    f.pass(silence);
    f.forget_the_past();
    f.live();
    f.pass(minute);
    CHECK(int(f.world.asked.size()) == told);
  }
}

TEST_CASE("own outage: switching it off ends what was begun") {
  fixture f;
  send_to(f, servers(60), "m");
  f.pass(5 * second);
  f.die();
  f.pass(hour);
  f.live();
  f.die(); // nobody was told yet
  REQUIRE(stored(f, "announce_since") > 0);
  f.parts->settings.delivery.announce_after_outage_ms = 0;
  f.forget_the_past();
  f.live();
  f.pass(minute);
  CHECK(stored(f, "announce_since") == 0);
  CHECK(f.world.asked.empty());
}

TEST_CASE("own outage: a crash in the middle of the announcement goes on, ends, and tells nobody twice") {
  fixture f;
  const auto all = servers(100);
  send_to(f, all, "m");
  f.pass(5 * second);
  f.die();
  f.pass(hour);
  f.forget_the_past();
  f.live();
  f.pass(1'100);
  const auto told = f.world.asked.size();
  CHECK(told > 0);
  CHECK(told < 80); // paced
  f.pass(1'000);
  f.die();
  f.pass(2 * minute);
  CHECK(stored(f, "announce_since") > 0);
  f.live();
  f.pass(minute);
  CHECK(f.world.asked.size() == all.size());
  CHECK(std::set<std::string>(f.world.asked.begin(), f.world.asked.end()) ==
        std::set<std::string>(all.begin(), all.end()));
  CHECK(stored(f, "announce_since") == 0);
}

TEST_CASE("own outage: who is owed something gets that, and no empty transaction behind it") {
  fixture f;
  send_to(f, {"a.test"}, "m");
  f.pass(5 * second);
  f.world.takes_ms = hour; // in flight when the engine dies
  send_to(f, {"a.test"}, "n");
  f.die();
  f.pass(30 * minute);
  f.world.takes_ms = 0;
  f.forget_the_past();
  f.live();
  f.pass(minute);
  REQUIRE(f.world.asked.size() == 1);
  CHECK_FALSE(empty(f.world.bodies[0]));
  CHECK(stored(f, "announce_since") == 0);
}

TEST_CASE("own outage: one who fails the announcement is told when its gate opens, by its own probe; the outage ends") {
  fixture f(20 * minute);
  send_to(f, {"a.test", "b.test"}, "m");
  f.pass(5 * second);
  f.die();
  f.pass(hour);
  f.world.status["a.test"] = 0;
  f.forget_the_past();
  f.live();
  f.pass(minute);
  CHECK(f.asked("a.test") == 1);
  CHECK(f.asked("b.test") == 1);
  CHECK(stored(f, "announce_since") == 0);
}

TEST_CASE("uplink: the first success after an outage brings forward all gates that closed in it, paced") {
  fixture f(5 * second);
  const auto all = servers(60);
  f.world.status["old.test"] = 0; // dead for days before
  send_to(f, {"old.test"}, "m");
  f.pass(3 * 24 * hour);
  send_to(f, all, "m"); // everybody lives
  f.pass(minute);
  for (const auto& name : all)
    f.world.status[name] = 0; // our uplink goes
  send_to(f, all, "n");
  f.pass(6 * hour);
  const auto waiting = waiting_messages(f);
  CHECK(waiting == 61);
  for (const auto& name : all)
    f.world.status.erase(name); // and comes back
  f.forget_the_past();
  send_to(f, {"new.test"}, "x"); // the first success: somebody without a gate
  f.pass(1'000);
  CHECK(f.world.asked.size() < 60); // not all at once
  f.pass(4 * second);
  for (const auto& name : all)
    CHECK(f.asked(name) >= 1);
  CHECK(f.asked("old.test") == 0);
  CHECK(waiting_messages(f) <= 2); // old's; acks are gathered for a second
}

TEST_CASE("uplink: few servers, or a short outage, bring nothing forward") {
  for (const auto& [count, lasts] : {std::pair{10, 6 * hour}, std::pair{60, 5 * minute}}) {
    CAPTURE(count);
    fixture f(hour);
    const auto all = servers(count);
    send_to(f, all, "m");
    f.pass(minute);
    for (const auto& name : all)
      f.world.status[name] = 0;
    send_to(f, all, "n");
    f.pass(lasts);
    f.forget_the_past();
    send_to(f, {"new.test"}, "x");
    f.pass(10 * second);
    CHECK(f.asked("new.test") == 1);
    CHECK(f.world.asked.size() == 1);
  }
}

TEST_CASE("uplink: an outage that began in our last life counts") {
  fixture f(2 * hour);
  const auto all = servers(20);
  send_to(f, all, "m");
  f.pass(minute);
  for (const auto& name : all)
    f.world.status[name] = 0;
  send_to(f, all, "n");
  f.pass(8 * minute);
  f.die();
  f.live();
  f.pass(4 * minute);
  f.world.status.clear();
  f.forget_the_past();
  send_to(f, {"new.test"}, "x");
  f.pass(5 * second);
  for (const auto& name : all)
    CHECK(f.asked(name) == 1);
}

TEST_CASE("uplink: an answer to a GET of our last life counts, so those who were dead before it don't come forward") {
  for (const bool answered : {true, false}) {
    CAPTURE(answered);
    fixture f(2 * hour);
    const auto all = servers(20);
    send_to(f, all, "m");
    f.pass(minute);
    for (const auto& name : all)
      f.world.status[name] = 0;
    send_to(f, all, "n");
    f.pass(2 * minute);
    pull page;
    page.destination = "page.test";
    page.method = "GET";
    page.uri = "/_matrix/federation/v1/version";
    page.timeout_ms = 1'000;
    f.world.status["page.test"] = answered ? 200 : 0;
    caf::anon_send(f.supervisor, page);
    f.pass(6 * minute);
    f.die();
    f.live();
    f.pass(4 * minute);
    f.world.status.clear();
    f.forget_the_past();
    send_to(f, {"new.test"}, "x");
    f.pass(5 * second);
    for (const auto& name : all)
      CHECK(f.asked(name) == (answered ? 0 : 1));
  }
}

TEST_CASE("clock: a wall clock that jumps neither strands nor storms a closed gate") {
  const auto probes = [](std::int64_t jump_ms) {
    fixture f(minute);
    f.world.status["dead.test"] = 0;
    send_to(f, {"dead.test"}, "m");
    f.pass(10 * minute);
    f.wall_ahead_ms += jump_ms;
    f.pass(10 * hour);
    auto times = f.world.at_ms;
    f.world.status.clear();
    f.pass(24 * hour);
    CHECK(waiting_messages(f) == 0);
    return times;
  };
  const auto calm = probes(0);
  CHECK(calm.size() > 5);
  for (const auto jump : {30 * 24 * hour, -30 * 24 * hour, 2 * hour, -2 * hour}) {
    CAPTURE(jump);
    CHECK(probes(jump) == calm);
  }
}

TEST_CASE("clock: a stored gate after a jump while we were away is due within its interval") {
  for (const auto jump : {400 * 24 * hour, -400 * 24 * hour}) {
    CAPTURE(jump);
    fixture f(hour);
    f.parts->settings.delivery.announce_after_outage_ms = 0;
    f.world.status["dead.test"] = 0;
    send_to(f, {"dead.test"}, "m");
    f.pass(10 * minute);
    f.die();
    f.wall_ahead_ms += jump;
    f.world.status.clear();
    f.forget_the_past();
    f.live();
    f.pass(hour + minute);
    CHECK(f.asked("dead.test") == 1);
    CHECK(waiting_messages(f) == 0);
  }
}

TEST_CASE("clock: messages age by time that passed, not by jumps") {
  for (const auto jump : {5 * hour, -5 * hour}) {
    CAPTURE(jump);
    fixture f(10 * 24 * hour);
    f.parts->settings.delivery.to_device_max_age_ms = 3 * hour;
    f.die();
    f.live();
    f.world.status["dead.test"] = 0;
    send_to(f, {"dead.test"}, "m");
    f.pass(hour);
    f.wall_ahead_ms += jump;
    f.pass(hour);
    CHECK(waiting_messages(f) == 1);
    f.pass(hour + 2 * minute);
    CHECK(waiting_messages(f) == 0); // let go at its age, not before and not later
  }
}

TEST_CASE("disk: who writes next or nobody at all, the ledger finds out that it is well again") {
  fixture f;
  f.pass(second);
  {
    const broken_disk broken;
    f.pass(2 * minute); // the heartbeat
    REQUIRE(f.health.size() == 1);
    CHECK(f.health[0].find("failed") != std::string::npos);
  }
  f.pass(3 * second);
  REQUIRE(f.health.size() == 2);
  CHECK(f.health[1].empty());
}

TEST_CASE(
    "disk: a gate that opened while nothing could be written is stored later, and the interval of its closing ends") {
  const auto open_intervals = [](fixture& f) {
    storage::database db(f.path(), storage::database::mode::read);
    return db.integer("SELECT count(*) FROM closed WHERE to_position = 9223372036854775807").value_or(-1);
  };
  fixture f(minute);
  f.world.status["a.test"] = 0;
  send_to(f, {"a.test"}, "m");
  f.pass(second);
  CHECK(open_intervals(f) == 1);
  {
    const broken_disk broken;
    f.world.status.clear();
    f.pass(5 * minute);
    CHECK(f.asked("a.test") == 2); // delivered all the same, and once
    CHECK(open_intervals(f) == 1);
  }
  f.pass(10 * second);
  CHECK(open_intervals(f) == 0);
  CHECK(waiting_messages(f) == 0);
  f.die();
  f.live();
  f.pass(10 * minute);
  CHECK(f.asked("a.test") == 2);
}

TEST_CASE("disk: a hold that could not be stored is in effect, and its answer says so") {
  fixture f;
  send_to(f, {"a.test"}, "m");
  f.pass(second);
  const auto hold = [&] {
    caf::scoped_actor self{f.time.system};
    operate order;
    order.destination = "a.test";
    order.verb = "hold";
    order.reason = "r";
    auto answer = self->request(f.supervisor, 60s, order);
    f.time.drain();
    done out;
    answer.receive([&](const done& d) { out = d; }, [&](const caf::error& e) { FAIL(f.time.system.render(e)); });
    return out;
  };
  {
    const broken_disk broken;
    const auto said = hold();
    CHECK_FALSE(said.ok);
    CHECK(said.problem.find("in effect") != std::string::npos);
    CHECK(f.actor_of("a.test")["state"] == "held");
  }
  CHECK(hold().ok);
}

TEST_CASE("the end: a transaction in flight is answered and acked, and nothing new begins") {
  fixture f;
  f.world.takes_ms = 2 * second;
  send_to(f, {"a.test", "b.test"}, "m");
  send_to(f, {"a.test"}, "n"); // waits behind the first
  REQUIRE(f.world.asked.size() == 2);
  CHECK(wind_down_within(f, 5 * second, 3 * second).ok);
  send_to(f, {"c.test"}, "o"); // durable, but nothing begins
  f.pass(minute);
  CHECK(f.world.asked.size() == 2);
  f.die();
  CHECK(waiting_messages(f) == 2);
  f.world.takes_ms = 0;
  f.forget_the_past();
  f.live();
  f.pass(minute);
  CHECK(f.asked("a.test") == 1); // the second message only
  CHECK(f.asked("b.test") == 0);
  CHECK(f.asked("c.test") == 1);
  CHECK(waiting_messages(f) == 0);
}

TEST_CASE("the end: a peer that never answers is waited for as long as was said") {
  fixture f;
  f.world.takes_ms = hour;
  send_to(f, {"a.test"}, "m");
  const auto before = f.time.now_ms();
  CHECK(wind_down_within(f, 5 * second, 5 * second).ok);
  CHECK(f.time.now_ms() - before == 5 * second);
}

TEST_CASE("the end: an engine without anything in flight ends at once") {
  fixture f;
  send_to(f, {"a.test"}, "m");
  f.pass(second);
  CHECK(wind_down_within(f, 5 * second, 0).ok);
}
