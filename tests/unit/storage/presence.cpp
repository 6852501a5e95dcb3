#include "storage/presence.hpp"

#include "tests/unit/storage/store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {

constexpr std::int64_t minute = 60'000, t0 = 1'700'000'000'000;

struct presence_bench {
  temporary_folder folder;
  std::string path = folder.file("db");
  std::unique_ptr<writer> all;
  presence_bench() {
    prepare(path, us, false, "i");
    all = std::make_unique<writer>(writer_settings{path});
  }
  database& db() { return all->db; }
  void change(const std::function<void()>& what) {
    transaction whole(db());
    what();
    whole.commit();
  }
  void server(const std::string& name, std::int64_t last_success_ms, bool closed = false, bool held = false) {
    change([&] {
      const auto id = all->names.server(name);
      all->destinations.ensure(id, 0, t0);
      gate_row gate;
      gate.last_success_ms = last_success_ms;
      gate.push.closed = gate.push.closed_on_connect = closed;
      if (closed) gate.push.failing_since_ms = last_success_ms + 1;
      all->destinations.save_gate(id, gate);
      if (held) all->destinations.save_hold(id, {true, "r", 0}, "w", t0);
    });
  }
};

using list = std::vector<std::string>;

} // namespace

TEST_CASE("presence: silence is counted from the last heartbeat, and only beyond the limit") {
  presence_bench b;
  CHECK(begin_life(b.db(), t0, 10 * minute) == 0); // the first life ever
  CHECK(announce_since(b.db()) == 0);
  CHECK(begin_life(b.db(), t0 + 10 * minute, 10 * minute) == 0);
  b.change([&] { write_heartbeat(b.db(), t0 + 12 * minute); });
  CHECK(begin_life(b.db(), t0 + 23 * minute, 10 * minute) == 11 * minute);
  CHECK(announce_since(b.db()) == t0 + 23 * minute);
  CHECK(begin_life(b.db(), t0 + 24 * minute, 10 * minute) == 0);
  CHECK(announce_since(b.db()) == t0 + 23 * minute); // it isn't over
  b.change([&] { end_announcement(b.db(), t0); });
  CHECK(announce_since(b.db()) == t0 + 23 * minute); // of another outage
  b.change([&] { end_announcement(b.db(), t0 + 23 * minute); });
  CHECK(announce_since(b.db()) == 0);
  CHECK(begin_life(b.db(), t0 - 999 * minute, 10 * minute) == 0); // the clock was set back
}

TEST_CASE("presence: owed a word are the open ones whose last success is older, by name") {
  presence_bench b;
  b.server("d.test", t0 - 1);
  b.server("a.test", t0 - minute);
  b.server("never.test", 0);
  b.server("fresh.test", t0);
  b.server("closed.test", t0 - minute, true);
  b.server("held.test", t0 - minute, false, true);
  CHECK(unannounced_servers(b.db(), t0, t0, "", 10) == list{"a.test", "d.test", "never.test"});
  CHECK(unannounced_servers(b.db(), t0, t0, "", 2) == list{"a.test", "d.test"});
  CHECK(unannounced_servers(b.db(), t0, t0, "d.test", 2) == list{"never.test"});
}

TEST_CASE("presence: unreachable are those that closed on connect since then") {
  presence_bench b;
  b.server("old.test", t0 - 60 * minute, true);
  b.server("well.test", t0);
  b.server("x.test", t0 + minute, true);
  b.server("w.test", t0 + 2 * minute, true);
  CHECK(unreachable_servers(b.db(), t0, "", 10) == list{"w.test", "x.test"});
  CHECK(unreachable_servers(b.db(), t0, "w.test", 10) == list{"x.test"});
  CHECK(latest_success(b.db()) == t0 + 2 * minute);
  CHECK(first_unreachable_since(b.db(), t0) == t0 + minute + 1);
  CHECK(first_unreachable_since(b.db(), latest_success(b.db())) == t0 + 2 * minute + 1);
  CHECK(first_unreachable_since(b.db(), t0 + 3 * minute) == 0);
}

TEST_CASE("presence: the latest success is any answer, as of the last heartbeat; from the future it counts as of now") {
  presence_bench b;
  begin_life(b.db(), t0, 0);
  b.server("one.test", t0 + minute);
  CHECK(latest_success(b.db()) == t0 + minute);
  b.change([&] { write_heartbeat(b.db(), t0 + 5 * minute, t0 + 4 * minute); });
  CHECK(latest_success(b.db()) == t0 + 4 * minute);
  b.change([&] { write_heartbeat(b.db(), t0 + 6 * minute); }); // another life, which heard nobody yet
  CHECK(latest_success(b.db()) == t0 + 4 * minute);
  begin_life(b.db(), t0 + 2 * minute, 0); // the clock was set back
  CHECK(latest_success(b.db()) == t0 + 2 * minute);
}

TEST_CASE("presence: a gate that closed before the clock was set back isn't taken for one of a later outage") {
  presence_bench b;
  b.server("a.test", t0 + 600 * minute, true);
  SUBCASE("while we were away") { begin_life(b.db(), t0, 10 * minute); }
  SUBCASE("while we ran") {
    b.change([&] { shift_ages(b.db(), -600 * minute, t0); });
  }
  CHECK(unreachable_servers(b.db(), t0, "", 10) == list{"a.test"});
  CHECK(unreachable_servers(b.db(), t0 + 1, "", 10).empty());
  CHECK(first_unreachable_since(b.db(), latest_success(b.db())) == 0);
}

TEST_CASE("presence: a success from before the clock was set back counts as one of now") {
  presence_bench b;
  b.server("a.test", t0 + 600 * minute);
  begin_life(b.db(), t0, 10 * minute);
  CHECK(unannounced_servers(b.db(), t0, t0, "", 10).empty());
  CHECK(unannounced_servers(b.db(), t0 + 1, t0, "", 10) == list{"a.test"});
}
