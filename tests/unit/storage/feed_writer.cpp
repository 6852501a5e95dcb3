#include "storage/feed_writer.hpp"

#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test";
/// A room with one of ours and users of two servers.
std::vector<feed_line> shared_room() {
  return {member_line(room, "@a:us.test", "join"), member_line(room, "@b:one.test", "join"),
          member_line(room, "@c:two.test", "join")};
}
} // namespace

TEST_CASE("an event goes to the servers of its room, and nowhere without a roster") {
  store_bench bench;
  auto refused = bench.feed(line_of(event_of(room, "$0")));
  REQUIRE(refused.rejected.size() == 1);
  CHECK(refused.rejected[0].errcode == "M_RANVIER_UNKNOWN_ROOM");
  CHECK(bench.head() == 0);
  bench.feed(shared_room());
  bench.feed(line_of(event_of(room, "$1")));
  REQUIRE(bench.last.entries.size() == 1);
  CHECK(names_of(bench.last.entries[0]) == "one.test two.test");
  CHECK(bench.last.entries[0].pos == 4);
  CHECK(bench.last.head == 4);
  CHECK(bench.events("one.test") == "$1");
  CHECK(bench.events("two.test") == "$1");
  CHECK(bench.owed_servers() == std::vector<std::string>{"one.test", "two.test"});
}

TEST_CASE("a server isn't owed what was said before it came or after it went") {
  store_bench bench;
  bench.feed(member_line(room, "@a:us.test", "join"));
  bench.feed(line_of(event_of(room, "$before")));
  bench.feed(member_line(room, "@b:one.test", "join"));
  bench.feed(line_of(event_of(room, "$during")));
  bench.feed(member_line(room, "@b:one.test", "leave"));
  bench.feed(line_of(event_of(room, "$after")));
  bench.feed(member_line(room, "@b2:one.test", "join"));
  bench.feed(line_of(event_of(room, "$again")));
  CHECK(bench.events("one.test") == "$during $again");
  CHECK(bench.rows("span") == 2);
}

TEST_CASE("a server leaves with its last user, and the room with our last") {
  store_bench bench;
  bench.feed(shared_room());
  bench.feed({member_line(room, "@b2:one.test", "join"), member_line(room, "@b:one.test", "leave")});
  bench.feed(line_of(event_of(room, "$1")));
  CHECK(bench.events("one.test") == "$1");
  bench.feed(member_line(room, "@a:us.test", "leave"));
  bench.feed(line_of(event_of(room, "$2")));
  CHECK(bench.events("one.test") == "$1");
  CHECK(bench.events("two.test") == "$1");
}

TEST_CASE("a kicked server gets its kick, whichever line comes first") {
  for (bool event_first : {true, false})
    for (bool with_id : {true, false}) {
      CAPTURE(event_first);
      CAPTURE(with_id);
      store_bench bench;
      bench.feed(shared_room());
      auto kick = line_of(member_event(room, "$kick", "@b:one.test", "leave"));
      auto line = member_line(room, "@b:one.test", "leave", with_id ? "$kick" : "");
      if (event_first) bench.feed({kick, line});
      else bench.feed({line, kick});
      bench.feed(line_of(event_of(room, "$later")));
      CHECK(bench.events("one.test") == "$kick");
      CHECK(bench.events("two.test") == "$kick $later");
    }
}

TEST_CASE("a kicked server gets no event that was said between the line and the kick") {
  store_bench bench;
  bench.feed(shared_room());
  bench.feed({member_line(room, "@b:one.test", "leave", "$kick"), line_of(event_of(room, "$between")),
              line_of(member_event(room, "$kick", "@b:one.test", "leave"))});
  CHECK(bench.events("one.test") == "$kick");
  CHECK(names_of(bench.last.entries[1]) == "one.test two.test");
}

TEST_CASE("the servers of a room that we leave get our leave, whichever line comes first") {
  for (bool event_first : {true, false}) {
    CAPTURE(event_first);
    store_bench bench;
    bench.feed(shared_room());
    auto leave = line_of(member_event(room, "$leave", "@a:us.test", "leave"));
    auto line = member_line(room, "@a:us.test", "leave");
    if (event_first) bench.feed({leave, line});
    else bench.feed({line, leave});
    CHECK(bench.events("one.test") == "$leave");
    CHECK(bench.events("two.test") == "$leave");
  }
}

TEST_CASE("the first of ours joins: its event goes to all servers, whichever line comes first") {
  for (bool event_first : {true, false}) {
    CAPTURE(event_first);
    store_bench bench;
    bench.feed({member_line(room, "@b:one.test", "join"), member_line(room, "@c:two.test", "join")});
    CHECK(bench.rows("span") == 0);
    auto join = line_of(member_event(room, "$join", "@a:us.test", "join"));
    auto line = member_line(room, "@a:us.test", "join", "$join");
    if (event_first) bench.feed({join, line});
    else bench.feed({line, join});
    CHECK(bench.events("one.test") == "$join");
    CHECK(bench.events("two.test") == "$join");
  }
}

TEST_CASE("a member event also goes to the server of a user who was invited or knocking") {
  for (const std::string before : {"invite", "knock", "leave", "ban"}) {
    CAPTURE(before);
    store_bench bench;
    bench.feed(shared_room());
    bench.feed(member_line(room, "@d:far.test", before));
    bench.feed({member_line(room, "@d:far.test", before == "leave" ? "ban" : "leave"),
                line_of(member_event(room, "$x", "@d:far.test", before == "leave" ? "ban" : "leave"))});
    bool told = before == "invite" || before == "knock";
    CHECK(bench.events("far.test") == (told ? "$x" : ""));
    CHECK(bench.events("one.test") == "$x");
  }
}

TEST_CASE("kick and new invitation in one go: each event is judged by its own line") {
  store_bench bench;
  bench.feed(shared_room());
  bench.feed({member_line(room, "@b:one.test", "leave", "$kick"), member_line(room, "@b:one.test", "invite", "$invite"),
              line_of(member_event(room, "$kick", "@b:one.test", "leave")),
              line_of(member_event(room, "$invite", "@b:one.test", "invite"))});
  CHECK(bench.events("one.test") == "$kick");
}

TEST_CASE("destinations stand instead of the room's servers, and exclude takes away") {
  store_bench bench;
  bench.feed(shared_room());
  auto only = event_of(room, "$only");
  only.destinations = {"far.test", "two.test", "us.test"};
  auto but = event_of(room, "$but");
  but.exclude = {"two.test"};
  auto elsewhere = event_of("!unknown:us.test", "$elsewhere");
  elsewhere.destinations = {"far.test"};
  bench.feed({line_of(only), line_of(but), line_of(elsewhere)});
  REQUIRE(bench.last.entries.size() == 3);
  CHECK(names_of(bench.last.entries[0]) == "far.test two.test");
  CHECK(names_of(bench.last.entries[1]) == "one.test");
  CHECK(bench.events("one.test") == "$but");
  CHECK(bench.events("two.test") == "$only");
  CHECK(bench.events("far.test") == "$only $elsewhere");
  CHECK(bench.owed_servers() == std::vector<std::string>{"far.test", "one.test", "two.test"});
  bench.acknowledge("far.test", bench.head());
  CHECK(bench.owed_servers() == std::vector<std::string>{"one.test", "two.test"});
}

TEST_CASE("a name that is another's beginning isn't excluded with it") {
  store_bench bench;
  bench.feed({member_line(room, "@a:us.test", "join"), member_line(room, "@b:one.test", "join"),
              member_line(room, "@b:one.test:80", "join")});
  auto event = event_of(room, "$1");
  event.exclude = {"one.test:80"};
  bench.feed(line_of(event));
  CHECK(bench.events("one.test") == "$1");
  CHECK(bench.events("one.test:80") == "");
  CHECK(bench.owed_servers() == std::vector<std::string>{"one.test"});
}

TEST_CASE("an event for 1,000 destinations is one row") {
  store_bench bench;
  std::vector<feed_line> lines{member_line(room, "@a:us.test", "join")};
  for (int i = 0; i < 1000; ++i)
    lines.push_back(member_line(room, "@u:s" + std::to_string(i) + ".test", "join"));
  bench.feed(lines);
  auto before = bench.stores->db.total_changes();
  bench.feed(line_of(event_of(room, "$1")));
  CHECK(bench.last.entries.at(0).servers->size() == 1000);
  CHECK(bench.rows("pdu") == 1);
  CHECK(bench.rows("target") == 0);
  // The event, the room's newest position, the head: nothing for a server.
  CHECK(bench.stores->db.total_changes() - before == 3);
  CHECK(bench.owed_servers().size() == 1000);
}

TEST_CASE("feeding again is harmless") {
  store_bench bench;
  auto lines = shared_room();
  lines.push_back(member_line(room, "@e:three.test", "join", "$j"));
  lines.push_back(member_line(room, "@e:three.test", "leave", "$l"));
  lines.push_back(line_of(event_of(room, "$1")));
  lines.push_back(line_of(message_of("m1", {"@b:one.test", "@c:two.test"})));
  auto first = bench.feed(lines);
  CHECK(first.accepted == lines.size());
  auto head = bench.head();
  auto second = bench.feed(lines);
  CHECK(second.accepted == lines.size());
  CHECK(second.skipped == 0);
  CHECK(bench.head() == head);
  CHECK(bench.last.entries.empty());
  CHECK(bench.rows("to_device") == 2);
  // Also when the messages have gone.
  bench.acknowledge("one.test", head);
  bench.acknowledge("two.test", head);
  bench.reopen();
  bench.feed(lines);
  CHECK(bench.head() == head);
  CHECK(bench.owed_servers().empty());
}

TEST_CASE("ids of messages are kept for 7 days after the last part went") {
  store_bench bench;
  constexpr std::int64_t day = 86'400'000;
  bench.feed(shared_room());
  bench.feed(line_of(message_of("m1", {"@b:one.test"})));
  bench.now_ms += 20 * day;
  bench.write([&](writer& to, auto&) { to.tidy(bench.now_ms, {30 * day}); });
  bench.feed(line_of(message_of("m1", {"@b:one.test"})));
  CHECK(bench.rows("to_device") == 1);
  bench.acknowledge("one.test", bench.head());
  bench.now_ms += 6 * day;
  bench.write([&](writer& to, auto&) { to.tidy(bench.now_ms, {30 * day}); });
  bench.feed(line_of(message_of("m1", {"@b:one.test"})));
  CHECK(bench.rows("to_device") == 0);
  bench.now_ms += 2 * day;
  bench.write([&](writer& to, auto&) { to.tidy(bench.now_ms, {30 * day}); });
  bench.feed(line_of(message_of("m1", {"@b:one.test"})));
  CHECK(bench.rows("to_device") == 1);
}

TEST_CASE("source and seq: what is behind is skipped, a rejected line's seq is seen") {
  store_bench bench;
  auto at = [](feed_line line, std::string source, std::int64_t seq) {
    line.source = std::move(source);
    line.seq = seq;
    return line;
  };
  feed_line bad;
  bad.what = record_problem{"M_BAD_JSON", "no"};
  auto first = bench.feed({at(member_line(room, "@a:us.test", "join"), "s", 1), at(bad, "s", 2),
                           at(member_line(room, "@b:one.test", "join"), "s", 3)});
  CHECK(first.accepted == 2);
  CHECK(first.rejected.size() == 1);
  auto second = bench.feed({at(member_line(room, "@x:x.test", "join"), "s", 2), at(bad, "s", 3),
                            at(member_line(room, "@y:y.test", "join"), "other", 1),
                            at(member_line(room, "@z:z.test", "join"), "s", 4)});
  CHECK(second.skipped == 2);
  CHECK(second.accepted == 2);
  CHECK(second.rejected.empty());
  CHECK(last_seq(*bench.reader, "s") == 4);
  CHECK(last_seq(*bench.reader, "never") == std::nullopt);
}

TEST_CASE("a roster replaces: only differences take effect, and who is missing has left") {
  store_bench bench;
  bench.feed(shared_room());
  auto head = bench.head();
  bench.feed(
      line_of(roster_record{room, "10", {{"@a:us.test", "join"}, {"@b:one.test", "join"}, {"@c:two.test", "join"}}}));
  CHECK(bench.head() == head);
  CHECK(find_room(*bench.reader, room).version == "10");
  bench.feed(
      line_of(roster_record{room, "10", {{"@a:us.test", "join"}, {"@c:two.test", "join"}, {"@n:new.test", "join"}}}));
  CHECK(bench.head() == head + 1);
  bench.feed(line_of(event_of(room, "$1")));
  CHECK(names_of(bench.last.entries[0]) == "new.test two.test");
  CHECK(bench.events("one.test") == "");
  CHECK(bench.at("new.test").pdu == head);
  auto view = find_room(*bench.reader, room);
  CHECK(view.known);
  CHECK(view.members.size() == 3);
  CHECK(view.servers == std::vector<std::string>{"new.test", "two.test"});
  CHECK(rooms_of(*bench.reader, "new.test") == std::vector<std::string>{room});
  CHECK(rooms_of(*bench.reader, "one.test").empty());
}

TEST_CASE("ephemeral EDUs name their servers and write nothing") {
  store_bench bench;
  bench.feed(shared_room());
  bench.feed({member_line("!s:us.test", "@a:us.test", "join"), member_line("!s:us.test", "@d:three.test", "join")});
  auto before = bench.stores->db.total_changes();
  edu_record typing{"m.typing", "{}", "k", room, "", {}};
  edu_record presence{"m.presence", R"({"push":[]})", "p", "", "@a:us.test", {}};
  edu_record direct{"x.y", "{}", "", "", "", std::vector<std::string>{"far.test", "us.test"}};
  edu_record nowhere{"m.typing", "{}", "k", "!unknown:us.test", "", {}};
  auto outcome = bench.feed({line_of(typing), line_of(presence), line_of(direct), line_of(nowhere)});
  REQUIRE(bench.last.entries.size() == 3);
  CHECK(names_of(bench.last.entries[0]) == "one.test two.test");
  CHECK(bench.last.entries[0].kind == entry_kind::ephemeral);
  CHECK(bench.last.entries[0].subject == "k");
  CHECK(bench.last.entries[0].detail == "m.typing");
  CHECK(bench.last.entries[0].pos == 0);
  CHECK(names_of(bench.last.entries[1]) == "one.test three.test two.test");
  CHECK(bench.last.entries[1].body.str() == R"({"content":{"push":[]},"edu_type":"m.presence"})");
  CHECK(names_of(bench.last.entries[2]) == "far.test");
  REQUIRE(outcome.rejected.size() == 1);
  CHECK(outcome.rejected[0].errcode == "M_RANVIER_UNKNOWN_ROOM");
  CHECK(bench.stores->db.total_changes() == before);
}

TEST_CASE("device records are kept, and a change that changes nothing takes no position") {
  store_bench bench;
  device_record device;
  device.user_id = "@a:us.test";
  device.device_id = "D";
  device.keys.is = change<std::string>::what::given;
  device.keys.value = "{}";
  bench.feed(line_of(device));
  CHECK(bench.head() == 1);
  bench.feed(line_of(device));
  CHECK(bench.head() == 1);
  device.display_name.is = change<std::string>::what::given;
  device.display_name.value = "phone";
  bench.feed(line_of(device));
  CHECK(bench.head() == 2);
  cross_signing_record keys;
  keys.user_id = "@a:us.test";
  keys.user_signing_key = {change<std::string>::what::given, "{}"};
  bench.feed(line_of(keys));
  CHECK(bench.head() == 2);
  keys.master_key = {change<std::string>::what::given, "{}"};
  bench.feed(line_of(keys));
  CHECK(bench.head() == 3);
  one_time_keys_record one_time{"@a:us.test", "D", {{"x:1", "1"}, {"x:2", "2"}}, {}};
  bench.feed({line_of(one_time), line_of(one_time)});
  CHECK(bench.rows("one_time_key") == 2);
  bench.feed({line_of(room_forgotten_record{room, false}), line_of(server_acl_record{room, "{}"}),
              line_of(partial_join_record{room, "10", "@a:us.test", "$e", "{}", "one.test", {"one.test"}, 0})});
  CHECK(bench.rows("partial_join") == 1);
  CHECK(find_room(*bench.reader, room).acl == "{}");
  CHECK(find_room(*bench.reader, room).known);
  device_record gone;
  gone.user_id = "@a:us.test";
  gone.device_id = "D";
  gone.deleted = true;
  bench.feed(line_of(gone));
  CHECK(bench.rows("one_time_key") == 0);
}

TEST_CASE("a message is split over its destinations, a position and a row each") {
  store_bench bench;
  bench.feed(line_of(message_of("m1", {"@b:one.test", "@b2:one.test", "@c:two.test"})));
  REQUIRE(bench.last.entries.size() == 2);
  CHECK(names_of(bench.last.entries[0]) == "one.test");
  CHECK(bench.last.entries[0].subject == "m1");
  CHECK(names_of(bench.last.entries[1]) == "two.test");
  CHECK(bench.last.entries[1].pos == 2);
  CHECK(bench.at("two.test") == cursors{1, 1, 1});
  auto page = bench.owed("two.test");
  REQUIRE(page.to_device.size() == 1);
  CHECK(page.to_device[0].body.str() == bench.last.entries[1].body.str());
  CHECK(page.to_device_through == 2);
}
