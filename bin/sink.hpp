#pragma once
#include "bin/sink_script.hpp"

#include <functional>
#include <memory>
#include <string>

namespace ranvier {

struct sink_options {
  std::string name;                ///< the server name that it plays
  std::string listen;              ///< host:port; port 0: any free one
  bool plain = false;              ///< without TLS
  std::string room_version = "10"; ///< of all its rooms, for event ids
  std::string certificate_out;     ///< write the certificate (PEM) there: good as a ca_file
  sink_behaviour behaviour;
};

/// A pretended homeserver on loopback: publishes a key, takes transactions as its script says, tells each in JSON
/// lines. Made by `ranvier sink` (and whoever needs a peer); holds its own threads, stops when it is destroyed.
class sink {
public:
  /// Listens at once and tells so in its first line. `tell` gets each line, from several threads but one at a time.
  /// Throws std::runtime_error with a sentence if it can't listen.
  sink(sink_options options, std::function<void(const std::string&)> tell);
  ~sink();
  int port() const;

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

/// `ranvier sink`: runs until SIGTERM or SIGINT; the exit code.
int run_sink(const sink_options& options);

} // namespace ranvier
