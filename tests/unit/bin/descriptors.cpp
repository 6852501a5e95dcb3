#include "bin/descriptors.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

TEST_CASE("descriptors: what fits stays, what doesn't is lowered, too few are refused") {
  struct row {
    std::int64_t have, in, out;
    std::int64_t fits_in, fits_out;
    bool lowered;
  };
  for (const auto& r : {row{10'000, 2'000, 512, 2'000, 512, false}, row{3'280, 2'000, 512, 2'000, 512, false},
                        row{3'279, 2'000, 512, 1'999, 512, true}, row{1'024, 2'000, 512, 384, 192, true},
                        row{1'024, 50, 512, 50, 359, true}, row{256, 2'000, 512, 80, 40, true},
                        row{128, 2'000, 512, 16, 8, true}, row{300, 10, 4, 10, 4, false}}) {
    CAPTURE(r.have);
    CAPTURE(r.in);
    const auto plan = fit_descriptors(r.have, {r.in, r.out});
    CHECK(plan.problem.empty());
    CHECK(plan.caps.federation_connections == r.fits_in);
    CHECK(plan.caps.max_in_flight == r.fits_out);
    CHECK(plan.lowered == r.lowered);
  }
}

TEST_CASE("descriptors: the lowered caps and the reserve never exceed what there is") {
  for (std::int64_t have = 128; have < 5'000; have += 7)
    for (const std::int64_t in : {1, 16, 100, 2'000})
      for (const std::int64_t out : {1, 8, 64, 512}) {
        const auto plan = fit_descriptors(have, {in, out});
        REQUIRE(plan.problem.empty());
        REQUIRE(plan.caps.federation_connections <= in);
        REQUIRE(plan.caps.max_in_flight <= out);
        REQUIRE(plan.caps.max_in_flight >= 1);
        REQUIRE(plan.caps.federation_connections + plan.outgoing_connections + 96 <= have);
        REQUIRE(plan.outgoing_connections >= 2 * plan.caps.max_in_flight);
      }
}

TEST_CASE("descriptors: a sentence says what is needed") {
  const auto plan = fit_descriptors(64, {2'000, 512});
  CHECK(plan.problem == "only 64 files may be open at a time (ulimit -n, LimitNOFILE); at least 128 are needed");
}
