#pragma once
#include "messages/config.hpp"
#include "messages/protocol/egress.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ranvier {

struct http_client_settings {
  std::int64_t max_in_flight = 512;
  std::int64_t max_new_connections_per_second = 500;
  std::int64_t max_young_handshakes = 128;
  std::int64_t max_connections = 8192; ///< open ones, idle ones included; about 40 kB each
  std::int64_t idle_connection_timeout_ms = 120'000;
  std::int64_t connect_timeout_ms = 10'000;   ///< TCP and TLS
  std::int64_t connect_to_another_ms = 3'000; ///< the same while the route has further addresses to try
  bool verify_certificates = true;
  std::string ca_file; ///< trusted beside the system's
  std::string system_ca_file = "/etc/ssl/certs/ca-certificates.crt";
  std::string tls_minimum = "1.2";
  bool http2 = true; ///< offered; a server that takes it gets its requests at the same time over one connection
  std::vector<std::string> ip_deny; ///< judged once more when connected; not for pinned routes
  std::string user_agent = "Ranvier";

  static http_client_settings from(const config& c);
};

/// An answer with the headers that discovery needs.
struct http_reply {
  http_answer answer;
  std::string location, cache_control, expires, date;
};

struct http_job {
  std::string asker;
  http_call call;
  route way;                              ///< ok, with at least one address
  std::function<void(http_reply)> answer; ///< called once, on the client's thread; must not block or throw
};

/// All outgoing HTTPS on one thread of its own: curl's multi interface in several shards, epoll, an inbox. It starts
/// what `admission` lets go and answers each job exactly once, whatever happens; at its end as cancelled. Made by
/// whoever starts the network, shared by egress and resolver; its last owner's destructor ends and joins
/// the thread (if a callback of its own was that owner, the thread ends by itself).
/// Thread-safe.
class http_client {
public:
  /// Throws std::runtime_error with a sentence if the trust anchors can't be read or no thread can be started.
  explicit http_client(http_client_settings settings);
  ~http_client();
  http_client(const http_client&) = delete;
  http_client& operator=(const http_client&) = delete;

  void submit(http_job job);
  /// Ends what is outstanding under `asker`: connections are closed, the jobs are answered as cancelled, then `then` is
  /// called (on the client's thread).
  void cancel(std::string asker, std::function<void()> then);

  /// Nothing begins any more: jobs that wait, and whatever is submitted later, are answered as cancelled. What is under
  /// way goes on.
  void start_no_more();

  struct figures {
    std::size_t in_flight = 0, queued = 0, connections = 0;
    std::uint64_t started = 0, cut = 0, opened = 0; ///< ever
    std::uint64_t http2 = 0;                        ///< answers that came over HTTP/2, ever
  };
  figures look() const;

private:
  class loop;
  std::shared_ptr<loop> loop_; ///< the thread holds it too, until its end
};

} // namespace ranvier
