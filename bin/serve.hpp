#pragma once
#include "messages/config.hpp"

#include <functional>
#include <map>
#include <string>

namespace ranvier {

/// What the command line alone can say to `serve`.
struct serve_options {
  bool accept_new_identity = false; ///< start although server_name or signing key aren't those of the database
  std::map<std::string, std::string> origins; ///< where each key was given (messages/config_origin.hpp)
  std::function<config()> reload; ///< reads the configuration again, for SIGHUP; throws with a sentence. Or empty
};

/// Runs the engine until SIGTERM or SIGINT; gives the process's exit code (bin/cli.hpp): 0 after an orderly end, 78 if
/// the configuration can't be used, 70 if a part fails that it can't live without. The configuration has a server name.
int serve(const config& settings, const serve_options& options);

} // namespace ranvier
