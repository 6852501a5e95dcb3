#pragma once
#include "actors/discovery.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ranvier {

struct dns_settings {
  std::vector<std::string> servers;             ///< "ip" or "ip:port"; empty: those of `system_file`
  std::string system_file = "/etc/resolv.conf"; ///< read again when it changes
  int timeout_ms = 2'000;                       ///< of one question to one server
  int rounds = 3;                               ///< over all servers that didn't answer at all
};

/// Looks names up with c-ares on a thread of its own. Every question is answered exactly once, on that thread, at its
/// end with `failed`. Servers are asked one after the other until one gives an answer; those that often don't are
/// set aside (dns_servers). No cache: the resolver has one. Thread-safe; the destructor ends and joins the thread.
class dns_client {
public:
  using answer = std::function<void(lookup)>;
  /// Throws std::runtime_error with a sentence if c-ares can't be set up, or no server of the settings is one.
  explicit dns_client(dns_settings settings);
  ~dns_client();
  dns_client(const dns_client&) = delete;
  dns_client& operator=(const dns_client&) = delete;

  /// A and AAAA, aliases followed; the hosts file first. IPv4 stands first (docs/DECISIONS.md).
  void addresses(std::string name, answer then);
  void services(std::string name, answer then);

private:
  class loop;
  std::shared_ptr<loop> loop_; ///< the thread holds it too, until its end
};

} // namespace ranvier
