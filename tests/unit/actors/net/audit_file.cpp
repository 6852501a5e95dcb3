#include "actors/net/audit_file.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace ranvier;

namespace {

struct fresh_file {
  std::string path = (std::filesystem::temp_directory_path() / "ranvier-audit-test.log").string();
  fresh_file() { std::filesystem::remove(path); }
  ~fresh_file() { std::filesystem::remove(path); }
};

} // namespace

TEST_CASE("what was recorded is read back, newest first, by pages") {
  fresh_file at;
  audit_file log(at.path);
  CHECK(log.record({1, "ada", "hold", "a.test", "moving\nhouse", "", "done"}) == "");
  CHECK(log.record({2, "ada", "release", "a.test", "", "", "done"}) == "");
  CHECK(audit_file(at.path).record({3, "bob", "drop", "b.test", "old", "{\"older_than_ms\":1}", "done"}) == "");
  std::size_t total = 0;
  auto page = log.newest(2, 0, total);
  CHECK(total == 3);
  REQUIRE(page.size() == 2);
  CHECK(page[0].verb == "drop");
  CHECK(page[0].details == "{\"older_than_ms\":1}");
  CHECK(page[1].verb == "release");
  page = log.newest(2, 2, total);
  REQUIRE(page.size() == 1);
  CHECK(page[0].at_ms == 1);
  CHECK(page[0].reason == "moving\nhouse");
  using std::filesystem::perms;
  CHECK((std::filesystem::status(at.path).permissions() & (perms::group_all | perms::others_all)) == perms::none);
}

TEST_CASE("a line that a crash cut short costs no other") {
  fresh_file at;
  audit_file log(at.path);
  CHECK(log.record({1, "ada", "hold", "a.test", "", "", "done"}) == "");
  std::ofstream(at.path, std::ios::app) << "{\"at_ms\":2,\"who\":\"a";
  CHECK(log.record({3, "ada", "release", "a.test", "", "", "done"}) == "");
  std::size_t total = 0;
  auto all = log.newest(10, 0, total);
  REQUIRE(all.size() == 2);
  CHECK(all[0].verb == "release");
  CHECK(all[1].verb == "hold");
}

TEST_CASE("a log that can't be written is said, not thrown; one that isn't there is empty") {
  audit_file log("/nonexistent-folder/audit.log");
  CHECK(log.record({1, "ada", "hold", "a.test", "", "", "done"}).find("can't be opened") != std::string::npos);
  std::size_t total = 7;
  CHECK(log.newest(10, 0, total).empty());
  CHECK(total == 0);
}
