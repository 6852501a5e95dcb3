#include "actors/net/fact_file.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

using namespace ranvier;

TEST_CASE("fact_file: its end writes the newest text; a new one reads it") {
  char folder[] = "/tmp/facts-XXXXXX";
  REQUIRE(mkdtemp(folder));
  auto path = std::string(folder) + "/facts";
  {
    fact_file f(path);
    CHECK(f.load().empty());
    for (int i = 0; i < 100; ++i)
      f.save(std::to_string(i));
  }
  CHECK(fact_file(path).load() == "99");
  std::filesystem::remove_all(folder);
  {
    fact_file gone(path); // a folder that isn't there is no accident
    gone.save("x");
  }
  CHECK(fact_file(path).load().empty());
}
