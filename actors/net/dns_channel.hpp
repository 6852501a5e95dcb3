#pragma once
#include <ares.h>

#include <functional>
#include <string>

namespace ranvier {

/// One DNS server and c-ares's channel to it. Lives on the DNS client's thread; stays where it was made. Its destructor
/// answers what is open as ended; it mustn't run within one of its own answers.
class dns_channel {
public:
  using watcher = std::function<void(dns_channel&, ares_socket_t, bool in, bool out)>;
  /// `watch` is told which sockets to wait for, as c-ares does it. `good()` is false if c-ares can't use such an
  /// address; throws std::runtime_error if it can't make a channel at all.
  dns_channel(const std::string& server, int timeout_ms, watcher watch);
  ~dns_channel();
  dns_channel(const dns_channel&) = delete;
  dns_channel& operator=(const dns_channel&) = delete;

  bool good() const { return good_; }
  /// May be answered before it returns.
  void ask(const std::string& name, int type,
           std::function<void(int status, const unsigned char* data, int size)> then);
  void ready(ares_socket_t fd, bool in, bool out);
  void tick(); ///< looks for what is overdue
  std::size_t open() const { return open_; }
  ares_channel handle() const { return channel_; }

private:
  ares_channel channel_ = nullptr;
  watcher watch_;
  bool good_ = false;
  std::size_t open_ = 0;
};

} // namespace ranvier
