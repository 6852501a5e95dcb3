#pragma once
#include "actors/net/http_exchange.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ranvier {

/// Limits of one listener. Slow and silent clients are cut by time, greedy ones by size.
struct http_options {
  std::string listen;                           ///< "ip:port" or "[ip]:port"; port 0: any free one
  std::string tls_certificate, tls_private_key; ///< PEM files; empty: plain HTTP
  std::size_t header_bytes = 16 * 1024;
  std::size_t connections = 2000;          ///< beyond: the longest idle one is closed, or the new one
  std::size_t buffered_bytes = 512u << 20; ///< of all bodies being gathered or answered; beyond: 503
  std::chrono::milliseconds handshake_timeout{10'000}, header_timeout{10'000};
  std::chrono::milliseconds idle_timeout{75'000}; ///< between requests
  std::chrono::milliseconds body_grace{15'000};   ///< a body may lag by this much behind the minimum rate
  std::size_t body_bytes_per_second = 16 * 1024;
  std::chrono::milliseconds write_timeout{30'000};
};

/// The threads that all listeners share. Made before them, destroyed after them.
class http_threads {
public:
  explicit http_threads(unsigned count = 2);
  ~http_threads();
  struct impl;
  impl& get() { return *impl_; }

private:
  std::unique_ptr<impl> impl_;
};

/// An event-driven HTTP/1.1 listener (DESIGN section 3, Ingress): a waiting call holds no thread. Made by the engine;
/// the service must outlive it. All errors of clients end in an answer or a closed connection, never in an exception.
class http_server {
public:
  /// Binds and begins to accept. Throws std::runtime_error with a sentence if the address or the certificate can't be
  /// used.
  http_server(http_threads& threads, http_options options, http_service& service);
  ~http_server(); ///< stop() without grace
  std::uint16_t port() const;
  std::size_t connections() const;
  /// No new connections; idle ones end, running requests have `grace` to be answered, then all are closed.
  void stop(std::chrono::milliseconds grace);
  struct impl;

private:
  std::shared_ptr<impl> impl_;
};

} // namespace ranvier
