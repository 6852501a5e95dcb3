#pragma once
#include <map>
#include <string>

namespace ranvier {

/// Where each key of the configuration was given: "default", "<file>:<line>", "RANVIER_SECTION_KEY" or "flag". Keys
/// that weren't given anywhere are in it too. Sections that stand in the file are named as "[section]". The arguments
/// are those of read_config, which has found no mistake in them.
std::map<std::string, std::string> config_origins(const std::string& text, const std::string& file,
                                                  const std::map<std::string, std::string>& environment,
                                                  const std::map<std::string, std::string>& flags);

} // namespace ranvier
