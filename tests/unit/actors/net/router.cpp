#include "actors/net/router.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

namespace {

router sample() {
  router out;
  out.add("PUT", "/send/{txnId}", "send");
  out.add("GET", "/rooms/{room_id}", "room");
  out.add("GET", "/rooms/{room_id}/state", "state");
  out.add("POST", "/rooms/{room_id}/state", "set_state");
  out.add("GET", "/", "root");
  return out;
}

} // namespace

TEST_CASE("a route is found by method and path, and its segments are decoded after splitting") {
  const auto routes = sample();
  struct row {
    std::string method, target;
    int status;
    std::string name, segment, value;
  };
  const row rows[] = {
      {"PUT", "/send/abc", 200, "send", "txnId", "abc"},
      {"PUT", "/send/a%2Fb", 200, "send", "txnId", "a/b"},
      {"PUT", "/send/a/b", 404, "", "", ""},
      {"PUT", "/send/", 404, "", "", ""},
      {"PUT", "/send", 404, "", "", ""},
      {"GET", "/send/abc", 405, "", "", ""},
      {"GET", "/rooms/%21r%3Aa.b?x=1", 200, "room", "room_id", "!r:a.b"},
      {"GET", "/rooms/!r:a.b/state", 200, "state", "room_id", "!r:a.b"},
      {"GET", "/rooms/%zz", 400, "room", "room_id", ""},
      {"GET", "/", 200, "root", "", ""},
      {"GET", "/nothing", 404, "", "", ""},
      {"GET", "", 404, "", "", ""},
  };
  for (const auto& one : rows) {
    CAPTURE(one.method);
    CAPTURE(one.target);
    const auto found = routes.match(one.method, one.target);
    CHECK(found.status == one.status);
    CHECK(found.name == one.name);
    if (!one.segment.empty()) CHECK(found.segments.at(one.segment) == one.value);
  }
}

TEST_CASE("a known path with another method names the methods that it takes") {
  CHECK(sample().match("DELETE", "/rooms/x/state").allowed == "GET, POST");
  CHECK(sample().match("DELETE", "/rooms/x").allowed == "GET");
}

TEST_CASE("a query is decoded, the first of each name counts, and a broken escape is told") {
  const auto found = sample().match("GET", "/?a=1&b=x%26y+z&a=2&c&=&d=");
  CHECK(found.status == 200);
  CHECK(found.query.at("a") == "1");
  CHECK(found.query.at("b") == "x&y z");
  CHECK(found.query.at("c").empty());
  CHECK(found.query.at("d").empty());
  CHECK(sample().match("GET", "/?a=%2").status == 400);
}

TEST_CASE("integers are read whole or not at all") {
  CHECK(parse_integer("42") == 42);
  CHECK(parse_integer("-1") == -1);
  for (const auto* text : {"", "4x", " 4", "4.0", "99999999999999999999"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(parse_integer(text).has_value());
  }
}
