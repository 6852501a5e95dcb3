#pragma once
#include "messages/config.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ranvier {

/// A value of the configuration before it is judged, wherever it came from (TOML, environment, flag).
struct setting {
  enum class type : std::uint8_t { boolean, integer, real, text, list, table, other } is = type::other;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<setting> items;                           ///< of a list
  struct member;
  std::vector<member> members;                          ///< of a table
  std::uint32_t line = 0;                               ///< 0: not from a file
};
/// A key of a table and its value, named like those of a pair (clang 14 takes no pair of an incomplete type).
struct setting::member {
  std::string first;
  setting second;
};

/// What a key takes, so that text of the environment can be read as it.
enum class setting_kind : std::uint8_t { text, duration, boolean, integer, real, json };

/// One key: how it is written and what a value does to the configuration. `apply` gives an empty text, or what is
/// allowed, as the end of a sentence that begins with the key: "must be ...".
struct config_key {
  std::string path; ///< "section.key", or the key alone at the top
  setting_kind kind = setting_kind::text;
  std::function<std::string(config&, const setting&)> apply;
  std::function<std::string(config&)> show; ///< the value as it would be written in the file; changes nothing
};

/// Every key of API.md section 2, in its order.
const std::vector<config_key>& config_keys();
/// The sections that they stand in.
const std::vector<std::string>& config_sections();
/// The key with this path, or null.
const config_key* find_config_key(const std::string& path);
/// The nearest of `known` by edits; empty if none is near enough to be meant.
std::string nearest_name(const std::string& wrong, const std::vector<std::string>& known);
/// For an unknown key: what to say of its neighbours, e.g. `; did you mean "backoff.first"?`.
std::string suggest_key(const std::string& path);
/// RANVIER_SECTION_KEY.
std::string environment_name(const std::string& path);
/// What must hold between keys; each a sentence.
std::vector<std::string> contradictions(const config& value);

/// TOML to settings: top-level members, or the sentence (with file and line) why it can't be parsed.
struct parsed_toml {
  std::vector<setting::member> members;
  std::string problem;
};
parsed_toml parse_toml(const std::string& text, const std::string& file);
/// JSON text to a setting; false if it isn't JSON.
bool parse_json_setting(const std::string& text, setting& out);

} // namespace ranvier
