#include "own_lists_bench.hpp"

#include <cstdio>
#include <ctime>

using namespace ranvier;
using namespace ranvier::storage;

namespace {
const std::string room = "!r:us.test", alice = "@a:us.test", bob = "@b:us.test";
using names = std::vector<std::string>;
} // namespace

TEST_CASE("servers that are owed something of device lists, in order of name") {
  list_bench bench;
  bench.feed({line_of(roster_line(room, {alice, "@x:b.test", "@x:a.test"})),
              line_of(roster_line("!s:us.test", {bob, "@x:c.test"}))});
  CHECK(bench.lists().owed_servers("", 10).empty());
  bench.feed(line_of(device_line(alice, "D1", "k")));
  CHECK(bench.lists().owed_servers("", 10) == names{"a.test", "b.test"});
  CHECK(bench.lists().owed_servers("a.test", 10) == names{"b.test"});
  CHECK(bench.lists().owed_servers("", 1) == names{"a.test"});
  CHECK(bench.lists().owed_servers("b.test", 10).empty());
  CHECK(bench.lists().count("a.test", 0).entries == 1);
  CHECK(bench.lists().count("a.test", 0).oldest_at_ms == bench.now_ms);
  CHECK(bench.lists().count("c.test", 0).entries == 0);
  bench.deliver("a.test");
  CHECK(bench.lists().owed_servers("", 10) == names{"b.test"});
  CHECK(bench.lists().count("a.test", bench.head()).entries == 0);
  bench.feed(line_of(signing_line(bob, "M")));
  CHECK(bench.lists().owed_servers("", 10) == names{"b.test", "c.test"});
  bench.feed(member_line("!s:us.test", bob, "leave"));
  CHECK(bench.lists().owed_servers("", 10) == names{"b.test"});
  // A share counts by its room.
  bench.acknowledge("b.test", bench.head());
  bench.feed(member_line(room, bob, "join"));
  CHECK(bench.lists().owed_servers("", 10) == names{"a.test", "b.test"});
}

TEST_CASE("B80: a lone device or signing entry counts as work") {
  for (bool signing : {false, true}) {
    list_bench bench;
    bench.feed(line_of(roster_line(room, {alice, "@x:a.test"})));
    if (signing) bench.feed(line_of(signing_line(alice, "M")));
    else bench.feed(line_of(device_line(alice, "D1", "k")));
    bench.reopen();
    CHECK(bench.lists().owed_servers("", 10) == names{"a.test"});
  }
}

TEST_CASE("10,000 users and 10,000 servers: what is owed is found by index") {
  list_bench bench;
  constexpr int users = 10'000, servers = 10'000, rooms = 2'000;
  std::vector<feed_line> lines;
  for (int i = 0; i < rooms; ++i) {
    names joined;
    for (int j = 0; j < 25; ++j)
      joined.push_back("@u" + std::to_string((i * 5 + j * 401) % users) + ":us.test");
    for (int j = 0; j < 25; ++j)
      joined.push_back("@r:s" + std::to_string((i * 5 + j * 397) % servers) + ".test");
    lines.push_back(line_of(roster_line("!m" + std::to_string(i) + ":us.test", joined)));
  }
  // One room that a server of its own shares with one user.
  lines.push_back(line_of(roster_line("!small:us.test", {"@u7:us.test", "@r:small.test"})));
  bench.feed(lines);
  lines.clear();
  for (int i = 0; i < users; ++i)
    lines.push_back(line_of(device_line("@u" + std::to_string(i) + ":us.test", "A", "k")));
  for (const std::string device : {"B", "C"})
    lines.push_back(line_of(device_line("@u7:us.test", device, "k")));
  bench.feed(lines);
  // Processor time: the machine has other work too.
  auto timed = [](const char* what, auto&& work, double at_most_ms) {
    const auto begin = std::clock();
    work();
    const auto took = 1'000.0 * double(std::clock() - begin) / CLOCKS_PER_SEC;
    std::printf("%s: %.2f ms\n", what, took);
    CHECK(took < at_most_ms);
  };
  timed(
      "owed_servers, all of 10,001", [&] { CHECK(bench.lists().owed_servers("", 20'000).size() == 10'001); }, 3'000);
  timed(
      "updates, a page of 100 of a server behind by everything",
      [&] { CHECK(bench.page("s17.test").list.size() == 100); }, 1'000);
  timed(
      "updates, the 3 of a server that shares one room with one user",
      [&] { CHECK(bench.page("small.test").list.size() == 3); }, 100);
  timed(
      "count", [&] { CHECK(bench.lists().count("small.test", 0).entries == 3); }, 100);
  const auto head = bench.head();
  bench.write([&](writer& to, auto&) { to.db.run("UPDATE cursor SET device_lists = ?", head); });
  timed(
      "owed_servers, nobody owed", [&] { CHECK(bench.lists().owed_servers("", 20'000).empty()); }, 1'000);
  timed(
      "updates, nothing owed", [&] { CHECK(bench.page("s17.test").list.empty()); }, 50);
  bench.feed(line_of(device_line("@u7:us.test", "A", "k2")));
  timed(
      "updates, one entry", [&] { CHECK(bench.page("small.test").list.size() == 1); }, 50);
  timed(
      "owed_servers, those of one user", [&] { CHECK(bench.lists().owed_servers("", 20'000).size() > 10); }, 1'000);
  timed(
      "a change of one device",
      [&] {
        for (int i = 0; i < 10; ++i)
          bench.feed(line_of(device_line("@u7:us.test", "A", "k3" + std::to_string(i))));
      },
      1'000);
  timed(
      "clean-up, a step", [&] { bench.write([&](writer& to, auto&) { to.devices.tidy(bench.now_ms + 200'000); }); },
      1'000);
}
