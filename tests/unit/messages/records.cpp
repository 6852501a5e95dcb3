#include "tests/unit/messages/record_lines.hpp"

using namespace ranvier;
using namespace ranvier::lines;

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

TEST_CASE("records: roster and membership") {
  auto roster = good<roster_record>({{"kind", "roster"},
                                     {"room_id", "!r"},
                                     {"room_version", "10"},
                                     {"members", {{"@a:us.test", "join"}, {"@b:r.test", "ban"}}}});
  CHECK(roster.room_version == "10");
  CHECK(roster.members.at("@b:r.test") == "ban");
  auto member = good<membership_record>({{"kind", "membership"},
                                         {"room_id", "!r"},
                                         {"user_id", "@b:r.test"},
                                         {"membership", "knock"},
                                         {"event_id", "$e"},
                                         {"room_version", nullptr}});
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

TEST_CASE("records: server_acl and room_forgotten") {
  auto acl = good<server_acl_record>(
      {{"kind", "server_acl"}, {"room_id", "!r"}, {"content", {{"deny", {"x"}}, {"allow", {"*"}}}}});
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
