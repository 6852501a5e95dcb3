#include "storage/identity.hpp"

#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

TEST_CASE("a database remembers who it was made for") {
  temporary_folder folder;
  auto path = folder.file("db");
  auto first = prepare(path, us, false, "one");
  CHECK(first.created);
  CHECK(first.instance == "one");
  CHECK_FALSE(first.identity_changed);
  auto second = prepare(path, us, false, "two");
  CHECK_FALSE(second.created);
  CHECK(second.instance == "one");
  CHECK_THROWS_AS(prepare(path, {"other.test", us.key_id, us.public_key}, false, "x"), other_identity);
  CHECK_THROWS_AS(prepare(path, {us.server_name, "ed25519:b", us.public_key}, false, "x"), other_identity);
  CHECK_THROWS_AS(prepare(path, {us.server_name, us.key_id, "OTHER"}, false, "x"), other_identity);
  CHECK_NOTHROW(prepare(path, us, false, "x"));
  CHECK(prepare(path, {us.server_name, "ed25519:b", "OTHER"}, true, "x").identity_changed);
  CHECK_THROWS_AS(prepare(path, us, false, "x"), other_identity);
}

TEST_CASE("under another server name no roster counts any more") {
  store_bench bench;
  bench.feed({member_line("!r:us.test", "@a:us.test", "join"), member_line("!r:us.test", "@b:new.test", "join"),
              member_line("!r:us.test", "@c:far.test", "join")});
  CHECK(bench.rows("span") == 2);
  bench.reader.reset();
  bench.stores.reset();
  identity renamed{"new.test", us.key_id, us.public_key};
  CHECK(prepare(bench.folder.file("db"), renamed, true, "x").identity_changed);
  database db(bench.folder.file("db"), database::mode::read);
  CHECK(db.text("SELECT name FROM server WHERE id = 1") == std::string("new.test"));
  CHECK(db.integer("SELECT count(*) FROM span") == 0);
  CHECK(db.integer("SELECT count(*) FROM member") == 0);
  CHECK(db.integer("SELECT count(*) FROM destination") == 1);
}

TEST_CASE("B05: a cursor beyond the head is reported and pulled back") {
  store_bench bench;
  bench.feed({member_line("!r:us.test", "@a:us.test", "join"), member_line("!r:us.test", "@b:far.test", "join")});
  bench.acknowledge("far.test", 101'244);
  bench.reopen();
  CHECK(bench.boot.cursors_pulled_back == std::vector<std::string>{"far.test"});
  CHECK(bench.at("far.test") == cursors{2, 2, 2});
  bench.feed(line_of(event_of("!r:us.test", "$1")));
  CHECK(bench.events("far.test") == "$1");
  bench.reopen();
  CHECK(bench.boot.cursors_pulled_back.empty());
}

TEST_CASE("positions aren't used twice over a restart, even if what had them is gone") {
  store_bench bench;
  bench.feed(line_of(message_of("m1", {"@b:far.test"})));
  CHECK(bench.head() == 1);
  bench.acknowledge("far.test", 1);
  CHECK(bench.rows("to_device") == 0);
  bench.reopen();
  bench.feed(line_of(message_of("m2", {"@b:far.test"})));
  CHECK(bench.head() == 2);
}
