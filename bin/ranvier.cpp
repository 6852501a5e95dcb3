#include "bin/cli.hpp"

int main(int argc, char** argv) { return ranvier::run_command_line(argc, argv); }
