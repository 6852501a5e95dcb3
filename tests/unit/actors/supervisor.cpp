#include "tests/unit/actors/supervisor_bench.hpp"

using namespace ranvier;
using namespace std::chrono_literals;
using supervisor_bench::fixture;

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
  for (int i = 1; i <= 300; ++i)
    f.feed({fixture::to_device("m" + std::to_string(i), "dead.test")});
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
    for (auto at = body.find("\"message_id\""); at != std::string::npos; at = body.find("\"message_id\"", at + 1))
      ++got;
  CHECK(got == 1 + 301);
}

TEST_CASE("supervisor: work that comes when a closed gate's wait was over with nothing to send goes at once") {
  fixture f(5'000);
  f.world.status["a.test"] = 0;
  f.feed({R"({"kind":"edu","edu_type":"m.typing","content":{"room_id":"!r:x.test","user_id":"@u:us.test","typing":true},)"
          R"("destinations":["a.test"]})"});
  f.pass(1'000);
  REQUIRE(f.asked("a.test") == 1); // it fails, and the typing is dropped
  f.world.status.clear();
  f.pass(10'000);
  CHECK(f.asked("a.test") == 1);
  f.feed({fixture::to_device("m1", "a.test")});
  f.pass(100);
  CHECK(f.asked("a.test") == 2);
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
