#pragma once
// Private to actors/net: what the listener and its connections share. <utility> before any asio header: Boost 1.74 uses
// std::exchange without including it (LIBRARIES section 8).
#include <utility>

#include "actors/net/http_server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace ranvier {

/// The event loop; connections hold it too, so that an exchange may outlive the threads.
struct listener_loop {
  boost::asio::io_context io;
  std::atomic<bool> running{true};
};

struct http_threads::impl {
  std::shared_ptr<listener_loop> loop = std::make_shared<listener_loop>();
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{loop->io.get_executor()};
  std::vector<std::thread> threads;
};

class http_connection {
public:
  virtual ~http_connection() = default;
  virtual void start() = 0;
  virtual void close_if_idle() = 0; ///< any thread
  virtual void close_now() = 0;     ///< any thread
};

/// State of one listener, shared with its connections; the mutex guards the two tables.
struct http_server::impl : std::enable_shared_from_this<http_server::impl> {
  impl(std::shared_ptr<listener_loop> threads, http_options given, http_service& served);
  void bind();
  void accept();
  void accepted(boost::asio::ip::tcp::socket socket);
  void stop(std::chrono::milliseconds grace);

  std::uint64_t add(const std::shared_ptr<http_connection>& connection);
  void remove(std::uint64_t id);
  void set_idle(std::uint64_t id, bool idle);
  bool make_room();

  std::shared_ptr<listener_loop> loop;
  const http_options options;
  http_service& service;
  std::unique_ptr<boost::asio::ssl::context> tls;
  boost::asio::ip::tcp::acceptor acceptor;
  boost::asio::steady_timer pause; ///< after a failed accept
  std::atomic<bool> stopping{false};
  std::atomic<std::size_t> buffered{0};

  std::mutex mutex;
  std::condition_variable removed;
  std::uint64_t next_id = 1;
  struct entry {
    std::weak_ptr<http_connection> connection;
    std::list<std::uint64_t>::iterator idle_at;
    bool idle = false;
  };
  std::unordered_map<std::uint64_t, entry> open;
  std::list<std::uint64_t> idle; ///< the longest idle one first
};

std::shared_ptr<http_connection> make_connection(const std::shared_ptr<http_server::impl>& server,
                                                 boost::asio::ip::tcp::socket socket);

} // namespace ranvier
