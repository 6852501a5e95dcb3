#pragma once
#include "messages/config.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ranvier {

/// A value of the configuration as it would be written in the file (TOML; lists in one line).
std::string config_text(const std::string& value);
std::string config_text(bool value);
std::string config_text(std::int64_t value);
std::string config_text(double value);
std::string config_text(const std::vector<std::string>& value);
std::string config_text(const std::map<std::string, std::string>& value);
std::string config_text(const std::vector<old_key_config>& value);
/// A duration in the largest unit that it is a whole number of: "90s", "2m".
std::string duration_text(std::int64_t ms);

/// A key whose values differ; texts as above.
struct config_change {
  std::string path, from, to;
  bool at_once = false; ///< taken up by a running engine; everything else at its next start
};
/// What a configuration that was read again changes, in the order of the keys.
std::vector<config_change> config_changes(const config& running, const config& read);

} // namespace ranvier
