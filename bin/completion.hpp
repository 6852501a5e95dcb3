#pragma once
#include <string>
#include <vector>

namespace ranvier {

struct completed_option {
  std::vector<std::string> names; ///< "-o", "--output"
  std::string sentence;
  bool takes_value = false;
  std::vector<std::string> choices; ///< what its value may be; empty: anything
};

/// A verb as a shell completes it.
struct completed_verb {
  std::string verb;      ///< as in bin/commands.hpp, perhaps two words
  std::string arguments; ///< NAME and SELECTOR are completed with the servers that the engine knows; a|b with its words
  std::string sentence;
  std::vector<completed_option> options;
};

/// The words that an argument like "bash|zsh|fish" or "[retry|drop ID]" may begin with; empty if it is no such choice.
std::vector<std::string> argument_words(const std::string& arguments);
/// The argument is the name of a server.
bool takes_server(const std::string& arguments);

/// The script for `shell` (bash, zsh or fish); empty for any other.
std::string completion_script(const std::string& shell, const std::vector<completed_verb>& verbs);

} // namespace ranvier
