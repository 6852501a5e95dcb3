#pragma once
#include "actors/ledger.hpp"
#include "actors/reader.hpp"
#include "actors/supervisor.hpp"
#include "storage/identity.hpp"
#include "tests/simulation/virtual_time.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ranvier::supervisor_bench {

using namespace std::chrono_literals;

/// What the stand-in for the egress saw and does.
struct outside {
  std::map<std::string, int> status{}; ///< destination -> what it answers; 0: connection refused; absent: 200
  std::vector<std::string> asked;      ///< destinations, in order
  std::vector<std::string> bodies;
  std::vector<std::int64_t> at_ms;                              ///< when, as `asked`
  std::vector<std::string> uris{};                              ///< as `asked`
  std::function<void(const http_call&, http_answer&)> script{}; ///< may change an answer
  std::int64_t takes_ms = 0;                                    ///< until it answers
  int cancelled = 0;
};

struct egress_double_state {
  egress_double_state() = default;
  static inline const char* name = "egress double";
};

inline egress_actor::behavior_type egress_double(egress_actor::stateful_pointer<egress_double_state> self,
                                                 outside* world) {
  return {[=](const local<http_order>& order) {
            world->asked.push_back(order->call.destination);
            world->bodies.push_back(order->call.body.str());
            world->uris.push_back(order->call.uri);
            world->at_ms.push_back(
                std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now().time_since_epoch()).count());
            http_answer answer;
            answer.id = order->call.id;
            const auto scripted = world->status.find(order->call.destination);
            answer.status = scripted == world->status.end() ? 200 : scripted->second;
            answer.stage = failure_stage::connect;
            answer.problem = answer.status == 0 ? "refused" : "";
            answer.request_sent = answer.status != 0;
            answer.body = shared_text(std::string("{}"));
            answer.content_type = "application/json";
            if (world->script) world->script(order->call, answer);
            if (world->takes_ms == 0) self->send(order->reply_to, make_local(std::move(answer)));
            else
              self->delayed_send(order->reply_to, std::chrono::milliseconds(world->takes_ms),
                                 make_local(std::move(answer)));
          },
          [=](const local<cancel_calls>&) { return ++world->cancelled, done{}; },
          [=](const describe&) { return description{"{}"}; }};
}

inline const signing_key& key() {
  static const auto made = (start_crypto(), signing_key::from_seed("1", std::string(32, 'k')));
  return made;
}

/// Supervisor, ledger and reader as they are, over a real database; the network and chance are doubles.
struct fixture {
  std::filesystem::path folder;
  sim::virtual_time time{3'600'000};
  outside world;
  std::string crash_at; ///< the destination whose jitter throws: how a fault in an actor is made
  std::shared_ptr<destination_parts> parts = std::make_shared<destination_parts>();
  supervisor_actor supervisor;
  reader_actor reader;
  int ready = 0;

  std::vector<std::string> health{}; ///< what the ledger said of the disk; empty: it is well
  std::int64_t wall_ahead_ms = 0;    ///< the wall clock jumped by so much

  explicit fixture(std::int64_t first_ms = 1'000) {
    std::string pattern = std::filesystem::exists("/dev/shm") ? "/dev/shm/" : "/tmp/";
    pattern += "ranvier-supervisor-XXXXXX";
    folder = ::mkdtemp(pattern.data());
    storage::prepare(path(), {"us.test", key().key_id(), key().public_key()}, false, "i");
    parts->settings.server_name = "us.test";
    parts->settings.backoff.first_ms = first_ms;
    parts->settings.backoff.jitter = 0;
    parts->settings.federation.deny = {"denied.*"};
    parts->key = std::make_shared<const signing_key>(key());
    parts->reader = [this](const std::string&) { return reader; };
    parts->egress = time.system.spawn(egress_double, &world);
    parts->counters = std::make_shared<metrics>();
    parts->rates = std::make_shared<recent_rates>();
    parts->wall_ms = [this] { return wall_ms(); };
    parts->uniform = [this](const std::string& name) {
      if (name == crash_at) throw std::runtime_error("made to crash");
      return 0.5;
    };
    live();
  }
  ~fixture() {
    die();
    caf::anon_send_exit(parts->egress, caf::exit_reason::user_shutdown);
    time.drain();
    time.clock().cancel_all();
    time.drain();
    std::filesystem::remove_all(folder);
  }
  std::string path() const { return (folder / "db").string(); }
  std::int64_t wall_ms() { return 1'700'000'000'000 + time.now_ms() + wall_ahead_ms; }

  /// Another life of the engine over the same database.
  void live() {
    auto inbox = std::make_shared<storage::ephemeral_inbox>();
    auto settings = ledger_settings_of(parts->settings, path(), parts->wall_ms, inbox);
    settings.on_health = [this](const std::string& problem) { health.push_back(problem); };
    parts->ledger = spawn_ledger(time.system, std::move(settings), false);
    reader = spawn_reader(time.system, {path(), parts->wall_ms, inbox, 50, "reader"}, false);
    supervisor = spawn_supervisor(time.system, {parts, {}, [this] { ++ready; }});
    time.drain();
  }
  void die() {
    caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
    time.drain();
    caf::anon_send_exit(parts->ledger, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(reader, caf::exit_reason::user_shutdown);
    time.drain();
  }

  void pass(std::int64_t ms) { time.advance_to(time.now_ms() + ms); }
  void feed(const std::vector<std::string>& lines) {
    feed_batch batch;
    for (const auto& line : lines)
      batch.lines.push_back(parse_feed_line(line, batch.lines.size() + 1, "us.test"));
    caf::scoped_actor self{time.system};
    auto answer = self->request(parts->ledger, 10s, make_local(std::move(batch)));
    time.drain();
    answer.receive([&](const local<feed_outcome>& out) { REQUIRE(out->rejected.empty()); },
                   [&](const caf::error& e) { FAIL(time.system.render(e)); });
    time.drain();
  }
  static std::string to_device(const std::string& id, const std::string& server) {
    return R"({"kind":"to_device","sender":"@a:us.test","type":"m.x","message_id":")" + id + R"(","messages":{"@b:)" +
           server + R"(":{"D":{}}}})";
  }
  nlohmann::json actors() {
    caf::scoped_actor self{time.system};
    auto answer = self->request(supervisor, 10s, make_local(list_actors{}));
    time.drain();
    nlohmann::json all;
    answer.receive([&](const description& d) { all = nlohmann::json::parse(d.json).at("actors"); },
                   [&](const caf::error& e) { FAIL(time.system.render(e)); });
    return all;
  }
  nlohmann::json actor_of(const std::string& server) {
    for (auto& one : actors())
      if (one.value("name", "") == server) return one;
    return nullptr;
  }
  void forget_the_past() {
    world.asked.clear();
    world.bodies.clear();
    world.uris.clear();
    world.at_ms.clear();
  }
  std::size_t asked(const std::string& server) {
    return std::size_t(std::count(world.asked.begin(), world.asked.end(), server));
  }
};

} // namespace ranvier::supervisor_bench
