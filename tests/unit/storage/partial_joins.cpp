#include "storage/partial_joins.hpp"

#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {

const std::string room = "!r:one.test";

record_join join_of(const std::string& user = "@a:us.test", const std::string& event_id = "$j") {
  record_join out;
  out.room_id = room;
  out.room_version = "10";
  out.user_id = user;
  out.event_id = event_id;
  out.event = R"({"prev_events":["$p"]})";
  out.joined_via = "one.test";
  return out;
}
record_join partial_of(const std::string& user = "@a:us.test", const std::string& event_id = "$j") {
  auto out = join_of(user, event_id);
  out.members_omitted = true;
  out.servers_in_room = {"one.test", "two.test"};
  out.events = {{"$c", true, false, shared_text(std::string("{\"c\":1}"))},
                {"$x", false, true, shared_text(std::string("{}"))}};
  return out;
}

struct bench : store_bench {
  join_recorded record(const record_join& what) {
    join_recorded out;
    write([&](writer& to, std::vector<log_entry>& entries) {
      out = to.joins.record(what, now_ms, entries);
      kinds.clear();
      for (const auto& one : entries)
        kinds.push_back(one.kind);
    });
    return out;
  }
  room_view view() { return find_room(*reader, room); }
  std::vector<partial_join_row> rows_of() { return storage::list_partial_joins(*reader, room); }
  std::vector<entry_kind> kinds;
};

} // namespace

TEST_CASE("a full join replaces the roster and opens the spans, at one position") {
  bench to;
  to.feed(line_of(roster_record{room, "9", {{"@old:gone.test", "join"}}}));
  auto what = join_of();
  what.members = {{"@b:one.test", "join"}, {"@c:two.test", "join"}, {"@d:three.test", "ban"}};
  what.acl = R"({"allow":["*"]})";
  const auto done = to.record(what);
  CHECK_FALSE(done.partial);
  CHECK(done.at == to.head() - 1); // the share follows
  const auto seen = to.view();
  CHECK(seen.members ==
        std::vector<std::pair<std::string, std::string>>{
            {"@a:us.test", "join"}, {"@b:one.test", "join"}, {"@c:two.test", "join"}, {"@d:three.test", "ban"}});
  CHECK(seen.servers == std::vector<std::string>{"one.test", "two.test"});
  CHECK(seen.version == "10");
  CHECK(seen.acl == R"({"allow":["*"]})");
  CHECK_FALSE(seen.partial);
  CHECK(seen.ours_joined);
  CHECK(to.kinds == std::vector<entry_kind>{entry_kind::share});
  to.feed(line_of(event_of(room, "$m")));
  CHECK(to.events("one.test") == "$m");
  CHECK(to.events("two.test") == "$m");
}

TEST_CASE("a partial join: the row, the servers of its list, its events, and who must hear") {
  bench to;
  to.feed(line_of(roster_record{room, "10", {{"@old:gone.test", "join"}}}));
  const auto done = to.record(partial_of());
  CHECK(done.partial);
  CHECK(done.generation == 1);
  const auto seen = to.view();
  CHECK(seen.partial);
  CHECK(seen.members == std::vector<std::pair<std::string, std::string>>{{"@a:us.test", "join"}});
  CHECK(seen.servers == std::vector<std::string>{"one.test", "two.test"});
  CHECK(to.kinds == std::vector<entry_kind>{entry_kind::partial_join, entry_kind::share});
  const auto rows = to.rows_of();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].servers == std::vector<std::string>{"one.test", "two.test"});
  CHECK(rows[0].users == std::vector<std::string>{"@a:us.test"});
  CHECK(rows[0].at == done.at);
  CHECK(rows[0].since == done.at);
  CHECK(rows[0].room_version == "10");
  CHECK(storage::list_partial_joins(*to.reader, "").size() == 1);
  CHECK(storage::list_partial_joins(*to.reader, "!other:x").empty());
  const auto events = storage::read_join_events(*to.reader, room, true);
  REQUIRE(events.size() == 2);
  CHECK(events[0].event_id == "$c");
  CHECK(events[0].in_state);
  CHECK_FALSE(events[0].in_auth_chain);
  CHECK(events[0].event.str() == "{\"c\":1}");
  CHECK(storage::read_join_events(*to.reader, room, false)[0].event.empty());
  to.feed(line_of(event_of(room, "$m")));
  CHECK(to.events("two.test") == "$m");
  const auto state = storage::read_room_state(*to.reader, room);
  CHECK(state.known);
  CHECK(state.partial);
  to.reopen();
  CHECK(to.rows_of().size() == 1);
}

TEST_CASE("P9: while partial a span opens, but none closes before the last of ours leaves") {
  bench to;
  to.record(partial_of());
  to.feed({member_line(room, "@x:two.test", "join"), member_line(room, "@x:two.test", "leave"),
           member_line(room, "@y:late.test", "join")});
  CHECK(to.view().servers == std::vector<std::string>{"late.test", "one.test", "two.test"});
  to.feed(line_of(roster_record{room, "10", {{"@a:us.test", "join"}}}));
  CHECK(to.view().servers == std::vector<std::string>{"late.test", "one.test", "two.test"});
  to.feed(line_of(event_of(room, "$m")));
  CHECK(to.events("two.test") == "$m");
  CHECK(to.events("late.test") == "$m");
}

TEST_CASE("B94, P14: a second join of ours changes nothing of the first, and a full room stays full") {
  bench to;
  const auto first = to.record(partial_of());
  auto second = partial_of("@b:us.test", "$k");
  second.servers_in_room = {"two.test", "three.test"};
  const auto done = to.record(second);
  CHECK(done.partial);
  CHECK(done.generation == first.generation);
  CHECK(to.kinds == std::vector<entry_kind>{entry_kind::partial_join, entry_kind::share}); // its actor hears of "three"
  const auto rows = to.rows_of();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].event_id == "$j");
  CHECK(rows[0].users == std::vector<std::string>{"@a:us.test", "@b:us.test"});
  CHECK(rows[0].servers == std::vector<std::string>{"one.test", "two.test", "three.test"});
  CHECK(to.view().servers == std::vector<std::string>{"one.test", "three.test", "two.test"});

  bench full;
  auto whole = join_of();
  whole.members = {{"@x:one.test", "join"}};
  full.record(whole);
  full.feed(member_line(room, "@x:one.test", "leave")); // newer than what the next answer shows
  second.members = {{"@x:one.test", "join"}, {"@y:two.test", "join"}};
  CHECK_FALSE(full.record(second).partial);
  CHECK(full.rows_of().empty());
  CHECK_FALSE(full.view().partial);
  CHECK(full.view().servers == std::vector<std::string>{"two.test"});
}

TEST_CASE("the host's record: once, whether or not its user's membership came before") {
  bench to;
  const partial_join_record record{room, "10", "@a:us.test", "$j", "{}", "one.test", {"one.test", "two.test"}, 2};
  to.feed({member_line(room, "@a:us.test", "join", "$j"), line_of(record)});
  REQUIRE(to.rows_of().size() == 1);
  CHECK(to.rows_of()[0].since <= to.rows_of()[0].at);
  CHECK(to.view().servers == std::vector<std::string>{"one.test", "two.test"});
  const auto generation = to.rows_of()[0].generation;
  to.write([](writer& stores, auto&) { stores.db.run("DELETE FROM partial_join"); }); // complete
  to.feed(line_of(record));
  CHECK(to.rows_of().empty());
  CHECK(generation > 0);
}

TEST_CASE("intents: one a user and room, gone with the join or its failure; what a crash left is told once") {
  bench to;
  to.write([](writer& stores, auto&) {
    stores.joins.begin({room, "@a:us.test", "$1", "one.test", 1});
    stores.joins.begin({room, "@a:us.test", "$2", "two.test", 2});
    stores.joins.begin({room, "@b:us.test", "$3", "one.test", 3});
    stores.joins.begin({"!other:x", "@b:us.test", "$4", "one.test", 4});
    stores.joins.drop("!other:x", "@b:us.test");
  });
  CHECK(to.rows("join_intent") == 2);
  to.record(partial_of("@b:us.test", "$3"));
  CHECK(to.rows("join_intent") == 1);
  std::size_t found = 0;
  to.write([&](writer& stores, auto&) { found = stores.joins.settle_intents(stores.inbox, 9); });
  CHECK(found == 1);
  const auto text = to.reader->text("SELECT json FROM stream WHERE kind = 'partial_join'").value_or("");
  CHECK(text.find(R"("state":"settled")") != std::string::npos);
  CHECK(text.find(R"("users":["@a:us.test"])") != std::string::npos);
  CHECK(text.find("two.test") != std::string::npos);
  to.write([&](writer& stores, auto&) { found = stores.joins.settle_intents(stores.inbox, 9); });
  CHECK(found == 0);
}

TEST_CASE("a forgotten room keeps nothing of its joins, and its actor hears of it") {
  bench to;
  to.record(partial_of());
  to.feed(line_of(room_forgotten_record{room, false}));
  CHECK(to.rows("partial_join") == 0);
  CHECK(to.rows("join_event") == 0);
  bool told = false;
  for (const auto& one : to.last.entries)
    told = told || (one.kind == entry_kind::partial_join && one.room_id == room);
  CHECK(told);
}

TEST_CASE("progress is kept for its own generation only") {
  bench to;
  const auto done = to.record(partial_of());
  to.write([&](writer& stores, auto&) {
    stores.joins.save_progress({room, done.generation, "{\"n\":1}"});
    stores.joins.save_progress({room, done.generation + 1, "late"});
  });
  CHECK(to.rows_of()[0].progress == "{\"n\":1}");
}

TEST_CASE("the kept state as the host gets it") {
  bench to;
  to.record(partial_of());
  to.write([](writer& stores, auto&) {
    stores.db.run("DELETE FROM partial_join");
    stores.db.run("INSERT INTO join_state(room, event_id, at_ms) SELECT id, '$j', 1 FROM room");
  });
  const auto state = storage::read_room_state(*to.reader, room);
  CHECK(state.kept);
  CHECK(state.event_id == "$j");
  CHECK(state.state == "[{\"c\":1}]");
  CHECK(state.auth_chain == "[{}]");
}
