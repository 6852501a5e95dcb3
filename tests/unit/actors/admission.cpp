#include "actors/admission.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace ranvier;

namespace {

/// A world of peers with given answer times (-1: never), driven in steps of 10 ms. It keeps the books that the HTTP
/// client's thread keeps, and checks the promises that hold at every moment.
struct world {
  struct call {
    std::string to;
    std::int64_t started = 0, timeout = 60'000, answer_after = 0;
    bool running = false, over = false, failed = false, repeatable = true;
    int starts = 0;
    std::int64_t over_at = -1;
  };
  admission_limits limits;
  std::map<std::string, int> open;
  std::map<std::string, std::int64_t> answers_after;
  std::vector<call> calls{1};
  std::vector<std::int64_t> connections; ///< moments
  std::int64_t now = 1'000'000;
  admission core;
  std::size_t most_in_flight = 0;
  std::set<std::size_t> running;
  std::map<std::string, int> running_to;

  explicit world(admission_limits l)
      : limits(l)
      , core(l, [this](const std::string& d) { return open[d]; }) {}

  std::size_t add(const std::string& to, bool probe = false, bool repeatable = true, std::int64_t timeout = 60'000) {
    call c;
    c.to = to;
    c.timeout = timeout;
    c.repeatable = repeatable;
    c.answer_after = answers_after.count(to) ? answers_after[to] : 50;
    calls.push_back(c);
    core.add({calls.size() - 1, to, probe, repeatable, timeout});
    return calls.size() - 1;
  }

  void stop(std::size_t id) {
    calls[id].running = false;
    running.erase(id);
    --running_to[calls[id].to];
  }

  void carry_out() {
    auto o = core.next(now);
    for (auto id : o.cut) {
      REQUIRE(calls[id].running);
      REQUIRE(calls[id].repeatable);
      CHECK(now - calls[id].started >= admission::first_patience_ms);
      stop(id);
      --open[calls[id].to];
    }
    for (auto id : o.start) {
      auto& c = calls[id];
      REQUIRE_FALSE(c.running);
      REQUIRE_FALSE(c.over);
      if (open[c.to] <= running_to[c.to]) {
        ++open[c.to];
        connections.push_back(now);
        core.opened_socket(id);
      }
      c.running = true;
      running.insert(id);
      ++running_to[c.to];
      c.started = now;
      ++c.starts;
    }
    most_in_flight = std::max(most_in_flight, core.in_flight());
  }

  void run(std::int64_t ms) {
    for (auto end = now + ms; now < end; now += 10) {
      for (auto it = running.begin(); it != running.end();) {
        auto id = *it++;
        auto& c = calls[id];
        bool answered = c.answer_after >= 0 && now - c.started >= c.answer_after;
        if (!answered && now - c.started < c.timeout) continue;
        stop(id);
        c.over = true;
        c.failed = !answered;
        c.over_at = now;
        if (!answered) --open[c.to];
        core.finished(id, answered, now);
      }
      carry_out();
    }
  }
  bool all_over() const {
    return std::all_of(calls.begin() + 1, calls.end(), [](const call& c) { return c.over; });
  }
};

} // namespace

TEST_CASE("admission: 190 hanging servers of 200 delay the others by seconds only (B07)") {
  world w({64, 500, 128});
  for (int i = 0; i < 190; ++i)
    w.answers_after["dead" + std::to_string(i)] = -1;
  std::vector<std::size_t> live;
  for (int i = 0; i < 190; ++i)
    w.add("dead" + std::to_string(i));
  for (int i = 0; i < 10; ++i)
    live.push_back(w.add("live" + std::to_string(i)));
  w.run(5'000);
  for (auto id : live)
    CHECK(w.calls[id].over);
  // And the next one to a server that answered goes within a second, though all slots are taken.
  auto again = w.add("live0");
  w.run(1'200);
  CHECK(w.calls[again].over);
  CHECK(w.most_in_flight == 64);
}

TEST_CASE("admission: servers that are merely slow get through beside many that hang") {
  world w({32, 500, 128});
  std::vector<std::size_t> slow, dead;
  for (int i = 0; i < 200; ++i)
    w.answers_after["dead" + std::to_string(i)] = -1;
  for (int i = 0; i < 20; ++i)
    w.answers_after["slow" + std::to_string(i)] = 5'000;
  for (int i = 0; i < 200; ++i)
    dead.push_back(w.add("dead" + std::to_string(i)));
  for (int i = 0; i < 20; ++i)
    slow.push_back(w.add("slow" + std::to_string(i)));
  w.run(200'000);
  for (auto id : slow) {
    CHECK(w.calls[id].over);
    CHECK_FALSE(w.calls[id].failed);
    CHECK(w.calls[id].starts <= 4); // 1, 2 and 4 s of patience, then 8
  }
  w.run(1'000'000);
  for (auto id : dead)
    CHECK(w.calls[id].failed); // nothing is cut for ever
  CHECK(w.core.in_flight() == 0);
  CHECK(w.core.waiting() == 0);
  CHECK(w.core.next_moment(w.now) == -1);
}

TEST_CASE("admission: nothing is cut while nobody waits") {
  world w({10, 500, 128});
  for (int i = 0; i < 10; ++i) {
    auto name = "slow" + std::to_string(i);
    w.answers_after[name] = 30'000;
    w.add(name);
  }
  w.run(31'000);
  CHECK(w.all_over());
  for (std::size_t i = 1; i < w.calls.size(); ++i)
    CHECK(w.calls[i].starts == 1);
}

TEST_CASE("admission: what mustn't be repeated is never cut") {
  world w({2, 500, 128});
  w.answers_after["slow"] = 10'000;
  w.add("slow", false, false);
  w.add("slow", false, false);
  w.run(20);
  auto waits = w.add("live");
  w.run(9'000);
  CHECK_FALSE(w.calls[waits].over);
  w.run(2'000);
  CHECK(w.all_over());
  CHECK(w.calls[1].starts == 1);
}

TEST_CASE("admission: half of the slots belong to servers that answer quickly, the rest may be borrowed") {
  world w({8, 500, 128});
  for (int i = 0; i < 4; ++i)
    w.add("quick" + std::to_string(i));
  w.run(500);
  REQUIRE(w.all_over());
  for (int i = 0; i < 20; ++i)
    w.answers_after["dead" + std::to_string(i)] = -1;
  for (int i = 0; i < 20; ++i)
    w.add("dead" + std::to_string(i));
  w.run(100);
  CHECK(w.core.in_flight() == 8); // borrowed
  std::vector<std::size_t> quick;
  for (int i = 0; i < 4; ++i)
    quick.push_back(w.add("quick" + std::to_string(i)));
  w.run(1'100); // given back when each had its second
  for (auto id : quick)
    CHECK(w.calls[id].over);
}

TEST_CASE("admission: a probe stands in the second half even if the server was quick") {
  world w({2, 500, 128});
  w.add("a");
  w.run(200);
  w.answers_after["dead1"] = w.answers_after["dead2"] = w.answers_after["a"] = -1;
  w.add("a", true);
  w.add("dead1");
  w.add("dead2");
  w.run(2'100); // all three take turns: the probe is cut like the others
  CHECK(w.calls[2].starts >= 1);
  CHECK(w.calls[4].starts >= 1);
}

TEST_CASE("admission: limits hold in every second (B37)") {
  world w({100, 20, 128});
  for (int i = 0; i < 4000; ++i)
    w.add("p" + std::to_string(i));
  w.run(260'000);
  CHECK(w.all_over());
  CHECK(w.most_in_flight <= 100);
  const auto& c = w.connections;
  CHECK(c.size() == 4000);
  for (std::size_t i = 0; i + 20 < c.size(); ++i)
    CHECK(c[i + 20] - c[i] >= 1000);
}

TEST_CASE("admission: connections that are there need no allowance") {
  world w({100, 1, 128});
  w.add("a");
  w.run(500);
  for (int i = 0; i < 50; ++i) {
    w.add("a");
    w.run(100);
  }
  CHECK(w.all_over());
  CHECK(w.connections.size() == 1);
}

TEST_CASE("admission: many requests to one server don't hold up another's") {
  world w({4, 500, 128});
  for (int i = 0; i < 400; ++i)
    w.add("busy");
  auto other = w.add("other");
  w.run(200);
  CHECK(w.calls[other].over);
}

TEST_CASE("admission: handshakes at a time are bounded, but those that hang don't count for long") {
  admission core({1000, 100'000, 10}, [](const std::string&) { return 0; });
  for (std::uint64_t i = 1; i <= 30; ++i)
    core.add({i, "p" + std::to_string(i), false, true, 60'000});
  std::int64_t now = 1'000;
  CHECK(core.next(now).start.size() == 10);
  CHECK(core.next(now + 100).start.empty());
  core.connected(1);
  CHECK(core.next(now + 110).start.size() == 1);
  CHECK(core.next_moment(now + 110) == now + admission::young_handshake_ms);
  CHECK(core.next(now + 250).start.size() == 9);
  CHECK(core.next(now + 500).start.size() == 10);
}

TEST_CASE("admission: waiting ones can be ended") {
  admission core({1, 500, 10}, [](const std::string&) { return 0; });
  core.add({1, "a", false, true, 1000});
  core.add({2, "a", false, true, 1000});
  core.add({3, "b", false, true, 1000});
  CHECK(core.next(1'000).start == std::vector<admission::ticket>{1});
  core.finished(2, false, 1'010);
  core.finished(1, true, 1'020);
  CHECK(core.next(1'020).start == std::vector<admission::ticket>{3});
  core.finished(3, true, 1'030);
  core.finished(3, true, 1'030); // twice is harmless
  CHECK(core.waiting() == 0);
  CHECK(core.in_flight() == 0);
}

TEST_CASE("admission: random loads always come to an end, within the limits") {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    world w({1 + upto(20), 20 + upto(200), 5 + upto(50)});
    for (int i = 0; i < 30; ++i) {
      static const std::int64_t times[] = {10, 50, 900, 1'500, 4'000, -1};
      w.answers_after["p" + std::to_string(i)] = times[upto(6)];
    }
    for (int round = 0; round < 60; ++round) {
      for (int n = upto(8); n > 0; --n)
        w.add("p" + std::to_string(upto(30)), upto(10) == 0, upto(10) != 0, 6'000);
      w.run(100);
    }
    for (int i = 0; i < 3'000 && !w.all_over(); ++i)
      w.run(1'000);
    CHECK(w.all_over());
    CHECK(w.most_in_flight <= static_cast<std::size_t>(w.limits.max_in_flight));
    for (std::size_t i = 1; i < w.calls.size(); ++i)
      if (w.calls[i].answer_after >= 0) CHECK_FALSE(w.calls[i].failed);
  }
}
