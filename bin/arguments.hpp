#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace ranvier {

/// Options may stand before or after the verb (API.md section 6): moves the verb to the front, keeping everything else
/// in order. `flags` are the options that take no value ("--yes"); other options are followed by theirs.
std::vector<std::string> verb_first(const std::vector<std::string>& words, const std::set<std::string>& verbs,
                                    const std::set<std::string>& flags);

} // namespace ranvier
