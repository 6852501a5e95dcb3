#pragma once
#include <string>

namespace ranvier {

/// A port of an IPv4 address that is taken and at which nobody listens: whoever connects is refused at once.
class socket_held {
public:
  /// Port 0: any free one. Throws std::runtime_error with a sentence.
  socket_held(const std::string& address, int port);
  ~socket_held();
  socket_held(const socket_held&) = delete;
  socket_held& operator=(const socket_held&) = delete;
  int port() const { return port_; }

private:
  int socket_ = -1, port_ = 0;
};

} // namespace ranvier
