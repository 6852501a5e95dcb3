#include "actors/engine.hpp"

#include "tests/unit/actors/supervisor_bench.hpp"

using namespace ranvier;
using supervisor_bench::key;

namespace {

/// A whole engine, without ears, on the test's scheduler.
struct engine_bench {
  std::filesystem::path folder;
  sim::virtual_time time{1'000};
  supervisor_bench::outside world;
  std::vector<std::string> fatal;
  int ready = 0;
  std::optional<engine> it;

  engine_bench() {
    std::string pattern = "/tmp/ranvier-engine-XXXXXX";
    folder = ::mkdtemp(pattern.data());
    engine_parts parts;
    parts.settings.server_name = "us.test";
    parts.key = std::make_shared<const signing_key>(key());
    parts.database = (folder / "db").string();
    storage::prepare(parts.database, {"us.test", key().key_id(), key().public_key()}, false, "i");
    parts.wall_ms = [this] { return 1'700'000'000'000 + time.now_ms(); };
    parts.detached = false;
    parts.egress = time.system.spawn(supervisor_bench::egress_double, &world);
    parts.counters = std::make_shared<metrics>();
    parts.ready = [this] { ++ready; };
    parts.fatal = [this](const std::string& why) { fatal.push_back(why); };
    it.emplace(time.system, parts);
    time.drain();
  }
  ~engine_bench() {
    it.reset();
    time.drain();
    time.clock().cancel_all();
    time.drain();
    std::filesystem::remove_all(folder);
  }
};

} // namespace

TEST_CASE("engine: if the supervisor or the ledger ends by itself there is no safe half-life") {
  for (const bool ledger : {true, false}) {
    CAPTURE(ledger);
    engine_bench b;
    CHECK(b.ready == 1);
    if (ledger) caf::anon_send_exit(b.it->ledger(), caf::exit_reason::unhandled_exception);
    else caf::anon_send_exit(b.it->supervisor(), caf::exit_reason::unhandled_exception);
    b.time.drain();
    REQUIRE(b.fatal.size() == 1);
    CHECK_FALSE(b.fatal[0].empty());
  }
}

TEST_CASE("engine: the end that was asked for is no fault") {
  engine_bench b;
  b.it->stop();
  b.time.drain();
  CHECK(b.fatal.empty());
}
