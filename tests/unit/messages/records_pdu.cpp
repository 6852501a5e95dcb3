#include "tests/unit/messages/record_lines.hpp"

using namespace ranvier;
using namespace ranvier::lines;

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
  auto sent_to =
      good<pdu_record>(pdu({{"destinations", {"b.test", "us.test", "a.test", "b.test"}}, {"exclude", {"c.test"}}}));
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
  check_refused(
      {{pdu({{"event", with(member, {{"-state_key", 0}})}}), "M_BAD_JSON", "state_key\" is missing"},
       {pdu({{"event", with(member, {{"state_key", "bob"}})}}), "M_INVALID_PARAM", "must be a user id"},
       {pdu({{"event", with(member, {{"content", {{"membership", "stay"}}}})}}), "M_INVALID_PARAM", "knock"},
       {pdu({{"event", with(member, {{"content", json::object()}})}}), "M_BAD_JSON", "membership\" is missing"}});
}

TEST_CASE("records: pdu's id must be the event's in its room version (E3)") {
  auto value = event();
  auto right = good<pdu_record>(pdu({{"event_id", id_in(value, "10")}, {"room_version", "10"}}));
  CHECK(right.room_version == "10");
  check_refused(
      {{pdu({{"room_version", "10"}}), "M_BAD_JSON", "the event's id in room version 10 is \"" + id_in(value, "10")},
       {pdu({{"event_id", "$other"}, {"room_version", "3"}}), "M_BAD_JSON", "room version 3"}});
  // Versions 3 and 4 differ in the alphabet, so in ids that hold its last two characters.
  for (int i = 0; id_in(value, "4").find_first_of("-_") == std::string::npos; ++i)
    value = event({{"depth", i}});
  auto url_form = pdu({{"event", value}, {"event_id", id_in(value, "4")}, {"room_version", "3"}});
  CHECK(bad(url_form).errcode == "M_BAD_JSON");
  url_form["room_version"] = "4";
  CHECK(bad(url_form).errcode == "accepted");
  CHECK(good<pdu_record>(pdu({{"room_version", "org.example.unknown"}})).room_version == "org.example.unknown");
  // Versions 1 and 2 carry it.
  auto old = event({{"event_id", "$1:us.test"}});
  CHECK(good<pdu_record>(pdu({{"event_id", "$1:us.test"}, {"event", old}, {"room_version", "1"}})).event_id ==
        "$1:us.test");
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
  const std::vector<row> rows{{"9007199254740991", true},
                              {"-9007199254740991", true},
                              {"9007199254740992", false},
                              {"1.0", false},
                              {"1e3", false},
                              {"-0.0", false},
                              {"1e400", false},
                              {"NaN", false}};
  for (const auto& [number, fine] : rows) {
    CAPTURE(number);
    auto edu = R"({"kind":"edu","edu_type":"x","room_id":"!r","content":{"n":)" + number + "}}";
    CHECK((bad(std::string_view(edu)).errcode == "accepted") == fine);
    auto message =
        R"({"kind":"to_device","sender":"@a:us.test","type":"t","message_id":"m","messages":{"@b:r":{"D":{"n":)" +
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

TEST_CASE("records: partial_join") {
  auto join = event({{"type", "m.room.member"}, {"state_key", "@a:us.test"}, {"content", {{"membership", "join"}}}});
  const json base{{"kind", "partial_join"},        {"room_id", "!r:us.test"},
                  {"room_version", "10"},          {"user_id", "@a:us.test"},
                  {"event_id", id_in(join, "10")}, {"event", join},
                  {"joined_via", "r.test"},        {"servers_in_room", {"s.test", "r.test"}}};
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
