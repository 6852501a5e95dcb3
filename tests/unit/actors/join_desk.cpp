#include "actors/join_desk.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ranvier;

namespace {

join_request read(const std::string& body, const std::string& room = "!r:there") {
  const json_document document(body);
  return read_join_request(document.root(), room, "us");
}

} // namespace

TEST_CASE("a join request as it should be") {
  const auto one = read(R"({"user_id":"@a:us","via":["x","us","y","x"],"content":{"b":1,"a":2},"partial":false})");
  CHECK(one.problem == "");
  CHECK(one.wish.room_id == "!r:there");
  CHECK(one.wish.user_id == "@a:us");
  CHECK(one.wish.server_name == "us");
  CHECK(one.wish.content == R"({"a":2,"b":1})");
  CHECK(one.via == std::vector<std::string>{"x", "y"});
  CHECK_FALSE(one.partial);
  const auto plain = read(R"({"user_id":"@a:us"})");
  CHECK(plain.problem == "");
  CHECK(plain.partial);
  CHECK(plain.via == std::vector<std::string>{"there"});
}

TEST_CASE("a join request that is refused, in a sentence") {
  struct {
    std::string body, room, errcode;
  } table[] = {
      {"[]", "!r:there", "M_BAD_JSON"},
      {R"({"user_id":"@a:us"})", "r", "M_INVALID_PARAM"},
      {R"({"user_id":"@a:there"})", "!r:there", "M_INVALID_PARAM"},
      {R"({"user_id":7})", "!r:there", "M_INVALID_PARAM"},
      {"{}", "!r:there", "M_INVALID_PARAM"},
      {R"({"user_id":"@a:us","via":"x"})", "!r:there", "M_BAD_JSON"},
      {R"({"user_id":"@a:us","via":["a b"]})", "!r:there", "M_BAD_JSON"},
      {R"({"user_id":"@a:us","content":[]})", "!r:there", "M_BAD_JSON"},
      {R"({"user_id":"@a:us","partial":1})", "!r:there", "M_BAD_JSON"},
      {R"({"user_id":"@a:us","via":["us"]})", "!r:us", "M_MISSING_PARAM"},
      {R"({"user_id":"@a:us"})", "!hash", "M_MISSING_PARAM"},
  };
  for (const auto& [body, room, errcode] : table) {
    CAPTURE(body);
    const auto one = read(body, room);
    CHECK(one.problem != "");
    CHECK(one.errcode == errcode);
  }
}
