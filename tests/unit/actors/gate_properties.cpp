#include "tests/unit/actors/gate_bench.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

using namespace ranvier;

// Seeded random walks over everything that can happen to a gate. A walk that fails names its seed.

namespace {

struct walk {
  explicit walk(std::uint64_t seed_)
    : seed(seed_), random(seed_),
      b({pick(1, 600) * second, 1.0 + static_cast<double>(pick(0, 30)) / 10.0, pick(1, 48) * hour,
         static_cast<double>(pick(0, 5)) / 10.0}) {}

  std::int64_t pick(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  failure any_failure() {
    failure why;
    why.cls = static_cast<failure_class>(pick(1, 6));
    why.stage = why.cls == failure_class::unreachable ? static_cast<failure_stage>(pick(1, 5)) : failure_stage::answer;
    if (why.cls == failure_class::rate_limited && chance(50))
      why.retry_after_ms = pick(1, 7'200) * second;
    return why;
  }

  void begin(lane via, urgency hurry) {
    const auto may = via == lane::push ? b.push() : b.pull(hurry);
    if (may == pass::no)
      return;
    // Guarantee 3: nothing but a probe at a closed gate, and that only when it is due or hurries.
    const auto due = b.g->next_due(via, b.at());
    CHECK((may == pass::yes_as_probe) != b.g->open(via));
    if (may == pass::yes_as_probe) {
      CHECK(probes == 0);
      REQUIRE(due.has_value());
      CHECK((*due <= b.now || hurry != urgency::none));
      if (*due > b.now) {
        CHECK((!last_early || b.now - *last_early >= 30 * second));
        last_early = b.now;
      }
      ++probes;
    }
    if (via == lane::push)
      ++pushes;
    under_way.push_back(b.g->began(via, b.at(), hurry));
  }

  void end_one() {
    if (under_way.empty())
      return;
    const auto i = static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(under_way.size()) - 1));
    const auto t = under_way[i];
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(i));
    probes -= t.probe ? 1 : 0;
    const auto before = b.g->row();
    gate_change change;
    const auto how = pick(1, 10);
    if (how <= 5)
      change = b.g->failed(t, any_failure(), b.at(), chance(10));
    else if (how <= 8)
      change = b.g->succeeded(t, b.at());
    else if (how == 9)
      change = b.g->proved_nothing(t, b.at());
    else {
      change = b.g->cancelled(t, b.at());
      if (t.early)
        last_early.reset(); // a cut probe keeps its turn
    }
    judge(before, change, t, how);
  }

  void judge(const gate_row& before, const gate_change& change, const ticket& t, std::int64_t how) {
    const auto after = b.g->row();
    CHECK(change.push_closed == (!before.push.closed && after.push.closed));
    CHECK(change.push_opened == (before.push.closed && !after.push.closed));
    CHECK(change.pull_closed == (!before.pull.closed && after.pull.closed));
    CHECK(change.pull_opened == (before.pull.closed && !after.pull.closed));
    CHECK(std::abs(after.push.failures - before.push.failures * (after.push.closed ? 1 : 0)) <= 1);
    if (change.push_opened)
      CHECK((t.via == lane::push && how > 5 && how <= 8)); // only by a successful push
    // A change of schedule or state is always saved; evidence that came meanwhile may bring a probe forward, unsaved.
    if (!change.save) {
      CHECK(after.push.failures == before.push.failures);
      CHECK(after.push.closed == before.push.closed);
      CHECK(after.push.interval_ms == before.push.interval_ms);
    }
    if (how <= 5 && change.save && t.via == lane::push)
      check_wait(after.push);
    if (how >= 9)
      CHECK_FALSE(change.save);
  }

  /// A fresh wait is within [1-j, 1+j] * min(first * f^(n-1), max), unless it was told, is for good, or came from a
  /// probe that evidence brought forward (never shorter than before, and within the cap all the same).
  void check_wait(const lane_row& row) {
    const auto& c = b.backoff;
    const auto most = static_cast<double>(c.max_ms) * (1 + c.jitter);
    CHECK(static_cast<double>(row.interval_ms) <= std::max(most, 1'000.0) + 1);
    if (row.last_error.cls == failure_class::rate_limited || row.last_error.cls == failure_class::gone)
      return;
    const double plain = std::min(static_cast<double>(c.first_ms) * std::pow(c.factor, row.failures - 1),
                                  static_cast<double>(c.max_ms));
    CHECK(static_cast<double>(row.interval_ms) >= std::floor(plain * (1 - c.jitter)));
    if (!evidence)
      CHECK(static_cast<double>(row.interval_ms) <= std::ceil(plain * (1 + c.jitter)));
  }

  void restart() {
    const auto before = b.g->row();
    const auto jump = chance(20) ? pick(-400, 400) * day : 0;
    const auto down = pick(0, 3) * hour;
    b.skew += jump;
    const auto push_due = before.push.next_attempt_ms - b.at().wall_ms;
    b.restart(down);
    under_way.clear(); // the new incarnation has the egress end them first
    probes = 0;
    last_early.reset();
    const auto row = b.g->row();
    CHECK(row.push.failures == before.push.failures);
    CHECK(row.push.closed == before.push.closed);
    if (row.push.closed) {
      CHECK(b.wait() >= 0);
      CHECK(b.wait() <= row.push.interval_ms);
      CHECK(b.wait() == std::clamp<std::int64_t>(push_due - down, 0, row.push.interval_ms));
    }
  }

  void take_step() {
    switch (pick(1, 12)) {
      case 1:
      case 2:
      case 3:
        if (std::none_of(under_way.begin(), under_way.end(), [](const ticket& t) { return t.via == lane::push; }))
          begin(lane::push, urgency::none);
        break;
      case 4:
      case 5: begin(lane::pull, static_cast<urgency>(pick(0, 2))); break;
      case 6:
      case 7:
      case 8: end_one(); break;
      case 9:
        b.g->heard(b.at());
        evidence = true;
        break;
      case 10: b.now += pick(1, 120) * second; break;
      case 11:
        if (chance(50))
          b.to_next_attempt();
        else
          b.now += pick(1, 100'000);
        break;
      default:
        if (chance(5))
          restart();
        else if (chance(5))
          b.g->wake(b.at());
        break;
    }
    CHECK(probes <= 1);
    CHECK(b.g->probing() == (probes == 1));
  }

  std::uint64_t seed;
  std::mt19937_64 random;
  gate_bench b;
  std::vector<ticket> under_way;
  std::optional<std::int64_t> last_early;
  int probes = 0, pushes = 0;
  bool evidence = false;
};

} // namespace

TEST_CASE("gate properties: one probe at most, nothing through a closed gate, waits within their bounds") {
  int pushes = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    walk w(seed);
    for (int i = 0; i < 600; ++i)
      w.take_step();
    pushes += w.pushes;
  }
  CHECK(pushes > 1'000); // the walks did go through the gate
}

TEST_CASE("gate properties: whatever happened, a server that is well again is reached at its next due moment") {
  for (std::uint64_t seed = 1'000; seed <= 1'150; ++seed) {
    CAPTURE(seed);
    walk w(seed);
    for (int i = 0; i < 400; ++i)
      w.take_step();
    auto& b = w.b;
    for (const auto& t : w.under_way)
      b.g->cancelled(t, b.at());
    if (b.g->open(lane::push))
      continue;
    const auto due = b.g->next_due(lane::push, b.at());
    REQUIRE(due.has_value());
    CHECK(*due - b.now <= std::max<std::int64_t>(std::llround(static_cast<double>(b.backoff.max_ms) * 1.5), hour * 2));
    REQUIRE(b.to_next_attempt());
    REQUIRE(b.push() == pass::yes_as_probe);
    CHECK(b.push_ok().push_opened);
    CHECK(b.g->row().push == lane_row{});
    if (!b.g->open(lane::pull)) {
      REQUIRE(b.to_next_attempt(lane::pull));
      CHECK(b.pull_ok().pull_opened);
    }
    CHECK(b.g->row().pull == lane_row{});
    CHECK_FALSE(b.g->next_due(true, true, b.at()).has_value());
  }
}

TEST_CASE("gate properties: waits are spread over the whole of [1-j, 1+j]") {
  gate_bench b({100 * second, 2.0, day, 0.5});
  std::int64_t shortest = day, longest = 0;
  for (int i = 0; i < 2'000; ++i) {
    b.refused_connection();
    shortest = std::min(shortest, b.wait());
    longest = std::max(longest, b.wait());
    b.g->reset(b.at());
  }
  CHECK(shortest >= 50 * second);
  CHECK(shortest < 52 * second);
  CHECK(longest <= 150 * second);
  CHECK(longest > 148 * second);
}

TEST_CASE("gate properties: a probe a second for everybody who speaks stays within the allowance for weeks") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    gate_bench b({5 * second, 2.0, day, 0.5});
    b.random.seed(seed);
    std::multiset<std::int64_t> probes;
    b.refused_connection();
    const auto start = b.now;
    while (b.now - start < 7 * day) {
      b.now += 7 * second;
      b.g->heard(b.at()); // a one-way link: it speaks all the time, we never get through
      if (b.push() == pass::no)
        continue;
      probes.insert(b.now - start);
      b.refused_connection();
    }
    const auto in = [&](std::int64_t from, std::int64_t to) {
      return std::distance(probes.lower_bound(from), probes.lower_bound(to));
    };
    CHECK(in(0, hour) <= 20);
    CHECK(in(6 * day, 7 * day) <= 26); // one an hour by evidence, and one by its own clock
    CHECK(in(6 * day, 7 * day) >= 20);
  }
}
