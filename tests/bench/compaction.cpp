// What keeping the log small costs: a million events with a dead server, and what a boot asks of a million spans.
// Release build, on whatever disk is given:  bench_compaction FOLDER [events] [spans]
#include "storage/identity.hpp"
#include "storage/owed.hpp"
#include "storage/writer.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

using namespace ranvier;
using namespace ranvier::storage;

namespace {

constexpr std::int64_t wall_ms = 1'790'000'000'000;

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  auto seconds = [](const timeval& at) { return double(at.tv_sec) + double(at.tv_usec) / 1e6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}
double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
std::string server(int number) { return "s" + std::to_string(number) + ".test"; }
std::string room(int number) { return "!" + std::to_string(number) + ":us.test"; }

feed_line line_of(record what) {
  feed_line line;
  line.number = 1;
  line.what = std::move(what);
  return line;
}

class bench {
public:
  explicit bench(const std::string& folder)
      : path_(folder + "/bench.db") {
    for (const std::string end : {"", "-wal", "-shm"})
      std::filesystem::remove(path_ + end);
    prepare(path_, {"us.test", "ed25519:a", "KEY"}, false, "bench");
    writer_settings settings;
    settings.path = path_;
    stores = std::make_unique<writer>(settings);
  }
  void write(const writer::job& job) {
    auto result = stores->commit({job});
    if (!result.committed || !result.problems[0].empty()) {
      std::fprintf(stderr, "%s\n", result.problems[0].c_str());
      std::exit(1);
    }
  }
  void feed(const std::vector<feed_line>& lines) {
    write([&](writer& to, std::vector<log_entry>& entries) { to.feed.apply(lines, wall_ms, entries); });
  }
  /// Runs passes as long as there is a reason.
  void compact() {
    while (stores->compact.due()) {
      const auto cpu = cpu_seconds();
      write([](writer& to, auto&) { to.compact_step(wall_ms, {30LL * 86'400'000}); });
      const auto took = cpu_seconds() - cpu;
      compact_cpu += took;
      longest_step = std::max(longest_step, took);
      ++steps;
    }
  }
  std::int64_t rows(std::string_view sql) { return stores->db.integer(sql).value_or(0); }
  double megabytes() {
    stores->db.run("PRAGMA wal_checkpoint(TRUNCATE)");
    return double(std::filesystem::file_size(path_)) / 1e6;
  }

  std::string path_;
  std::unique_ptr<writer> stores;
  double compact_cpu = 0, longest_step = 0;
  long steps = 0;
};

void million_events(const std::string& folder, int events) {
  constexpr int rooms = 20, live = 10, batch = 500;
  bench to(folder);
  for (int r = 0; r < rooms; ++r) {
    std::map<std::string, std::string> members{{"@a:us.test", "join"}, {"@b:dead.test", "join"}};
    for (int s = 0; s < live; ++s)
      members["@b:" + server(s)] = "join";
    to.feed({line_of(roster_record{room(r), "10", members})});
  }
  to.write([](writer& all, auto&) { all.destinations.open_interval(all.names.server("dead.test"), all.log.head()); });
  const std::string text(900, 'x');
  const auto cpu = cpu_seconds();
  double biggest = 0;
  for (int at = 0; at < events;) {
    std::vector<feed_line> lines;
    for (int i = 0; i < batch && at < events; ++i, ++at) {
      pdu_record event;
      event.room_id = room(at % rooms);
      event.event_id = "$" + std::to_string(std::hash<int>{}(at * 2'654'435'761u)) + "-" + std::to_string(at) +
                       "aaaaaaaaaaaaaaaaaaaaaaaa";
      event.type = "m.room.message";
      event.sender = "@a:us.test";
      event.event = R"({"body":")" + text + "\"}";
      lines.push_back(line_of(std::move(event)));
    }
    to.feed(lines);
    to.write([&](writer& all, auto&) {
      const auto head = all.log.head();
      for (int s = 0; s < live; ++s)
        all.destinations.acknowledge(all.names.server(server(s)), {head, head, head}, {}, 0, wall_ms, wall_ms);
    });
    if (at % 10'000 == 0) to.compact();
    if (at % 100'000 == 0) biggest = std::max(biggest, to.megabytes());
  }
  to.compact();
  const auto whole = cpu_seconds() - cpu;
  std::printf("%d events, %d rooms, %d live servers, 1 dead: %lld rows left, let go %lld, ids kept %lld\n", events,
              rooms, live, static_cast<long long>(to.rows("SELECT count(*) FROM pdu")),
              static_cast<long long>(destination_store(to.stores->db).find("dead.test")->let_go),
              static_cast<long long>(to.rows("SELECT count(*) FROM seen")));
  std::printf("  CPU: %.1f s in all, %.1f s of it compaction in %ld steps, the longest %.1f ms of CPU\n", whole,
              to.compact_cpu, to.steps, to.longest_step * 1e3);
  std::printf("  file: %.1f MB, at most %.1f MB on the way; its ids for 7 days are %.1f MB of it\n", to.megabytes(),
              biggest,
              double(to.rows("SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_master "
                             "WHERE tbl_name = 'seen')")) /
                  1e6);
}

/// All that is logged first, then compaction: how long a backlog of it takes.
void backlog(const std::string& folder, int events) {
  bench to(folder);
  to.feed({line_of(roster_record{room(0), "10", {{"@a:us.test", "join"}, {"@b:one.test", "join"}}})});
  for (int at = 0; at < events;) {
    std::vector<feed_line> lines;
    for (int i = 0; i < 500; ++i, ++at) {
      pdu_record event;
      event.room_id = room(0);
      event.event_id = "$" + std::to_string(std::hash<int>{}(at * 2'654'435'761u)) + "-" + std::to_string(at);
      event.type = "m.room.message";
      event.sender = "@a:us.test";
      event.event = R"({"body":")" + std::string(900, 'x') + "\"}";
      lines.push_back(line_of(std::move(event)));
    }
    to.feed(lines);
  }
  to.write([](writer& all, auto&) {
    const auto head = all.log.head();
    all.destinations.acknowledge(all.names.server("one.test"), {head, head, head}, {}, 0, wall_ms, wall_ms);
  });
  const auto before = to.megabytes();
  const auto began = wall_seconds();
  to.compact();
  std::printf("a backlog of %d events: %.1f s of CPU, %.1f s in all without pauses, %ld steps, the longest %.1f ms of "
              "CPU, %lld "
              "rows left; file %.1f MB before and after %.1f MB (its pages are used again)\n",
              events, to.compact_cpu, wall_seconds() - began, to.steps, to.longest_step * 1e3,
              static_cast<long long>(to.rows("SELECT count(*) FROM pdu")), before, to.megabytes());
}

void million_spans(const std::string& folder, int spans) {
  constexpr int in_a_room = 100, servers = 100'000;
  const int rooms = spans / in_a_room;
  bench to(folder);
  for (int r = 0; r < rooms;) {
    std::vector<feed_line> lines;
    for (int i = 0; i < 100 && r < rooms; ++i, ++r) {
      std::map<std::string, std::string> members{{"@a:us.test", "join"}};
      for (int s = 0; s < in_a_room; ++s)
        members["@b:" + server((r * 37 + s * 101) % servers)] = "join";
      if (r < 200) members["@b:dead.test"] = "join";
      lines.push_back(line_of(roster_record{room(r), "10", members}));
    }
    to.feed(lines);
  }
  // All rooms have spoken once, everybody has it but one server that was dead all the time.
  std::vector<feed_line> lines;
  for (int r = 0; r < rooms; ++r) {
    pdu_record event;
    event.room_id = room(r);
    event.event_id = "$" + std::to_string(r);
    event.type = "m.room.message";
    event.sender = "@a:us.test";
    event.event = "{}";
    lines.push_back(line_of(std::move(event)));
  }
  to.feed(lines);
  to.write([&](writer& all, auto&) {
    const auto head = all.log.head();
    for (int s = 0; s < servers; ++s)
      if (auto id = all.names.known_server(server(s)))
        all.destinations.acknowledge(*id, {head, head, head}, {}, 0, wall_ms, wall_ms);
  });
  to.compact();
  lines.clear();
  for (int r = 0; r < 10; ++r) {
    pdu_record event;
    event.room_id = room(r * (rooms / 10));
    event.event_id = "$new" + std::to_string(r);
    event.type = "m.room.message";
    event.sender = "@a:us.test";
    event.event = "{}";
    lines.push_back(line_of(std::move(event)));
  }
  to.feed(lines);
  std::printf("%lld spans, %lld destinations, %lld rows in the log; a pass of compaction that finds nothing: ",
              static_cast<long long>(to.rows("SELECT count(*) FROM span")),
              static_cast<long long>(to.rows("SELECT count(*) FROM destination")),
              static_cast<long long>(to.rows("SELECT count(*) FROM pdu")));
  to.compact_cpu = to.longest_step = 0;
  to.compact();
  std::printf("%.1f ms of CPU, the longest step %.1f ms\n", to.compact_cpu * 1e3, to.longest_step * 1e3);
  to.stores.reset();
  const auto began = wall_seconds();
  prepare(to.path_, {"us.test", "ed25519:a", "KEY"}, false, "bench");
  writer_settings settings;
  settings.path = to.path_;
  writer again(settings);
  const auto opened = wall_seconds();
  database reader(to.path_, database::mode::read);
  owed_reader owed(reader, 50);
  std::size_t found = 0, pages = 0;
  for (std::string after;; ++pages) {
    auto names = owed.list(after, 1'000);
    found += names.size();
    if (names.empty()) break;
    after = names.back();
  }
  std::printf("  boot: opened in %.1f ms; %zu servers that are owed something found in %zu pages, %.1f ms\n",
              (opened - began) * 1e3, found, pages, (wall_seconds() - opened) * 1e3);
}

} // namespace

int main(int count, char** given) {
  if (count < 2) {
    std::fprintf(stderr, "bench_compaction FOLDER [events] [spans]\n");
    return 64;
  }
  const int events = count > 2 ? std::atoi(given[2]) : 1'000'000, spans = count > 3 ? std::atoi(given[3]) : 1'000'000;
  if (events > 0) {
    million_events(given[1], events);
    backlog(given[1], events / 5);
  }
  if (spans > 0) million_spans(given[1], spans);
}
