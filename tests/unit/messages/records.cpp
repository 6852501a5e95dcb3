#include "messages/records.hpp"

#include "messages/event.hpp"
#include "messages/ids.hpp"
#include "messages/to_device.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <set>

using namespace ranvier;
using nlohmann::json;

namespace {

constexpr std::string_view us = "us.test";

feed_line parse(const json& line) { return parse_feed_line(line.dump(), 7, us); }

/// The record of a line that must be good.
template <class T> T good(const json& line) {
  auto parsed = parse(line);
  if (const auto* problem = std::get_if<record_problem>(&parsed.what)) FAIL(problem->errcode << ": " << problem->error);
  const auto* any = std::get_if<record>(&parsed.what);
  REQUIRE(any);
  const auto* one = std::get_if<T>(any);
  REQUIRE(one);
  return *one;
}

record_problem bad(std::string_view line) {
  auto parsed = parse_feed_line(line, 1, us);
  const auto* problem = std::get_if<record_problem>(&parsed.what);
  if (!problem) return {"accepted", "accepted"};
  return *problem;
}
record_problem bad(const json& line) { return bad(std::string_view(line.dump())); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// `base` with the members of `changes`; a member "-name" is taken out.
json with(json base, const json& changes) {
  for (const auto& [key, value] : changes.items()) {
    if (key.starts_with('-')) base.erase(key.substr(1));
    else base[key] = value;
  }
  return base;
}

struct refusal {
  json line;
  std::string errcode, says;
};
void check_refused(const std::vector<refusal>& rows) {
  for (const auto& [line, errcode, says] : rows) {
    auto problem = bad(line);
    CAPTURE(line.dump().substr(0, 300));
    CAPTURE(problem.error);
    CHECK(problem.errcode == errcode);
    CHECK(has(problem.error, says));
  }
}

json event(const json& changes = json::object()) {
  return with({{"type", "m.room.message"},
               {"sender", "@a:us.test"},
               {"room_id", "!r:us.test"},
               {"content", {{"body", "hi"}}},
               {"origin_server_ts", 5},
               {"depth", 1},
               {"prev_events", json::array()},
               {"auth_events", json::array()},
               {"hashes", {{"sha256", "x"}}},
               {"signatures", {{"us.test", {{"ed25519:1", "x"}}}}}},
              changes);
}
json pdu(const json& changes = json::object()) {
  return with({{"kind", "pdu"}, {"event_id", "$e"}, {"event", event()}}, changes);
}
std::string id_in(const json& value, std::string_view version) {
  json_document document(value.dump());
  return event_id_of(document.root(), *rules_of(version));
}

json to_device(const json& changes = json::object()) {
  return with({{"kind", "to_device"},
               {"sender", "@a:us.test"},
               {"type", "m.x"},
               {"message_id", "id1"},
               {"messages", {{"@b:r.test", {{"D", {{"x", 1}}}}}}}},
              changes);
}

json device_keys(const json& changes = json::object()) {
  return with({{"user_id", "@a:us.test"},
               {"device_id", "D"},
               {"algorithms", {"m.olm"}},
               {"keys", {{"ed25519:D", "k"}}},
               {"signatures", {{"@a:us.test", {{"ed25519:D", "s"}}}}}},
              changes);
}
json device(const json& changes = json::object()) {
  return with({{"kind", "device"}, {"user_id", "@a:us.test"}, {"device_id", "D"}, {"keys", device_keys()}}, changes);
}
json cross_key(const char* usage, const json& changes = json::object()) {
  return with({{"user_id", "@a:us.test"},
               {"usage", {usage}},
               {"keys", {{"ed25519:PUB", "PUB"}}},
               {"signatures", {{"@a:us.test", {{"ed25519:M", "s"}}}}}},
              changes);
}

json nested(int depth) {
  json value = 1;
  for (int i = 1; i < depth; ++i) value = json::array({value});
  return value;
}

} // namespace

TEST_CASE("records: what isn't a record at all") {
  CHECK(bad(std::string_view("{\"kind\": \"pdu\", ")).errcode == "M_NOT_JSON");
  CHECK(bad(std::string_view("")).errcode == "M_NOT_JSON");
  CHECK(bad(std::string_view("{\"kind\":\"pdu\"} x")).errcode == "M_NOT_JSON");
  CHECK(bad(std::string_view("{\"kind\":\"\xff\"}")).errcode == "M_NOT_JSON");
  CHECK(bad(std::string_view("[]")).errcode == "M_BAD_JSON");
  CHECK(bad(std::string_view("{}")).error == "\"kind\" is missing");
  CHECK(bad(std::string_view("{\"kind\":3}")).errcode == "M_BAD_JSON");
  auto unknown = bad(std::string_view("{\"kind\":\"no_such_kind\"}"));
  CHECK(unknown.errcode == "M_UNRECOGNIZED");
  CHECK(has(unknown.error, "known are pdu, edu, to_device, roster, membership, device, cross_signing"));
  CHECK(has(bad(std::string_view("{\"kind\":\"membership\"}")).error, "\"room_id\" is missing"));
  CHECK(bad(std::string_view(R"({"kind":"room_forgotten","room_id":"!a","room_id":"!b"})")).errcode == "M_BAD_JSON");
}

TEST_CASE("records: source and seq are known of a bad line too") {
  auto line = parse(pdu({{"source", "s"}, {"seq", 12}}));
  CHECK(line.number == 7);
  CHECK(line.source == "s");
  CHECK(line.seq == 12);
  line = parse({{"kind", "nothing"}, {"source", "s"}, {"seq", 13}});
  CHECK(line.seq == 13);
  CHECK(std::holds_alternative<record_problem>(line.what));
  CHECK(parse(pdu()).source.empty());
  check_refused({{pdu({{"source", "s"}}), "M_BAD_JSON", "give both or neither"},
                 {pdu({{"seq", 3}}), "M_BAD_JSON", "give both or neither"},
                 {pdu({{"source", 1}, {"seq", 3}}), "M_BAD_JSON", "\"source\" must be a string"},
                 {pdu({{"source", ""}, {"seq", 3}}), "M_INVALID_PARAM", "must not be empty"},
                 {pdu({{"source", "s"}, {"seq", "3"}}), "M_BAD_JSON", "\"seq\" must be an integer"},
                 {pdu({{"source", "s"}, {"seq", -1}}), "M_BAD_JSON", "\"seq\" must be an integer"},
                 {pdu({{"source", "s"}, {"seq", 1.5}}), "M_BAD_JSON", "\"seq\" must be an integer"}});
}

TEST_CASE("records: pdu") {
  auto one = good<pdu_record>(pdu());
  CHECK(one.event_id == "$e");
  CHECK(one.room_id == "!r:us.test");
  CHECK(one.type == "m.room.message");
  CHECK(one.sender == "@a:us.test");
  CHECK_FALSE(one.state_key);
  CHECK(one.membership.empty());
  CHECK(one.room_version.empty());
  CHECK_FALSE(one.destinations);
  CHECK(one.event == event().dump()); // nlohmann writes in the same order
  auto sent_to = good<pdu_record>(pdu({{"destinations", {"b.test", "us.test", "a.test", "b.test"}}, {"exclude", {"c.test"}}}));
  CHECK(*sent_to.destinations == std::vector<std::string>{"a.test", "b.test"});
  CHECK(sent_to.exclude == std::vector<std::string>{"c.test"});
  CHECK(good<pdu_record>(pdu({{"destinations", json::array()}})).destinations->empty());
  auto relayed = good<pdu_record>(pdu({{"event", event({{"sender", "@b:r.test"}})}, {"unknown_field", 1}}));
  CHECK(relayed.sender == "@b:r.test");
}

TEST_CASE("records: pdu of a member") {
  auto member = event({{"type", "m.room.member"}, {"state_key", "@b:r.test"}, {"content", {{"membership", "ban"}}}});
  auto one = good<pdu_record>(pdu({{"event", member}}));
  CHECK(one.state_key == "@b:r.test");
  CHECK(one.membership == "ban");
  check_refused({{pdu({{"event", with(member, {{"-state_key", 0}})}}), "M_BAD_JSON", "state_key\" is missing"},
                 {pdu({{"event", with(member, {{"state_key", "bob"}})}}), "M_INVALID_PARAM", "must be a user id"},
                 {pdu({{"event", with(member, {{"content", {{"membership", "stay"}}}})}}), "M_INVALID_PARAM", "knock"},
                 {pdu({{"event", with(member, {{"content", json::object()}})}}), "M_BAD_JSON", "membership\" is missing"}});
}

TEST_CASE("records: pdu's id must be the event's in its room version (E3)") {
  auto value = event();
  auto right = good<pdu_record>(pdu({{"event_id", id_in(value, "10")}, {"room_version", "10"}}));
  CHECK(right.room_version == "10");
  check_refused({{pdu({{"room_version", "10"}}), "M_BAD_JSON", "the event's id in room version 10 is \"" + id_in(value, "10")},
                 {pdu({{"event_id", "$other"}, {"room_version", "3"}}), "M_BAD_JSON", "room version 3"}});
  // Versions 3 and 4 differ in the alphabet, so in ids that hold its last two characters.
  for (int i = 0; id_in(value, "4").find_first_of("-_") == std::string::npos; ++i) value = event({{"depth", i}});
  auto url_form = pdu({{"event", value}, {"event_id", id_in(value, "4")}, {"room_version", "3"}});
  CHECK(bad(url_form).errcode == "M_BAD_JSON");
  url_form["room_version"] = "4";
  CHECK(bad(url_form).errcode == "accepted");
  CHECK(good<pdu_record>(pdu({{"room_version", "org.example.unknown"}})).room_version == "org.example.unknown");
  // Versions 1 and 2 carry it.
  auto old = event({{"event_id", "$1:us.test"}});
  CHECK(good<pdu_record>(pdu({{"event_id", "$1:us.test"}, {"event", old}, {"room_version", "1"}})).event_id == "$1:us.test");
  CHECK(bad(pdu({{"event_id", "$2:us.test"}, {"event", old}, {"room_version", "1"}})).errcode == "M_BAD_JSON");
}

TEST_CASE("records: a create event of room version 12 names its room (N7)") {
  auto create = event({{"type", "m.room.create"}, {"state_key", ""}, {"-room_id", 0}});
  auto one = good<pdu_record>(pdu({{"event", create}, {"event_id", "$abc"}}));
  CHECK(one.room_id == "!abc");
  CHECK(one.state_key == "");
}

TEST_CASE("records: pdu refused") {
  const auto many = [](int count) { return json(std::vector<std::string>(static_cast<std::size_t>(count), "$p")); };
  check_refused({
      {pdu({{"-event_id", 0}}), "M_BAD_JSON", "\"event_id\" is missing"},
      {pdu({{"event_id", "e"}}), "M_INVALID_PARAM", "begins with $"},
      {pdu({{"event_id", "$" + std::string(255, 'x')}}), "M_INVALID_PARAM", "255 bytes"},
      {pdu({{"event_id", std::string("$a\0b", 4)}}), "M_INVALID_PARAM", "event id"},
      {pdu({{"-event", 0}}), "M_BAD_JSON", "\"event\" is missing"},
      {pdu({{"event", "text"}}), "M_BAD_JSON", "\"event\" must be a JSON object"},
      {pdu({{"event", event({{"-type", 0}})}}), "M_BAD_JSON", "\"event.type\" is missing"},
      {pdu({{"event", event({{"type", std::string(256, 'x')}})}}), "M_INVALID_PARAM", "at most 255"},
      {pdu({{"event", event({{"sender", "bob"}})}}), "M_INVALID_PARAM", "\"event.sender\" must be a user id"},
      {pdu({{"event", event({{"-room_id", 0}})}}), "M_BAD_JSON", "\"event.room_id\" is missing"},
      {pdu({{"event", event({{"room_id", "r"}})}}), "M_INVALID_PARAM", "room id"},
      {pdu({{"event", event({{"-content", 0}})}}), "M_BAD_JSON", "\"event.content\" is missing"},
      {pdu({{"event", event({{"content", 1}})}}), "M_BAD_JSON", "\"event.content\" must be a JSON object"},
      {pdu({{"event", event({{"state_key", 1}})}}), "M_BAD_JSON", "\"event.state_key\" must be a string"},
      {pdu({{"event", event({{"state_key", std::string(256, 'x')}})}}), "M_TOO_LARGE", "255 bytes"},
      {pdu({{"event", event({{"-signatures", 0}})}}), "M_BAD_JSON", "\"event.signatures\" is missing"},
      {pdu({{"event", event({{"signatures", json::object()}})}}), "M_INVALID_PARAM", "must be signed"},
      {pdu({{"event", event({{"-hashes", 0}})}}), "M_BAD_JSON", "\"event.hashes\" is missing"},
      {pdu({{"event", event({{"prev_events", many(21)}})}}), "M_TOO_LARGE", "21 events, at most 20"},
      {pdu({{"event", event({{"auth_events", many(11)}})}}), "M_TOO_LARGE", "11 events, at most 10"},
      {pdu({{"event", event({{"prev_events", "x"}})}}), "M_BAD_JSON", "must be a list"},
      {pdu({{"destinations", "a.test"}}), "M_BAD_JSON", "list of server names"},
      {pdu({{"destinations", {"a b"}}}), "M_INVALID_PARAM", "no server name"},
      {pdu({{"exclude", {1}}}), "M_BAD_JSON", "must be a string"},
      {pdu({{"room_version", 10}}), "M_BAD_JSON", "\"room_version\" must be a string"},
      {pdu({{"room_version", std::string(33, 'x')}}), "M_INVALID_PARAM", "32 characters"},
  });
}

TEST_CASE("records: a pdu has at most 65536 bytes (E9)") {
  auto of_size = [](std::size_t bytes) {
    auto value = event({{"content", {{"body", ""}}}});
    value["content"]["body"] = std::string(bytes - value.dump().size(), 'x');
    return pdu({{"event", value}});
  };
  CHECK(good<pdu_record>(of_size(65'536)).event.size() == 65'536);
  CHECK(bad(of_size(65'537)).errcode == "M_TOO_LARGE");
}

TEST_CASE("records: B103 numbers that can't be signed") {
  struct row {
    std::string number;
    bool fine;
  };
  const std::vector<row> rows{{"9007199254740991", true}, {"-9007199254740991", true}, {"9007199254740992", false},
                              {"1.0", false},             {"1e3", false},              {"-0.0", false},
                              {"1e400", false},           {"NaN", false}};
  for (const auto& [number, fine] : rows) {
    CAPTURE(number);
    auto edu = R"({"kind":"edu","edu_type":"x","room_id":"!r","content":{"n":)" + number + "}}";
    CHECK((bad(std::string_view(edu)).errcode == "accepted") == fine);
    auto message = R"({"kind":"to_device","sender":"@a:us.test","type":"t","message_id":"m","messages":{"@b:r":{"D":{"n":)" +
                   number + "}}}}";
    CHECK((bad(std::string_view(message)).errcode == "accepted") == fine);
    // In a room of version 10; the id is not its own, but numbers are judged first.
    auto text = pdu({{"room_version", "10"}, {"event", event({{"content", {{"n", "@"}}}})}}).dump();
    text.replace(text.find("\"@\""), 3, number);
    auto problem = bad(std::string_view(text));
    CHECK(has(problem.error, "the event's id") == fine);
  }
  // An old room must cope with them (C4).
  auto old = event({{"event_id", "$1:us.test"}, {"content", {{"n", 9007199254740992}}}});
  auto kept = good<pdu_record>(pdu({{"event_id", "$1:us.test"}, {"event", old}, {"room_version", "1"}}));
  CHECK(has(kept.event, "9007199254740992"));
}

TEST_CASE("records: edu") {
  auto one = good<edu_record>({{"kind", "edu"}, {"edu_type", "x.y"}, {"content", {{"b", 1}, {"a", "é"}}}, {"room_id", "!r"}});
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
  CHECK(key("m.typing", {{"room_id", "!r:x"}, {"user_id", "@a:us.test"}, {"typing", true}}) == "m.typing|!r:x|@a:us.test");
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
      {edu("m.typing", {{"room_id", "!r:x"}, {"user_id", "@a:us.test"}}), "M_BAD_JSON", "\"content.typing\" is missing"},
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
      {to_device({{"messages", {{"@b:r.test", {{std::string("a\0", 2), json::object()}}}}}}), "M_INVALID_PARAM", "no NUL"},
  });
}

TEST_CASE("records: B85 one device over 64 KiB is refused, 150 devices are split") {
  CHECK(bad(to_device({{"messages", {{"@b:r.test", {{"D", {{"x", std::string(70'000, 'x')}}}}}}}})).errcode == "M_TOO_LARGE");
  json devices;
  for (int i = 0; i < 150; ++i) devices["D" + std::to_string(i)] = {{"x", std::string(2'000, 'x')}};
  auto record = good<to_device_record>(to_device({{"messages", {{"@b:r.test", devices}, {"@c:s.test", {{"*", {{"y", 1}}}}}}}}));
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
  for (std::size_t i = 0; i < parts.size(); ++i) CHECK(again[i].edu == parts[i].edu);
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
  auto parts = split_to_device(good<to_device_record>(
      to_device({{"messages", {{"@b:r.test", {{"D", {{"x", 1}}}, {"E", {{"x", 2}}}}}, {"@c:r.test", {{"*", {{"x", 3}}}}},
                               {"@d:r.test", json::object()}}}})));
  REQUIRE(parts.size() == 1);
  CHECK(json::parse(parts[0].edu)["content"]["messages"] ==
        json{{"@b:r.test", {{"D", {{"x", 1}}}, {"E", {{"x", 2}}}}}, {"@c:r.test", {{"*", {{"x", 3}}}}}});
  CHECK(split_to_device(good<to_device_record>(to_device({{"messages", json::object()}}))).empty());
}

TEST_CASE("records: roster and membership") {
  auto roster = good<roster_record>({{"kind", "roster"}, {"room_id", "!r"}, {"room_version", "10"},
                                     {"members", {{"@a:us.test", "join"}, {"@b:r.test", "ban"}}}});
  CHECK(roster.room_version == "10");
  CHECK(roster.members.at("@b:r.test") == "ban");
  auto member = good<membership_record>({{"kind", "membership"}, {"room_id", "!r"}, {"user_id", "@b:r.test"},
                                         {"membership", "knock"}, {"event_id", "$e"}, {"room_version", nullptr}});
  CHECK(member.membership == "knock");
  CHECK(member.event_id == "$e");
  CHECK(member.room_version.empty());
  const json base{{"kind", "membership"}, {"room_id", "!r"}, {"user_id", "@b:r.test"}, {"membership", "join"}};
  const json full{{"kind", "roster"}, {"room_id", "!r"}, {"room_version", "10"}, {"members", json::object()}};
  CHECK(good<roster_record>(full).members.empty());
  check_refused({
      {with(base, {{"membership", "stay"}}), "M_INVALID_PARAM", "join, leave, ban, invite, knock"},
      {with(base, {{"user_id", "@b"}}), "M_INVALID_PARAM", "user id"},
      {with(base, {{"room_id", "r"}}), "M_INVALID_PARAM", "room id"},
      {with(base, {{"event_id", "e"}}), "M_INVALID_PARAM", "event id"},
      {with(full, {{"members", {{"@a:us.test", 1}}}}), "M_BAD_JSON", "\"members.@a:us.test\" must be a string"},
      {with(full, {{"members", {{"a", "join"}}}}), "M_INVALID_PARAM", "no user id"},
      {with(full, {{"members", {{"@a:us.test", "joined"}}}}), "M_INVALID_PARAM", "one of join"},
      {with(full, {{"-members", 0}}), "M_BAD_JSON", "\"members\" is missing"},
      {with(full, {{"-room_version", 0}}), "M_BAD_JSON", "\"room_version\" is missing"},
  });
}

TEST_CASE("records: device") {
  auto one = good<device_record>(device({{"display_name", "phone"}, {"initial", true}}));
  CHECK(one.keys.given());
  CHECK(one.keys.value == device_keys().dump());
  CHECK(one.display_name.value == "phone");
  CHECK(one.initial);
  CHECK_FALSE(one.deleted);
  auto bare = good<device_record>(device({{"-keys", 0}}));
  CHECK_FALSE(bare.keys.given());
  CHECK_FALSE(bare.keys.removed());
  auto removed = good<device_record>(device({{"keys", nullptr}, {"display_name", nullptr}}));
  CHECK(removed.keys.removed());
  CHECK(removed.display_name.removed());
  CHECK(good<device_record>(device({{"-keys", 0}, {"deleted", true}})).deleted);
  check_refused({
      {device({{"user_id", "@b:r.test"}}), "M_INVALID_PARAM", "a user of ours"},
      {device({{"device_id", ""}}), "M_INVALID_PARAM", "must not be empty"},
      {device({{"device_id", std::string("D\0", 2)}}), "M_INVALID_PARAM", "NUL"},
      {device({{"deleted", "yes"}}), "M_BAD_JSON", "true or false"},
      {device({{"display_name", 1}}), "M_BAD_JSON", "\"display_name\" must be a string"},
      {device({{"display_name", std::string(4'097, 'x')}}), "M_TOO_LARGE", "4096 bytes"},
  });
}

TEST_CASE("records: malformed device keys are refused") {
  auto keys = [](const json& changes) { return device({{"keys", device_keys(changes)}}); };
  check_refused({
      {device({{"keys", json::array()}}), "M_BAD_JSON", "\"keys\" must be a JSON object"},
      {device({{"keys", "x"}}), "M_BAD_JSON", "\"keys\" must be a JSON object"},
      {device({{"keys", json::object()}}), "M_BAD_JSON", "\"keys.user_id\" is missing"},
      {keys({{"user_id", "@b:us.test"}}), "M_INVALID_PARAM", "\"keys.user_id\" must be \"@a:us.test\""},
      {keys({{"device_id", "E"}}), "M_INVALID_PARAM", "\"keys.device_id\" must be \"D\""},
      {keys({{"algorithms", "x"}}), "M_BAD_JSON", "list of strings"},
      {keys({{"algorithms", {1}}}), "M_BAD_JSON", "must be a string"},
      {keys({{"keys", nullptr}}), "M_BAD_JSON", "\"keys.keys\" is missing"},
      {keys({{"keys", {"x"}}}), "M_BAD_JSON", "\"keys.keys\" must be a JSON object"},
      {keys({{"keys", {{"ed25519:D", 1}}}}), "M_BAD_JSON", "must be a string"},
      {keys({{"-signatures", 0}}), "M_BAD_JSON", "\"keys.signatures\" is missing"},
      {keys({{"signatures", {{"@a:us.test", "x"}}}}), "M_BAD_JSON", "must be a JSON object"},
      {keys({{"signatures", {{"@a:us.test", {{"ed25519:D", 1}}}}}}), "M_BAD_JSON", "must be a string"},
      {keys({{"x", std::string(70'000, 'x')}}), "M_TOO_LARGE", "at most 65536"},
      {keys({{"x", std::string("a\0b", 3)}}), "M_INVALID_PARAM", "NUL"},
      {keys({{"x", {{std::string("a\0b", 3), 1}}}}), "M_INVALID_PARAM", "NUL"},
      {keys({{"x", nested(30)}}), "M_BAD_JSON", "nested"},
      {keys({{"x", nested(500)}}), "M_BAD_JSON", ""},
      {keys({{"x", 1.5}}), "M_BAD_JSON", "\"keys\" can't be sent"},
  });
}

TEST_CASE("records: cross_signing") {
  const json base{{"kind", "cross_signing"}, {"user_id", "@a:us.test"}};
  auto one = good<cross_signing_record>(with(base, {{"master_key", cross_key("master", {{"-signatures", 0}})},
                                                    {"self_signing_key", cross_key("self_signing")},
                                                    {"user_signing_key", nullptr}}));
  CHECK(one.master_key.given());
  CHECK(one.self_signing_key.value == cross_key("self_signing").dump());
  CHECK(one.user_signing_key.removed());
  auto nothing = good<cross_signing_record>(base);
  CHECK_FALSE(nothing.master_key.given());
  CHECK_FALSE(nothing.master_key.removed());
  auto self = [&](const json& changes) { return with(base, {{"self_signing_key", cross_key("self_signing", changes)}}); };
  check_refused({
      {with(base, {{"user_id", "@b:r.test"}}), "M_INVALID_PARAM", "a user of ours"},
      {with(base, {{"master_key", "x"}}), "M_BAD_JSON", "must be a JSON object"},
      {with(base, {{"master_key", cross_key("self_signing")}}), "M_INVALID_PARAM", "must hold \"master\""},
      {self({{"user_id", "@b:us.test"}}), "M_INVALID_PARAM", "must be \"@a:us.test\""},
      {self({{"usage", "self_signing"}}), "M_BAD_JSON", "list of strings"},
      {self({{"keys", json::object()}}), "M_INVALID_PARAM", "exactly one key"},
      {self({{"keys", {{"ed25519:A", "A"}, {"ed25519:B", "B"}}}}), "M_INVALID_PARAM", "exactly one key"},
      {self({{"keys", {{"ed25519:A", "B"}}}}), "M_INVALID_PARAM", "named ed25519:"},
      {self({{"keys", {{"ed25519:A", 1}}}}), "M_BAD_JSON", "must be a string"},
      {self({{"-signatures", 0}}), "M_BAD_JSON", "\"self_signing_key.signatures\" is missing"},
      {self({{"signatures", json::object()}}), "M_INVALID_PARAM", "the master key must have signed it"},
      {self({{"x", std::string(70'000, 'x')}}), "M_TOO_LARGE", "65536"},
  });
}

TEST_CASE("records: one_time_keys") {
  const json base{{"kind", "one_time_keys"}, {"user_id", "@a:us.test"}, {"device_id", "D"}};
  auto one = good<one_time_keys_record>(
      with(base, {{"one_time_keys", {{"curve25519:A", "k"}, {"signed_curve25519:B", {{"key", "k"}, {"signatures", json::object()}}}}},
                  {"fallback_keys", {{"signed_curve25519:F", {{"key", "f"}, {"fallback", true}}}}}}));
  CHECK(one.one_time_keys.at("curve25519:A") == "\"k\"");
  CHECK(one.one_time_keys.at("signed_curve25519:B") == R"({"key":"k","signatures":{}})");
  CHECK(one.fallback_keys.value.size() == 1);
  CHECK(good<one_time_keys_record>(with(base, {{"fallback_keys", nullptr}})).fallback_keys.removed());
  CHECK_FALSE(good<one_time_keys_record>(base).fallback_keys.given());
  auto keys = [&](const json& given) { return with(base, {{"one_time_keys", given}}); };
  check_refused({
      {keys(nullptr), "M_BAD_JSON", "can't be null"},
      {keys(json::array()), "M_BAD_JSON", "must be a JSON object"},
      {keys({{"curve25519", "k"}}), "M_INVALID_PARAM", "<algorithm>:<id>"},
      {keys({{":A", "k"}}), "M_INVALID_PARAM", "<algorithm>:<id>"},
      {keys({{"curve25519:", "k"}}), "M_INVALID_PARAM", "<algorithm>:<id>"},
      {keys({{"curve25519:A", 1}}), "M_BAD_JSON", "a string or an object"},
      {keys({{"curve25519:A", nullptr}}), "M_BAD_JSON", "a string or an object"},
      {keys({{"curve25519:A", json::object()}}), "M_BAD_JSON", "key\" is missing"},
      {keys({{std::string("curve25519:\0", 12), "k"}}), "M_INVALID_PARAM", "NUL"},
      {with(base, {{"-device_id", 0}}), "M_BAD_JSON", "\"device_id\" is missing"},
      {with(base, {{"user_id", "@b:r.test"}}), "M_INVALID_PARAM", "a user of ours"},
  });
}

TEST_CASE("records: partial_join") {
  auto join = event({{"type", "m.room.member"}, {"state_key", "@a:us.test"}, {"content", {{"membership", "join"}}}});
  const json base{{"kind", "partial_join"}, {"room_id", "!r:us.test"}, {"room_version", "10"}, {"user_id", "@a:us.test"},
                  {"event_id", id_in(join, "10")}, {"event", join}, {"joined_via", "r.test"},
                  {"servers_in_room", {"s.test", "r.test"}}};
  auto one = good<partial_join_record>(base);
  CHECK(one.joined_via == "r.test");
  CHECK(one.servers_in_room == std::vector<std::string>{"r.test", "s.test"});
  CHECK(one.since == 0);
  CHECK(one.event == join.dump());
  CHECK(good<partial_join_record>(with(base, {{"since_position", 9}})).since == 9);
  check_refused({
      {with(base, {{"-servers_in_room", 0}}), "M_BAD_JSON", "\"servers_in_room\" is missing"},
      {with(base, {{"joined_via", "a b"}}), "M_INVALID_PARAM", "server name"},
      {with(base, {{"user_id", "@b:us.test"}}), "M_INVALID_PARAM", "must be the join of @b:us.test"},
      {with(base, {{"event", event()}}), "M_INVALID_PARAM", "must be the join of"},
      {with(base, {{"room_id", "!s:us.test"}}), "M_INVALID_PARAM", "is not \"room_id\""},
      {with(base, {{"since_position", -1}}), "M_BAD_JSON", "integer"},
      {with(base, {{"event_id", "$other"}}), "M_BAD_JSON", "the event's id"},
  });
}

TEST_CASE("records: server_acl and room_forgotten") {
  auto acl = good<server_acl_record>({{"kind", "server_acl"}, {"room_id", "!r"}, {"content", {{"deny", {"x"}}, {"allow", {"*"}}}}});
  CHECK(acl.content == R"({"allow":["*"],"deny":["x"]})");
  CHECK(good<server_acl_record>({{"kind", "server_acl"}, {"room_id", "!r"}, {"content", nullptr}}).content.empty());
  CHECK(bad(json{{"kind", "server_acl"}, {"room_id", "!r"}}).errcode == "M_BAD_JSON");
  auto gone = good<room_forgotten_record>({{"kind", "room_forgotten"}, {"room_id", "!r"}});
  CHECK(gone.room_id == "!r");
  CHECK_FALSE(gone.now);
  CHECK(good<room_forgotten_record>({{"kind", "room_forgotten"}, {"room_id", "!r"}, {"now", true}}).now);
  CHECK(bad(json{{"kind", "room_forgotten"}, {"room_id", "!r"}, {"now", 1}}).errcode == "M_BAD_JSON");
}

TEST_CASE("records: error sentences quote at most 60 bytes and no control characters") {
  auto problem = bad(json{{"kind", "room_forgotten"}, {"room_id", "a\nb" + std::string(200, 'x')}});
  CHECK(has(problem.error, "\"a?b"));
  CHECK(has(problem.error, "...\""));
  CHECK(problem.error.size() < 200);
}

TEST_CASE("records: a line cut anywhere is refused and never accepted") {
  for (const auto& line : {pdu().dump(), to_device().dump(), device().dump()})
    for (std::size_t length = 0; length < line.size(); ++length)
      CHECK(bad(std::string_view(line).substr(0, length)).errcode == "M_NOT_JSON");
}
