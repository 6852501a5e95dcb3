#include "actors/partial_join_plan.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace ranvier;

namespace {

using answer = candidate_answer;
constexpr std::int64_t second = 1'000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;

std::vector<std::string> servers(int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i)
    out.push_back("s" + std::to_string(i) + ".test");
  return out;
}
const std::string equally_well; ///< nobody is preferred

/// Plays a plan from moment 1 on until `until`, each answer as `of` says; how many questions were asked.
template <class Of>
int play(partial_join_plan& plan, std::int64_t from, std::int64_t until, const Of& of, std::size_t* most = nullptr) {
  int asked = 0;
  auto now = from;
  while (now <= until) {
    const auto turn = plan.next(now, equally_well);
    if (most) *most = std::max(*most, turn.size());
    for (const auto& name : turn) {
      ++asked;
      plan.answered(name, of(name), "because", now);
      if (of(name) == answer::ok) return asked;
    }
    if (!turn.empty()) continue;
    const auto due = plan.next_due();
    if (!due) break;
    now = std::max(now + 1, *due);
  }
  return asked;
}

} // namespace

TEST_CASE("partial_join_plan: at most three are asked at a time, the healthiest first") {
  partial_join_plan plan(servers(5), {}, "");
  auto first = plan.next(1, "s4.test");
  CHECK(first == std::vector<std::string>{"s4.test", "s0.test", "s1.test"});
  CHECK(plan.next(1, equally_well).empty());
  CHECK_FALSE(plan.next_due());
  plan.answered("s0.test", answer::refused, "403", 1);
  CHECK(plan.next(1, equally_well) == std::vector<std::string>{"s2.test"});
}

TEST_CASE("partial_join_plan: each verdict has its own wait, doubled up to its most") {
  struct row {
    answer verdict;
    std::int64_t first, second, most;
  };
  for (const auto& [verdict, first, then, most] : {row{answer::refused, 15 * second, 30 * second, 10 * minute},
                                                   row{answer::server_error, 15 * second, 30 * second, 10 * minute},
                                                   row{answer::invalid, 10 * minute, 20 * minute, day}}) {
    CAPTURE(std::string(to_string(verdict)));
    partial_join_plan plan({"a.test"}, {}, "");
    std::int64_t now = 1, wait = 0;
    for (int i = 0; i < 12; ++i) {
      REQUIRE(plan.next(now, equally_well).size() == 1);
      plan.answered("a.test", verdict, "x", now);
      wait = *plan.next_due() - now;
      if (i == 0) CHECK(wait == first);
      if (i == 1) CHECK(wait == then);
      now += wait;
    }
    CHECK(wait == most);
  }
}

TEST_CASE("partial_join_plan: hopeless only when everybody refuses for long enough and nobody is merely unreachable") {
  join_plan_settings settings;
  settings.abandon_after_ms = hour;
  partial_join_plan plan({"a.test", "b.test"}, settings, "");
  plan.next(1, equally_well);
  plan.answered("a.test", answer::refused, "403", 10);
  CHECK_FALSE(plan.hopeless_at());
  plan.answered("b.test", answer::unreachable, "refused", 10);
  CHECK_FALSE(plan.hopeless(10 + 100 * day));
  plan.bring_forward("b.test", 20);
  CHECK(plan.next(20, equally_well) == std::vector<std::string>{"b.test"});
  plan.answered("b.test", answer::refused, "404", 20);
  REQUIRE(plan.hopeless_at());
  CHECK(*plan.hopeless_at() == 20 + hour);
  CHECK_FALSE(plan.hopeless(19 + hour));
  CHECK(plan.hopeless(20 + hour));
  CHECK(plan.verdicts().at("a.test").verdict == "refused");
  CHECK(plan.verdicts().at("b.test").reason == "404");
}

TEST_CASE("partial_join_plan: a live server that failed five times counts as refusing, fewer times not") {
  partial_join_plan plan({"a.test"}, {}, "");
  std::int64_t now = 1;
  for (int i = 1; i <= 5; ++i) {
    CHECK_FALSE(plan.hopeless_at());
    REQUIRE(plan.next(now, equally_well).size() == 1);
    plan.answered("a.test", i % 2 ? answer::server_error : answer::invalid, "x", now);
    now = *plan.next_due();
  }
  CHECK(plan.hopeless_at());
}

TEST_CASE(
    "partial_join_plan: five unreachable candidates for a month cost fewer than 200 requests, 2,000 fewer than 3,000") {
  for (const auto& [count, bound] : {std::pair{5, 200}, std::pair{2'000, 3'000}}) {
    CAPTURE(count);
    partial_join_plan plan(servers(count), {}, "");
    std::size_t most = 0;
    const auto asked = play(
        plan, 1, 30 * day, [](const std::string&) { return answer::unreachable; }, &most);
    MESSAGE(count << " unreachable candidates in a month: " << asked << " requests");
    CHECK(asked < bound);
    CHECK(asked >= count);
    CHECK(most <= partial_join_plan::at_a_time);
    CHECK_FALSE(plan.hopeless_at());
    // One comes back, and says so.
    plan.bring_forward("s3.test", 30 * day + 1);
    CHECK(plan.next(30 * day + 1, equally_well).front() == "s3.test");
  }
}

TEST_CASE("partial_join_plan: who comes back without a word is found by its turn") {
  partial_join_plan plan(servers(5), {}, "");
  play(plan, 1, 10 * day, [](const std::string&) { return answer::unreachable; });
  const auto asked = play(plan, 10 * day, 13 * day,
                          [](const std::string& name) { return name == "s2.test" ? answer::ok : answer::unreachable; });
  CHECK(asked > 0);
  CHECK(plan.verdicts().at("s2.test").verdict == "ok");
}

TEST_CASE("partial_join_plan: refusals survive a restart, and with them the grace period") {
  join_plan_settings settings;
  settings.abandon_after_ms = hour;
  partial_join_plan plan({"a.test"}, settings, "");
  plan.next(1, equally_well);
  plan.answered("a.test", answer::refused, "403", 5);
  partial_join_plan again({"a.test"}, settings, plan.progress());
  // However long the engine was down: it is asked again at once, and only its answer may end the join.
  CHECK_FALSE(again.hopeless(5 + day));
  CHECK(again.next(5 + day, equally_well).size() == 1);
  CHECK_FALSE(again.hopeless(5 + day));
  partial_join_plan once_more = again;
  again.answered("a.test", answer::refused, "403", 6 + day);
  REQUIRE(again.hopeless_at());
  CHECK(*again.hopeless_at() == 5 + hour);
  once_more.answered("a.test", answer::server_error, "503", 6 + day);
  CHECK_FALSE(once_more.hopeless_at());
  partial_join_plan odd({"a.test"}, settings, "[1,{");
  CHECK_FALSE(odd.hopeless_at());
}

TEST_CASE("partial_join_plan: more refusals than are remembered don't begin the grace period anew at each restart") {
  join_plan_settings settings;
  settings.abandon_after_ms = hour;
  const auto many = servers(300);
  partial_join_plan plan(many, settings, "");
  play(plan, 1, 1, [](const auto&) { return answer::refused; });
  REQUIRE(plan.hopeless_at());
  partial_join_plan again(many, settings, plan.progress());
  play(again, minute, minute, [](const auto&) { return answer::refused; });
  CHECK(again.hopeless_at() == plan.hopeless_at());
}

TEST_CASE("partial_join_plan: a candidate that comes later is asked before it is hopeless") {
  join_plan_settings settings;
  settings.abandon_after_ms = hour;
  partial_join_plan plan({"a.test"}, settings, "");
  play(plan, 1, 1, [](const auto&) { return answer::refused; });
  plan.add({"a.test", "b.test"});
  CHECK_FALSE(plan.hopeless(day));
  CHECK(plan.next(2, equally_well) == std::vector<std::string>{"b.test"});
}

TEST_CASE("partial_join_plan: random answers never strand it: somebody is asked or has a next turn") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    partial_join_plan plan(servers(1 + int(random() % 8)), {}, "");
    std::int64_t now = 1;
    std::vector<std::string> open;
    for (int step = 0; step < 200; ++step) {
      for (const auto& name : plan.next(now, equally_well))
        open.push_back(name);
      CHECK(open.size() <= partial_join_plan::at_a_time);
      if (open.empty() || random() % 3 == 0) {
        const auto due = plan.next_due();
        CHECK((due || !open.empty()));
        if (due) now = std::max(now + 1, *due);
      }
      if (open.empty()) continue;
      const auto which = random() % open.size();
      plan.answered(open[which], answer(1 + random() % 4), "x", now);
      open.erase(open.begin() + long(which));
    }
  }
}
