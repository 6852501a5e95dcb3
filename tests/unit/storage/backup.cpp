#include "storage/backup.hpp"

#include "storage/database.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace ranvier::storage;

namespace {

struct folder {
  folder() { std::filesystem::create_directories(path); }
  ~folder() { std::filesystem::remove_all(path); }
  std::string path = std::filesystem::temp_directory_path().string() + "/ranvier-backup-" + std::to_string(::getpid());
  std::string operator/(const std::string& name) const { return path + '/' + name; }
};

const auto always = [] { return true; };

void fill(database& db, int rows) {
  db.script("CREATE TABLE t (n INTEGER PRIMARY KEY, x TEXT)");
  transaction all(db);
  for (int i = 0; i < rows; ++i)
    db.run("INSERT INTO t (x) VALUES (?)", std::string(2000, 'x'));
  all.commit();
}

std::int64_t rows_of(const std::string& path) {
  database copy(path, database::mode::write);
  return *copy.integer("SELECT count(*) FROM t");
}

} // namespace

TEST_CASE("backup: the copy is one moment, whatever is written meanwhile") {
  folder f;
  database db(f / "a.db", database::mode::write);
  fill(db, 3000); // some 6 MB: several steps
  int looks = 0;
  const auto report = back_up(f / "a.db", f / "b.db", [&] {
    ++looks;
    db.run("INSERT INTO t (x) VALUES ('meanwhile')"); // isn't blocked, and doesn't make the copy begin anew
    return looks < 50;
  });
  CHECK(!report.broken_off);
  CHECK(looks > 2);
  CHECK(looks < 50);
  CHECK(report.bytes > 5'000'000);
  const auto copied = rows_of(f / "b.db");
  CHECK(copied >= 3000);
  CHECK(copied <= 3001);
  CHECK(*db.integer("SELECT count(*) FROM t") == 3000 + looks);
  CHECK(check(f / "b.db", always).problems.empty());
  struct stat seen {};
  REQUIRE(::stat((f / "b.db").c_str(), &seen) == 0);
  CHECK((seen.st_mode & 0777) == 0600);
  CHECK(!std::filesystem::exists(f / "b.db.partial"));
}

TEST_CASE("backup: never overwrites, and leaves nothing half done") {
  folder f;
  database db(f / "a.db", database::mode::write);
  fill(db, 3000);
  std::ofstream(f / "b.db") << "precious";
  CHECK_THROWS_AS(back_up(f / "a.db", f / "b.db", always), error);
  CHECK(std::filesystem::file_size(f / "b.db") == 8);
  CHECK_THROWS_AS(back_up(f / "a.db", f / "none/c.db", always), error);
  CHECK_THROWS_AS(back_up(f / "none.db", f / "c.db", always), error);
  CHECK(!std::filesystem::exists(f / "c.db"));
  CHECK(!std::filesystem::exists(f / "c.db.partial"));
  int looks = 0;
  CHECK(back_up(f / "a.db", f / "d.db", [&] { return ++looks < 2; }).broken_off);
  CHECK(!std::filesystem::exists(f / "d.db"));
  CHECK(!std::filesystem::exists(f / "d.db.partial"));
}

TEST_CASE("backup: a check finds damage") {
  folder f;
  {
    database db(f / "a.db", database::mode::write);
    fill(db, 300);
    CHECK(check(f / "a.db", always).problems.empty());
    CHECK(check(f / "a.db", [] { return false; }).problems.empty());
    db.script("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  std::fstream file(f / "a.db", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(5 * 4096);
  file << std::string(3 * 4096, '\x5a');
  file.close();
  CHECK(!check(f / "a.db", always).problems.empty());
}
