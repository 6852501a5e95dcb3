#include "actors/resyncs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace ranvier;

namespace {

constexpr std::int64_t wall = 1'700'000'000'000;

/// The core with a clock, and a server that a test answers for.
struct bench {
  std::int64_t now_ms = 1'000'000;
  resync_limits limits;
  std::optional<resyncs> core;
  std::vector<std::string> begun{}; ///< every fetch, in order

  explicit bench(std::int64_t lane_first_ms = 5'000) {
    limits.lane.first_ms = lane_first_ms;
    limits.lane.jitter = 0;
    core.emplace(limits, [] { return 0.5; });
  }
  moment at() const { return {now_ms, wall + now_ms}; }
  void pass(std::int64_t ms) { now_ms += ms; }

  /// Begins whatever may begin.
  std::vector<std::string> go() {
    std::vector<std::string> out;
    while (auto user = core->next(at())) {
      core->begin(*user, at());
      out.push_back(*user);
    }
    begun.insert(begun.end(), out.begin(), out.end());
    return out;
  }
  resyncs::outcome end(const std::string& user, fetch_end how = fetch_end::list, std::int64_t newer_marks = 0,
                       const std::string& problem = "no") {
    const auto out = core->ended(user, how, how == fetch_end::list ? "" : problem, at());
    device_list_saved saved;
    saved.still_stale = how != fetch_end::list || newer_marks > 0;
    saved.marks = newer_marks;
    core->stored(user, saved, at());
    return out;
  }
  void refuse(const std::vector<std::string>& users) {
    for (const auto& user : users)
      end(user, fetch_end::refused);
  }
  /// The one answer that is due.
  std::optional<refreshed> answer() {
    auto all = core->take_answers(at());
    if (all.empty()) return {};
    CHECK(all.size() == 1);
    return all.front().second;
  }
};

stale_user stored_user(const std::string& user, std::int64_t since_ms, int failures = 0, std::int64_t next_ms = 0) {
  stale_user out;
  out.user = user;
  out.since_ms = since_ms;
  out.marks = 1;
  out.failures = failures;
  out.next_attempt_ms = next_ms;
  out.problem = failures > 0 ? "it said no" : "";
  return out;
}

} // namespace

TEST_CASE("resyncs: B68, all marked users are fetched, each once, the oldest first") {
  bench b;
  for (const auto* user : {"u3", "u1", "u2"})
    b.core->mark(user, 1, b.at());
  CHECK(b.core->stale() == 3);
  CHECK_FALSE(b.core->idle());
  CHECK(b.go() == std::vector<std::string>{"u3"}); // one at first: nothing is known of the server
  b.end("u3");
  CHECK(b.go() == std::vector<std::string>{"u1", "u2"});
  b.end("u2");
  b.end("u1");
  CHECK(b.go().empty());
  CHECK(b.core->idle());
  CHECK(b.core->stale() == 0);
}

TEST_CASE("resyncs: at most three at a time; of an unproven server one, and a second after a second of silence") {
  bench b;
  for (int i = 0; i < 10; ++i)
    b.core->mark("u" + std::to_string(i), 1, b.at());
  CHECK(b.go().size() == 1);
  CHECK(b.core->next_due(b.at()) == b.now_ms + 1'000);
  b.pass(1'000);
  CHECK(b.go().size() == 1); // the first hangs, and holds up nobody else for long
  b.pass(60'000);
  CHECK(b.go().empty());
  b.end("u1");
  CHECK(b.go().size() == 2);
  CHECK(b.core->running() == 3);
  b.end("u2");
  CHECK(b.go().size() == 1);
}

TEST_CASE("resyncs: a mark that comes during a fetch leads to another one") {
  bench b;
  b.core->mark("u", 3, b.at());
  CHECK(b.core->next(b.at()) == "u");
  CHECK(b.core->begin("u", b.at()) == 3);
  b.core->mark("u", 4, b.at());
  CHECK_FALSE(b.core->next(b.at())); // one at a time (L12)
  b.end("u", fetch_end::list, 4);
  CHECK(b.core->next(b.at()) == "u");
  CHECK(b.core->begin("u", b.at()) == 4);
  b.end("u");
  CHECK(b.core->idle());
  // Even if the store knows of it before its entry is here.
  b.core->mark("u", 5, b.at());
  b.go();
  b.end("u", fetch_end::list, 6);
  b.core->mark("u", 6, b.at());
  CHECK(b.go().size() == 1);
  CHECK(b.core->stale() == 1);
}

TEST_CASE("resyncs: a mark written right behind a list is kept, whichever of the two is heard of first") {
  for (const bool mark_first : {true, false}) {
    CAPTURE(mark_first);
    bench b;
    b.core->mark("u", 3, b.at());
    b.go();
    b.core->ended("u", fetch_end::list, "", b.at());
    device_list_saved saved; // in time: it covers mark 3
    saved.marks = 3;
    if (mark_first) b.core->mark("u", 4, b.at());
    b.core->stored("u", saved, b.at());
    if (!mark_first) b.core->mark("u", 4, b.at());
    CHECK(b.core->stale() == 1);
    CHECK(b.go().size() == 1);
    b.core->ended("u", fetch_end::list, "", b.at());
    saved.marks = 4;
    b.core->stored("u", saved, b.at());
    CHECK(b.core->idle());
  }
}

TEST_CASE("resyncs: who left while its list was fetched and marked is asked for once more at most") {
  bench b;
  b.core->mark("u", 3, b.at());
  b.go();
  b.core->mark("u", 4, b.at());
  b.core->ended("u", fetch_end::list, "", b.at());
  b.core->stored("u", {}, b.at()); // nothing is kept of it
  CHECK(b.go().size() == 1);
  b.core->ended("u", fetch_end::list, "", b.at());
  b.core->stored("u", {}, b.at());
  CHECK(b.core->idle());
}

TEST_CASE("resyncs: those who want a list wait for one fetch, whoever asks") {
  bench b;
  const auto first = b.core->want({"u", "v"}, b.now_ms + 10'000, false, b.at());
  const auto second = b.core->want({"u", "u"}, b.now_ms + 10'000, false, b.at());
  CHECK(b.core->waited_for());
  CHECK(b.go() == std::vector<std::string>{"u"});
  b.end("u");
  auto answers = b.core->take_answers(b.at());
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].first == second);
  CHECK(answers[0].second.failed.empty());
  CHECK(b.go() == std::vector<std::string>{"v"});
  b.end("v");
  answers = b.core->take_answers(b.at());
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].first == first);
  CHECK(b.core->idle());
  const auto none = b.core->want({}, b.now_ms + 10'000, false, b.at());
  answers = b.core->take_answers(b.at());
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].first == none);
}

TEST_CASE("resyncs: who asks after a newer mark waits for a fetch that covers it") {
  bench b;
  b.core->mark("u", 1, b.at());
  b.core->want({"u"}, b.now_ms + 10'000, false, b.at());
  b.go();
  b.core->mark("u", 2, b.at());
  b.core->want({"u"}, b.now_ms + 10'000, false, b.at());
  b.end("u", fetch_end::list, 2);
  CHECK(b.answer()); // the first only
  CHECK_FALSE(b.answer());
  CHECK(b.go().size() == 1);
  b.end("u");
  CHECK(b.answer());
}

TEST_CASE("resyncs: time that is over is said, and the fetch goes on") {
  bench b;
  b.core->want({"u", "v"}, b.now_ms + 5'000, false, b.at());
  b.go();
  CHECK(b.core->next_due(b.at()) == b.now_ms + 1'000);
  b.pass(5'000);
  const auto late = b.answer();
  REQUIRE(late);
  CHECK(late->failed.size() == 2);
  CHECK(late->server_problem.empty());
  CHECK(b.core->running() == 1);
  CHECK_FALSE(b.core->wants("v")); // nobody wants it any more, and no mark stands for it
  b.end("u");
  CHECK(b.core->idle());
}

TEST_CASE("resyncs: a refused user waits by itself: 1 min, doubled, at most a day") {
  bench b;
  b.core->mark("u", 1, b.at());
  std::int64_t expected = 60'000;
  for (int i = 1; i <= 14; ++i) {
    REQUIRE(b.go().size() == 1);
    const auto out = b.end("u", i % 2 ? fetch_end::unknown : fetch_end::refused);
    CHECK(out.failures == i);
    CHECK(out.next_attempt_ms == wall + b.now_ms + expected);
    CHECK_FALSE(out.mark);
    CHECK(b.go().empty());
    CHECK(b.core->next_due(b.at()) == b.now_ms + expected);
    b.pass(expected - 1);
    CHECK(b.go().empty());
    b.pass(1);
    expected = std::min<std::int64_t>(2 * expected, 86'400'000);
  }
  b.go();
  CHECK(b.end("u").failures == 0);
  CHECK(b.core->idle());
}

TEST_CASE("resyncs: who asks for a refused user is told at once, and whether its server knows it") {
  bench b;
  b.core->mark("u", 1, b.at());
  b.go();
  b.end("u", fetch_end::unknown, 0, "404");
  b.core->want({"u"}, b.now_ms + 10'000, false, b.at());
  auto told = b.answer();
  REQUIRE(told);
  CHECK(told->failed.at("u") == "404");
  CHECK(told->unknown == std::vector<std::string>{"u"});
  CHECK(b.go().empty());
  // An operator's word goes over its wait.
  b.core->want({"u"}, b.now_ms + 10'000, true, b.at());
  CHECK(b.go().size() == 1);
  b.end("u");
  told = b.answer();
  REQUIRE(told);
  CHECK(told->failed.empty());
}

TEST_CASE("resyncs: its server speaks of a refused user again: asked for once a minute at most") {
  bench b;
  b.core->mark("u", 1, b.at());
  for (int i = 0; i < 6; ++i) {
    b.go();
    b.end("u", fetch_end::refused);
    b.pass(40 * 60'000);
  }
  b.go();
  b.end("u", fetch_end::refused); // its wait is over an hour now
  b.core->mark("u", 2, b.at());
  CHECK(b.go().empty());
  CHECK(b.core->next_due(b.at()) == b.now_ms + 60'000);
  b.pass(60'000);
  CHECK(b.go().size() == 1);
  b.core->mark("u", 2, b.at()); // nothing new
  b.end("u", fetch_end::refused);
  CHECK(*b.core->next_due(b.at()) > b.now_ms + 3'600'000);
}

TEST_CASE("resyncs: three users refused in a row close the devices lane, one user alone never") {
  bench b(1'000);
  for (int i = 0; i < 5; ++i)
    b.core->mark("u" + std::to_string(i), 1, b.at());
  b.refuse(b.go());
  b.refuse(b.go());
  CHECK(b.core->lane_open());
  b.refuse(b.go());
  CHECK_FALSE(b.core->lane_open());
  CHECK(b.begun.size() == 3);
  CHECK(b.go().empty());
  CHECK(b.core->next_due(b.at()) == b.now_ms + 2'000);
  b.core->want({"u0"}, b.now_ms + 10'000, false, b.at());
  CHECK(b.answer()->failed.size() == 1);
  // One at a time sees whether that has changed: whoever was refused least.
  for (const auto wait : {2'000, 4'000}) {
    b.pass(wait - 1);
    CHECK(b.go().empty());
    b.pass(1);
    const auto probe = b.go();
    REQUIRE(probe.size() == 1);
    b.refuse(probe);
  }
  CHECK(b.begun[3] == "u3");
  CHECK(b.begun[4] == "u4");
  b.pass(60'000);
  auto probe = b.go();
  REQUIRE(probe.size() == 1);
  b.end(probe[0]);
  CHECK(b.core->lane_open());
  CHECK(b.go().size() >= 2); // all others may go again

  bench alone;
  alone.core->mark("u", 1, alone.at());
  for (int i = 0; i < 5; ++i) {
    alone.refuse(alone.go());
    alone.pass(86'400'000);
  }
  CHECK(alone.core->lane_open());
}

TEST_CASE("resyncs: a success between counts anew, and opens the lane") {
  bench b;
  for (int i = 0; i < 6; ++i) {
    b.core->mark("u" + std::to_string(i), 1, b.at());
    b.go();
    b.end("u" + std::to_string(i), i == 2 ? fetch_end::list : fetch_end::refused);
    if (i < 5) CHECK(b.core->lane_open());
  }
  CHECK_FALSE(b.core->lane_open());
  b.core->reset();
  CHECK(b.core->lane_open());
}

TEST_CASE("resyncs: a user who wasn't refused brings a closed lane's moment forward, ever more rarely") {
  bench b(3'600'000);
  b.limits.lane.max_ms = 86'400'000;
  for (int i = 0; i < 3; ++i)
    b.core->mark("u" + std::to_string(i), 1, b.at());
  for (int i = 0; i < 3; ++i)
    b.refuse(b.go());
  REQUIRE_FALSE(b.core->lane_open());
  std::vector<std::int64_t> at;
  const auto start = b.now_ms;
  for (int second = 0; second < 1'000; ++second) {
    b.core->mark("new" + std::to_string(second), 1, b.at());
    for (const auto& user : b.go()) {
      at.push_back((b.now_ms - start) / 1'000);
      b.end(user, fetch_end::refused);
    }
    b.pass(1'000);
  }
  CHECK(at == std::vector<std::int64_t>{0, 120, 360, 840});
}

TEST_CASE(
    "resyncs: B67, a server in trouble: nothing is asked, whoever waits is told, what was wanted is marked once") {
  bench b;
  b.core->mark("m", 1, b.at());
  for (int i = 0; i < 100; ++i) {
    b.core->want({"m", "w"}, b.now_ms + 10'000, false, b.at());
    b.core->barred("it is closed");
    const auto told = b.answer();
    REQUIRE(told);
    CHECK(told->server_problem == "it is closed");
    CHECK(told->failed.size() == 2);
    const auto unmarked = b.core->take_unmarked();
    if (i > 0) {
      CHECK(unmarked.empty());
      continue;
    }
    CHECK(unmarked == std::vector<std::string>{"w"});
    b.core->mark("w", 7, b.at()); // what the ledger makes of it
  }
  CHECK(b.core->stale() == 2);
  CHECK(b.go().size() == 1);
}

TEST_CASE("resyncs: a failure of the server's own counts against no user") {
  bench b;
  b.core->mark("u", 1, b.at());
  b.core->want({"u", "w"}, b.now_ms + 10'000, false, b.at());
  CHECK(b.go() == std::vector<std::string>{"u"});
  auto out = b.end("u", fetch_end::failed, 1);
  CHECK(out.failures == 0);
  CHECK(out.next_attempt_ms == 0);
  CHECK_FALSE(out.mark);
  CHECK(b.go() == std::vector<std::string>{"w"}); // should the gate stay open
  const auto ended = b.core->ended("w", fetch_end::failed, "503", b.at());
  CHECK(ended.mark); // else nobody would think of it when the server is back
  b.core->stored("w", {}, b.at());
  const auto told = b.answer();
  REQUIRE(told);
  CHECK(told->failed.size() == 2);
  CHECK(b.core->next_due(b.at()) == b.now_ms + 5'000);
  CHECK(b.core->lane_open());
}

TEST_CASE("resyncs: a list that is too large is asked for once a day, and keeps nobody awake") {
  bench b;
  b.core->mark("u", 1, b.at());
  b.core->want({"u"}, b.now_ms + 10'000, false, b.at());
  b.go();
  const auto out = b.end("u", fetch_end::too_large);
  CHECK(out.next_attempt_ms == wall + b.now_ms + 86'400'000);
  CHECK(b.answer()->failed.empty());
  CHECK(b.core->stale() == 1);
  CHECK(b.core->idle());
  b.core->mark("u", 2, b.at());
  CHECK(b.go().empty());
  b.pass(86'400'000);
  CHECK(b.go().size() == 1);
  b.end("u");
  CHECK(b.core->stale() == 0);
}

TEST_CASE("resyncs: what couldn't be stored is asked for again, and a cut fetch as if it had never begun") {
  bench b;
  b.core->mark("u", 1, b.at());
  b.core->want({"u"}, b.now_ms + 60'000, false, b.at());
  b.go();
  b.core->cut("u");
  CHECK_FALSE(b.answer());
  REQUIRE(b.go().size() == 1);
  b.core->ended("u", fetch_end::list, "", b.at());
  device_list_saved full;
  full.ok = false;
  full.problem = "disk full";
  b.core->stored("u", full, b.at());
  CHECK(b.answer()->failed.at("u").find("disk full") != std::string::npos);
  CHECK(b.go().empty());
  b.pass(5'000);
  CHECK(b.go().size() == 1);
}

TEST_CASE("resyncs: what storage knows at the start, with clocks that jumped") {
  bench b;
  b.core->mark("marked", 9, b.at());
  b.core->load({stored_user("young", 30), stored_user("old", 10), stored_user("refused", 20, 2, wall + 2'000'000),
                stored_user("far", 5, 3, wall + 900 * 86'400'000LL), stored_user("past", 1, 1, 5),
                stored_user("marked", 1)},
               b.at());
  CHECK(b.core->stale() == 6);
  std::vector<std::string> order;
  while (!b.core->idle()) {
    const auto now = b.go();
    for (const auto& user : now) {
      order.push_back(user);
      b.end(user);
    }
    const auto due = b.core->next_due(b.at());
    if (!now.empty() || !due) continue;
    CHECK(*due <= b.now_ms + 86'400'000);
    b.now_ms = *due;
  }
  std::string all;
  for (const auto& user : order)
    all += user + " ";
  CHECK(all == "marked past old young refused far ");
}

TEST_CASE("resyncs: those who wait and old marks take turns") {
  bench b;
  for (int i = 0; i < 50; ++i)
    b.core->mark("old" + std::to_string(i), 1, b.at());
  int old = 0;
  for (int i = 0; i < 60 && old < 20; ++i) {
    b.core->want({"asked" + std::to_string(i)}, b.now_ms + 60'000, false, b.at());
    for (const auto& user : b.go()) {
      old += user.starts_with("old");
      b.end(user);
    }
    b.core->take_answers(b.at());
  }
  CHECK(old >= 20);
  CHECK(b.core->stale() <= 30);
}

TEST_CASE("resyncs: B65, a host of refusals or failures costs at most 12 requests a day") {
  for (const auto how : {fetch_end::refused, fetch_end::unknown}) {
    bench b(60'000);
    for (int i = 0; i < 10; ++i)
      b.core->mark("u" + std::to_string(i), 1, b.at());
    const auto end = b.now_ms + 86'400'000;
    while (b.now_ms < end) {
      for (const auto& user : b.go())
        b.end(user, how);
      const auto due = b.core->next_due(b.at());
      REQUIRE(due);
      REQUIRE(*due > b.now_ms);
      b.now_ms = *due;
    }
    CHECK(b.begun.size() <= 12);
    CHECK(b.begun.size() >= 8);
  }
}

TEST_CASE("resyncs: random histories end with every list fetched, never two fetches of a user, never more than three") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto up_to = [&](int n) { return int(random() % unsigned(n)); };
    bench b(1'000);
    b.limits.lane.jitter = 0.5;
    b.core.emplace(b.limits, [&] { return double(random() % 1'000) / 1'000.0; });
    std::map<std::string, std::int64_t> marks, running; // what storage has; what each fetch began with
    std::set<resyncs::waiter> waiting;
    std::int64_t last_mark = 0;
    const auto settle = [&] {
      for (const auto& user : b.core->take_unmarked())
        b.core->mark(user, marks[user] = ++last_mark, b.at());
      for (const auto& [who, answer] : b.core->take_answers(b.at()))
        REQUIRE(waiting.erase(who) == 1);
    };
    const auto end_one = [&](bool well) {
      if (running.empty()) return;
      auto found = std::next(running.begin(), up_to(int(running.size())));
      const auto [user, began] = *found;
      running.erase(found);
      const int kind = well ? 0 : up_to(6);
      if (kind == 5) return b.core->cut(user);
      const auto how = std::array{fetch_end::list, fetch_end::list, fetch_end::refused, fetch_end::unknown,
                                  fetch_end::failed}[std::size_t(kind)];
      if (b.core->ended(user, how, how == fetch_end::list ? "" : "no", b.at()).mark) {
        b.core->stored(user, {}, b.at());
        return b.core->mark(user, marks[user] = ++last_mark, b.at());
      }
      device_list_saved saved;
      // Storage marks whoever was refused.
      if ((how == fetch_end::refused || how == fetch_end::unknown) && !marks.contains(user)) marks[user] = ++last_mark;
      if (how == fetch_end::list && (!marks.contains(user) || marks[user] == began)) marks.erase(user);
      saved.still_stale = marks.contains(user);
      if (saved.still_stale) saved.marks = marks[user];
      b.core->stored(user, saved, b.at());
    };
    for (int step = 0; step < 400; ++step) {
      const auto user = "u" + std::to_string(up_to(8));
      switch (up_to(6)) {
      case 0:
        b.core->mark(user, marks[user] = ++last_mark, b.at());
        break;
      case 1:
        waiting.insert(b.core->want({user, "u0"}, b.now_ms + up_to(20'000), up_to(5) == 0, b.at()));
        break;
      case 2:
        b.pass(up_to(30'000));
        break;
      case 3:
        end_one(false);
        break;
      case 4:
        if (up_to(4) == 0) b.core->barred("closed");
        break;
      default:
        for (const auto& one : b.go()) {
          REQUIRE(running.emplace(one, marks.contains(one) ? marks[one] : 0).second);
          REQUIRE(running.size() <= 3);
        }
      }
      settle();
      REQUIRE(b.core->running() == running.size());
    }
    // From now on the server answers well; everything is fetched, and everybody was answered.
    for (int step = 0; step < 5'000 && !b.core->idle(); ++step) {
      for (const auto& one : b.go())
        running.emplace(one, marks.contains(one) ? marks[one] : 0);
      while (!running.empty())
        end_one(true);
      settle();
      if (const auto due = b.core->next_due(b.at())) b.now_ms = *due;
    }
    settle();
    CHECK(b.core->idle());
    CHECK(marks.empty());
    CHECK(waiting.empty());
    CHECK(b.core->stale() == 0);
  }
}
