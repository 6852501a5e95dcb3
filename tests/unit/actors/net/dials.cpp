#include "actors/net/dials.hpp"

#include <doctest/doctest.h>

using namespace ranvier;
using tickets = std::vector<dials::ticket>;

TEST_CASE("dials: the first one dials, others go when it is connected") {
  dials d;
  CHECK_FALSE(d.dialling("r"));
  CHECK(d.enter("r", 1));
  CHECK(d.dialling("r"));
  CHECK_FALSE(d.enter("r", 2));
  CHECK_FALSE(d.enter("r", 3));
  CHECK(d.enter("other", 4));
  CHECK(d.released().empty());
  CHECK(d.waiting_for("r", 1) == tickets{2, 3});
  CHECK(d.waiting_for("r", 2).empty());
  CHECK(d.waiting() == 2);
  d.connected("r", 3); // not the one that dials
  CHECK(d.released().empty());
  d.connected("r", 1);
  CHECK(d.waiting_for("r", 1).empty()); // nothing is waited for any more
  CHECK(d.released() == tickets{2, 3});
  CHECK(d.released().empty());
  CHECK_FALSE(d.dialling("r"));
  CHECK(d.waiting() == 0);
  d.leave("r", 1);
  CHECK(d.enter("r", 5));
}

TEST_CASE("dials: if the one that dials leaves, the next one dials") {
  dials d;
  d.enter("r", 1);
  d.enter("r", 2);
  d.enter("r", 3);
  d.leave("r", 1);
  CHECK(d.dialling("r")); // whoever comes now waits too
  CHECK_FALSE(d.enter("r", 4));
  CHECK(d.released() == tickets{2});
  CHECK(d.waiting_for("r", 2) == tickets{3, 4});
  d.leave("r", 3);
  CHECK(d.all_waiting() == tickets{4});
  d.leave("r", 2);
  CHECK(d.released() == tickets{4});
  d.leave("r", 4);
  CHECK(d.released().empty());
  CHECK_FALSE(d.dialling("r"));
  CHECK(d.waiting() == 0);
}

TEST_CASE("dials: one that is connected and over before anybody looked releases all") {
  dials d;
  d.enter("r", 1);
  d.enter("r", 2);
  d.enter("r", 3);
  d.connected("r", 1);
  d.leave("r", 1);
  d.leave("r", 2);
  CHECK(d.released() == tickets{3});
  CHECK_FALSE(d.dialling("r"));
}
