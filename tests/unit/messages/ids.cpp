#include "messages/ids.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ranvier;

TEST_CASE("N1: server names and their parts") {
  struct row {
    std::string name, host;
    int port; // -1: none
    bool ip, v6;
  };
  const row rows[] = {
      {"example.org", "example.org", -1, false, false},
      {"example.org:8448", "example.org", 8448, false, false},
      {"UPPER.example", "UPPER.example", -1, false, false},
      {"-a-.b", "-a-.b", -1, false, false},
      {"1.2.3.4", "1.2.3.4", -1, true, false},
      {"1.2.3.4:80", "1.2.3.4", 80, true, false},
      {"255.255.255.255", "255.255.255.255", -1, true, false},
      {"256.1.1.1", "256.1.1.1", -1, false, false},   // fits the grammar of a DNS name
      {"1.2.3", "1.2.3", -1, false, false},
      {"1.2.3.4.5", "1.2.3.4.5", -1, false, false},
      {"01.2.3.4", "01.2.3.4", -1, false, false},     // not the address 1.2.3.4
      {"[::1]", "::1", -1, true, true},
      {"[1234:5678::abcd]:5678", "1234:5678::abcd", 5678, true, true},
      {"[::ffff:1.2.3.4]:1", "::ffff:1.2.3.4", 1, true, true},
      {"a:0", "a", 0, false, false},
      {"a:00080", "a", 80, false, false},
      {"a:65535", "a", 65535, false, false},
      {std::string(255, 'a'), std::string(255, 'a'), -1, false, false},
  };
  for (const auto& one : rows) {
    CAPTURE(one.name);
    const auto parts = parse_server_name(one.name);
    REQUIRE(parts);
    CHECK(parts->host == one.host);
    CHECK((parts->port ? int{*parts->port} : -1) == one.port);
    CHECK(parts->ip_literal == one.ip);
    CHECK(parts->ipv6 == one.v6);
  }
}

TEST_CASE("N1, N3: what is no server name") {
  using std::string_literals::operator""s;
  for (const auto& name : {""s, ":"s, ":80"s, "a:"s, "a:x"s, "a:80x"s, "a:-1"s, "a:+1"s, "a:65536"s, "a:000080"s,
                           "a:80:81"s, "a b"s, "a_b"s, "a/b"s, "a@b"s, "\xC3\xA9.org"s, "a\0"s, "["s, "[]"s, "[:]"s,
                           "[::1"s, "[::1]x"s, "[::1]:"s, "[::g]"s, "::1"s, "[::1%eth0]"s, "a\n"s,
                           "[" + std::string(46, ':') + "]", std::string(256, 'a')}) {
    CAPTURE(name);
    CHECK_FALSE(is_server_name(name));
  }
}

TEST_CASE("N4, N5: user ids") {
  using std::string_literals::operator""s;
  for (const auto& id : {"@a:b"s, "@:b"s, "@A B/\xF0\x9F\x98\x80:example.org:8448"s, "@a:[::1]:1"s,
                         "@" + std::string(251, 'x') + ":yz"}) {
    CAPTURE(id);
    CHECK(is_user_id(id));
  }
  for (const auto& id : {""s, "@"s, "a:b"s, "@a"s, "@a:"s, "@a:b c"s, "@a\0b:c"s, "!a:b"s, "@a:b:c"s,
                         "@" + std::string(252, 'x') + ":yz"}) {
    CAPTURE(id);
    CHECK_FALSE(is_user_id(id));
  }
}

TEST_CASE("N7, N8: room ids and event ids need no domain") {
  using std::string_literals::operator""s;
  CHECK(is_room_id("!a:b"));
  CHECK(is_room_id("!" + std::string(43, 'x')));
  CHECK(is_room_id("!" + std::string(254, 'x')));
  CHECK(is_event_id("$x"));
  CHECK(is_event_id("$x:y"));
  for (const auto& rest : {""s, "a\0"s, std::string(255, 'x')}) {
    CAPTURE(rest);
    CHECK_FALSE(is_room_id("!" + rest));
    CHECK_FALSE(is_event_id("$" + rest));
  }
  CHECK_FALSE(is_room_id("$a:b"));
  CHECK_FALSE(is_event_id("!a:b"));
}

TEST_CASE("N4: the server of an id follows the first colon") {
  CHECK(server_of("@a:b:80") == "b:80");
  CHECK(server_of("@a:[::1]:80") == "[::1]:80");
  CHECK(server_of("@a").empty());
  CHECK(server_of("@a:").empty());
}

TEST_CASE("percent-encoding keeps only unreserved characters and comes back") {
  CHECK(percent_encode("aZ09-._~") == "aZ09-._~");
  CHECK(percent_encode("@a:b/c d+%\xC3\xA9") == "%40a%3Ab%2Fc%20d%2B%25%C3%A9");
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  CHECK(percent_decode(percent_encode(all)) == all);
  CHECK(percent_decode("%4a%4A+") == "JJ+");
  for (const std::string broken : {"%", "%4", "a%", "%4g", "%g4", "%%41"}) {
    CAPTURE(broken);
    CHECK_FALSE(percent_decode(broken));
  }
}

TEST_CASE("I6: globs") {
  struct row {
    std::string pattern, text;
    bool matches;
  };
  const row rows[] = {
      {"", "", true},           {"", "a", false},        {"*", "", true},           {"*", "anything", true},
      {"?", "", false},         {"?", "a", true},        {"?", "ab", false},        {"a", "A", true},
      {"EVIL.*", "evil.example", true},                  {"*.evil.com", "evil.com", false},
      {"*.evil.com", "x.evil.com", true},                {"*.evil.com", "x.evil.com.org", false},
      {"a*b*c", "aXbYc", true}, {"a*b*c", "aXcYb", false}, {"a*b*c", "abbbcbc", true}, {"**a**", "bab", true},
      {"a?c*", "abcd", true},   {"a?c*", "acd", false},  {"*a?", "aab", true},      {"1.2.3.?", "1.2.3.4", true},
      {"[a]", "a", false},      {"?", "\xC3\xA9", true}, {"??", "\xC3\xA9", false}, {"*??", "\xC3\xA9", false},
  };
  for (const auto& one : rows) {
    CAPTURE(one.pattern);
    CAPTURE(one.text);
    CHECK(glob_matches(one.pattern, one.text) == one.matches);
  }
}

TEST_CASE("I6: a hostile glob takes no exponential time") {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  CHECK_FALSE(glob_matches(pattern + "b", std::string(5'000, 'a')));
}
