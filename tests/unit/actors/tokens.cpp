#include "actors/tokens.hpp"

#include "messages/signing.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace ranvier;

namespace {

struct folder {
  folder()
      : path(std::filesystem::temp_directory_path() / ("ranvier-tokens-" + std::to_string(::getpid()))) {
    start_crypto();
    std::filesystem::create_directories(path);
  }
  ~folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

} // namespace

TEST_CASE("a token is made once, readable by its owner only, and found again") {
  const folder at;
  const auto file = (at.path / "host_token").string();
  const auto made = load_or_make_token(file);
  CHECK(made.size() >= 40);
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(load_or_make_token(file) == made);
  CHECK(load_or_make_token((at.path / "other").string()) != made);
  std::ofstream(file) << "my own token \r\n";
  CHECK(load_or_make_token(file) == "my own token");
  std::ofstream(file, std::ios::trunc) << "";
  CHECK(load_or_make_token(file).size() >= 40);
  CHECK_THROWS_AS(load_or_make_token((at.path / "nowhere" / "token").string()), std::runtime_error);
}

TEST_CASE("only the whole token is the token") {
  start_crypto();
  CHECK(same_secret("abc", "abc"));
  for (const auto* given : {"", "ab", "abcd", "abd", "ABC"})
    CHECK_FALSE(same_secret(given, "abc"));
  CHECK_FALSE(same_secret("", "")); // no token was ever made: nobody has it
}

TEST_CASE("the bearer scheme in any case") {
  CHECK(bearer_token("Bearer abc") == "abc");
  CHECK(bearer_token("bearer   abc") == "abc");
  CHECK(bearer_token("BEARER abc") == "abc");
  for (const auto* header : {"", "Bearer", "Bearer ", "Basic abc", "abc"})
    CHECK(bearer_token(header).empty());
}
