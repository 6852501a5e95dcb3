#include "bin/demo.hpp"

#include "bin/cli.hpp"
#include "bin/demo_room.hpp"
#include "bin/demo_stage.hpp"
#include "bin/table.hpp"
#include "bin/words.hpp"

#include <iostream>
#include <map>

namespace ranvier {

namespace {

using nlohmann::json;

/// What the host has fed, and who must have it.
struct owed {
  std::map<std::string, std::vector<std::string>> events; ///< server -> event ids, in order
};

class demo {
public:
  demo()
      : stage_("demo.test", {"north.test", "slow.test"})
      , north_(stage_.add("north.test"))
      , slow_(stage_.add("slow.test", {.delay_ms = 700})) {}

  int play();

private:
  void introduce();
  void delivery();
  void reckoning();
  void send(demo_room& room, int count);
  void awaits_all(demo_server& server, const std::string& note = "");
  bool has_all(const demo_server& server) const;

  demo_stage stage_;
  demo_server &north_, &slow_;
  std::unique_ptr<demo_room> tea_;
  owed owed_;
  int said_ = 0;
};

int demo::play() {
  try {
    introduce();
    delivery();
    reckoning();
    stage_.end_engine();
    stage_.say("demo", "every server has what it is owed; all is ended and removed", tone::good);
    return exit_ok;
  } catch (const demo_fell_short& problem) {
    stage_.end_engine();
    std::cerr << "demo: " << problem.what() << '\n';
    if (std::string(problem.what()) != "interrupted") std::cerr << "the engine's last words:\n" << stage_.log_tail();
    return exit_no;
  }
}

void demo::introduce() {
  stage_.show("An engine for demo.test, homeservers and a host, all on this machine. Nothing leaves it.");
  north_.up();
  slow_.up();
  stage_.start_engine();
  stage_.say("engine", "is ready", tone::good);
}

void demo::send(demo_room& room, int count) {
  std::vector<json> lines;
  for (int i = 0; i < count; ++i) {
    const auto event = room.message(stage_.user("alice"), "message " + std::to_string(++said_), stage_.engine_key());
    lines.push_back(demo_room::line(event));
    for (const auto& server : stage_.servers())
      owed_.events[server->name()].push_back(event.event_id);
  }
  stage_.feed(lines);
  stage_.say("host", "feeds " + counted(count, "message", "messages") + " for " +
                         counted(std::int64_t(stage_.servers().size()), "server", "servers"));
}

bool demo::has_all(const demo_server& server) const {
  const auto wanted = owed_.events.find(server.name());
  return wanted == owed_.events.end() || server.received().events == wanted->second;
}

void demo::awaits_all(demo_server& server, const std::string& note) {
  const auto began = stage_.elapsed();
  stage_.wait(server.name() + " has all events", [&] { return has_all(server); });
  stage_.say(server.name(),
             "has all " + std::to_string(owed_.events[server.name()].size()) + ", in order, after " +
                 span_text(stage_.elapsed() - began) + note,
             tone::good);
}

void demo::delivery() {
  stage_.scene("Delivery");
  tea_ = std::make_unique<demo_room>("!tea:demo.test", stage_.user("alice"), stage_.engine_key());
  json members{{stage_.user("alice"), "join"}};
  for (const auto& server : stage_.servers())
    members[server->user("guest")] = "join";
  stage_.feed({{{"kind", "roster"}, {"room_id", tea_->room_id()}, {"room_version", "10"}, {"members", members}}});
  send(*tea_, 3);
  awaits_all(north_);
  awaits_all(slow_, ": it takes 700 ms for each answer, and nobody waited for it");
}

void demo::reckoning() {
  stage_.scene("The reckoning");
  stage_.wait("nothing waits for anybody", [&] {
    const auto waiting = object_in(stage_.admin().get("/stats"), "waiting");
    return number_in(waiting, "pdus") + number_in(waiting, "to_device") + number_in(waiting, "device_lists") == 0;
  });
  for (const auto& server : stage_.servers()) {
    const auto got = server->received();
    if (!has_all(*server)) throw demo_fell_short(server->name() + " lacks events");
    stage_.say(server->name(), "owed " + std::to_string(owed_.events[server->name()].size()) + ", has " +
                                   std::to_string(got.events.size()) + ", in " +
                                   counted(got.transactions, "transaction", "transactions"));
  }
}

} // namespace

int run_demo() {
  start_crypto();
  try {
    return demo().play();
  } catch (const std::runtime_error& problem) {
    throw cli_failure(exit_fault, problem.what());
  }
}

} // namespace ranvier
