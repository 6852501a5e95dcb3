#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ranvier::test {

/// A certificate authority of its own and a leaf for the given names ("DNS:a.test", "IP:127.0.0.1"), in PEM.
struct test_certificate {
  std::string authority, leaf, key;
  static test_certificate make(const std::vector<std::string>& names);
};

/// A small scripted HTTPS server on a loopback port that the system chooses; a thread for each connection. The script
/// runs on these threads. Its destructor closes everything and joins.
class tls_peer {
public:
  struct request {
    std::string method, target, body, sni;
    std::map<std::string, std::string> headers; ///< names in lower case
    int connection = 0;                         ///< number of the connection, from 1
    int nth = 0;                                ///< number of the request in it, from 1
  };
  /// What to write; empty: close without an answer.
  using script = std::function<std::string(const request&)>;

  tls_peer(std::vector<std::string> names, script s);
  ~tls_peer();

  int port() const { return port_; }
  std::string at(const std::string& ip = "127.0.0.1") const { return ip + ":" + std::to_string(port_); }
  const std::string& authority_file() const { return authority_file_; }
  int connections() const { return connections_; }
  std::vector<request> requests() const;
  /// For scripts: waits until the peer ends; so the request is never answered.
  void hang();
  /// Waits until so many connections are over. False after 20 s.
  bool wait_closed(int how_many);
  /// Waits until so many requests came. False after 20 s.
  bool wait_requests(std::size_t how_many);
  /// From now on a connection is closed after each answer, though the answer doesn't say so.
  std::atomic<bool> close_after_answer{false};

  static std::string answer(int status, const std::string& body, const std::string& headers = "");

private:
  void accept_all();
  void serve(int fd, int number);

  script script_;
  void* context_ = nullptr;
  int listener_ = -1, port_ = 0, wake_[2] = {-1, -1};
  std::string authority_file_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  int closed_ = 0;
  std::atomic<int> connections_{0};
  std::vector<request> requests_;
  std::vector<int> open_;
  std::list<std::thread> threads_;
};

/// A loopback TCP port that takes connections and says nothing, and one that refuses them.
class silent_port {
public:
  silent_port();
  ~silent_port();
  int port() const { return port_; }

private:
  int fd_ = -1, port_ = 0;
};
int refusing_port();

} // namespace ranvier::test
