#pragma once
#include "messages/config.hpp"

namespace ranvier {

struct serve_options {
  bool accept_new_identity = false; ///< server name or key differ from those that the database was made with, and may
};

/// Runs the engine until SIGTERM or SIGINT. Gives an exit code: 0 after an orderly end, 78 if the configuration, the data
/// folder or the database can't be used, 70 if the engine failed.
int serve(const config& settings, const serve_options& options);

} // namespace ranvier
