#pragma once
#include "actors/net/router.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ranvier {

using http_headers = std::vector<std::pair<std::string, std::string>>;

/// {"errcode": ..., "error": ...} (H5).
std::string error_body(std::string_view errcode, std::string_view sentence);

/// One request and the way to answer it. Made by the server when the headers are in, handed to the service, and
/// answered exactly once, by any thread and at any time: the answer is posted to the connection. If the client has gone
/// meanwhile the answer is dropped. An exchange that dies unanswered answers 500 by itself, so no client waits for
/// ever.
class http_exchange {
public:
  virtual ~http_exchange() = default;

  std::string method, target; ///< the target is raw: path and query as they came
  http_headers headers;
  std::string body;  ///< empty if a sink takes it
  std::string peer;  ///< ip:port of the client
  route_match route; ///< filled by the service

  /// The first header of that name (any case), or empty.
  std::string_view header(std::string_view name) const;

  /// The whole answer; Content-Type is application/json unless `extra` has one. Later answers are ignored.
  void respond(int status, std::string text, http_headers extra = {});
  void respond_error(int status, std::string_view errcode, std::string_view sentence, http_headers extra = {}) {
    respond(status, error_body(errcode, sentence), std::move(extra));
  }
  /// An answer whose pieces come later (server-sent events). Counts as the answer.
  void begin_stream(int status, http_headers extra);
  /// `then` is called on the connection's strand: true when the piece was written, false when the client has gone.
  virtual void write(std::string piece, std::function<void(bool)> then) = 0;
  virtual void end_stream() = 0;
  /// `then` is called, once, on the connection's strand, if the client closes its side before the answer ended. To be
  /// asked for when the body is in. Only plain connections notice: over TLS bytes may come that aren't a request.
  virtual void when_gone(std::function<void()> then) = 0;
  /// Runs something on the connection's strand, where sinks are called too.
  virtual void post(std::function<void()> work) = 0;
  bool answered() const { return answered_.load(); }

protected:
  virtual void do_respond(int status, std::string text, http_headers extra) = 0;
  virtual void do_begin(int status, http_headers extra) = 0;
  /// True for the first who asks.
  bool claim() { return !answered_.exchange(true); }

private:
  std::atomic<bool> answered_{false};
};

/// Takes a request's body piece by piece, on the connection's strand.
class body_sink {
public:
  virtual ~body_sink() = default;
  /// Nothing more is read until `resume` was called (any thread, once), which is how a slow reader slows its client.
  virtual void data(std::string_view piece, std::function<void()> resume) = 0;
  virtual void end() = 0;
  /// The client broke off, or was too slow or too long; nothing follows.
  virtual void aborted() = 0;
};

struct body_plan {
  std::size_t limit = 0;           ///< bytes; beyond: 413
  std::shared_ptr<body_sink> sink; ///< null: the body is gathered in the exchange
};

/// What a listener serves. Called on the server's threads; must not block.
class http_service {
public:
  virtual ~http_service() = default;
  /// The headers are in. May answer already: then the body isn't read.
  virtual body_plan headers_in(const std::shared_ptr<http_exchange>& exchange) = 0;
  /// The body is in too (not if a sink takes it).
  virtual void request_in(std::shared_ptr<http_exchange> exchange) = 0;
};

} // namespace ranvier
