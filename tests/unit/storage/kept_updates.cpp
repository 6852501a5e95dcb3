#include "storage/kept_updates.hpp"

#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

namespace {

const std::string room = "!r:one.test";

struct bench : store_bench {
  void keep(const std::string& user, const std::string& device) {
    write([&](writer& to, auto&) { kept_updates(to.db).keep(user, device, now_ms); });
  }
  std::vector<std::string> settle() {
    std::vector<std::string> out;
    write([&](writer& to, auto&) { out = kept_updates(to.db).settle(); });
    return out;
  }
  void partial(bool is) {
    write([&](writer& to, auto&) {
      const auto id = to.names.room("!p:one.test");
      if (is)
        to.db.run("INSERT INTO partial_join(room, position, user, event_id, event, joined_via, servers_in_room, since, "
                  "at_ms) "
                  "VALUES(?, 1, '@a:us.test', '$j', '{}', 'one.test', '[]', 1, 1)",
                  id);
      else to.db.run("DELETE FROM partial_join");
    });
  }
};

} // namespace

TEST_CASE("B97: held are one a user and device, at most 20 a user, and a mark for all beyond") {
  bench to;
  for (int i = 0; i < 30; ++i)
    to.keep("@b:one.test", "D" + std::to_string(i));
  to.keep("@b:one.test", "D1");
  to.keep("@c:one.test", "D1");
  CHECK(to.rows("kept_update WHERE user = '@b:one.test'") == 21);
  CHECK(to.rows("kept_update WHERE user = '@b:one.test' AND device = ''") == 1);
  CHECK(to.rows("kept_update WHERE user = '@c:one.test'") == 1);
}

TEST_CASE(
    "P11: who is known to share a room is told; the others stay while any room is partial, and are dropped then") {
  bench to;
  to.feed({member_line(room, "@a:us.test", "join"), member_line(room, "@b:one.test", "join")});
  to.partial(true);
  to.keep("@b:one.test", "D");
  to.keep("@c:one.test", "D");
  CHECK(to.settle() == std::vector<std::string>{"@b:one.test"});
  CHECK(to.rows("kept_update") == 1);
  CHECK(to.settle().empty());
  CHECK(to.rows("kept_update") == 1);
  to.partial(false);
  CHECK(to.settle().empty());
  CHECK(to.rows("kept_update") == 0);
}
