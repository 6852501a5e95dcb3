#include "actors/net/dns_channel.hpp"

#include <arpa/nameser.h>

#include <memory>
#include <stdexcept>

namespace ranvier {

dns_channel::dns_channel(const std::string& server, int timeout_ms, watcher watch)
    : watch_(std::move(watch)) {
  ares_options o{};
  o.timeout = timeout_ms;
  o.tries = 1; // the client goes on to another server itself
  // Answers that say "failure" are passed to us: c-ares would report them as no connection.
  o.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_NOCHECKRESP;
  o.sock_state_cb = [](void* self, ares_socket_t fd, int in, int out) {
    auto& channel = *static_cast<dns_channel*>(self);
    channel.watch_(channel, fd, in, out);
  };
  o.sock_state_cb_data = this;
  int status =
      ares_init_options(&channel_, &o, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_FLAGS | ARES_OPT_SOCK_STATE_CB);
  if (status != ARES_SUCCESS) throw std::runtime_error(std::string("DNS can't be set up: ") + ares_strerror(status));
  good_ = server.empty() || ares_set_servers_ports_csv(channel_, server.c_str()) == ARES_SUCCESS;
}

dns_channel::~dns_channel() { ares_destroy(channel_); }

void dns_channel::ask(const std::string& name, int type, std::function<void(int, const unsigned char*, int)> then) {
  struct waiting {
    dns_channel* channel;
    std::function<void(int, const unsigned char*, int)> then;
  };
  ++open_;
  ares_query(
      channel_, name.c_str(), ns_c_in, type,
      [](void* arg, int status, int, unsigned char* data, int size) {
        std::unique_ptr<waiting> w(static_cast<waiting*>(arg));
        --w->channel->open_;
        w->then(status, data, size);
      },
      new waiting{this, std::move(then)});
}

void dns_channel::ready(ares_socket_t fd, bool in, bool out) {
  ares_process_fd(channel_, in ? fd : ARES_SOCKET_BAD, out ? fd : ARES_SOCKET_BAD);
}

void dns_channel::tick() { ares_process_fd(channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD); }

} // namespace ranvier
