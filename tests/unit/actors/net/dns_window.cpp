#include "actors/net/dns_window.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

TEST_CASE("dns_window: so many questions at a time, answered ones and old ones aside") {
  dns_window w;
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < dns_window::most; ++i) {
    REQUIRE(w.room(1'000));
    auto number = w.asked(1'000);
    if (i == 0) first = number;
  }
  CHECK_FALSE(w.room(1'000));
  CHECK(w.room_at(1'000) == 1'000 + dns_window::young_ms);
  w.answered(first);
  CHECK(w.room_at(1'001) == 1'001);
  CHECK(w.room(1'001));
  w.asked(1'050);
  CHECK_FALSE(w.room(1'099));
  CHECK(w.room(1'100));  // those of 1,000
  w.answered(first + 1); // late; it doesn't count twice
  for (std::size_t i = 1; i < dns_window::most; ++i) {
    REQUIRE(w.room(1'100));
    w.asked(1'100);
  }
  CHECK_FALSE(w.room(1'149));
  CHECK(w.room(1'150));
}
