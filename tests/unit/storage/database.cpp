#include "storage/database.hpp"

#include "storage/lock_file.hpp"
#include "storage/migrations.hpp"
#include "store_bench.hpp"

using namespace ranvier;
using namespace ranvier::storage;

TEST_CASE("a statement that ended early leaves no read transaction open") {
  temporary_folder folder;
  database db(folder.file("db"), database::mode::write);
  db.script("CREATE TABLE t(a INTEGER); INSERT INTO t VALUES(1), (2), (3)");
  CHECK(db.integer("SELECT a FROM t ORDER BY a") == 1);
  database other(folder.file("db"), database::mode::read);
  CHECK(other.integer("SELECT count(*) FROM t") == 3);
  db.run("INSERT INTO t VALUES(4)");
  CHECK(other.integer("SELECT count(*) FROM t") == 4);
}

TEST_CASE("a statement may run inside itself") {
  temporary_folder folder;
  database db(folder.file("db"), database::mode::write);
  db.script("CREATE TABLE t(a INTEGER); INSERT INTO t VALUES(1), (2)");
  std::int64_t sum = 0;
  auto ask = [&] { return db.ask("SELECT a FROM t"); };
  auto outer = ask();
  while (outer.step()) {
    auto inner = ask();
    while (inner.step())
      sum += outer.integer(0) * inner.integer(0);
  }
  CHECK(sum == 9);
}

TEST_CASE("values come back as they went in, NUL and emptiness too") {
  temporary_folder folder;
  database db(folder.file("db"), database::mode::write);
  db.script("CREATE TABLE t(a, b, c)");
  std::string with_nul("a\0b", 3);
  db.run("INSERT INTO t VALUES(?, ?, ?)", with_nul, std::string(), std::optional<std::string>());
  auto row = db.ask("SELECT a, b, c FROM t");
  REQUIRE(row.step());
  CHECK(row.text(0) == with_nul);
  CHECK(row.text(1).empty());
  CHECK_FALSE(row.null(1));
  CHECK(row.null(2));
}

TEST_CASE("a savepoint that isn't released undoes only what stands in it") {
  temporary_folder folder;
  database db(folder.file("db"), database::mode::write);
  db.script("CREATE TABLE t(a INTEGER)");
  {
    transaction whole(db);
    {
      savepoint one(db);
      db.run("INSERT INTO t VALUES(1)");
      one.release();
    }
    {
      savepoint two(db);
      db.run("INSERT INTO t VALUES(2)");
    }
    whole.commit();
  }
  CHECK(db.integer("SELECT sum(a) FROM t") == 1);
  {
    transaction whole(db);
    db.run("INSERT INTO t VALUES(3)");
  }
  CHECK(db.integer("SELECT sum(a) FROM t") == 1);
}

TEST_CASE("errors name the file and what SQLite said") {
  temporary_folder folder;
  database db(folder.file("db"), database::mode::write);
  try {
    db.run("SELECT a FROM nowhere");
    FAIL("no error");
  } catch (const error& failed) {
    CHECK(std::string(failed.what()).find(folder.file("db")) != std::string::npos);
    CHECK(std::string(failed.what()).find("no such table") != std::string::npos);
  }
  CHECK_THROWS_AS(database(folder.file("missing/db"), database::mode::write), error);
  CHECK_THROWS_AS(database(folder.file("none"), database::mode::read), error);
}

TEST_CASE("the database is durable on every commit") {
  temporary_folder folder;
  database db(folder.file("db"), database::mode::write);
  CHECK(db.text("PRAGMA journal_mode") == std::string("wal"));
  CHECK(db.integer("PRAGMA synchronous") == 2);
  CHECK(db.integer("PRAGMA wal_autocheckpoint") == 10'000);
}

TEST_CASE("migrating again does nothing, and a database from the future is refused") {
  temporary_folder folder;
  {
    database db(folder.file("db"), database::mode::write);
    migrate(db);
    migrate(db);
    CHECK(db.integer("PRAGMA user_version") == schema_version());
    db.script("PRAGMA user_version = " + std::to_string(schema_version() + 1));
    CHECK_THROWS_AS(migrate(db), newer_database);
  }
  CHECK_THROWS_AS(prepare(folder.file("db"), us, true, "i"), newer_database);
}

TEST_CASE("a second engine on the data folder is refused until the first has gone") {
  temporary_folder folder;
  {
    lock_file first(folder.file("lock"));
    CHECK_THROWS_AS(lock_file(folder.file("lock")), error);
  }
  CHECK_NOTHROW(lock_file(folder.file("lock")));
  CHECK_THROWS_AS(lock_file(folder.file("missing/lock")), error);
}

TEST_CASE("a file that is no database is refused with a sentence") {
  temporary_folder folder;
  {
    FILE* file = std::fopen(folder.file("db").c_str(), "w");
    std::string text(5000, 'x');
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
  }
  CHECK_THROWS_AS(prepare(folder.file("db"), us, false, "i"), error);
}
