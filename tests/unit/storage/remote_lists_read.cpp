#include "storage/remote_lists.hpp"

#include "remote_lists_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;
using B = lists_bench;

namespace {
std::string words(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names)
    out += (out.empty() ? "" : " ") + name;
  return out;
}
device_changes changes(lists_bench& bench, const std::string& user, position from,
                       std::int64_t horizon_ms = 86'400'000) {
  return remote_list_reader(*bench.reader)
      .changes({user, from, bench.stores->inbox.bounds().head}, bench.now_ms, horizon_ms);
}
std::string changed(lists_bench& bench, const std::string& user, position from) {
  return words(changes(bench, user, from).changed);
}
std::string left(lists_bench& bench, const std::string& user, position from) {
  return words(changes(bench, user, from).left);
}
position stream_head(lists_bench& bench) { return bench.stores->inbox.bounds().head; }
} // namespace

TEST_CASE("U14: names stand in unsigned beside what the peer put there; keys that are no object are left out") {
  lists_bench bench;
  auto list = B::fetched(0, 5, {"B1", "B2", "B3", "B4"});
  list.devices[0].keys = R"({"a":1,"unsigned":{"z":1,"device_display_name":"theirs"},"zz":2})";
  list.devices[0].display_name = "ours \"1\"";
  list.devices[1].keys = "[]";
  list.devices[2].keys = "no json";
  list.devices[3].keys.clear();
  bench.save(list);
  auto known = bench.known();
  REQUIRE(known.devices.size() == 1);
  CHECK(known.devices.at("B1") == R"({"a":1,"unsigned":{"device_display_name":"ours \"1\"","z":1},"zz":2})");
  auto some = remote_list_reader(*bench.reader).keys(B::bob, {"B7", "B1"});
  CHECK(some.devices.size() == 1);
  CHECK(remote_list_reader(*bench.reader).keys(B::bob, {"B7"}).devices.empty());
  CHECK(remote_list_reader(*bench.reader).keys(B::bob, {"B7"}).state == list_state::fresh);
}

TEST_CASE("stale users of one server or of all, in order of name") {
  lists_bench bench;
  for (const auto* user : {"@c:remote.test", "@d:other.test"})
    bench.feed(member_line(B::room, user, "join"));
  for (const auto* user : {"@d:other.test", "@c:remote.test", "@b:remote.test"})
    bench.mark("x", user);
  CHECK(bench.stale().size() == 3);
  REQUIRE(bench.stale("remote.test").size() == 2);
  CHECK(bench.stale("remote.test")[0].user == "@b:remote.test");
  remote_list_reader reader(*bench.reader);
  CHECK(words(reader.servers_with_stale("", 10)) == "other.test remote.test");
  CHECK(words(reader.servers_with_stale("", 1)) == "other.test");
  CHECK(words(reader.servers_with_stale("other.test", 10)) == "remote.test");
}

TEST_CASE("F8: changes in a range, for one user") {
  lists_bench bench;
  const std::string carol = "@c:us.test", dora = "@d:us.test";
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.feed(member_line("!other", carol, "join"));
  auto from = stream_head(bench);
  CHECK(changed(bench, B::alice, from) == "");
  bench.take({B::update(6, {5}, "B2")});
  CHECK(changed(bench, B::alice, from) == "@b:remote.test");
  CHECK(changed(bench, carol, from) == "");
  CHECK(changed(bench, B::alice, stream_head(bench)) == "");
  // The user itself; a user without rooms has no changes.
  bench.write([&](writer& to, auto&) { to.announcements.changed({carol, dora}, bench.now_ms); });
  CHECK(changed(bench, carol, from) == "@c:us.test");
  CHECK(changed(bench, dora, from) == "");
  CHECK(changed(bench, B::alice, from) == "@b:remote.test");
  // A range that is over, and one that ends before.
  CHECK(words(remote_list_reader(*bench.reader).changes({B::alice, from, from}, bench.now_ms, 1'000).changed) == "");
}

TEST_CASE("F7, F8: who came is changed, who went has left, who came back is changed, who came and went has left") {
  lists_bench bench;
  const std::string other = "@o:other.test";
  auto before = stream_head(bench);
  bench.feed(member_line(B::room, other, "join"));
  CHECK(changed(bench, B::alice, before) == other);
  auto there = stream_head(bench);
  bench.feed(member_line(B::room, other, "leave"));
  CHECK(left(bench, B::alice, there) == other);
  CHECK(changed(bench, B::alice, there) == "");
  CHECK(left(bench, B::alice, before) == other);
  CHECK(changed(bench, B::alice, before) == "");
  auto gone = stream_head(bench);
  bench.feed(member_line(B::room, other, "join"));
  CHECK(changed(bench, B::alice, gone) == other);
  CHECK(left(bench, B::alice, there) == "");
  CHECK(changed(bench, B::alice, there) == other);
  // Our own leaving, asked again from the same place.
  auto ours = stream_head(bench);
  bench.feed(member_line(B::room, B::alice, "leave"));
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(left(bench, B::alice, ours) == "@b:remote.test @o:other.test");
    CHECK(changed(bench, B::alice, ours) == "");
  }
  CHECK(left(bench, "@x:us.test", ours) == "");
}

TEST_CASE("a range that begins before the horizon gives everybody who shares a room") {
  lists_bench bench;
  const std::int64_t day = 86'400'000;
  auto from = stream_head(bench) - 1;
  CHECK_FALSE(changes(bench, B::alice, from).limited);
  bench.now_ms += day + 1;
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.take({B::update(6, {5}, "B2")});
  // Whether or not they are still there.
  for (int turn = 0; turn < 2; ++turn) {
    auto all = changes(bench, B::alice, from);
    CHECK(all.limited);
    CHECK(words(all.changed) == "@a:us.test @b:remote.test");
    CHECK(all.left.empty());
    CHECK(changes(bench, "@nobody:us.test", from).changed.empty());
    auto recent = changes(bench, B::alice, from + 1);
    CHECK_FALSE(recent.limited);
    CHECK(words(recent.changed) == "@b:remote.test");
    bench.write([&](writer& to, auto&) { to.tidy(bench.now_ms, {0, day}); });
    CHECK(bench.rows("device_list_item") == 1);
  }
  // The host's stream is another matter: it has all that it didn't acknowledge.
  CHECK(bench.told().size() == 1);
}

TEST_CASE("many names are looked up at once, and give the same") {
  lists_bench bench;
  std::map<std::string, std::string> members{{B::alice, "join"}};
  for (int i = 0; i < 700; ++i)
    members["@u" + std::to_string(i) + ":remote.test"] = "join";
  auto from = stream_head(bench);
  bench.feed(line_of(roster_record{"!big", "", members}));
  CHECK(changes(bench, B::alice, from).changed.size() == 700);
  auto gone = stream_head(bench);
  bench.feed(line_of(roster_record{"!big", "", {{B::alice, "join"}, {"@u5:remote.test", "join"}}}));
  CHECK(changes(bench, B::alice, gone).left.size() == 699);
  CHECK(changes(bench, B::alice, from).left.size() == 699);
  CHECK(words(changes(bench, B::alice, from).changed) == "@u5:remote.test");
}
