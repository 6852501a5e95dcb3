#include "messages/config_origin.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

TEST_CASE("where each key was given: file and line, environment, flag, or nowhere") {
  auto all = config_origins("server_name = \"a.test\"\n\n[backoff]\nfirst = \"1s\"\nmax = \"2d\"\n", "r.toml",
                            {{"RANVIER_BACKOFF_MAX", "1d"}, {"RANVIER_LOG_LEVEL", "debug"}}, {{"log.level", "info"}});
  CHECK(all["server_name"] == "r.toml:1");
  CHECK(all["[backoff]"] == "r.toml:3");
  CHECK(all["backoff.first"] == "r.toml:4");
  CHECK(all["backoff.max"] == "RANVIER_BACKOFF_MAX");
  CHECK(all["log.level"] == "flag");
  CHECK(all["backoff.factor"] == "default");
  CHECK(all.contains("limits.stream_bytes"));
}
