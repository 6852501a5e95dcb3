#pragma once
#include "bin/certificate.hpp"
#include "bin/sink_script.hpp"
#include "messages/signing.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace ranvier {

/// A request to which the sink itself has no answer, or only an empty one.
struct sink_question {
  std::string method, path; ///< the path without its query, percent escapes as they came
  std::multimap<std::string, std::string> query;
  std::string body;
};
struct sink_reply {
  int status = 200;
  std::string body;
};

struct sink_options {
  std::string name;                ///< the server name that it plays
  std::string listen;              ///< host:port; port 0: any free one
  bool plain = false;              ///< without TLS
  std::string room_version = "10"; ///< of all its rooms, for event ids
  std::string certificate_out;     ///< write the certificate (PEM) there: good as a ca_file
  sink_behaviour behaviour;
  // For whoever makes one in its own process; otherwise these are made.
  std::optional<signing_key> key;
  std::optional<own_certificate> certificate;
  std::size_t threads = 64;
  /// Asked for device lists, and for whatever the sink has no answer to, from several threads; nothing: the sink
  /// answers.
  std::function<std::optional<sink_reply>(const sink_question&)> ask;
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
  /// From now on this event gets an error of its own.
  void refuse(const std::string& event_id);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

/// `ranvier sink`: runs until SIGTERM or SIGINT; the exit code.
int run_sink(const sink_options& options);

} // namespace ranvier
