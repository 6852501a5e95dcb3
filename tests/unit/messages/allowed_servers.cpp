#include "messages/allowed_servers.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

TEST_CASE("allowed servers: allow and deny lists") {
  allowed_servers lists;
  CHECK_FALSE(lists.any());
  CHECK_FALSE(lists.denied("a.test"));
  lists.deny = {"*.bad.test", "evil"};
  CHECK(lists.any());
  CHECK(lists.denied("x.bad.test"));
  CHECK(lists.denied("evil"));
  CHECK_FALSE(lists.denied("a.test"));
  lists.allow = {"*.good.test", "evil"};
  CHECK_FALSE(lists.denied("a.good.test"));
  CHECK(lists.denied("a.test"));
  CHECK(lists.denied("evil"));
}
