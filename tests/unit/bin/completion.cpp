#include "bin/completion.hpp"

#include <doctest/doctest.h>

using namespace ranvier;
using words = std::vector<std::string>;

TEST_CASE("completion: the words that an argument may be") {
  CHECK(argument_words("bash|zsh|fish") == words{"bash", "zsh", "fish"});
  CHECK(argument_words("[retry|drop ID]") == words{"retry", "drop"});
  CHECK(argument_words("ROOM retry|abandon --reason R") == words{"retry", "abandon"});
  CHECK(argument_words("check|backup FILE") == words{"check", "backup"});
  CHECK(argument_words("NAME|EVENT_ID|USER").empty());
  CHECK(argument_words("NAME --for delivered|open").empty()); // an option's, which has its choices itself
  CHECK(argument_words("").empty());
}

TEST_CASE("completion: which arguments are servers") {
  CHECK(takes_server("NAME"));
  CHECK(takes_server("NAME|EVENT_ID|USER"));
  CHECK(takes_server("[SELECTOR]"));
  CHECK(takes_server("SELECTOR --reason R"));
  CHECK(!takes_server("USER"));
  CHECK(!takes_server("--name NAME"));
  CHECK(!takes_server(""));
}

TEST_CASE("completion: quotes in sentences don't break a script; only the three shells have one") {
  const std::vector<completed_verb> verbs{{"resync", "USER", "fetch a user's list [now]: at once", {}}};
  CHECK(completion_script("fish", verbs).find("'fetch a user'\\''s list [now]: at once'") != std::string::npos);
  for (const auto* shell : {"bash", "zsh", "fish"})
    CHECK(completion_script(shell, verbs).find("resync") != std::string::npos);
  CHECK(completion_script("tcsh", verbs).empty());
}
