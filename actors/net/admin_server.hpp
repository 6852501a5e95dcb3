#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ranvier {

struct admin_request {
  std::string method, target; ///< raw
  std::string authorization, body, peer;
  std::string who; ///< header X-Ranvier-Who: the operator, for the audit log; a word of the caller, no proof
};
struct admin_answer {
  int status = 200;
  std::string body, content_type = "application/json";
  /// If set, the body is what it gives, piece by piece, until it gives nothing. Called on a thread of the server; must
  /// come back within a second, if need be with an empty piece.
  std::function<std::optional<std::string>()> pieces{};
  std::chrono::milliseconds pause_after_nothing{0};           ///< before the next piece is asked for
  std::vector<std::pair<std::string, std::string>> headers{}; ///< beside those that every answer has
};

/// A small blocking HTTP server for operators, on a Unix socket or on TCP: few callers, each holds a pool thread while
/// it is answered. Made and stopped by the engine.
class admin_server {
public:
  using handler = std::function<admin_answer(const admin_request&)>;

  /// `listen` is a path (it holds a '/'; a stale socket there is replaced, the new one has mode 0600) or "ip:port".
  /// The handler is called on pool threads, several at a time. Throws std::runtime_error with a sentence.
  admin_server(const std::string& listen, handler answer);
  ~admin_server();
  /// Waits for calls that are being answered.
  void stop();

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace ranvier
