#include "messages/canonical_json.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ranvier;

namespace {

enum class verdict { fine, not_json, bad_json };

verdict judge(const std::string& text, numbers rule = numbers::strict) {
  try {
    canonical_json(text, rule);
    return verdict::fine;
  } catch (const json_problem& problem) {
    CHECK(std::string(problem.what()).ends_with("."));
    return problem.is_json ? verdict::bad_json : verdict::not_json;
  }
}

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
}

} // namespace

TEST_CASE("C1, C3: the vectors V1 to V5") {
  CHECK(canonical_json("{}") == "{}");
  CHECK(canonical_json(R"({"one": 1, "two": "Two"})") == R"({"one":1,"two":"Two"})");
  CHECK(canonical_json(R"({"b":"2","a":"1"})") == R"({"a":"1","b":"2"})");
  CHECK(canonical_json("{ \"b\" : \"2\" ,\r\n\t\"a\" : \"1\" }") == R"({"a":"1","b":"2"})");
  CHECK(canonical_json(R"({"auth":{"success":true,"mxid":"@john.doe:example.com","profile":{"display_name":"John Doe",
      "three_pids":[{"medium":"email","address":"john.doe@example.org"},
                    {"medium":"msisdn","address":"123456789"}]}}})") ==
        R"({"auth":{"mxid":"@john.doe:example.com","profile":{"display_name":"John Doe","three_pids":[)"
        R"({"address":"john.doe@example.org","medium":"email"},{"address":"123456789","medium":"msisdn"}]},)"
        R"("success":true}})");
  CHECK(canonical_json("{\"a\":\"日本語\"}") == "{\"a\":\"日本語\"}");
  CHECK(canonical_json("{\"本\":2,\"日\":1}") == "{\"日\":1,\"本\":2}");
  CHECK(canonical_json(R"({"a":"\u65E5"})") == "{\"a\":\"日\"}");
  CHECK(canonical_json(R"({"a":null})") == R"({"a":null})");
}

TEST_CASE("C4: V6 is a transformation that strict rooms refuse") {
  CHECK(canonical_json(R"({"a":-0,"b":1e10})", numbers::lenient) == R"({"a":0,"b":10000000000})");
  CHECK(judge(R"({"b":1e10})") == verdict::bad_json);
  CHECK(canonical_json(R"({"a":-0})") == R"({"a":0})"); // the parser has no minus zero among integers
}

TEST_CASE("C1: V18, keys by code point and not by UTF-16 unit") {
  CHECK(canonical_json(R"({"\ud83d\ude00":1,"\uff61":2})") == "{\"\xef\xbd\xa1\":2,\"\xf0\x9f\x98\x80\":1}");
}

TEST_CASE("C3: escapes") {
  CHECK(canonical_json(R"(["\b\t\n\f\r\"\\\/"])") == R"(["\b\t\n\f\r\"\\/"])");
  CHECK(canonical_json("[\"\\u0000\\u0001\\u000b\\u001F\\u007f\"]") == "[\"\\u0000\\u0001\\u000b\\u001f\x7f\"]");
  CHECK(canonical_json(R"({"\u0000b":1,"\u0000a":2})") == R"({"\u0000a":2,"\u0000b":1})");
  CHECK(json_string(std::string("a\0\"", 3)) == R"("a\u0000\"")");
  CHECK(json_string("") == "\"\"");
}

TEST_CASE("C2: strict numbers") {
  for (const std::string fine : {"0", "-1", "9007199254740991", "-9007199254740991"}) {
    CAPTURE(fine);
    CHECK(canonical_json("[" + fine + "]") == "[" + fine + "]");
  }
  for (const std::string bad : {"9007199254740992", "-9007199254740992", "9223372036854775807", "9223372036854775808",
                                "18446744073709551615", "18446744073709551616", "-9223372036854775809", "1.0", "1e3",
                                "-0.0", "0.1", "1E-2", "1e400", "-1e400", "1e-400"}) {
    CAPTURE(bad);
    CHECK(judge("[" + bad + "]") == verdict::bad_json);
    CHECK(judge("{\"a\":[{\"b\":" + bad + "}]}") == verdict::bad_json);
  }
  CHECK(judge("[" + std::string(5'000, '9') + "]") == verdict::bad_json);
  for (const std::string broken : {"01", "-", "+1", ".5", "1.", "1e", "0x10", "NaN", "Infinity", "-Infinity", "--1",
                                   "1-1", "012345678901234567890", "1234567890123456789012e"}) {
    CAPTURE(broken);
    CHECK(judge("[" + broken + "]") == verdict::not_json);
    CHECK(judge("[" + broken + "]", numbers::lenient) == verdict::not_json);
  }
}

TEST_CASE("C4: lenient numbers are written as a server in Python writes them, whole ones as integers") {
  const std::pair<std::string, std::string> rows[] = {
      {"9007199254740993", "9007199254740993"}, // no double could hold it
      {"-9223372036854775808", "-9223372036854775808"},
      {"18446744073709551615", "18446744073709551615"},
      {"18446744073709551616", "1.8446744073709552e+19"},
      {"-123456789012345678901234567890", "-1.2345678901234568e+29"},
      {"1.0", "1"},
      {"-0.0", "0"},
      {"1e3", "1000"},
      {"9007199254740991.0", "9007199254740991"},
      {"1e16", "1e+16"},
      {"9007199254740992.0", "9007199254740992.0"},
      {"0.1", "0.1"},
      {"-0.5", "-0.5"},
      {"1234.5678", "1234.5678"},
      {"100000.5", "100000.5"},
      {"0.0001", "0.0001"},
      {"0.00012345", "0.00012345"},
      {"0.00001", "1e-05"},
      {"1.5e-7", "1.5e-07"},
      {"1.5e300", "1.5e+300"},
      {"5e-324", "5e-324"},
      {"1e-400", "0"},
      {"1e400", "1.7976931348623157e+308"},
      {"-1e400", "-1.7976931348623157e+308"},
  };
  for (const auto& [text, wanted] : rows) {
    CAPTURE(text);
    CHECK(canonical_json("[" + text + "]", numbers::lenient) == "[" + wanted + "]");
  }
}

TEST_CASE("C4: a large number in a string or key is no number") {
  CHECK(canonical_json(R"({"\"18446744073709551616":"18446744073709551616\\","z":18446744073709551616})",
                       numbers::lenient) ==
        R"({"\"18446744073709551616":"18446744073709551616\\","z":1.8446744073709552e+19})");
}

TEST_CASE("a number beyond 64 bits spoils only what it stands in") { // B103
  const json_document document(R"({"good":{"a":1},"bad":{"a":1e400},"big":{"a":99999999999999999999}})");
  CHECK(canonical_json(document.root()["good"].value()) == R"({"a":1})");
  CHECK_THROWS_AS(canonical_json(document.root()["bad"].value()), json_problem);
  CHECK_THROWS_AS(canonical_json(document.root()["big"].value()), json_problem);
}

TEST_CASE("H6: what isn't JSON") {
  for (const std::string text : {"",
                                 " ",
                                 "{",
                                 "}",
                                 "[1,]",
                                 "{\"a\":1,}",
                                 "{\"a\"}",
                                 "{a:1}",
                                 "nul",
                                 "'a'",
                                 "\"a",
                                 "[1] 2",
                                 "\"\\x\"",
                                 "\"\\u12\"",
                                 "\"\t\"",
                                 "\"\xff\"",
                                 "\"\xc0\x80\"",
                                 "\"\xed\xa0\x80\"",
                                 R"("\ud800")",
                                 R"("\ud800\u0041")",
                                 R"("\udc00")",
                                 R"("\udc00\ud800")",
                                 R"({"\udfff":1})",
                                 "// x\n1"}) {
    CAPTURE(text);
    CHECK(judge(text) == verdict::not_json);
  }
  CHECK(judge(std::string("[1]\0", 4)) == verdict::not_json);
  CHECK(judge("\xef\xbb\xbf{}") == verdict::not_json);
}

TEST_CASE("duplicate keys are refused at any depth and however they are spelt") {
  CHECK(judge(R"({"a":1,"a":1})") == verdict::bad_json);
  CHECK(judge(R"({"a":1,"b":2,"\u0061":3})") == verdict::bad_json);
  CHECK(judge(R"([{"x":{"":1,"":2}}])") == verdict::bad_json);
  CHECK(judge(R"({"a":{"a":1},"b":{"a":1}})") == verdict::fine);
  CHECK(judge(R"({"a":1,"a\u0000":1})") == verdict::fine);
  CHECK_THROWS_AS(json_document(R"({"a":1,"a":1})"), json_problem);
}

TEST_CASE("depth is limited") {
  CHECK(judge(nested(max_json_depth)) == verdict::fine);
  CHECK(judge(nested(max_json_depth + 1)) == verdict::bad_json);
  CHECK(judge(nested(100'000)) == verdict::bad_json);
  std::string objects = "1";
  for (int i = 0; i < max_json_depth; ++i)
    objects = "{\"a\":" + objects + "}";
  CHECK(judge(objects) == verdict::fine);
  CHECK(judge("[" + objects + "]") == verdict::bad_json);
}

TEST_CASE("what another server says as a whole may be deeper than the things in it") {
  const json_document deep(nested(max_body_depth), max_body_depth);
  CHECK(canonical_body(deep.root()) == nested(max_body_depth));
  CHECK_THROWS_AS(canonical_json(deep.root()), json_problem);
  CHECK_THROWS_AS(json_document(nested(max_body_depth + 1), max_body_depth), json_problem);
  CHECK_THROWS_AS(json_document(nested(100'000), max_body_depth), json_problem);
}

TEST_CASE("C5: members are left out at the top only") {
  const std::string text = R"({"unsigned":1,"signatures":{},"a":{"unsigned":2,"signatures":3}})";
  CHECK(canonical_json(text, numbers::strict, {"signatures", "unsigned"}) == R"({"a":{"signatures":3,"unsigned":2}})");
  CHECK(canonical_json(R"({"unsigned":1})", numbers::strict, {"unsigned"}) == "{}");
  CHECK(canonical_json("[1]", numbers::strict, {"unsigned"}) == "[1]");
}

TEST_CASE("documents own their text and can be moved") {
  std::vector<json_document> documents;
  {
    std::string text = R"({"a":"text that is longer than any small buffer could hold in itself"})";
    documents.emplace_back(text);
    text.assign(text.size(), 'x');
  }
  for (int i = 0; i < 20; ++i)
    documents.emplace_back(std::to_string(i));
  CHECK(canonical_json(documents.front().root()) ==
        R"({"a":"text that is longer than any small buffer could hold in itself"})");
  CHECK(canonical_json(documents.back().root()) == "19");
}

TEST_CASE("scalars and empty containers are documents too") {
  for (const std::string text : {"1", "\"a\"", "null", "true", "false", "[]", "{}", "[[],{}]"}) {
    CAPTURE(text);
    CHECK(canonical_json(text) == text);
  }
}

TEST_CASE("string_member") {
  const json_document document(R"({"a":"x","b":1,"e":""})");
  CHECK(string_member(document.root(), "a") == "x");
  CHECK(string_member(document.root(), "e") == "");
  CHECK_FALSE(string_member(document.root(), "b"));
  CHECK_FALSE(string_member(document.root(), "c"));
  const json_document list("[1]");
  CHECK_FALSE(string_member(list.root(), "a"));
}
