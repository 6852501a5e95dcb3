#include "bin/socket_held.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace ranvier {

socket_held::socket_held(const std::string& address, int port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  socklen_t size = sizeof at;
  const int yes = 1;
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto* generic = reinterpret_cast<sockaddr*>(&at);
  if (socket_ < 0 || ::inet_pton(AF_INET, address.c_str(), &at.sin_addr) != 1 ||
      ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      // A sink binds so; its connections that just ended keep the port for those who do, too.
      ::setsockopt(socket_, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) != 0 || ::bind(socket_, generic, size) != 0 ||
      ::getsockname(socket_, generic, &size) != 0) {
    const std::string why = std::strerror(errno);
    if (socket_ >= 0) ::close(socket_);
    throw std::runtime_error("no port of " + address + " can be had: " + why);
  }
  port_ = ntohs(at.sin_port);
}

socket_held::~socket_held() { ::close(socket_); }

} // namespace ranvier
