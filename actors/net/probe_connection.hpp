#pragma once
#include "messages/config.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ranvier {

/// What a TLS handshake shows of a server.
struct tls_facts {
  bool connected = false, shaken = false; ///< TCP stands; the handshake was done
  std::string problem;                    ///< what went wrong, also a certificate that isn't accepted; empty: nothing
  bool trusted = false;                   ///< chain, dates and name of the certificate are good
  std::string version, cipher;            ///< "TLSv1.3"
  std::string subject, issuer;
  std::vector<std::string> names;                   ///< of the certificate: host names and addresses
  std::int64_t not_before_ms = 0, not_after_ms = 0; ///< wall clock
  std::int64_t connect_took_ms = 0, tls_took_ms = 0;
};

/// A connection of its own to look at a server for an operator: not of the pool, past gates and admission, HTTP/1.1,
/// blocking. A certificate that isn't accepted is shown and not an end. One thread.
class probe_connection {
public:
  /// `address` "ip:port" or "[ip]:port"; `tls_name` SNI and certificate name (an IP: no SNI). Never throws for what the
  /// other side does; std::runtime_error if our own trust anchors can't be used.
  probe_connection(const std::string& address, const std::string& tls_name, const config& settings,
                   std::int64_t within_ms);
  ~probe_connection();
  probe_connection(const probe_connection&) = delete;
  probe_connection& operator=(const probe_connection&) = delete;

  const tls_facts& facts() const;

  struct answer {
    int status = 0; ///< 0: no whole answer
    std::string body, problem;
    std::int64_t took_ms = 0;
  };
  answer get(const std::string& uri, const std::string& host_header, std::int64_t within_ms);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace ranvier
