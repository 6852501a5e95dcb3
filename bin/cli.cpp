#include "bin/cli.hpp"

#include <cstdio>
#include <string>

namespace ranvier {

int run_command_line(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "version") {
    std::puts("ranvier " RANVIER_VERSION);
    return exit_ok;
  }
  std::fputs("ranvier: unknown verb; try: ranvier version\n", stderr);
  return exit_usage;
}

} // namespace ranvier
