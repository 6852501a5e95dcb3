#include "storage/list_announcements.hpp"

#include "remote_lists_bench.hpp"

#include <ctime>
#include <random>

using namespace ranvier;
using namespace ranvier::storage;
using B = lists_bench;
using nlohmann::json;

namespace {

const std::string alice = "@a:us.test", carol = "@c:us.test", bob = "@b:remote.test", xavier = "@x:other.test";

feed_line roster_line(const std::string& room, const std::vector<std::string>& joined) {
  std::map<std::string, std::string> members;
  for (const auto& user : joined)
    members[user] = "join";
  return line_of(roster_record{room, "", members});
}

json changed(std::vector<std::string> users, std::vector<std::string> concerned) {
  return {{"changed", users}, {"for", concerned}, {"left", json::array()}};
}
json left(std::vector<std::string> users, std::vector<std::string> concerned) {
  return {{"changed", json::array()}, {"for", concerned}, {"left", users}};
}

/// What one line made of the stream.
std::vector<json> told(lists_bench& bench, feed_line line) {
  bench.told();
  bench.feed(std::move(line));
  return bench.told();
}

} // namespace

TEST_CASE("F6: when a remote user joins a room it is changed for those who newly share one") {
  lists_bench bench;
  bench.feed(member_line(B::room, carol, "join"));
  CHECK(told(bench, member_line(B::room, xavier, "join")) == std::vector{changed({xavier}, {alice, carol})});
  bench.feed(member_line("!two", alice, "join"));
  CHECK(told(bench, member_line("!two", xavier, "join")).empty()); // alice knows it
  bench.feed(member_line("!two", "@d:us.test", "join"));
  bench.feed(member_line(B::room, xavier, "leave"));
  CHECK(told(bench, member_line(B::room, xavier, "join")) == std::vector{changed({xavier}, {carol})});
  // Where none of ours is, nobody is told; a repeated line, an invite and a profile change tell nothing.
  CHECK(told(bench, member_line("!elsewhere", "@y:other.test", "join")).empty());
  CHECK(told(bench, member_line(B::room, xavier, "join")).empty());
  CHECK(told(bench, member_line(B::room, "@i:other.test", "invite")).empty());
}

TEST_CASE("F7: when a remote user leaves a room it has left for those who share none any more") {
  lists_bench bench;
  bench.feed(member_line(B::room, carol, "join"));
  bench.feed(member_line("!two", alice, "join"));
  bench.feed(member_line("!two", bob, "join"));
  for (const auto* how : {"leave", "ban"}) {
    bench.feed(member_line(B::room, bob, "join"));
    CHECK(told(bench, member_line(B::room, bob, how)) == std::vector{left({bob}, {carol})});
  }
  CHECK(told(bench, member_line(B::room, bob, "leave")).empty());
  CHECK(told(bench, member_line("!two", bob, "leave")) == std::vector{left({bob}, {alice})});
}

TEST_CASE("F6: one of ours who joins is told of all that it newly shares a room with, the others of it") {
  lists_bench bench;
  bench.feed(member_line(B::room, xavier, "join"));
  CHECK(told(bench, member_line(B::room, carol, "join")) ==
        std::vector{changed({alice, bob, xavier}, {carol}), changed({carol}, {alice})});
  bench.feed(member_line("!two", bob, "join"));
  bench.feed(member_line("!two", alice, "join"));
  bench.feed(member_line("!two", "@y:other.test", "join"));
  CHECK(told(bench, member_line("!two", carol, "join")) == std::vector{changed({"@y:other.test"}, {carol})});
}

TEST_CASE("F7: one of ours who leaves is told of all that it shares no room with any more, the others of it") {
  lists_bench bench;
  bench.feed(member_line(B::room, xavier, "join"));
  bench.feed(member_line(B::room, carol, "join"));
  bench.feed(member_line("!two", carol, "join"));
  bench.feed(member_line("!two", xavier, "join"));
  CHECK(told(bench, member_line(B::room, carol, "leave")) ==
        std::vector{left({alice, bob}, {carol}), left({carol}, {alice})});
  CHECK(told(bench, member_line("!two", carol, "ban")) == std::vector{left({xavier}, {carol})});
  // The last one of ours.
  CHECK(told(bench, member_line(B::room, alice, "leave")) == std::vector{left({bob, xavier}, {alice})});
}

TEST_CASE("a roster announces as membership lines do, one item for all who are alike") {
  lists_bench bench(false);
  auto first = told(bench, roster_line(B::room, {alice, bob, carol, xavier}));
  CHECK(first == std::vector{changed({alice, bob, carol, xavier}, {alice, carol})});
  CHECK(told(bench, roster_line(B::room, {alice, bob, carol, xavier})).empty());
  CHECK(told(bench, roster_line(B::room, {alice, bob, "@y:other.test", "@z:other.test"})) ==
        std::vector{changed({"@y:other.test", "@z:other.test"}, {alice}), left({alice, bob, xavier}, {carol}),
                    left({carol, xavier}, {alice})});
  // Who is missing has left; two of ours at once.
  bench.feed(member_line(B::room, carol, "join"));
  auto all_gone = told(bench, roster_line(B::room, {bob}));
  CHECK(all_gone == std::vector{left({carol}, {alice}), left({alice}, {carol}),
                                left({bob, "@y:other.test", "@z:other.test"}, {alice, carol})});
}

TEST_CASE("F6: beyond a bound of questions a joiner is announced to all of ours in the room; who left never is") {
  for (int rooms : {50, 110}) {
    CAPTURE(rooms);
    lists_bench bench(false);
    std::vector<std::string> ours{alice};
    for (int i = 0; i < 199; ++i)
      ours.push_back("@u" + std::to_string(i) + ":us.test");
    bench.feed(roster_line("!big", ours));
    std::vector<feed_line> lines;
    for (int i = 0; i < rooms; ++i)
      lines.push_back(roster_line("!r" + std::to_string(i), {alice, xavier}));
    bench.feed(lines);
    auto items = told(bench, member_line("!big", xavier, "join"));
    REQUIRE(items.size() == 1);
    CHECK(items[0]["for"].size() == (rooms == 50 ? 199 : 200)); // alice knows it
    items = told(bench, member_line("!big", xavier, "leave"));
    REQUIRE(items.size() == 1);
    CHECK(items[0]["for"].size() == 199);
  }
}

TEST_CASE("a room that the host forgets ends the sharing too") {
  lists_bench bench;
  bench.save(B::fetched(0, 5, {"B1"}));
  CHECK(told(bench, line_of(room_forgotten_record{B::room, true})) == std::vector{left({bob}, {alice})});
  CHECK(bench.rows("remote_user") == 0);
}

TEST_CASE("L14: lists are held while a room is shared, and not over a gap") {
  lists_bench bench;
  bench.feed(member_line("!two", alice, "join"));
  bench.feed(member_line("!two", bob, "join"));
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.feed(member_line(B::room, bob, "leave"));
  CHECK(bench.known().state == list_state::fresh); // one room is left
  bench.feed(member_line("!two", carol, "join"));
  bench.feed(member_line("!two", alice, "leave"));
  CHECK(bench.known().state == list_state::fresh); // another of ours is there
  bench.feed(member_line("!two", carol, "leave"));
  CHECK(bench.known().state == list_state::not_shared);
  CHECK(bench.rows("remote_user") + bench.rows("remote_device") == 0);
  // SyTest: "Server correctly resyncs when server leaves and rejoins a room".
  bench.feed(member_line("!two", carol, "join"));
  CHECK(bench.known().state == list_state::not_held);
}

TEST_CASE("L14: a stale user whose last shared room ends is stale no more") {
  lists_bench bench;
  bench.mark("a gap");
  bench.feed(roster_line(B::room, {alice}));
  CHECK(bench.stale().empty());
  // Updates of those who left go unheard (SyTest: "If remote user leaves room we no longer receive device updates").
  bench.told();
  bench.take({B::update(7, {6}, "B2")});
  CHECK(bench.to_fetch() == "");
  CHECK(bench.told().empty());
}

TEST_CASE("under another name of ours nobody's list is known") {
  lists_bench bench;
  bench.save(B::fetched(0, 5, {"B1"}));
  bench.stores.reset();
  prepare(bench.folder.file("db"), {"we.test", "ed25519:a", "KEY"}, true, "instance-1");
  CHECK(bench.reader->integer("SELECT count(*) FROM remote_user") == 0);
  CHECK(bench.reader->integer("SELECT count(*) FROM remote_device") == 0);
}

TEST_CASE("a room of 20,000 members: what the coming and going of one of ours costs") {
  lists_bench bench(false);
  std::vector<std::string> members;
  for (int i = 0; i < 20'000; ++i)
    members.push_back("@user" + std::to_string(i) + ":s" + std::to_string(i % 1'000) + ".test");
  bench.feed(roster_line("!big", members));
  auto some = std::vector<std::string>(members.begin(), members.begin() + 10'000);
  some.push_back(carol);
  bench.feed(roster_line("!other", some));
  auto costs = [&](const std::string& what, const feed_line& line, std::size_t names) {
    auto began = std::clock();
    bench.feed(line);
    auto took_ms = 1000.0 * double(std::clock() - began) / CLOCKS_PER_SEC;
    MESSAGE(what << ": " << took_ms << " ms of our own time, " << names << " names");
    CHECK(took_ms < 1'000); // of a build without optimisation, under sanitizers; 100 is the aim of a real one
    std::size_t n = 0;
    for (const auto& item : bench.told())
      n += item["changed"].size() + item["left"].size();
    CHECK(n == names);
  };
  bench.told();
  costs("our first user joins", member_line("!big", alice, "join"), 20'000);
  costs("one joins who knows half of them", member_line("!big", carol, "join"), 10'001 + 1);
  costs("a remote user joins", member_line("!big", xavier, "join"), 1);
  costs("a remote user leaves", member_line("!big", xavier, "leave"), 1);
  costs("one leaves who still knows half of them", member_line("!big", carol, "leave"), 10'001 + 1);
  costs("our last user leaves", member_line("!big", alice, "leave"), 20'000);
}

namespace {

/// Rooms and who is in them; what it means is worked out pair by pair.
class roster_model {
public:
  std::map<std::string, std::set<std::string>> rooms;

  std::set<std::pair<std::string, std::string>> pairs() const {
    std::set<std::pair<std::string, std::string>> out;
    for (const auto& [room, members] : rooms)
      for (const auto& ours : members)
        for (const auto& other : members)
          if (ours != other && ours.ends_with(":us.test")) out.emplace(ours, other);
    return out;
  }
};

std::set<std::pair<std::string, std::string>> pairs_of(const std::vector<json>& items, const char* list) {
  std::set<std::pair<std::string, std::string>> out;
  for (const auto& item : items)
    for (const auto& other : item[list])
      for (const auto& ours : item["for"])
        if (ours != other) out.emplace(ours, other);
  return out;
}

/// In `a`, not in `b`.
std::set<std::pair<std::string, std::string>> minus(const std::set<std::pair<std::string, std::string>>& a,
                                                    const std::set<std::pair<std::string, std::string>>& b) {
  std::set<std::pair<std::string, std::string>> out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(out, out.end()));
  return out;
}

} // namespace

TEST_CASE("random rosters: the stream says exactly who newly shares a room and who shares none any more") {
  const std::vector<std::string> users{"@a:us.test",  "@b:us.test",  "@c:us.test", "@p:one.test",
                                       "@q:one.test", "@r:two.test", "@s:two.test"};
  for (unsigned seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    lists_bench bench(false);
    roster_model model;
    std::set<std::string> held;
    for (int step = 0; step < 40; ++step) {
      auto room = "!" + std::to_string(pick(3));
      auto& members = model.rooms[room];
      auto before = model.pairs();
      feed_line line;
      if (pick(4) == 0) {
        std::set<std::string> now;
        for (const auto& user : users)
          if (pick(2) == 0) now.insert(user);
        members = now;
        line = roster_line(room, {now.begin(), now.end()});
      } else {
        const auto& user = users[pick(users.size())];
        auto how = std::vector<std::string>{"join", "join", "leave", "ban", "invite"}[pick(5)];
        if (how == "join") members.insert(user);
        else members.erase(user);
        line = member_line(room, user, how);
      }
      auto after = model.pairs();
      auto items = told(bench, line);
      CHECK(items.size() <= 8);
      CHECK(pairs_of(items, "changed") == minus(after, before));
      CHECK(pairs_of(items, "left") == minus(before, after));
      // A list is held as long as a room is shared.
      std::set<std::string> shared;
      for (const auto& [ours, other] : after)
        if (!other.ends_with(":us.test")) shared.insert(other);
      std::erase_if(held, [&](const auto& user) { return !shared.contains(user); });
      for (const auto& user : users) {
        CHECK((bench.known(user).state == list_state::fresh) == held.contains(user));
        if (!user.ends_with(":us.test") && !held.contains(user))
          CHECK((bench.known(user).state == list_state::not_held) == shared.contains(user));
      }
      if (!shared.empty() && pick(2) == 0) {
        auto user = *std::next(shared.begin(), static_cast<std::ptrdiff_t>(pick(shared.size())));
        auto marks = std::max<std::int64_t>(0, bench.marks(user));
        auto saved = bench.save(B::fetched(marks, 1, {"D"}, user));
        if (saved.still_stale) bench.save(B::fetched(saved.marks, 1, {"D"}, user));
        held.insert(user);
      }
    }
  }
}
