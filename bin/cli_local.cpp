#include "bin/cli.hpp"
#include "bin/cli_verbs.hpp"
#include "messages/signing.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>

// Verbs that need no engine.

namespace ranvier {

std::int64_t wall_now_ms() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

int print_version(const std::string& output) {
  if (output == "json") std::cout << nlohmann::json{{"name", "ranvier"}, {"version", RANVIER_VERSION}}.dump(2) << '\n';
  else std::cout << "ranvier " RANVIER_VERSION "\n";
  return exit_ok;
}

int generate_key(const std::string& out_file) {
  start_crypto();
  auto text = signing_key::generate().file_text();
  if (out_file.empty()) {
    std::cout << text;
    return exit_ok;
  }
  // O_EXCL: an old key that is overwritten is lost, and with it the server's identity.
  int file = ::open(out_file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0)
    throw cli_failure(exit_no, errno == EEXIST ? out_file + " exists already; it is not overwritten"
                                               : out_file + " can't be made: " + std::strerror(errno));
  bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(file) == 0;
  if (::close(file) != 0 || !written) {
    ::unlink(out_file.c_str());
    throw cli_failure(exit_fault, out_file + " can't be written");
  }
  std::cerr << "a new signing key is in " << out_file << '\n';
  return exit_ok;
}

int check_config(const config_source& from) {
  auto settings = load_config(from, true);
  auto problems = file_problems(settings);
  for (const auto& problem : problems)
    std::cerr << problem << '\n';
  if (!problems.empty()) return exit_config;
  std::cerr << (from.file.empty() ? std::string("the configuration") : from.file) << " can be used, for "
            << settings.server_name << '\n';
  return exit_ok;
}

} // namespace ranvier
