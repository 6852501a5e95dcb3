#include "actors/supervisor.hpp"

#include "actors/ledger.hpp"
#include "actors/reader.hpp"
#include "storage/identity.hpp"
#include "tests/simulation/virtual_time.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <map>

using namespace ranvier;
using namespace std::chrono_literals;

namespace {

/// What the stand-in for the egress saw and does.
struct outside {
  std::map<std::string, int> status{};       ///< destination -> what it answers; 0: connection refused; absent: 200
  std::vector<std::string> asked;            ///< destinations, in order
  std::vector<std::string> bodies;
  int cancelled = 0;
};

struct egress_double_state {
  egress_double_state() = default;
  static inline const char* name = "egress double";
};

egress_actor::behavior_type egress_double(egress_actor::stateful_pointer<egress_double_state> self, outside* world) {
  return {[=](const local<http_order>& order) {
            world->asked.push_back(order->call.destination);
            world->bodies.push_back(order->call.body.str());
            http_answer answer;
            answer.id = order->call.id;
            const auto scripted = world->status.find(order->call.destination);
            answer.status = scripted == world->status.end() ? 200 : scripted->second;
            answer.stage = failure_stage::connect;
            answer.problem = answer.status == 0 ? "refused" : "";
            answer.request_sent = answer.status != 0;
            answer.body = shared_text(std::string("{}"));
            answer.content_type = "application/json";
            self->send(order->reply_to, make_local(std::move(answer)));
          },
          [=](const local<cancel_calls>&) { return ++world->cancelled, done{}; },
          [=](const describe&) { return description{"{}"}; }};
}

const signing_key& key() {
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

  explicit fixture(std::int64_t first_ms = 1'000) {
    char pattern[] = "/tmp/ranvier-supervisor-XXXXXX";
    folder = ::mkdtemp(pattern);
    const auto path = (folder / "db").string();
    storage::prepare(path, {"us.test", key().key_id(), key().public_key()}, false, "i");
    auto wall = [this] { return 1'700'000'000'000 + time.now_ms(); };
    auto inbox = std::make_shared<storage::ephemeral_inbox>();
    parts->settings.server_name = "us.test";
    parts->settings.backoff.first_ms = first_ms;
    parts->settings.backoff.jitter = 0;
    parts->settings.federation.deny = {"denied.*"};
    parts->key = std::make_shared<const signing_key>(key());
    parts->ledger = spawn_ledger(time.system, ledger_settings_of(parts->settings, path, wall, inbox), false);
    reader = spawn_reader(time.system, {path, wall, inbox, 50, "reader"}, false);
    parts->reader = [this](const std::string&) { return reader; };
    parts->egress = time.system.spawn(egress_double, &world);
    parts->counters = std::make_shared<metrics>();
    parts->rates = std::make_shared<recent_rates>();
    parts->wall_ms = wall;
    parts->uniform = [this](const std::string& name) {
      if (name == crash_at) throw std::runtime_error("made to crash");
      return 0.5;
    };
    supervisor = spawn_supervisor(time.system, {parts, {}, [this] { ++ready; }});
    time.drain();
  }
  ~fixture() {
    caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(parts->ledger, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(parts->egress, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(reader, caf::exit_reason::user_shutdown);
    time.drain();
    time.clock().cancel_all();
    time.drain();
    std::filesystem::remove_all(folder);
  }

  void pass(std::int64_t ms) { time.advance_to(time.now_ms() + ms); }
  void feed(const std::vector<std::string>& lines) {
    feed_batch batch;
    for (const auto& line : lines) batch.lines.push_back(parse_feed_line(line, batch.lines.size() + 1, "us.test"));
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
  std::size_t asked(const std::string& server) {
    return std::size_t(std::count(world.asked.begin(), world.asked.end(), server));
  }
};

} // namespace

TEST_CASE("supervisor: a destination is made for work, and retires when it was idle for 30 s") {
  fixture f;
  CHECK(f.ready == 1);
  f.feed({fixture::to_device("m1", "r.test")});
  f.pass(10);
  CHECK(f.asked("r.test") == 1);
  CHECK(f.actor_of("r.test").is_object());
  f.pass(29'000);
  CHECK(f.actor_of("r.test").is_object());
  f.pass(2'000);
  CHECK(f.actor_of("r.test").is_null());
  f.feed({fixture::to_device("m2", "r.test")}); // a late item is sent all the same
  f.pass(10);
  CHECK(f.asked("r.test") == 2);
}

TEST_CASE("supervisor: a crashing destination is restarted from storage, others notice nothing") {
  fixture f;
  f.world.status["bad.test"] = 503; // its gate draws a jitter, and that throws
  f.crash_at = "bad.test";
  f.feed({fixture::to_device("m1", "bad.test"), fixture::to_device("m2", "good.test")});
  f.pass(100);
  CHECK(f.asked("good.test") == 1);
  f.crash_at.clear();
  f.world.status.clear();
  f.pass(700'000); // after at most the ten minutes of `failed`
  CHECK(f.asked("bad.test") >= 2);
  CHECK(f.world.cancelled >= 1); // what the first incarnation had outstanding was ended before the second began
  const auto before = f.asked("bad.test");
  f.pass(100'000);
  CHECK(f.asked("bad.test") == before); // delivered, nothing is repeated
}

TEST_CASE("supervisor: a crash loop ends in a visible failed state, and has another chance after ten minutes") {
  fixture f;
  f.world.status["bad.test"] = 503;
  f.crash_at = "bad.test";
  f.feed({fixture::to_device("m1", "bad.test")});
  f.pass(1'000);
  auto shown = f.actor_of("bad.test");
  REQUIRE(shown.is_object());
  CHECK(shown["state"] == "failed");
  CHECK(shown["restarts"] == 6);
  CHECK(f.asked("bad.test") == 6);
  f.pass(500'000);
  CHECK(f.asked("bad.test") == 6);
  f.crash_at.clear();
  f.world.status.clear();
  f.pass(200'000);
  CHECK(f.asked("bad.test") == 7);
}

TEST_CASE("supervisor: B29, a denied server gets no actor and no request") {
  fixture f;
  f.feed({fixture::to_device("m1", "denied.test"), fixture::to_device("m2", "r.test")});
  f.pass(86'400'000);
  CHECK(f.asked("denied.test") == 0);
  CHECK(f.asked("r.test") == 1);
  CHECK(f.actor_of("denied.test").is_null());
}

TEST_CASE("supervisor: B17, the end of a wait itself brings the next try; B34, a dead server holds nothing") {
  fixture f(60'000);
  f.world.status["dead.test"] = 0;
  f.feed({fixture::to_device("m0", "dead.test")});
  f.pass(1'000);
  for (int i = 1; i <= 300; ++i) f.feed({fixture::to_device("m" + std::to_string(i), "dead.test")});
  auto shown = f.actor_of("dead.test");
  REQUIRE(shown.is_object());
  CHECK(shown["state"] == "closed");
  CHECK(shown["in_memory"]["window"] == 0);
  CHECK(f.asked("dead.test") == 1);
  CHECK(shown["handled"] < 20); // it was told once that there is something, not 300 times
  f.world.status.clear();
  f.pass(60'000);
  CHECK(f.asked("dead.test") == 1 + 4); // 301 messages, a hundred at a time
  std::size_t got = 0;
  for (const auto& body : f.world.bodies)
    for (auto at = body.find("\"message_id\""); at != std::string::npos; at = body.find("\"message_id\"", at + 1)) ++got;
  CHECK(got == 1 + 301);
}

TEST_CASE("supervisor: at boot just those that are owed something are made") {
  fixture f;
  f.world.status["dead.test"] = 0;
  f.feed({fixture::to_device("m1", "dead.test"), fixture::to_device("m2", "well.test")});
  f.pass(2'000);
  caf::anon_send_exit(f.supervisor, caf::exit_reason::user_shutdown);
  f.time.drain();
  f.supervisor = spawn_supervisor(f.time.system, {f.parts, {}, [&f] { ++f.ready; }});
  f.time.drain();
  CHECK(f.ready == 2);
  CHECK(f.actor_of("dead.test").is_object());
  CHECK(f.actor_of("well.test").is_null());
}
