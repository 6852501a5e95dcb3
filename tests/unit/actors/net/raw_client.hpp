#pragma once
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace ranvier::testing {

/// What a server answered.
struct raw_answer {
  int status = 0;
  std::string head, body;
  bool closes() const { return head.find("Connection: close") != std::string::npos; }
};

/// A blocking client over a plain or TLS socket that sends bytes as they are told. Reads give up after 10 s.
class raw_client {
public:
  explicit raw_client(std::uint16_t port, bool tls = false)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval limit{10, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) throw std::runtime_error("can't connect");
    if (!tls) return;
    context_ = SSL_CTX_new(TLS_client_method());
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, socket_);
    if (SSL_connect(ssl_) != 1) throw std::runtime_error("no TLS");
  }
  ~raw_client() {
    if (ssl_) SSL_free(ssl_);
    if (context_) SSL_CTX_free(context_);
    ::close(socket_);
  }
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;

  /// False once the server has closed.
  bool send(const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
      const auto left = text.size() - at;
      const auto n = ssl_ ? SSL_write(ssl_, text.data() + at, int(left))
                          : int(::send(socket_, text.data() + at, left, MSG_NOSIGNAL));
      if (n <= 0) return false;
      at += std::size_t(n);
    }
    return true;
  }
  void send_end() { ::shutdown(socket_, SHUT_WR); }

  /// One more piece, empty at the end or when nothing comes.
  std::string more() {
    char piece[8192];
    const auto n = ssl_ ? SSL_read(ssl_, piece, sizeof piece) : int(::recv(socket_, piece, sizeof piece, 0));
    return n > 0 ? std::string(piece, std::size_t(n)) : std::string();
  }
  /// Everything up to and with `mark`.
  std::string until(const std::string& mark) {
    for (;;) {
      if (const auto at = rest_.find(mark); at != std::string::npos) {
        auto out = rest_.substr(0, at + mark.size());
        rest_.erase(0, at + mark.size());
        return out;
      }
      const auto next = more();
      if (next.empty()) return {};
      rest_ += next;
    }
  }
  /// A whole answer with a Content-Length; status 0 if none came.
  raw_answer read(bool head_only = false) {
    raw_answer out;
    out.head = until("\r\n\r\n");
    if (out.head.size() < 12) return out;
    out.status = std::atoi(out.head.c_str() + 9);
    const auto at = out.head.find("Content-Length: ");
    if (at == std::string::npos || head_only) return out;
    const auto length = std::size_t(std::atol(out.head.c_str() + at + 16));
    while (rest_.size() < length) {
      const auto next = more();
      if (next.empty()) return {};
      rest_ += next;
    }
    out.body = rest_.substr(0, length);
    rest_.erase(0, length);
    return out;
  }
  raw_answer ask(const std::string& text) {
    send(text);
    return read();
  }
  /// True if the server closes without a further byte.
  bool at_end() { return rest_.empty() && more().empty(); }

private:
  int socket_;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  std::string rest_;
};

inline std::string request(const std::string& method, const std::string& target, const std::string& body = "",
                           const std::string& headers = "") {
  std::string out = method + " " + target + " HTTP/1.1\r\nHost: test\r\n" + headers;
  if (!body.empty()) out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return out + "\r\n" + body;
}

} // namespace ranvier::testing
