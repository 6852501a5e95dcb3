#include "actors/uplink_watch.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ranvier;

namespace {
constexpr std::int64_t minute = 60'000, wall = 1'700'000'000'000;

void fail(uplink_watch& watch, int count, std::int64_t at_ms, const std::string& prefix = "s") {
  for (int i = 0; i < count; ++i) watch.failed(prefix + std::to_string(i), at_ms, wall + at_ms);
}
} // namespace

TEST_CASE("uplink: an outage is more than 10 servers and 10 minutes without any answer") {
  struct row {
    int servers;
    std::int64_t lasts_ms;
    bool outage;
  };
  for (const auto& [servers, lasts, outage] : {row{11, 10 * minute, true}, row{10, 10 * minute, false},
                                               row{11, 10 * minute - 1, false}, row{5'000, 3 * 24 * 60 * minute, true},
                                               row{0, 60 * minute, false}, row{1, 60 * minute, false}}) {
    CAPTURE(servers);
    CAPTURE(lasts);
    uplink_watch watch;
    fail(watch, servers, 1'000);
    CHECK(watch.reached(1'000 + lasts, wall + 1'000 + lasts).has_value() == outage);
  }
}

TEST_CASE("uplink: an answer in between starts it anew, and it is told once") {
  uplink_watch watch;
  fail(watch, 20, 0);
  CHECK_FALSE(watch.reached(5 * minute, wall + 5 * minute));
  CHECK_FALSE(watch.reached(15 * minute, wall + 15 * minute)); // nobody failed since
  fail(watch, 20, 20 * minute);
  CHECK(watch.reached(31 * minute, wall + 31 * minute) == wall + 20 * minute);
  CHECK_FALSE(watch.reached(50 * minute, wall + 50 * minute));
}

TEST_CASE("uplink: silence alone is no outage; it counts from the first failure") {
  uplink_watch watch;
  CHECK_FALSE(watch.reached(0, wall));
  fail(watch, 20, 300 * minute); // after five idle hours a message goes to 20 dead servers
  CHECK_FALSE(watch.reached(300 * minute + 50, wall + 300 * minute + 50)); // and to one that lives
}

TEST_CASE("uplink: a server that fails again is one server") {
  uplink_watch watch;
  for (int i = 0; i < 100; ++i) watch.failed("same.test", i * minute, wall);
  CHECK(watch.failing() == 1);
  CHECK_FALSE(watch.reached(100 * minute, wall));
}

TEST_CASE("uplink: a wall clock that was set back meanwhile hides no gate") {
  uplink_watch watch;
  fail(watch, 11, 0);
  const auto back = 60 * minute;
  CHECK(watch.reached(20 * minute, wall + 20 * minute - back) == wall - back);
  fail(watch, 11, 30 * minute);
  CHECK(watch.reached(50 * minute, wall + 50 * minute + back) == wall + 30 * minute); // forward: as it was
}
