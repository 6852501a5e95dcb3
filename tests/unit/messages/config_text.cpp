#include "messages/config_text.hpp"

#include "messages/config_schema.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

namespace {

config read(const std::string& text) {
  auto result = read_config(text, "test.toml", {}, {});
  for (const auto& problem : result.problems)
    FAIL(problem);
  return result.value;
}

/// All keys as a file.
std::string file_of(config value) {
  std::string top, rest, section;
  for (const auto& key : config_keys()) {
    const auto dot = key.path.find('.');
    const auto line = key.path.substr(dot == std::string::npos ? 0 : dot + 1) + " = " + key.show(value) + "\n";
    if (dot == std::string::npos) {
      top += line;
      continue;
    }
    if (key.path.substr(0, dot) != section) rest += "[" + (section = key.path.substr(0, dot)) + "]\n";
    rest += line;
  }
  return top + rest;
}

const std::string everything = R"(
server_name = "example.org"
data_dir = "/var/lib/a \"b\""
old_keys = [{key_id = "ed25519:old", key = "O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik", expired_ms = 7}]
[federation]
verify_certificates = false
allow = ["*.example.org", "*.test"]
ip_deny = []
addresses = {"remote.test" = "127.0.0.1:18448"}
[host]
consumers = ["host", "push"]
[backoff]
first = "1500ms"
factor = 1.75
max = "36h"
[delivery]
announce_after_outage = "0s"
request_timeout = "90s"
[log]
level = "debug"
)";

} // namespace

TEST_CASE("every value that is shown can be read, and is the same then") {
  for (const auto& text : {everything, std::string("server_name = \"a.test\"")}) {
    const auto value = read(text);
    const auto shown = file_of(value);
    CAPTURE(shown);
    CHECK(config_changes(value, read(shown)).empty());
    CHECK(file_of(read(shown)) == shown);
  }
}

TEST_CASE("durations are shown in their largest whole unit") {
  for (const auto& [ms, text] : std::vector<std::pair<std::int64_t, std::string>>{{0, "\"0s\""},
                                                                                  {1, "\"1ms\""},
                                                                                  {1'500, "\"1500ms\""},
                                                                                  {90'000, "\"90s\""},
                                                                                  {120'000, "\"2m\""},
                                                                                  {86'400'000, "\"1d\""},
                                                                                  {90'000'000, "\"25h\""}}) {
    CHECK(duration_text(ms) == text);
    CHECK(parse_duration(text.substr(1, text.size() - 2)) == ms);
  }
}

TEST_CASE("what a configuration changes is named with both values, and what a running engine takes up") {
  const auto before = read(everything);
  auto after = before;
  CHECK(config_changes(before, after).empty());
  after.log.level = "info";
  after.backoff.max_ms = 3'600'000;
  after.federation.deny = {"evil.test"};
  const auto changes = config_changes(before, after);
  REQUIRE(changes.size() == 3);
  CHECK(changes[0].path == "federation.deny");
  CHECK(changes[0].from == "[]");
  CHECK(changes[0].to == "[\"evil.test\"]");
  CHECK_FALSE(changes[0].at_once);
  CHECK(changes[1].path == "log.level");
  CHECK(changes[1].at_once);
  CHECK(changes[2].path == "backoff.max");
  CHECK(changes[2].from == "\"36h\"");
  CHECK(changes[2].to == "\"1h\"");
}
