#include "tests/unit/actors/gate_bench.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

TEST_CASE("gate lanes: what each failure closes") {
  struct row {
    lane via;
    failure_class cls;
    failure_stage stage;
    bool push_closed, pull_closed;
  };
  using enum failure_class;
  using enum failure_stage;
  const std::vector<row> table{
    {lane::push, unreachable, resolve, true, true},   {lane::push, unreachable, connect, true, true},
    {lane::push, unreachable, tls, true, true},       {lane::push, unreachable, answer, true, true},
    {lane::push, server_error, answer, true, true},   {lane::push, rate_limited, answer, true, true},
    {lane::push, refused, answer, true, true},        {lane::push, gone, answer, true, true},
    {lane::push, content_refused, answer, true, false},
    {lane::pull, unreachable, resolve, true, true},   {lane::pull, unreachable, connect, true, true},
    {lane::pull, unreachable, tls, true, true},       {lane::pull, unreachable, answer, false, true},
    {lane::pull, server_error, answer, false, true},  {lane::pull, rate_limited, answer, false, true},
  };
  for (const auto& r : table) {
    CAPTURE(r.via == lane::push);
    CAPTURE(std::string(to_string(r.cls)));
    CAPTURE(std::string(to_string(r.stage)));
    gate_bench b;
    const auto change = b.fail(b.g->began(r.via, b.at()), r.cls, r.stage);
    CHECK(change.save);
    CHECK(change.push_closed == r.push_closed);
    CHECK(change.pull_closed == r.pull_closed);
    CHECK(b.g->open(lane::push) != r.push_closed);
    CHECK(b.g->open(lane::pull) != r.pull_closed);
    CHECK(b.state() == (r.push_closed ? "closed" : "open"));
    const auto view = b.g->view(b.at());
    CHECK(view.push == (r.push_closed ? "closed" : "open"));
    CHECK(view.pull == (r.pull_closed ? "closed" : "open"));
    CHECK(view.last_error.has_value() == r.push_closed);
  }
}

TEST_CASE("gate lanes: both closed on connect, a 200 to a pull opens pull and makes push due now") {
  gate_bench b({hour, 2.0, day, 0.0});
  b.refused_connection();
  b.now += minute;
  REQUIRE(b.pull(urgency::user) == pass::yes_as_probe);
  const auto change = b.pull_ok(urgency::user);
  CHECK(change.pull_opened);
  CHECK_FALSE(change.push_opened);
  CHECK(change.save);
  CHECK(b.g->open(lane::pull));
  CHECK_FALSE(b.g->open(lane::push));
  CHECK(b.push() == pass::yes_as_probe);
  CHECK(b.push_ok().push_opened);
}

TEST_CASE("gate lanes: a push lane closed by an answer opens only by a push") {
  gate_bench b({hour, 2.0, day, 0.0});
  b.fail_push(failure_class::server_error);
  b.now += minute;
  CHECK(b.pull_ok(urgency::user).pull_opened);
  CHECK(b.push() == pass::no);
  CHECK(b.wait() == 59 * minute);
}

TEST_CASE("gate lanes: a dead server gets one probe an interval over both lanes") {
  gate_bench b({minute, 2.0, day, 0.0});
  b.refused_connection();
  int probes = 0;
  const auto end = b.now + 16 * minute;
  for (; b.now < end; b.now += second) {
    if (b.pull() != pass::no) { // pulls are asked first and always want to
      ++probes;
      b.fail_pull(failure_class::unreachable, failure_stage::connect);
    }
    if (b.push() != pass::no) {
      ++probes;
      b.refused_connection();
    }
  }
  CHECK(probes == 4); // after 1, 3, 7 and 15 minutes
  CHECK(b.streak() == 5);
}

TEST_CASE("gate lanes: a successful push leaves a pull lane that failed by itself closed") {
  gate_bench b({hour, 2.0, day, 0.0});
  b.fail_pull(failure_class::unreachable); // device fetches hang
  CHECK(b.push() == pass::yes);
  CHECK_FALSE(b.push_ok().opened());
  CHECK(b.pull() == pass::no);
  b.refused_connection(); // and then it was away for a while
  b.to_next_attempt();
  const auto change = b.push_ok();
  CHECK(change.push_opened);
  CHECK_FALSE(change.pull_opened);
  CHECK(b.pull() == pass::yes_as_probe); // its own hour is over
  CHECK(b.pull_ok().pull_opened);
}

TEST_CASE("gate lanes: a pull lane with a wait of its own doesn't probe a dead server before that is due") {
  gate_bench b({minute, 60.0, day, 0.0});
  b.fail_pull(failure_class::server_error);
  b.refused_connection();
  b.to_next_attempt();
  b.refused_connection(); // the push lane waits an hour now, the pull lane's minute is over
  CHECK(b.pull() == pass::no);
  CHECK(b.g->next_due(lane::pull, b.at()) == b.now + hour);
}

TEST_CASE("gate lanes: a push lane that fails on and on by answers doesn't starve pulls") {
  gate_bench b({minute, 2.0, day, 0.0});
  b.fail_push(failure_class::server_error);
  b.to_next_attempt();
  b.fail_push(failure_class::server_error); // the push lane takes the first turn each time
  CHECK(b.push() == pass::no);
  REQUIRE(b.pull() == pass::yes_as_probe);
  CHECK(b.pull_ok().pull_opened);
  b.to_next_attempt();
  const auto change = b.fail_push(failure_class::server_error);
  CHECK_FALSE(change.pull_closed);
  CHECK(b.pull() == pass::yes);
  CHECK(b.streak() == 3);
}

TEST_CASE("gate lanes: a 429 to a push is kept by the pull lane too") {
  gate_bench b;
  b.fail_push(failure_class::server_error);
  b.to_next_attempt();
  b.fail_push(failure_class::rate_limited, failure_stage::answer, hour);
  CHECK(b.pull() == pass::no);
  CHECK(b.g->next_due(lane::pull, b.at()) == b.now + hour);
}

TEST_CASE("gate lanes: hurried pulls may probe ahead of time, one in 30 s, a key fetch one in 60 s") {
  gate_bench b({day, 2.0, day, 0.0});
  b.refused_connection();
  const auto due = b.wait();
  CHECK(b.pull(urgency::none) == pass::no);
  REQUIRE(b.pull(urgency::key_fetch) == pass::yes_as_probe);
  const auto key = b.g->began(lane::pull, b.at(), urgency::key_fetch);
  CHECK(key.early);
  CHECK(b.pull(urgency::user) == pass::no); // one at a time
  CHECK_FALSE(b.fail(key, failure_class::unreachable, failure_stage::connect).save);
  CHECK(b.streak() == 1); // it found what was known
  CHECK(b.wait() == due);
  b.now += 29 * second;
  CHECK(b.pull(urgency::user) == pass::no);
  b.now += second;
  CHECK(b.pull(urgency::key_fetch) == pass::no);
  CHECK(b.pull(urgency::user) == pass::yes_as_probe);
  b.now += 30 * second;
  CHECK(b.pull(urgency::key_fetch) == pass::yes_as_probe);
}

TEST_CASE("gate lanes: a hurried pull that is cut keeps its turn, and one at its time counts for no limit") {
  gate_bench b({hour, 2.0, day, 0.0});
  b.refused_connection();
  b.g->cancelled(b.g->began(lane::pull, b.at(), urgency::key_fetch), b.at());
  CHECK(b.pull(urgency::key_fetch) == pass::yes_as_probe);
  b.to_next_attempt();
  const auto due = b.g->began(lane::pull, b.at(), urgency::user);
  CHECK_FALSE(due.early);
  CHECK(b.fail(due, failure_class::unreachable, failure_stage::connect).save);
  CHECK(b.streak() == 2);
  CHECK(b.pull(urgency::user) == pass::yes_as_probe);
}

TEST_CASE("gate lanes: nobody hurries past a 429 to a pull") {
  gate_bench b;
  b.fail_pull(failure_class::rate_limited);
  CHECK(b.pull(urgency::user) == pass::no);
}

TEST_CASE("gate lanes: evidence brings a closed pull lane forward while the push lane is open") {
  gate_bench b({day, 2.0, day, 0.0});
  b.fail_pull(failure_class::server_error);
  CHECK(b.g->heard(b.at()));
  CHECK(b.pull() == pass::yes_as_probe);
  b.fail_pull(failure_class::server_error);
  CHECK_FALSE(b.g->heard(b.at()));
  b.now += minute;
  CHECK(b.g->heard(b.at()));
}

TEST_CASE("gate lanes: old news of a pull opens nothing, but for a lane that merely closed along") {
  gate_bench b;
  const auto old_pull = b.g->began(lane::pull, b.at());
  const auto other = b.g->began(lane::pull, b.at());
  b.fail(b.g->began(lane::pull, b.at()), failure_class::rate_limited, failure_stage::answer, hour);
  CHECK_FALSE(b.g->succeeded(old_pull, b.at()).opened());
  CHECK(b.pull() == pass::no);

  gate_bench along;
  const auto under_way = along.g->began(lane::pull, along.at());
  along.fail_push(failure_class::server_error);
  CHECK(along.g->succeeded(under_way, along.at()).pull_opened);
  CHECK_FALSE(b.g->succeeded(other, b.at()).opened());
}

TEST_CASE("gate lanes: both lanes survive a restart") {
  gate_bench b({hour, 2.0, day, 0.0});
  b.fail_pull(failure_class::server_error);
  b.now += 10 * minute;
  b.fail_push(failure_class::server_error);
  b.restart(20 * minute);
  CHECK(b.g->next_due(lane::pull, b.at()) == b.now + 30 * minute);
  CHECK(b.g->next_due(lane::push, b.at()) == b.now + 40 * minute);
  CHECK(b.g->next_due(true, true, b.at()) == b.now + 30 * minute);
  b.now += 40 * minute;
  const auto change = b.push_ok();
  CHECK(change.push_opened);
  CHECK_FALSE(change.pull_opened); // still by its own failure
}
