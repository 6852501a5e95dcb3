#include "storage/partial_joins.hpp"

#include "own_lists_bench.hpp"
#include "storage/extra_store.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {

const std::string room = "!r:one.test", alice = "@a:us.test";

struct bench : list_bench {
  std::int64_t generation = 0;

  /// Our user's partial join through one.test; the servers of the list. One event and one device change follow.
  void join(std::vector<std::string> listed = {"one.test"}, std::map<std::string, std::string> shown = {}) {
    record_join what;
    what.room_id = room;
    what.room_version = "10";
    what.user_id = alice;
    what.event_id = "$j";
    what.event = R"({"prev_events":["$p"]})";
    what.joined_via = "one.test";
    what.members_omitted = true;
    what.servers_in_room = std::move(listed);
    what.members = std::move(shown);
    what.events = {{"$c", true, false, shared_text(std::string("{\"c\":1}"))},
                   {"$old", true, false, shared_text(std::string("{\"old\":1}"))}};
    write([&](writer& to, std::vector<log_entry>& entries) {
      generation = to.joins.record(what, now_ms, entries).generation;
    });
  }
  void changes() { feed({line_of(event_of(room, "$m")), line_of(device_line(alice, "D", "x"))}); }
  complete_join truth(std::map<std::string, std::string> members) {
    complete_join what;
    what.room_id = room;
    what.generation = generation;
    for (auto& [user, membership] : members)
      what.members[user] = {membership, "$" + user};
    what.events = {{"$c", true, false, shared_text()}, {"$x", false, true, shared_text(std::string("{\"x\":1}"))}};
    what.servers = {{"one.test", {"ok", ""}}};
    what.reason = "because";
    return what;
  }
  partial_join_ended complete(const complete_join& what) {
    partial_join_ended out;
    write(
        [&](writer& to, std::vector<log_entry>& entries) { out = to.joins.complete(what, to.inbox, now_ms, entries); });
    return out;
  }
  partial_join_ended abandon(const std::string& reason) {
    partial_join_ended out;
    write([&](writer& to, std::vector<log_entry>& entries) {
      out = to.joins.end({room, generation, reason, {{"one.test", {"refused", "403"}}}}, to.inbox, now_ms, entries);
    });
    return out;
  }
  void take(const std::string& origin, const std::string& user, const std::string& device) {
    device_list_edu edu;
    edu.user = user;
    edu.device = device;
    edu.stream_id = 1;
    write([&](writer& to, std::vector<log_entry>& entries) { to.lists.take(origin, {edu}, now_ms, entries); });
  }
  std::vector<std::string> stream(const std::string& kind) {
    std::vector<std::string> out;
    auto rows = reader->ask("SELECT json FROM stream WHERE kind = ? ORDER BY position", kind);
    while (rows.step())
      out.push_back(rows.text(0));
    return out;
  }
  bool told_the_actor() const {
    for (const auto& one : last.entries)
      if (one.kind == entry_kind::partial_join && one.room_id == room) return true;
    return false;
  }
};

} // namespace

TEST_CASE("completion: the state is kept whole, the row goes, host and actor hear of it, once") {
  bench to;
  to.join();
  const auto done = to.complete(to.truth({{"@b:one.test", "join"}}));
  CHECK(done.ok);
  CHECK(done.current);
  CHECK(to.told_the_actor());
  CHECK(to.rows("partial_join") == 0);
  const auto state = storage::read_room_state(*to.reader, room);
  CHECK(state.kept);
  CHECK(state.state == "[{\"c\":1}]"); // $old isn't in the state that came
  CHECK(state.auth_chain == "[{\"x\":1}]");
  const auto items = to.stream("partial_join");
  REQUIRE(items.size() == 1);
  CHECK(items[0] == R"({"room_id":"!r:one.test","state":"complete","reason":"because","users":["@a:us.test"],)"
                    R"("servers":{"one.test":{"verdict":"ok","reason":""}}})");
  CHECK_FALSE(to.complete(to.truth({})).current); // again: nothing
  CHECK(to.stream("partial_join").size() == 1);
  CHECK(find_room(*to.reader, room).members.size() == 2);
}

TEST_CASE("an answer of another generation ends nothing") {
  bench to;
  to.join();
  auto late = to.truth({{"@b:one.test", "join"}});
  to.feed(member_line(room, alice, "leave"));
  CHECK(to.told_the_actor());
  CHECK(to.rows("partial_join") == 0);
  to.join();
  late.generation = to.generation - 1;
  CHECK_FALSE(to.complete(late).current);
  CHECK(to.rows("partial_join") == 1);
  CHECK(find_room(*to.reader, room).members.size() == 1);
}

TEST_CASE("B95, W6: who missed a stretch gets it, one row each; who was served, and who left before us, nothing") {
  bench to;
  to.join({"one.test", "two.test"});
  to.changes();
  to.acknowledge("one.test", to.head());
  to.feed({member_line(room, "@late:late.test", "join"), line_of(event_of(room, "$n"))});
  const auto done = to.complete(to.truth({{"@b:one.test", "join"},
                                          {"@c:two.test", "join"},
                                          {"@e:absent.test", "join"},
                                          {"@f:gone.test", "leave"},
                                          {"@g:banned.test", "ban"}}));
  CHECK(done.affected == std::vector<std::string>{"late.test", "absent.test"});
  CHECK(to.events("absent.test") == "$m $n");
  CHECK(to.events("one.test") == "$n");
  CHECK(to.events("gone.test") == "");
  CHECK(to.events("banned.test") == "");
  CHECK(to.rows("list_extra") == 2);
  CHECK(find_room(*to.reader, room).servers ==
        std::vector<std::string>{"absent.test", "late.test", "one.test", "two.test"});
}

TEST_CASE("P10: somebody unknown who is seen leaving while partial was there: their server is owed it, and no more") {
  bench to;
  to.join();
  to.changes();
  to.feed(member_line(room, "@e:absent.test", "leave"));
  to.complete(to.truth({{"@b:one.test", "join"}, {"@e:absent.test", "join"}}));
  to.feed(line_of(event_of(room, "$later")));
  CHECK(to.events("absent.test") == "$m");
  CHECK(find_room(*to.reader, room).servers == std::vector<std::string>{"one.test"});
  CHECK(to.rows("list_extra") == 1);
}

TEST_CASE("B97, W11: kept updates are announced of those whom the state shows, the others dropped") {
  bench to;
  to.join();
  to.take("one.test", "@b:one.test", "D");
  to.take("two.test", "@c:two.test", "D");
  CHECK(to.rows("kept_update") == 2);
  to.complete(to.truth({{"@b:one.test", "join"}, {"@quiet:one.test", "join"}}));
  CHECK(to.rows("kept_update") == 0);
  CHECK(to.stream("device_lists") == std::vector<std::string>{R"({"changed":["@b:one.test"],"left":[]})"});
}

TEST_CASE("who was believed to be joined and isn't has left; who was banned before they joined is doubted") {
  bench to;
  to.join({"one.test"}, {{"@old:one.test", "join"}});
  CHECK(find_room(*to.reader, room).members.size() == 2);
  to.feed(member_line(room, "@g:one.test", "join"));
  to.write([&](writer& all, std::vector<log_entry>& entries) {
    save_device_list held;
    held.user = "@g:one.test";
    held.is = save_device_list::outcome::list;
    held.stream_id = 3;
    all.lists.save(held, to.now_ms, entries);
    all.db.run("DELETE FROM stream");
  });
  CHECK(to.rows("remote_user") == 1);
  to.complete(to.truth({{"@b:one.test", "join"}, {"@g:one.test", "ban"}}));
  CHECK(to.stream("device_lists") ==
        std::vector<std::string>{R"({"changed":[],"for":["@a:us.test"],"left":["@old:one.test"]})",
                                 R"({"changed":["@g:one.test"],"left":[]})"});
  CHECK(to.rows("remote_user") == 0);
  const auto seen = find_room(*to.reader, room);
  CHECK(std::find(seen.members.begin(), seen.members.end(),
                  std::pair<std::string, std::string>{"@old:one.test", "join"}) == seen.members.end());
}

TEST_CASE("P13: however it ends, candidates are owed what our users changed meanwhile, one row each") {
  for (const bool by_hand : {true, false}) {
    CAPTURE(by_hand);
    bench to;
    to.join({"one.test", "two.test"});
    to.changes();
    if (by_hand) {
      CHECK(to.abandon("enough").affected.size() == 2);
      const auto items = to.stream("partial_join");
      REQUIRE(items.size() == 1);
      CHECK(items[0].find(R"("state":"abandoned","reason":"enough","users":["@a:us.test"])") != std::string::npos);
      CHECK(items[0].find(R"("one.test":{"verdict":"refused","reason":"403"})") != std::string::npos);
    } else {
      to.feed(member_line(room, alice, "leave"));
      CHECK(to.stream("partial_join").empty());
    }
    CHECK(to.told_the_actor());
    CHECK(to.rows("partial_join") == 0);
    CHECK(to.rows("join_event") == 0);
    CHECK(to.rows("list_extra") == 2);
    CHECK_FALSE(find_room(*to.reader, room).ours_joined);
    to.feed(line_of(event_of("!other:us.test", "$z"))); // whatever comes later is none of theirs
    CHECK(to.events("two.test") == "$m");
  }
}

TEST_CASE("completion writes rows for those who lack something, not for members or devices") {
  bench to;
  std::vector<std::string> listed;
  std::map<std::string, std::string> members;
  for (int i = 0; i < 300; ++i) {
    const auto name = "s" + std::to_string(i) + ".test";
    if (i >= 20) listed.push_back(name); // twenty are absent in the list
    for (int u = 0; u < 5; ++u)
      members["@u" + std::to_string(u) + ":" + name] = "join";
  }
  to.join(listed);
  for (int i = 0; i < 30; ++i)
    to.feed(
        {line_of(event_of(room, "$m" + std::to_string(i))), line_of(device_line(alice, "D" + std::to_string(i), "x"))});
  const auto spans = to.rows("span"), entries = to.rows("pdu"), devices = to.rows("device_entry");
  const auto done = to.complete(to.truth(members));
  CHECK(done.affected.size() == 20);
  CHECK(to.rows("list_extra") == 20);
  CHECK(to.rows("extra") <= 20);
  CHECK(to.rows("span") == spans + 20);
  CHECK(to.rows("pdu") == entries);
  CHECK(to.rows("device_entry") == devices);
}

TEST_CASE("list extras: what was missed goes once, of users who were in the room then, and is gone with its ack") {
  bench to;
  to.join();
  to.feed({line_of(device_line(alice, "D", "x")), line_of(device_line("@stranger:us.test", "S", "x")),
           line_of(device_line(alice, "E", "x"))});
  to.complete(to.truth({{"@b:one.test", "join"}, {"@e:absent.test", "join"}}));
  const auto page = to.page("absent.test");
  std::string told;
  for (const auto& one : page.list) {
    const auto update = read_update(one.edu);
    told += update.user + " " + update.device + " ";
  }
  CHECK(told == "@a:us.test D @a:us.test E ");
  CHECK(page.extras.size() == 1);
  CHECK(to.lists().owed_servers("", 10) == std::vector<std::string>{"absent.test", "one.test"});
  to.write([&](writer& all, auto&) { acknowledge_list_extras(all.db, all.names.server("absent.test"), page.extras); });
  CHECK(to.rows("list_extra") == 0);
  CHECK(to.page("absent.test").extras.empty());
}

TEST_CASE("P13: what one end left owed outlives the next join and end of the same room") {
  bench to;
  for (const std::string device : {"D", "E"}) {
    to.join();
    to.feed({line_of(device_line(alice, device, "x")), member_line(room, alice, "leave")});
  }
  CHECK(to.rows("list_extra") == 1);
  std::string told;
  for (const auto& one : to.page("one.test").list)
    told += read_update(one.edu).device + " ";
  CHECK(told == "D E ");
}
