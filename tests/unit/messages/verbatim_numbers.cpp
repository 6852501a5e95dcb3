#include "messages/verbatim_numbers.hpp"

#include "messages/canonical_json.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ranvier;

TEST_CASE("verbatim_numbers: odd is what two libraries may spell differently") {
  for (const auto* text : {"1.0", "-0", "-0.0", "1e3", "1E+3", "1e400", "9007199254740992", "18446744073709551616",
                           R"({"a":[1,{"b":1.5}]})", R"(["\\",1.0])"})
    CHECK_MESSAGE(has_odd_numbers(text), text);
  for (const auto* text : {"0", "-1", "999999999999999", R"({"a":"1.0","b":"\"1e3","1.0":2})", R"(["\"",-15,true])", "",
                           R"("unfinished 1.0\)"})
    CHECK_MESSAGE(!has_odd_numbers(text), text);
}

TEST_CASE("B103: canonical but for the numbers, which stay as they were written") {
  struct row {
    std::string text, wanted;
  };
  const row table[] = {
      {R"({ "b" : 1.0, "a":[1e3 , -0.0,-0],"c":{"z":1e400,"y":18446744073709551616} })",
       R"({"a":[1e3,-0.0,-0],"b":1.0,"c":{"y":18446744073709551616,"z":1e400}})"},
      {R"({"b":"\u00e4 1.0","a":1.50,"1e3":7})", R"({"1e3":7,"a":1.50,"b":")"
                                                 "\u00e4"
                                                 R"( 1.0"})"},
      {R"({"s":"\"1.0\"","n":2})", R"({"n":2,"s":"\"1.0\""})"},
      {"{}", "{}"},
  };
  for (const auto& [text, wanted] : table)
    CHECK(canonical_body_verbatim(text) == wanted);
}

TEST_CASE("verbatim_numbers: what our spelling agrees with is the canonical form itself") {
  const std::string text = R"({"b":[3,2,{"y":-7,"x":"é\n"}],"a":null})";
  CHECK(canonical_body_verbatim(text) == canonical_body(json_document(text).root()));
}

TEST_CASE("verbatim_numbers: no JSON, and too deep JSON, are refused") {
  CHECK_THROWS_AS(canonical_body_verbatim("{"), json_problem);
  CHECK_THROWS_AS(canonical_body_verbatim("[1.0"), json_problem);
  const std::string deep(std::size_t(max_body_depth) + 1, '[');
  CHECK_THROWS_AS(canonical_body_verbatim(deep + "1.0" + std::string(deep.size(), ']')), json_problem);
}
