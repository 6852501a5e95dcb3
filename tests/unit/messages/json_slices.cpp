#include "messages/json_slices.hpp"

#include "messages/canonical_json.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ranvier;

namespace {

/// "name=value;..." of an object, or "broken".
std::string members(const std::string& text) {
  try {
    std::string out;
    for (const auto& [name, slice] : member_slices(text))
      out += name + "=" + std::string(slice) + ";";
    return out;
  } catch (const json_problem&) {
    return "broken";
  }
}

std::string items(const std::string& text) {
  try {
    std::string out;
    item_slices walk(text);
    while (const auto one = walk.next())
      out += std::string(*one) + ";";
    return out;
  } catch (const json_problem&) {
    return "broken";
  }
}

} // namespace

TEST_CASE("members of an object, their values as they stand") {
  struct {
    std::string text, wanted;
  } table[] = {
      {"{}", ""},
      {" { } ", ""},
      {R"({"a":1})", "a=1;"},
      {R"({ "a" : [1, {"b":"]"}] , "c":"x}\"y" })", R"(a=[1, {"b":"]"}];c="x}\"y";)"},
      {R"({"a":true,"b":null,"c":-1.5e3})", "a=true;b=null;c=-1.5e3;"},
      {R"({"\u0061\"b":{}})", "a\"b={};"},
      {R"({"a":"\\"})", R"(a="\\";)"},
      {"", "broken"},
      {"[]", "broken"},
      {"{", "broken"},
      {R"({"a")", "broken"},
      {R"({"a":)", "broken"},
      {R"({"a":})", "broken"},
      {R"({"a":1)", "broken"},
      {R"({"a":1,})", "broken"},
      {R"({"a":1 "b":2})", "broken"},
      {R"({a:1})", "broken"},
      {R"({"a":"x)", "broken"},
      {R"({"a":"x\)", "broken"},
      {R"({"a":[1,{"b":2})", "broken"},
      {R"({"a":1} x)", "broken"},
  };
  for (const auto& [text, wanted] : table) {
    CAPTURE(text);
    CHECK(members(text) == wanted);
  }
}

TEST_CASE("items of a list, one after the other") {
  struct {
    std::string text, wanted;
  } table[] = {
      {"[]", ""},
      {" [ ] ", ""},
      {"[1]", "1;"},
      {R"([ 200 , {"a":[1,2]} ,"x,y"])", R"(200;{"a":[1,2]};"x,y";)"},
      {"[[],[[]]]", "[];[[]];"},
      {"", "broken"},
      {"{}", "broken"},
      {"[", "broken"},
      {"[1", "broken"},
      {"[1,", "broken"},
      {"[1,]", "broken"},
      {"[1 2]", "broken"},
      {"[{\"a\":1]", "broken"},
  };
  for (const auto& [text, wanted] : table) {
    CAPTURE(text);
    CHECK(items(text) == wanted);
  }
}

TEST_CASE("every cut of a good text is noticed") {
  const std::string text = R"({"state":[{"a":"b\"","c":[1,2]},{}],"n":12})";
  for (std::size_t length = 0; length < text.size(); ++length) {
    CAPTURE(length);
    CHECK(members(text.substr(0, length)) == "broken");
  }
}
