#include "bin/arguments.hpp"
#include "bin/selector.hpp"

#include <doctest/doctest.h>

using namespace ranvier;
using nlohmann::json;
using words = std::vector<std::string>;

TEST_CASE("arguments: the verb comes first, everything else keeps its order") {
  const std::set<std::string> verbs{"ls", "status", "show"}, flags{"--no-headers", "-h", "--help"};
  auto sorted = [&](const words& given) { return verb_first(given, verbs, flags); };
  CHECK(sorted({"ls", "--sort", "name"}) == words{"ls", "--sort", "name"});
  CHECK(sorted({"--sort", "-waiting", "ls", "*.org"}) == words{"ls", "--sort", "-waiting", "*.org"});
  CHECK(sorted({"-o", "json", "status"}) == words{"status", "-o", "json"});
  CHECK(sorted({"-ojson", "status"}) == words{"status", "-ojson"});
  CHECK(sorted({"--output=json", "status"}) == words{"status", "--output=json"});
  CHECK(sorted({"--no-headers", "ls"}) == words{"ls", "--no-headers"});
  // A value that is called like a verb is a value.
  CHECK(sorted({"--data-dir", "status", "show", "ls"}) == words{"show", "--data-dir", "status", "ls"});
  CHECK(sorted({"--help"}) == words{"--help"});
  CHECK(sorted({"nonsense", "ls"}) == words{"nonsense", "ls"});
  CHECK(sorted({"--", "ls"}) == words{"--", "ls"});
  CHECK(sorted({"--data-dir"}) == words{"--data-dir"});
  CHECK(sorted({}).empty());
}

TEST_CASE("selector: names, globs and conditions") {
  const json d{{"destination", "a.example.org"},
               {"gate", {{"state", "closed"}, {"last_error", {{"class", "unreachable"}}}}},
               {"pending", {{"oldest_age_ms", 5'000}}}};
  auto matches = [&](const selector& which) { return which.matches(d); };
  CHECK(matches({}));
  CHECK(matches({.pattern = "a.example.org"}));
  CHECK(matches({.pattern = "*.example.org"}));
  CHECK_FALSE(matches({.pattern = "example.org"}));
  CHECK(matches({.names = words{"b", "a.example.org"}}));
  CHECK_FALSE(matches({.names = words{"b"}}));
  CHECK_FALSE(matches({.names = words{}}));
  CHECK(matches({.state = "closed"}));
  CHECK_FALSE(matches({.state = "open"}));
  CHECK(matches({.error = "unreachable"}));
  CHECK_FALSE(matches({.error = "gone"}));
  CHECK(matches({.older_ms = 5'000}));
  CHECK_FALSE(matches({.older_ms = 5'001}));
  CHECK_FALSE(matches({.pattern = "a.*", .state = "open"}));
  CHECK_FALSE(selector{.state = "closed"}.matches(json::object()));
}

TEST_CASE("selector: what needs no listing") {
  CHECK(selector{}.empty());
  CHECK_FALSE(selector{.older_ms = 0}.empty());
  CHECK_FALSE(selector{.names = words{}}.empty());
  CHECK(selector{.pattern = "a.test"}.one_name());
  CHECK_FALSE(selector{.pattern = "*.test"}.one_name());
  CHECK_FALSE(selector{.pattern = "a.tes?"}.one_name());
  CHECK_FALSE(selector{.pattern = "a.test", .state = "open"}.one_name());
  CHECK_FALSE(selector{.state = "open"}.one_name());
}

TEST_CASE("selector: names of standard input") {
  CHECK(names_in("a.test\n  b.test c.test # why\n\n# d.test\r\ne.test") ==
        words{"a.test", "b.test", "c.test", "e.test"});
  CHECK(names_in("").empty());
}
