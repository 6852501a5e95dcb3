#include "actors/recent_rates.hpp"

#include <doctest/doctest.h>

using ranvier::recent_rates;

TEST_CASE("recent rates: the last minute counts, older ones don't") {
  recent_rates rates;
  rates.add(1'000, true, 5);
  for (int i = 1; i <= 100; ++i) rates.add(100'000, true, i);
  rates.add(100'000, false, 60'000);
  const auto view = rates.view(100'001);
  CHECK(view["transactions_ok"] == 100);
  CHECK(view["transactions_failed"] == 1);
  CHECK(view["half_ms"] == 50);
  CHECK(view["p99_ms"] == 99);
  const auto later = rates.view(200'000);
  CHECK(later["transactions_ok"] == 0);
  CHECK(later["half_ms"].is_null());
}
