#pragma once
#include "actors/admission.hpp"
#include "actors/net/dials.hpp"
#include "actors/net/http_client.hpp"
#include "actors/net/http_transfer.hpp"

#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <variant>

namespace ranvier {

/// The thread of an http_client and everything that it alone touches.
class http_client::loop final : public transfer_watcher {
public:
  explicit loop(http_client_settings settings);
  ~loop();
  void start(std::shared_ptr<loop> self);
  void stop();
  void post(http_job job);
  void post_cancel(std::string asker, std::function<void()> then);
  void post_closing();
  figures look() const;

private:
  struct cancellation {
    std::string asker;
    std::function<void()> then;
  };
  struct closing {};
  using command = std::variant<http_job, cancellation, closing>;
  struct shard {
    loop* owner = nullptr;
    std::size_t index = 0;
    CURLM* multi = nullptr;
    std::int64_t due = -1; ///< when curl wants to be called, -1: not
    CURL* sweeper = nullptr;
    bool sweeping = false;
  };
  struct socket_owner {
    std::string destination;
    std::size_t shard = 0;
    std::uint64_t number = 0; ///< of all that were ever opened; descriptors come again
    std::string ends;         ///< both addresses, once it is connected
    std::int64_t heard = 0;   ///< when the peer last sent something
  };
  struct host {
    int open = 0;
    bool http2 = false;       ///< its connections carry many requests at a time
    std::string good_address; ///< the one that worked last
  };

  void run();
  void enter(command c);
  void take_inbox();
  void take_job(http_job job);
  void take_cancellation(cancellation c);
  void take_closing();
  void admit();
  void begin(transfer& t);
  void go(transfer& t);
  bool must_wait(const transfer& t);
  void go_released();
  void share_failure(const transfer& t, const http_reply& reply);
  void end_overdue(std::int64_t now);
  void end_unmade(transfer& t, http_reply reply);
  void detach(transfer& t);
  void collect(shard& s);
  void ended(transfer& t, CURLcode code);
  void finish(transfer& t, http_reply reply);
  void wait();
  void drive_timers();
  void sweep(std::int64_t now);
  void end_everything();
  std::int64_t now() const;

  curl_socket_t open_socket(transfer& t, const curl_sockaddr& address) override;
  void connected(transfer& t, const std::string& ends) override;
  bool hung_up(std::uint64_t socket) const;
  void hang_up_if_silent(std::uint64_t socket, std::int64_t since);
  static int on_close(void* self, curl_socket_t fd);
  static int on_watch(CURL*, curl_socket_t fd, int what, void* s, void*);
  static int on_timer(CURLM*, long ms, void* s);

  http_client_settings settings_;
  transfer_rules rules_;
  int anchors_ = -1; ///< an anonymous file with all trust anchors
  int epoll_ = -1, wake_ = -1;
  std::vector<shard> shards_;
  admission admission_;
  dials dials_;
  std::int64_t next_look_at_held_ = 0;
  std::uint64_t last_ticket_ = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<transfer>> transfers_;
  std::unordered_map<std::string, std::set<std::uint64_t>> by_asker_;
  std::unordered_map<std::string, host> hosts_; ///< only those with open connections
  std::unordered_map<curl_socket_t, socket_owner> sockets_;
  std::unordered_map<std::uint64_t, curl_socket_t> numbered_; ///< open sockets by their numbers
  std::unordered_map<std::string, std::uint64_t> by_ends_;    ///< numbers of connected ones
  std::vector<CURL*> spare_;
  std::int64_t next_sweep_ = -1;
  bool closing_ = false; ///< nothing begins any more

  mutable std::mutex mutex_;
  std::vector<command> inbox_;
  bool stopping_ = false;
  std::atomic<std::size_t> in_flight_{0}, queued_{0}, connections_{0};
  std::atomic<std::uint64_t> started_{0}, cut_{0}, opened_{0}, http2_{0};
  std::thread thread_;
};

} // namespace ranvier
