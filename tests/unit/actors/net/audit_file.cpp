#include "actors/net/audit_file.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

using namespace ranvier;

namespace {

struct fresh_file {
  // Several of these programs may run at a time.
  std::string path =
      (std::filesystem::temp_directory_path() / ("ranvier-audit-" + std::to_string(::getpid()) + ".log")).string();
  fresh_file() { remove(); }
  ~fresh_file() { remove(); }
  void remove() const {
    for (const auto* end : {"", ".1", ".2", ".3"})
      std::filesystem::remove(path + end);
  }
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

TEST_CASE("a full log gives way to a new one, and the oldest goes") {
  fresh_file at;
  const audit_limits limits{1'000, 3};
  audit_file log(at.path, limits);
  for (int i = 1; i <= 200; ++i)
    CHECK(log.record({i, "ada", "hold", "a.test", "reason " + std::to_string(i), "", "done"}) == "");
  std::uintmax_t bytes = 0;
  for (const auto* end : {"", ".1", ".2"})
    bytes += std::filesystem::file_size(at.path + end);
  CHECK(bytes < 3 * 1'300);
  CHECK(!std::filesystem::exists(at.path + ".3"));
  std::size_t total = 0;
  const auto all = log.newest(1'000, 0, total);
  CHECK(total == all.size());
  REQUIRE(all.size() > 10);
  for (std::size_t i = 0; i < all.size(); ++i)
    CHECK(all[i].at_ms == std::int64_t(200 - i)); // no gap over the files
  const auto page = log.newest(4, 6, total);
  REQUIRE(page.size() == 4);
  CHECK(page[0].at_ms == 194);
  CHECK(audit_file(at.path, limits).newest(1, all.size() - 1, total)[0].at_ms == all.back().at_ms);
}

TEST_CASE("a line that is longer than what is read at a time, and lines over the border of two pieces") {
  fresh_file at;
  audit_file log(at.path);
  for (int i = 1; i <= 300; ++i)
    CHECK(log.record({i, "ada", "hold", std::string(i == 150 ? 200'000 : 700, 'x'), "", "", "done"}) == "");
  std::size_t total = 0;
  const auto all = log.newest(1'000, 0, total);
  CHECK(total == 300);
  REQUIRE(all.size() == 300);
  for (std::size_t i = 0; i < all.size(); ++i)
    CHECK(all[i].at_ms == std::int64_t(300 - i));
  CHECK(all[150].subject.size() == 200'000);
}
