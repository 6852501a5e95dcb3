#include "tests/unit/actors/gate_bench.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

TEST_CASE("gate: what is new is open, and knows of no next moment") {
  gate_bench b;
  CHECK(b.push() == pass::yes);
  CHECK(b.pull() == pass::yes);
  CHECK(b.state() == "open");
  CHECK_FALSE(b.g->next_due(true, true, b.at()).has_value());
  const auto view = b.g->view(b.at());
  CHECK_FALSE(view.last_error.has_value());
  CHECK_FALSE(view.failing_since_ms.has_value());
  CHECK(view.interval_ms == 0);
  CHECK(b.g->row() == gate_row{});
}

TEST_CASE("gate: a failure closes until the interval has passed, then exactly one probe passes") {
  gate_bench b;
  const auto change = b.fail_push(failure_class::server_error);
  CHECK(change.save);
  CHECK(change.push_closed);
  CHECK(change.pull_closed);
  CHECK(b.state() == "closed");
  CHECK(b.push() == pass::no);
  CHECK(b.pull() == pass::no);
  b.now += 5 * second - 1;
  CHECK(b.push() == pass::no);
  b.now += 1;
  CHECK(b.state() == "probing");
  REQUIRE(b.push() == pass::yes_as_probe);
  const auto probe = b.g->began(lane::push, b.at());
  CHECK(probe.probe);
  CHECK(b.push() == pass::no);
  CHECK(b.pull() == pass::no);
  CHECK_FALSE(b.g->next_due(true, true, b.at()).has_value()); // its end is the event
  const auto second_try = b.fail(probe, failure_class::server_error);
  CHECK(second_try.save);
  CHECK_FALSE(second_try.push_closed); // it was: one line per change of state (B20)
  CHECK(b.streak() == 2);
  CHECK(b.wait() == 10 * second);
}

TEST_CASE("gate: a request that the gate forbids can't begin") {
  gate_bench b;
  b.refused_connection();
  CHECK_THROWS_AS(b.g->began(lane::push, b.at()), std::logic_error);
  CHECK_THROWS_AS(b.g->began(lane::pull, b.at()), std::logic_error);
}

TEST_CASE("gate: success resets everything") {
  gate_bench b;
  for (int i = 0; i < 6; ++i) {
    b.refused_connection();
    b.to_next_attempt();
  }
  CHECK(b.streak() == 6);
  const auto change = b.push_ok();
  CHECK(change.push_opened);
  CHECK(change.pull_opened);
  CHECK(change.save);
  CHECK(b.state() == "open");
  CHECK(b.g->row().push == lane_row{});
  CHECK(b.g->row().pull == lane_row{});
  CHECK(b.g->row().last_success_ms == b.at().wall_ms);
  b.refused_connection();
  CHECK(b.wait() == 5 * second);
  CHECK_FALSE(gate_bench{}.push_ok().save); // nothing changed but the time of the last success
}

TEST_CASE("B11: waits grow to the cap and never beyond cap and jitter") {
  gate_bench b({600 * second, 2.0, day, 0.25});
  std::int64_t began = b.now, before = 0;
  while (b.now - began < 475'200 * second) {
    b.refused_connection();
    const auto gap = b.wait();
    CHECK(gap <= 108'000 * second);
    CHECK(static_cast<double>(gap) >= static_cast<double>(before) * 0.75 / 1.25);
    before = gap;
    b.to_next_attempt();
  }
  CHECK(b.now <= began + (475'200 + 108'000) * second);
  CHECK(b.push_ok().push_opened);
}

TEST_CASE("B13: inbound traffic brings the next probe forward to now") {
  gate_bench b({7'000 * second, 2.0, day, 0.0});
  b.refused_connection();
  b.now += 3'700 * second;
  CHECK(b.push() == pass::no);
  CHECK(b.g->heard(b.at()));
  CHECK(b.push() == pass::yes_as_probe);
  CHECK(b.push_ok().push_opened);
}

TEST_CASE("B13: a one-way peer gets one probe a minute at first, and the schedule never gets shorter") {
  gate_bench b({7'000 * second, 2.0, day, 0.5});
  b.refused_connection();
  b.now += 1'000 * second;
  const auto interval = b.g->view(b.at()).interval_ms;
  int probes = 0;
  for (int i = 0; i < 100; ++i, b.now += 600) {
    b.g->heard(b.at());
    if (b.push() != pass::no) {
      ++probes;
      b.refused_connection();
      CHECK(b.wait() >= interval);
    }
  }
  CHECK(probes == 1);
}

TEST_CASE("gate: evidence brings probes forward after 1, 2, 4 ... 60 minutes while they fail; a success resets that") {
  gate_bench b({10 * day, 2.0, 100 * day, 0.0});
  b.refused_connection();
  std::vector<std::int64_t> gaps;
  std::int64_t last = b.now;
  while (gaps.size() < 10) {
    b.now += second;
    if (b.g->heard(b.at())) {
      gaps.push_back((b.now - last) / second);
      last = b.now;
      b.refused_connection();
    }
  }
  CHECK(gaps == std::vector<std::int64_t>{1, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600});
  b.now += hour;
  REQUIRE(b.g->heard(b.at()));
  b.push_ok();
  CHECK_FALSE(b.g->heard(b.at())); // open: there is nothing to bring forward, and it counts for nothing
  b.refused_connection();
  CHECK(b.g->heard(b.at()));
}

TEST_CASE("gate: who speaks while a probe of ours hangs is tried again when that has failed") {
  gate_bench b({hour, 2.0, day, 0.0});
  b.refused_connection();
  b.to_next_attempt();
  const auto probe = b.g->began(lane::push, b.at());
  b.now += 30 * second;
  CHECK_FALSE(b.g->heard(b.at()));
  b.now += 30 * second;
  b.fail(probe, failure_class::unreachable);
  CHECK(b.push() == pass::yes_as_probe);
}

TEST_CASE("gate: evidence doesn't shorten a wait that a 429 asked for") {
  gate_bench b;
  b.fail_push(failure_class::rate_limited, failure_stage::answer, 10 * minute);
  CHECK_FALSE(b.g->heard(b.at()));
  CHECK(b.push() == pass::no);
  CHECK(b.pull() == pass::no);
  CHECK(b.wait() == 10 * minute);
}

TEST_CASE("B16: waits survive a restart with their remaining time") {
  gate_bench b({hour, 2.0, day, 0.5});
  b.refused_connection();
  b.to_next_attempt();
  b.refused_connection();
  const auto wait = b.wait();
  const auto before = b.g->view(b.at());
  b.restart(10 * minute);
  CHECK(b.wait() == wait - 10 * minute);
  CHECK(b.streak() == 2);
  const auto after = b.g->view(b.at());
  CHECK(after.failing_since_ms == before.failing_since_ms);
  CHECK(after.next_attempt_ms == before.next_attempt_ms);
  CHECK(after.last_error == before.last_error);
  CHECK(b.push() == pass::no);
  b.restart(2 * day); // its moment passed while we were down: due, but as one probe
  CHECK(b.wait() == 0);
  CHECK(b.push() == pass::yes_as_probe);
}

TEST_CASE("B16: a wall clock that jumped neither strands nor storms a server at start") {
  gate_bench b({hour, 2.0, day, 0.0});
  b.refused_connection();
  b.skew -= 400 * day; // the stored moment lies a year ahead now
  b.restart();
  CHECK(b.wait() == hour);
  CHECK(b.g->view(b.at()).next_attempt_ms == b.at().wall_ms + hour);
  b.skew += 800 * day;
  b.restart();
  CHECK(b.wait() == 0);
  CHECK(b.push() == pass::yes_as_probe);
}

TEST_CASE("gate: a wall clock that jumps while we run changes no wait") {
  gate_bench b({hour, 2.0, day, 0.0});
  b.refused_connection();
  b.skew += 800 * day;
  CHECK(b.push() == pass::no);
  CHECK(b.wait() == hour);
  CHECK(b.g->view(b.at()).next_attempt_ms == b.at().wall_ms + hour);
}

TEST_CASE("gate: after the wall clock was set back nothing fails since a moment to come") {
  gate_bench b({hour, 2.0, day, 0.0});
  b.refused_connection();
  const auto began = b.g->row().push.failing_since_ms;
  b.now += hour;
  b.refused_connection();
  CHECK(b.g->row().push.failing_since_ms == began);
  b.skew -= day;
  b.now += 2 * hour;
  b.refused_connection();
  CHECK(b.g->row().push.failing_since_ms == b.at().wall_ms - 3 * hour);
}

TEST_CASE("B17: the end of a wait is a moment that the gate tells") {
  gate_bench b({minute, 2.0, day, 0.0});
  std::vector<std::int64_t> attempts;
  const auto start = b.now;
  while (b.now - start < 120 * second) {
    attempts.push_back((b.now - start) / second);
    b.fail_push(failure_class::server_error);
    REQUIRE(b.g->next_due(true, false, b.at()).has_value());
    b.to_next_attempt();
  }
  attempts.push_back((b.now - start) / second);
  CHECK(attempts == std::vector<std::int64_t>{0, 60, 180});
  CHECK(b.push_ok().push_opened);
}

TEST_CASE("B19: 404 to everything is one step of the streak, and only a 200 to /send ends it") {
  gate_bench b;
  for (int i = 0; i < 4; ++i) {
    b.fail_push(failure_class::refused);
    b.to_next_attempt();
  }
  REQUIRE(b.streak() == 4);
  for (int i = 0; i < 2; ++i) { // a device query, a profile query
    REQUIRE(b.pull() == pass::yes_as_probe);
    CHECK_FALSE(b.g->proved_nothing(b.g->began(lane::pull, b.at()), b.at()).save);
    CHECK(b.streak() == 4);
    CHECK(b.state() == "probing");
  }
  b.fail_push(failure_class::refused);
  CHECK(b.streak() == 5);
  CHECK(b.wait() == 80 * second);
  b.to_next_attempt();
  b.push_ok();
  CHECK(b.streak() == 0);
}

TEST_CASE("B19: requests that fail together are one step") {
  gate_bench b;
  const auto push = b.g->began(lane::push, b.at());
  std::vector<ticket> pulls;
  for (int i = 0; i < 5; ++i)
    pulls.push_back(b.g->began(lane::pull, b.at()));
  CHECK(b.fail(pulls[0], failure_class::unreachable, failure_stage::connect).push_closed);
  for (int i = 1; i < 5; ++i)
    CHECK_FALSE(b.fail(pulls[static_cast<std::size_t>(i)], failure_class::unreachable, failure_stage::connect).save);
  CHECK_FALSE(b.fail(push, failure_class::unreachable, failure_stage::connect).save);
  CHECK(b.streak() == 1);
  CHECK(b.wait() == 5 * second);
}

TEST_CASE("B19: an old request that fails after the gate opened again says nothing") {
  gate_bench b;
  const auto hanging = b.g->began(lane::pull, b.at());
  b.refused_connection();
  b.to_next_attempt();
  b.push_ok();
  b.now += minute;
  CHECK_FALSE(b.fail(hanging, failure_class::unreachable).save);
  CHECK(b.g->open(lane::pull));
}

TEST_CASE("B20: every failure of /send leads to waiting, with one line for each change of state") {
  struct row {
    int status;
    failure_stage stage;
  };
  std::vector<row> rows{{0, failure_stage::tls}, {0, failure_stage::connect}, {0, failure_stage::answer},
                        {0, failure_stage::resolve}};
  for (const int status : {301, 302, 400, 401, 403, 404, 405, 410, 500, 502, 503, 504, 520, 200})
    rows.push_back({status, failure_stage::answer});
  for (const auto& r : rows) {
    CAPTURE(r.status);
    CAPTURE(std::string(to_string(r.stage)));
    gate_bench b({minute, 2.0, day, 0.25});
    int attempts = 0, lines = 0;
    for (int second_of = 0; second_of < 600; second_of += 10, b.now += 10 * second) {
      if (b.push() == pass::no)
        continue;
      ++attempts;
      http_answer answer;
      answer.status = r.status;
      answer.stage = r.stage;
      answer.content_type = "text/html";
      const auto why = classify_push(answer, {"PUT /send", minute, b.at().wall_ms, day});
      REQUIRE(why.has_value());
      const auto change = b.g->failed(b.g->began(lane::push, b.at()), *why, b.at(), r.stage == failure_stage::resolve);
      lines += change.push_closed || change.push_opened ? 1 : 0;
      CHECK(change.save);
    }
    CHECK(attempts <= 6);
    CHECK(lines == 1);
    if (r.status == 410) {
      CHECK(attempts == 1);
      CHECK(b.wait() >= day * 3 / 4 - 10 * minute);
      CHECK(b.g->heard(b.at())); // unless it speaks
    }
  }
}

TEST_CASE("B89: a 429 is waited for as told, and grows no streak") {
  gate_bench b;
  const auto start = b.now;
  for (int i = 0; i < 3; ++i) {
    b.fail_push(failure_class::rate_limited, failure_stage::answer, 5 * second);
    CHECK(b.streak() == 0);
    CHECK(b.state() == "closed");
    CHECK(b.wait() == 5 * second);
    b.to_next_attempt();
  }
  CHECK(b.now - start <= 20 * second);
  CHECK(b.push_ok().push_opened);
  CHECK(b.streak() == 0);
}

TEST_CASE("B89: without a usable word the wait lies between a second and the cap, and stays within the cap") {
  gate_bench b({100, 2.0, day, 0.5});
  b.fail_push(failure_class::rate_limited);
  CHECK(b.wait() == second);
  b.to_next_attempt();
  b.fail_push(failure_class::rate_limited, failure_stage::answer, 40 * day);
  CHECK(b.wait() == day);
}

TEST_CASE("B89: a 429 in a failing streak keeps the streak where it was") {
  gate_bench b;
  for (int i = 0; i < 3; ++i) {
    b.fail_push(failure_class::server_error);
    b.to_next_attempt();
  }
  b.fail_push(failure_class::rate_limited, failure_stage::answer, 2 * second);
  CHECK(b.streak() == 3);
  b.to_next_attempt();
  b.fail_push(failure_class::server_error);
  CHECK(b.streak() == 4);
  CHECK(b.wait() == 40 * second);
}

TEST_CASE("gate: a name that hasn't existed for three days is gone, an odd NXDOMAIN isn't") {
  gate_bench b;
  const auto nxdomain = [&] {
    b.fail(b.g->began(lane::push, b.at()), failure_class::unreachable, failure_stage::resolve, -1, true);
    return std::string(to_string(b.g->view(b.at()).last_error->cls));
  };
  const auto start = b.now;
  while (b.now - start < 3 * day) {
    CHECK(nxdomain() == "unreachable");
    b.to_next_attempt();
  }
  CHECK(nxdomain() == "gone");
  CHECK(b.wait() == day);

  gate_bench other;
  while (other.now - start < 4 * day) {
    other.fail_push(failure_class::server_error);
    other.to_next_attempt();
  }
  other.fail(other.g->began(lane::push, other.at()), failure_class::unreachable, failure_stage::resolve, -1, true);
  CHECK(std::string(to_string(other.g->view(other.at()).last_error->cls)) == "unreachable");
}

TEST_CASE("gate: a wall clock that jumps makes no name gone and keeps none from it") {
  for (const auto jump : {30 * day, -30 * day})
    for (const bool while_away : {false, true}) {
      CAPTURE(jump);
      CAPTURE(while_away);
      gate_bench b;
      const auto start = b.now;
      const auto gone = [&] {
        b.fail(b.g->began(lane::push, b.at()), failure_class::unreachable, failure_stage::resolve, -1, true);
        return b.g->view(b.at()).last_error->cls == failure_class::gone;
      };
      while (b.now - start < 6 * hour) {
        CHECK_FALSE(gone());
        b.to_next_attempt();
      }
      b.skew += jump;
      if (while_away) b.restart();
      b.to_next_attempt();
      // What is counted of a time that we didn't live through is at most a wait, which has been of half a day.
      while (b.now - start < (while_away ? 2 * day : 3 * day)) {
        CHECK_FALSE(gone());
        CHECK(b.g->row().push.failing_since_ms <= b.at().wall_ms);
        if (!while_away) CHECK(b.g->row().push.failing_since_ms == start + b.skew);
        b.to_next_attempt();
      }
      bool at_last = false;
      while (!at_last && b.now - start < 5 * day) {
        at_last = gone();
        b.to_next_attempt();
      }
      CHECK(at_last);
    }
}

TEST_CASE("gate: a name that was gone for three days is so over a restart too") {
  gate_bench b;
  const auto start = b.now;
  const auto gone = [&] {
    b.fail(b.g->began(lane::push, b.at()), failure_class::unreachable, failure_stage::resolve, -1, true);
    return b.g->view(b.at()).last_error->cls == failure_class::gone;
  };
  while (b.now - start < 3 * day) {
    CHECK_FALSE(gone());
    b.restart(minute);
    b.to_next_attempt();
  }
  CHECK(gone());
}

TEST_CASE("gate: a cut probe keeps its turn") {
  gate_bench b;
  b.refused_connection();
  b.to_next_attempt();
  const auto cut = b.g->began(lane::push, b.at());
  b.now += second;
  CHECK_FALSE(b.g->cancelled(cut, b.at()).save);
  CHECK(b.streak() == 1);
  CHECK(b.push() == pass::yes_as_probe);
}

TEST_CASE("gate: a hold stops everything, outlives a restart and ends by itself") {
  gate_bench b;
  b.g->hold({true, "maintenance", b.at().wall_ms + hour}, b.at());
  CHECK(b.state() == "held");
  CHECK(b.push() == pass::no);
  CHECK(b.pull() == pass::no);
  CHECK(b.pull(urgency::key_fetch) == pass::no);
  CHECK_FALSE(b.g->wake(b.at()));
  CHECK(b.g->next_due(true, false, b.at()) == b.now + hour);
  CHECK(b.g->view(b.at()).next_attempt_ms == b.at().wall_ms + hour);
  b.restart(30 * minute);
  CHECK(b.state() == "held");
  CHECK(b.g->hold().reason == "maintenance");
  b.now += 30 * minute;
  CHECK(b.state() == "open");
  CHECK(b.push() == pass::yes);
  b.g->hold({true, "for good", 0}, b.at());
  CHECK_FALSE(b.g->next_due(true, true, b.at()).has_value());
  b.g->release(b.at());
  CHECK(b.push() == pass::yes);
}

TEST_CASE("gate: a hold over a closed gate doesn't open it when it ends") {
  gate_bench b({2 * hour, 2.0, day, 0.0});
  b.refused_connection();
  b.g->hold({true, "x", b.at().wall_ms + hour}, b.at());
  CHECK(b.g->view(b.at()).next_attempt_ms == b.at().wall_ms + 2 * hour);
  b.now += hour;
  CHECK(b.state() == "closed");
  CHECK(b.push() == pass::no);
  CHECK(b.wait() == hour);
}

TEST_CASE("gate: denied is never contacted") {
  gate_bench b;
  b.start({}, {}, true);
  CHECK(b.state() == "denied");
  CHECK(b.push() == pass::no);
  CHECK(b.pull(urgency::key_fetch) == pass::no);
  CHECK_FALSE(b.g->heard(b.at()));
  CHECK_FALSE(b.g->wake(b.at()));
  CHECK_FALSE(b.g->next_due(true, true, b.at()).has_value());
}

TEST_CASE("B118: wake probes now, keeps the streak, and overrides even a told wait") {
  gate_bench b({6 * day, 2.0, 6 * day, 0.0});
  b.refused_connection();
  CHECK(b.g->wake(b.at()));
  CHECK(b.push() == pass::yes_as_probe);
  b.refused_connection();
  CHECK(b.streak() == 2);
  b.g->wake(b.at());
  b.fail_push(failure_class::rate_limited, failure_stage::answer, hour);
  CHECK(b.g->wake(b.at()));
  CHECK(b.push() == pass::yes_as_probe);
}

TEST_CASE("gate: a word to try now that comes while a probe is under way brings another, if that fails") {
  gate_bench b; // our uplink came back after the probe had begun
  b.refused_connection();
  b.to_next_attempt();
  const auto probe = b.g->began(lane::push, b.at());
  CHECK(b.g->wake(b.at()));
  CHECK(b.push() == pass::no);
  b.fail(probe, failure_class::unreachable, failure_stage::connect);
  CHECK(b.push() == pass::yes_as_probe);
  b.refused_connection();
  CHECK(b.push() == pass::no); // one, not more
}

TEST_CASE("gate: reset forgets the history") {
  gate_bench b;
  for (int i = 0; i < 5; ++i) {
    b.refused_connection();
    b.to_next_attempt();
  }
  const auto change = b.g->reset(b.at());
  CHECK(change.push_opened);
  CHECK(change.save);
  CHECK(b.push() == pass::yes);
  b.refused_connection();
  CHECK(b.wait() == 5 * second);
}

TEST_CASE("gate: what a probe has to tell that began before a reset is old") {
  gate_bench b;
  b.refused_connection();
  b.to_next_attempt();
  const auto probe = b.g->began(lane::push, b.at());
  b.g->reset(b.at());
  CHECK_FALSE(b.fail(probe, failure_class::unreachable, failure_stage::connect).save);
  CHECK(b.push() == pass::yes);
  CHECK_FALSE(b.g->probing());
}
