#pragma once

namespace ranvier {

/// Exit codes (API.md section 6; the numbers of sysexits.h).
enum exit_code : int {
  exit_ok = 0,
  exit_no = 1,           ///< the answer is no
  exit_usage = 64,       ///< wrong usage
  exit_unreachable = 69, ///< the engine can't be reached
  exit_fault = 70,       ///< a fault of ours
  exit_config = 78       ///< bad configuration
};

/// Reads the command line, does what it says, gives the exit code. Never throws.
int run_command_line(int argc, char** argv);

} // namespace ranvier
