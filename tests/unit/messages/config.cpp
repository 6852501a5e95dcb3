#include "messages/config.hpp"

#include "messages/config_schema.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

namespace {

config_result read(const std::string& text, const std::map<std::string, std::string>& environment = {},
                   const std::map<std::string, std::string>& flags = {}) {
  return read_config(text, "ranvier.toml", environment, flags);
}

/// The one problem of a text, or all that there are, for the failure message.
std::string problem(const std::string& text, const std::map<std::string, std::string>& environment = {}) {
  auto result = read(text, environment);
  std::string out;
  for (const auto& each : result.problems)
    out += (out.empty() ? "" : "\n") + each;
  return out;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("config: nothing given is the documented defaults") {
  auto result = read("");
  CHECK(result.problems.empty());
  CHECK(result.value.server_name.empty());
  CHECK(result.value.federation.listen == "127.0.0.1:8448");
  CHECK(result.value.federation.ip_deny.size() == 21);
  CHECK(result.value.federation.ip_deny.front() == "0.0.0.0/8");
  CHECK(result.value.federation.ip_deny.back() == "ff00::/8");
  CHECK(result.value.host.consumers == std::vector<std::string>{"host"});
  CHECK(result.value.delivery.to_device_max_age_ms == 2'592'000'000);
  CHECK(result.value.file == "ranvier.toml");
}

TEST_CASE("config: every key of the contract is taken") {
  auto result = read(R"(
server_name = "example.org"
data_dir = "/var/lib/ranvier"
signing_key = "/etc/ranvier/signing.key"
old_keys = [{key_id = "ed25519:old", key = "XGX0JRS2Af3be3knz2fBiRbApjm2Dh61gXDJA8kcJNI", expired_ms = 7}]
also_keys = [{key_id = "ed25519:b", key = "XGX0JRS2Af3be3knz2fBiRbApjm2Dh61gXDJA8kcJNI"}]
[federation]
listen = "[::1]:8448"
tls_certificate = "c.pem"
tls_private_key = "k.pem"
verify_certificates = false
ca_file = "ca.pem"
allow = ["*.example.org"]
deny = ["bad.example", "127.0.0.1:*"]
ip_deny = []
tls_minimum = "1.3"
upstream = "http://127.0.0.1:8008"
display_names = false
http2 = false
dns_servers = ["192.0.2.53", "127.0.0.1:5353", "fe80::1%eth0", "[2001:db8::53]:53"]
[federation.addresses]
"remote.test" = "127.0.0.1:18448"
[host]
listen = "127.0.0.1:1"
consumers = ["host", "bot"]
[admin]
listen = "127.0.0.1:2"
[backoff]
first = "1s"
factor = 3
max = "1.5h"
jitter = 0.25
[delivery]
max_in_flight = 1
max_new_connections_per_second = 2
idle_connection_timeout = "3s"
request_timeout = "4s"
connect_timeout = "500ms"
catch_up_events_per_room = 6
to_device_max_age = "7d"
device_changes_horizon = "8d"
announce_after_outage = "0s"
device_update_burst = 9
device_update_interval = "10s"
join_update_delay = "11s"
[partial_join]
abandon_after = "12s"
request_timeout = "13s"
[limits]
transaction_pdus = 14
transaction_edus = 15
transaction_bytes = 16000
devices_per_user = 17
inbound_body_bytes = 18000
inbound_transactions_per_origin = 19
stream_bytes = 20000
federation_connections = 21
waiting_calls = 22
[log]
level = "debug"
format = "json"
)");
  REQUIRE_MESSAGE(result.problems.empty(), result.problems.front());
  const auto& c = result.value;
  CHECK(c.server_name == "example.org");
  CHECK(c.data_dir == "/var/lib/ranvier");
  CHECK(c.signing_key == "/etc/ranvier/signing.key");
  REQUIRE(c.old_keys.size() == 1);
  CHECK(c.old_keys[0].key_id == "ed25519:old");
  CHECK(c.old_keys[0].expired_ms == 7);
  REQUIRE(c.also_keys.size() == 1);
  CHECK(c.also_keys[0].key == "XGX0JRS2Af3be3knz2fBiRbApjm2Dh61gXDJA8kcJNI");
  CHECK(c.federation.listen == "[::1]:8448");
  CHECK(c.federation.tls_certificate == "c.pem");
  CHECK(c.federation.tls_private_key == "k.pem");
  CHECK_FALSE(c.federation.verify_certificates);
  CHECK(c.federation.ca_file == "ca.pem");
  CHECK(c.federation.allow == std::vector<std::string>{"*.example.org"});
  CHECK(c.federation.deny.size() == 2);
  CHECK(c.federation.ip_deny.empty());
  CHECK(c.federation.tls_minimum == "1.3");
  CHECK(c.federation.upstream == "http://127.0.0.1:8008");
  CHECK_FALSE(c.federation.display_names);
  CHECK_FALSE(c.federation.http2);
  CHECK(c.federation.dns_servers.size() == 4);
  CHECK(c.federation.addresses.at("remote.test") == "127.0.0.1:18448");
  CHECK(c.host.listen == "127.0.0.1:1");
  CHECK(c.host.consumers == std::vector<std::string>{"host", "bot"});
  CHECK(c.admin.listen == "127.0.0.1:2");
  CHECK(c.backoff.first_ms == 1'000);
  CHECK(c.backoff.factor == 3.0);
  CHECK(c.backoff.max_ms == 5'400'000);
  CHECK(c.backoff.jitter == 0.25);
  CHECK(c.delivery.max_in_flight == 1);
  CHECK(c.delivery.max_new_connections_per_second == 2);
  CHECK(c.delivery.idle_connection_timeout_ms == 3'000);
  CHECK(c.delivery.request_timeout_ms == 4'000);
  CHECK(c.delivery.connect_timeout_ms == 500);
  CHECK(c.delivery.catch_up_events_per_room == 6);
  CHECK(c.delivery.to_device_max_age_ms == 7 * 86'400'000LL);
  CHECK(c.delivery.device_changes_horizon_ms == 8 * 86'400'000LL);
  CHECK(c.delivery.announce_after_outage_ms == 0);
  CHECK(c.delivery.device_update_burst == 9);
  CHECK(c.delivery.device_update_interval_ms == 10'000);
  CHECK(c.delivery.join_update_delay_ms == 11'000);
  CHECK(c.partial_join.abandon_after_ms == 12'000);
  CHECK(c.partial_join.request_timeout_ms == 13'000);
  CHECK(c.limits.transaction_pdus == 14);
  CHECK(c.limits.transaction_edus == 15);
  CHECK(c.limits.transaction_bytes == 16'000);
  CHECK(c.limits.devices_per_user == 17);
  CHECK(c.limits.inbound_body_bytes == 18'000);
  CHECK(c.limits.inbound_transactions_per_origin == 19);
  CHECK(c.limits.stream_bytes == 20'000);
  CHECK(c.limits.federation_connections == 21);
  CHECK(c.limits.waiting_calls == 22);
  CHECK(c.log.level == "debug");
  CHECK(c.log.format == "json");
}

TEST_CASE("config: a mistake is told with file, line and what is allowed") {
  struct row {
    const char* text;
    std::vector<std::string> says;
  };
  const std::vector<row> rows{
      {"\n[backoff]\nfrist = \"5s\"\n", {"ranvier.toml:3:", "unknown key \"backoff.frist\"", "\"backoff.first\""}},
      {"servername = \"x\"", {"ranvier.toml:1:", "unknown key \"servername\"", "\"server_name\""}},
      {"listen = \"x\"", {"unknown key \"listen\"", "\"federation.listen\""}},
      {"[delivery]\nfirst = \"5s\"", {"unknown key \"delivery.first\"", "\"backoff.first\""}},
      {"[log]\nzzzzzzzz = 1", {"unknown key \"log.zzzzzzzz\"", "log.level, log.format"}},
      {"[fedration]\nallow = []", {"ranvier.toml:1:", "unknown section [fedration]", "[federation]"}},
      {"backoff = 3", {"\"backoff\" must be a section"}},
      {"[backoff]\nfactor = \"two\"", {"ranvier.toml:2:", "\"backoff.factor\"", "number from 1 to 100"}},
      {"[backoff]\nfactor = 0.5", {"number from 1 to 100"}},
      {"[backoff]\nfactor = nan", {"number from 1 to 100"}},
      {"[backoff]\njitter = 1.5", {"number from 0 to 1"}},
      {"[backoff]\nfirst = 5", {"\"backoff.first\" must be a duration"}},
      {"[backoff]\nfirst = \"5 s\"", {"\"backoff.first\" must be a duration"}},
      {"[backoff]\nfirst = \"0s\"", {"longer than 0"}},
      {"[backoff]\nfirst = \"2d\"", {"\"backoff.first\" must not be longer than \"backoff.max\""}},
      {"server_name = \"not a name\"", {"ranvier.toml:1:", "Matrix server name"}},
      {"server_name = \"\"", {"Matrix server name"}},
      {"data_dir = \"\"", {"path of a folder"}},
      {"[federation]\nlisten = \"127.0.0.1\"", {"host:port"}},
      {"[federation]\nlisten = \"127.0.0.1:70000\"", {"1 to 65535"}},
      {"[federation]\nlisten = \"127.0.0.1:0\"", {"1 to 65535"}},
      {"[federation]\nlisten = \"\"", {"host:port"}},
      {"[federation]\nverify_certificates = \"yes\"", {"true or false"}},
      {"[federation]\ntls_certificate = \"c.pem\"", {"tls_private_key", "both, or none"}},
      {"[federation]\ntls_private_key = \"k.pem\"", {"tls_certificate", "both, or none"}},
      {"[federation]\ntls_minimum = \"1.1\"", {"one of \"1.2\", \"1.3\""}},
      {"[federation]\nallow = \"x\"", {"list of strings"}},
      {"[federation]\nallow = [1]", {"list of strings"}},
      {"[federation]\ndeny = [\"a b\"]", {"wildcards", "\"a b\""}},
      {"[federation]\nip_deny = [\"10.0.0.0/33\"]", {"address ranges", "\"10.0.0.0/33\""}},
      {"[federation]\nip_deny = [\"ten\"]", {"address ranges", "\"ten\""}},
      {"[federation]\nip_deny = [\"10.0.0.0/\"]", {"address ranges"}},
      {"[federation]\ndns_servers = [\"dns.example\"]", {"DNS servers", "\"dns.example\""}},
      {"[federation]\ndns_servers = [\"192.0.2.53:0\"]", {"DNS servers"}},
      {"[federation]\ndns_servers = [\"[2001:db8::53\"]", {"DNS servers"}},
      {"[federation]\ndns_servers = [\"fe80::1%\"]", {"DNS servers"}},
      {"[federation]\nhttp2 = 2", {"true or false"}},
      {"[federation]\nupstream = \"https://x:1\"", {"http://host:port"}},
      {"[federation]\nupstream = \"http://x:1/path\"", {"http://host:port"}},
      {"[federation.addresses]\n\"a b\" = \"127.0.0.1:1\"", {"\"a b\" is no server name"}},
      {"[federation.addresses]\n\"a\" = \"127.0.0.1\"", {"that of \"a\" must be host:port"}},
      {"[federation.addresses]\n\"a\" = 7", {"that of \"a\" must be host:port"}},
      {"[host]\nconsumers = []", {"at least one"}},
      {"[host]\nconsumers = [\"a\", \"a\"]", {"twice"}},
      {"[host]\nconsumers = [\"a b\"]", {"letters, digits", "\"a b\""}},
      {"[host]\nlisten = \"127.0.0.1:8448\"", {"\"federation.listen\" and \"host.listen\"", "127.0.0.1:8448"}},
      {"[limits]\ntransaction_pdus = 51", {"from 1 to 50"}},
      {"[limits]\ntransaction_pdus = 0", {"from 1 to 50"}},
      {"[limits]\ntransaction_edus = 101", {"from 1 to 100"}},
      {"[limits]\ntransaction_edus = 1.0", {"integer from 1 to 100"}},
      {"[log]\nlevel = \"loud\"", {"\"trace\", \"debug\", \"info\""}},
      {"old_keys = [{key_id = \"rsa:1\", key = \"eA\"}]", {"ed25519:"}},
      {"old_keys = [{key_id = \"ed25519:a b\", key = \"eA\"}]", {"ed25519:"}},
      {"old_keys = [{key_id = \"ed25519:1\", key = \"eA\"}]", {"32 bytes"}},
      {"old_keys = [{key = \"eA\"}]", {"key_id"}},
      {"old_keys = [{key_id = \"ed25519:1\", key = \"eA\", kee = 1}]", {"\"kee\" is unknown"}},
      {"old_keys = 3", {"must be a list"}},
      {"a = \n", {"ranvier.toml:1:", "not TOML"}},
      {"[log]\nlevel = \"info\"\nlevel = \"info\"", {"ranvier.toml:3:", "not TOML"}},
  };
  for (const auto& [text, says] : rows) {
    auto found = problem(text);
    CAPTURE(std::string(text));
    CAPTURE(found);
    CHECK_FALSE(found.empty());
    CHECK_FALSE(has(found, "\n")); // one mistake, one sentence
    for (const auto& part : says)
      CHECK_MESSAGE(has(found, part), part);
  }
}

TEST_CASE("config: all mistakes are told at once") {
  CHECK(read("x = 1\n[log]\nlevel = 3\n[backoff]\nfactor = true").problems.size() == 3);
}

TEST_CASE("config: the environment goes over the file, flags over both") {
  auto result = read("server_name = \"file.test\"\n[log]\nlevel = \"warn\"\n[backoff]\nfirst = \"1s\"",
                     {{"RANVIER_SERVER_NAME", "environment.test"},
                      {"RANVIER_LOG_LEVEL", "debug"},
                      {"RANVIER_BACKOFF_FACTOR", "2.5"},
                      {"RANVIER_LIMITS_TRANSACTION_PDUS", "7"},
                      {"RANVIER_FEDERATION_VERIFY_CERTIFICATES", "false"},
                      {"RANVIER_FEDERATION_IP_DENY", "[]"},
                      {"RANVIER_FEDERATION_ADDRESSES", R"({"a.test": "127.0.0.1:5"})"},
                      {"RANVIER_BIN", "/somewhere"},
                      {"PATH", "/bin"}},
                     {{"server_name", "flag.test"}, {"federation.listen", "127.0.0.1:9"}});
  REQUIRE_MESSAGE(result.problems.empty(), result.problems.front());
  CHECK(result.value.server_name == "flag.test");
  CHECK(result.value.log.level == "debug");
  CHECK(result.value.backoff.first_ms == 1'000);
  CHECK(result.value.backoff.factor == 2.5);
  CHECK(result.value.limits.transaction_pdus == 7);
  CHECK_FALSE(result.value.federation.verify_certificates);
  CHECK(result.value.federation.ip_deny.empty());
  CHECK(result.value.federation.addresses.at("a.test") == "127.0.0.1:5");
  CHECK(result.value.federation.listen == "127.0.0.1:9");
}

TEST_CASE("config: a mistake in the environment names the variable") {
  CHECK(has(problem("", {{"RANVIER_LOG_LEVEL", "loud"}}), "RANVIER_LOG_LEVEL: \"log.level\" must be one of"));
  CHECK(has(problem("", {{"RANVIER_LIMITS_TRANSACTION_PDUS", "many"}}), "integer from 1 to 50"));
  CHECK(has(problem("", {{"RANVIER_FEDERATION_ALLOW", "a.test"}}), "list of strings (as JSON)"));
  CHECK(has(problem("", {{"RANVIER_LOG_LEVLE", "info"}}), "did you mean RANVIER_LOG_LEVEL?"));
  CHECK(problem("", {{"RANVIER_HOST_TOKEN_FILE", "x"}}).empty()); // not ours, and like none of ours
}

TEST_CASE("config: an unknown flag is a problem") {
  auto result = read("", {}, {{"log.levle", "info"}});
  REQUIRE(result.problems.size() == 1);
  CHECK(has(result.problems[0], "did you mean \"log.level\"?"));
}

TEST_CASE("config: single addresses are ranges of one") {
  auto result = read("[federation]\nip_deny = [\"10.1.2.3\", \"::1\"]");
  CHECK(result.problems.empty());
  CHECK(result.value.federation.ip_deny == std::vector<std::string>{"10.1.2.3/32", "::1/128"});
}

TEST_CASE("config: durations") {
  const std::vector<std::pair<std::string, std::int64_t>> rows{
      {"5s", 5'000}, {"0s", 0},    {"1.5h", 5'400'000}, {"250ms", 250}, {"1d", 86'400'000},  {"2m", 120'000},
      {"0.5ms", 1},  {"", -1},     {"5", -1},           {"s", -1},      {"-5s", -1},         {"+5s", -1},
      {"5 s", -1},   {" 5s", -1},  {"5s ", -1},         {"5S", -1},     {"5w", -1},          {"1e3s", -1},
      {"infs", -1},  {"nans", -1}, {"0x5s", -1},        {".5s", -1},    {"99999999999d", -1}};
  for (const auto& [text, ms] : rows) {
    CAPTURE(text);
    CHECK(parse_duration(text) == ms);
  }
}

TEST_CASE("config: names in the environment are unique") {
  std::map<std::string, std::string> seen;
  for (const auto& key : config_keys()) {
    CAPTURE(key.path);
    CHECK(seen.emplace(environment_name(key.path), key.path).second);
  }
  CHECK(environment_name("partial_join.abandon_after") == "RANVIER_PARTIAL_JOIN_ABANDON_AFTER");
  CHECK(environment_name("server_name") == "RANVIER_SERVER_NAME");
}
