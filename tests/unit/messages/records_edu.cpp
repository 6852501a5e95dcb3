#include "messages/canonical_json.hpp"
#include "messages/to_device.hpp"
#include "tests/unit/messages/record_lines.hpp"

#include <set>

using namespace ranvier;
using namespace ranvier::lines;

TEST_CASE("records: edu") {
  auto one =
      good<edu_record>({{"kind", "edu"}, {"edu_type", "x.y"}, {"content", {{"b", 1}, {"a", "é"}}}, {"room_id", "!r"}});
  CHECK(one.content == R"({"a":"é","b":1})");
  CHECK(one.key.empty());
  CHECK(one.room_id == "!r");
  const json base{{"kind", "edu"}, {"edu_type", "x.y"}, {"content", json::object()}};
  CHECK(good<edu_record>(with(base, {{"destinations", {"a.test"}}})).destinations->size() == 1);
  CHECK(good<edu_record>(with(base, {{"user_id", "@a:us.test"}, {"key", "k"}})).key == "k");
  check_refused({
      {base, "M_BAD_JSON", "exactly one of"},
      {with(base, {{"room_id", "!r"}, {"user_id", "@a:us.test"}}), "M_BAD_JSON", "2 are given"},
      {with(base, {{"user_id", "@a:r.test"}}), "M_INVALID_PARAM", "a user of ours (of us.test)"},
      {with(base, {{"room_id", "!r"}, {"-content", 0}}), "M_BAD_JSON", "\"content\" is missing"},
      {with(base, {{"room_id", "!r"}, {"content", {1}}}), "M_BAD_JSON", "must be a JSON object"},
      {with(base, {{"room_id", "!r"}, {"edu_type", ""}}), "M_INVALID_PARAM", "must not be empty"},
      {with(base, {{"room_id", "!r"}, {"content", {{"x", std::string(65'536, 'x')}}}}), "M_TOO_LARGE", "65536 bytes"},
      {with(base, {{"room_id", "!r"}, {"edu_type", "m.device_list_update"}}), "M_INVALID_PARAM", "\"device\""},
      {with(base, {{"room_id", "!r"}, {"edu_type", "m.signing_key_update"}}), "M_INVALID_PARAM", "\"cross_signing\""},
      {with(base, {{"room_id", "!r"}, {"edu_type", "m.direct_to_device"}}), "M_INVALID_PARAM", "\"to_device\""},
      {with(base, {{"room_id", "!r"}, {"edu_type", "m.read.private"}}), "M_INVALID_PARAM", "must not leave"},
  });
}

TEST_CASE("records: typing, receipts and presence have keys of their own") {
  auto edu = [](const char* type, const json& content) {
    return json{{"kind", "edu"}, {"edu_type", type}, {"room_id", "!r:x"}, {"content", content}};
  };
  auto key = [&](const char* type, const json& content) { return good<edu_record>(edu(type, content)).key; };
  CHECK(key("m.typing", {{"room_id", "!r:x"}, {"user_id", "@a:us.test"}, {"typing", true}}) ==
        "m.typing|!r:x|@a:us.test");
  auto receipt = [](const json& data) {
    return json{{"!r:x", {{"m.read", {{"@a:us.test", {{"event_ids", {"$1"}}, {"data", data}}}}}}}};
  };
  CHECK(key("m.receipt", receipt({{"ts", 1}})) == "m.receipt|!r:x|m.read|@a:us.test|");
  CHECK(key("m.receipt", receipt({{"ts", 1}, {"thread_id", "$t"}})) == "m.receipt|!r:x|m.read|@a:us.test|$t");
  CHECK(key("m.presence", {{"push", {{{"user_id", "@b:us.test"}}, {{"user_id", "@a:us.test"}}}}}) ==
        "m.presence|@a:us.test|@b:us.test");
  auto given = edu("m.typing", {{"room_id", "!r:x"}, {"user_id", "@a:us.test"}, {"typing", true}});
  given["key"] = "mine";
  CHECK(good<edu_record>(given).key == "mine");
  const json is_private{{"!r:x", {{"m.read", json::object()}, {"m.read.private", json::object()}}}};
  check_refused({
      {edu("m.receipt", is_private), "M_INVALID_PARAM", "m.read.private"},
      {edu("m.receipt", {{"!a:e", "oops"}}), "M_BAD_JSON", "must be a JSON object"},
      {edu("m.receipt", {{"!a:e", {{"m.read", json::array()}}}}), "M_BAD_JSON", "must be a JSON object"},
      {edu("m.receipt", {{"a", json::object()}}), "M_INVALID_PARAM", "no room id"},
      {edu("m.typing", {{"room_id", "!r:x"}, {"user_id", "@a:us.test"}}), "M_BAD_JSON",
       "\"content.typing\" is missing"},
      {edu("m.typing", {{"room_id", "!r:x"}, {"user_id", "a"}, {"typing", true}}), "M_INVALID_PARAM", "user id"},
      {edu("m.presence", {{"push", "x"}}), "M_BAD_JSON", "must be a list"},
  });
}

TEST_CASE("records: to_device") {
  auto one = good<to_device_record>(to_device());
  CHECK(one.sender == "@a:us.test");
  CHECK(one.type == "m.x");
  CHECK(one.message_id == "id1");
  CHECK(one.messages.at("@b:r.test").at("D") == R"({"x":1})");
  CHECK(good<to_device_record>(to_device({{"message_id", "ü" + std::string(31, 'x')}})).message_id.size() == 33);
  check_refused({
      {to_device({{"sender", "@b:r.test"}}), "M_INVALID_PARAM", "a user of ours"},
      {to_device({{"message_id", ""}}), "M_INVALID_PARAM", "must not be empty"},
      {to_device({{"message_id", std::string(33, 'x')}}), "M_INVALID_PARAM", "more than 32 characters"},
      {to_device({{"-type", 0}}), "M_BAD_JSON", "\"type\" is missing"},
      {to_device({{"messages", json::array()}}), "M_BAD_JSON", "must be a JSON object"},
      {to_device({{"messages", {{"@c:us.test", {{"D", json::object()}}}}}}), "M_INVALID_PARAM", "only remote users"},
      {to_device({{"messages", {{"bob", {{"D", json::object()}}}}}}), "M_INVALID_PARAM", "no user id"},
      {to_device({{"messages", {{"@b:r.test", "x"}}}}), "M_BAD_JSON", "must be a JSON object"},
      {to_device({{"messages", {{"@b:r.test", {{"D", "x"}}}}}}), "M_BAD_JSON", "must be a JSON object"},
      {to_device({{"messages", {{"@b:r.test", {{"", json::object()}}}}}}), "M_INVALID_PARAM", "1 to 255 bytes"},
      {to_device({{"messages", {{"@b:r.test", {{std::string("a\0", 2), json::object()}}}}}}), "M_INVALID_PARAM",
       "no NUL"},
  });
}

TEST_CASE("records: B85 one device over 64 KiB is refused, 150 devices are split") {
  CHECK(bad(to_device({{"messages", {{"@b:r.test", {{"D", {{"x", std::string(70'000, 'x')}}}}}}}})).errcode ==
        "M_TOO_LARGE");
  json devices;
  for (int i = 0; i < 150; ++i)
    devices["D" + std::to_string(i)] = {{"x", std::string(2'000, 'x')}};
  auto record =
      good<to_device_record>(to_device({{"messages", {{"@b:r.test", devices}, {"@c:s.test", {{"*", {{"y", 1}}}}}}}}));
  auto parts = split_to_device(record);
  std::set<std::string> ids, seen;
  std::size_t for_r = 0;
  for (const auto& part : parts) {
    CHECK(part.edu.size() <= max_to_device_edu_bytes);
    CHECK(part.message_id.size() <= 32);
    CHECK(canonical_json(part.edu) == part.edu);
    auto edu = json::parse(part.edu);
    CHECK(edu["edu_type"] == "m.direct_to_device");
    CHECK(edu["content"]["message_id"] == part.message_id);
    CHECK(edu["content"]["sender"] == "@a:us.test");
    CHECK(edu["content"]["type"] == "m.x");
    if (part.destination != "r.test") continue;
    ++for_r;
    CHECK(ids.insert(part.message_id).second);
    REQUIRE(edu["content"]["messages"].size() == 1);
    for (const auto& [name, content] : edu["content"]["messages"]["@b:r.test"].items()) {
      CHECK(seen.insert(name).second);
      CHECK(content == devices[name]);
    }
  }
  CHECK(for_r >= 5);
  CHECK(seen.size() == 150);
  CHECK(parts.size() == for_r + 1);
  CHECK(parts.front().message_id == "id1"); // the first part goes under the host's id (U8)
  CHECK(parts.back().destination == "s.test");
  CHECK(parts.back().message_id == "id1");
  auto again = split_to_device(record);
  REQUIRE(again.size() == parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    CHECK(again[i].edu == parts[i].edu);
}

TEST_CASE("records: to_device parts are filled up to the limit, whatever characters the id has") {
  for (const std::string& id : {std::string("i"), std::string(32, '\x01')}) {
    auto content = [](std::size_t bytes) { return json{{"x", std::string(bytes, 'x')}}; };
    auto line = [&](std::size_t bytes) {
      return to_device({{"message_id", id}, {"messages", {{"@b:r.test", {{"D", content(bytes)}}}}}});
    };
    auto envelope = split_to_device(good<to_device_record>(line(1))).at(0).edu.size() - 1;
    CHECK(split_to_device(good<to_device_record>(line(65'536 - envelope))).at(0).edu.size() == 65'536);
    CHECK(bad(line(65'537 - envelope)).errcode == "M_TOO_LARGE");
  }
}

TEST_CASE("records: several users of one server share an EDU") {
  auto parts =
      split_to_device(good<to_device_record>(to_device({{"messages",
                                                         {{"@b:r.test", {{"D", {{"x", 1}}}, {"E", {{"x", 2}}}}},
                                                          {"@c:r.test", {{"*", {{"x", 3}}}}},
                                                          {"@d:r.test", json::object()}}}})));
  REQUIRE(parts.size() == 1);
  CHECK(json::parse(parts[0].edu)["content"]["messages"] ==
        json{{"@b:r.test", {{"D", {{"x", 1}}}, {"E", {{"x", 2}}}}}, {"@c:r.test", {{"*", {{"x", 3}}}}}});
  CHECK(split_to_device(good<to_device_record>(to_device({{"messages", json::object()}}))).empty());
}
