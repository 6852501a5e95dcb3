#pragma once
#include "bin/screen.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

// Golden files: tests/golden/NAME.json is what the engine answers, NAME.txt what a verb makes of it for people, at 80
// and 160 columns, in colour (escapes written as "^[") and without. RANVIER_GOLDEN=write unit_bin writes them anew.

namespace golden {

/// The moment that all of them are seen from.
constexpr std::int64_t now = 1'800'000'000'000;

inline std::string path(const std::string& name) { return std::string(RANVIER_GOLDEN_DIR) + "/" + name; }

inline std::string text_of(const std::string& file) {
  std::ifstream in(path(file), std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline nlohmann::json answer(const std::string& name) {
  auto value = nlohmann::json::parse(text_of(name + ".json"), nullptr, false);
  REQUIRE_MESSAGE(!value.is_discarded(), name << ".json is no JSON");
  return value;
}

inline std::string visible(const std::string& text) {
  std::string out;
  for (char c : text)
    out += c == '\x1b' ? std::string("^[") : std::string(1, c);
  return out;
}

/// Every line fits, and the words are those of the file.
inline void check(const std::string& name, const std::function<std::string(const ranvier::screen&)>& render) {
  std::string all;
  for (const std::size_t columns : {80, 160}) {
    for (const bool colour : {false, true}) {
      const auto text = render({columns, colour});
      all += "== " + std::to_string(columns) + " columns" + (colour ? ", colour" : "") + "\n" + visible(text);
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);)
        CHECK_MESSAGE(ranvier::width_of(line) <= columns, name << ": " << line);
      if (!colour) CHECK_MESSAGE(text.find('\x1b') == std::string::npos, name << " has colour where none is wanted");
    }
  }
  if (const char* how = std::getenv("RANVIER_GOLDEN"); how && std::string(how) == "write")
    std::ofstream(path(name + ".txt"), std::ios::binary) << all;
  CHECK_MESSAGE(all == text_of(name + ".txt"), name << ".txt differs; RANVIER_GOLDEN=write unit_bin writes it anew:\n"
                                                    << all);
}

} // namespace golden
