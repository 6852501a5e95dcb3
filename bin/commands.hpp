#pragma once
#include <string>
#include <vector>

namespace ranvier {

/// One verb of the command line. Its options are declared where they are read (bin/command_line.hpp); help and
/// completion of shells are made from both, and the manual page is held against both.
struct command {
  std::string group; ///< the manual's section: Look, Probe, Act, Subjects, Run, Without an engine
  std::string verb;  ///< as it is typed; two words for a verb under another one ("config show")
  /// As API.md section 6 writes them: [X] may be absent. Options stand here only if the verb makes no sense without.
  std::string arguments;
  std::string sentence;              ///< what it does, without a full stop
  std::vector<std::string> examples; ///< whole command lines
};

/// The one table of verbs, in the order in which help shows them.
const std::vector<command>& commands();

/// Throws std::logic_error for a verb that isn't in the table.
const command& command_of(const std::string& verb);

} // namespace ranvier
