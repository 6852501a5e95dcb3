#pragma once
#include "messages/config.hpp"

#include <map>
#include <string>

namespace ranvier {

/// Where the configuration comes from, as the command line has it.
struct config_source {
  std::string file;                         ///< empty: none
  std::map<std::string, std::string> flags; ///< "section.key" -> value
};

/// Reads file, environment and flags. Throws cli_failure (78) with all mistakes, a line each. `need_name`: a missing
/// server_name is one.
config load_config(const config_source& from, bool need_name);

/// Where each key is given (messages/config_origin.hpp). Throws cli_failure.
std::map<std::string, std::string> origins_of(const config_source& from);

/// Files that the configuration names and that can't be used; each a sentence. For check-config: `serve` finds them
/// too.
std::vector<std::string> file_problems(const config& settings);

/// The engine's environment, only RANVIER_*.
std::map<std::string, std::string> ranvier_environment();

/// Throws cli_failure.
std::string read_text_file(const std::string& path, int code);

} // namespace ranvier
