#include "bin/confirm.hpp"

#include "bin/admin_client.hpp"
#include "bin/cli.hpp"

#include <unistd.h>

#include <iostream>

namespace ranvier {

void confirm(const std::string& question, bool yes) {
  if (yes) return;
  if (!::isatty(STDIN_FILENO) || !::isatty(STDERR_FILENO))
    throw cli_failure(exit_usage,
                      question + " There is no terminal to ask at: say --yes, or look first with --dry-run");
  std::cerr << question << " Type yes to go on: " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  if (answer != "yes") throw cli_failure(exit_no, "nothing was changed");
}

} // namespace ranvier
