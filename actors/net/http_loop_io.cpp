#include "actors/net/http_loop.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

// What the loop has to do with sockets and time: epoll, curl's callbacks, the sweep of idle connections.

namespace ranvier {

void http_client::loop::wait() {
  auto at = now();
  std::int64_t due = admission_.next_moment(at);
  auto sooner = [&](std::int64_t t) {
    if (t >= 0 && (due < 0 || t < due)) due = t;
  };
  for (const auto& s : shards_)
    sooner(s.due);
  if (connections_ > 0) sooner(next_sweep_);
  if (dials_.waiting() > 0) sooner(next_look_at_held_);
  int timeout = due < 0 ? -1 : static_cast<int>(std::clamp<std::int64_t>(due - at, 0, 60'000));
  epoll_event events[256];
  int n = epoll_wait(epoll_, events, 256, timeout);
  for (int i = 0; i < n; ++i) {
    if (events[i].data.u64 == ~std::uint64_t{0}) {
      eventfd_t ignored;
      eventfd_read(wake_, &ignored);
      continue;
    }
    auto& s = shards_[events[i].data.u64 >> 32];
    auto fd = static_cast<curl_socket_t>(events[i].data.u64 & 0xffffffff);
    auto e = events[i].events;
    if (auto it = sockets_.find(fd); it != sockets_.end() && (e & EPOLLIN)) it->second.heard = now();
    int what = (e & EPOLLIN ? CURL_CSELECT_IN : 0) | (e & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (e & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    int running = 0;
    curl_multi_socket_action(s.multi, fd, what, &running);
  }
  if (n > 0)
    for (auto& s : shards_)
      collect(s);
}

void http_client::loop::drive_timers() {
  auto at = now();
  for (auto& s : shards_) {
    if (s.due < 0 || s.due > at) continue;
    s.due = -1;
    int running = 0;
    curl_multi_socket_action(s.multi, CURL_SOCKET_TIMEOUT, 0, &running);
    collect(s);
  }
  end_overdue(at);
  sweep(at);
}

/// curl drops pooled connections that are too old, or that the peer closed, only when a new connection is made in the
/// same multi. So that an idle engine holds none, a transfer that is refused its socket is made now and then.
void http_client::loop::sweep(std::int64_t at) {
  if (connections_ == 0 || next_sweep_ < 0) {
    next_sweep_ = at + std::clamp<std::int64_t>(settings_.idle_connection_timeout_ms / 2, 500, 30'000);
    return;
  }
  if (at < next_sweep_) return;
  next_sweep_ = -1;
  std::set<std::size_t> with_sockets;
  for (const auto& [fd, owner] : sockets_)
    with_sockets.insert(owner.shard);
  for (auto i : with_sockets) {
    auto& s = shards_[i];
    if (s.sweeping) continue;
    curl_easy_reset(s.sweeper);
    curl_easy_setopt(s.sweeper, CURLOPT_URL, "https://127.0.0.1:9/");
    curl_easy_setopt(s.sweeper, CURLOPT_PROXY, "");
    curl_easy_setopt(s.sweeper, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(s.sweeper, CURLOPT_MAXAGE_CONN,
                     static_cast<long>(std::max<std::int64_t>(settings_.idle_connection_timeout_ms / 1000, 1)));
    curl_easy_setopt(
        s.sweeper, CURLOPT_OPENSOCKETFUNCTION,
        +[](void*, curlsocktype, curl_sockaddr*) -> curl_socket_t { return CURL_SOCKET_BAD; });
    s.sweeping = curl_multi_add_handle(s.multi, s.sweeper) == CURLM_OK;
  }
}

curl_socket_t http_client::loop::open_socket(transfer& t, const curl_sockaddr& address) {
  auto fd = socket(address.family, address.socktype | SOCK_CLOEXEC, address.protocol);
  if (fd < 0) return CURL_SOCKET_BAD;
  ++connections_;
  t.socket = ++opened_;
  sockets_[fd] = {t.job.call.destination, t.shard, t.socket, {}, now()};
  numbered_[t.socket] = fd;
  ++hosts_[t.job.call.destination].open;
  admission_.opened_socket(t.ticket);
  return fd;
}

int http_client::loop::on_close(void* self, curl_socket_t fd) {
  auto& l = *static_cast<loop*>(self);
  if (auto it = l.sockets_.find(fd); it != l.sockets_.end()) {
    auto h = l.hosts_.find(it->second.destination);
    if (h != l.hosts_.end() && --h->second.open == 0) l.hosts_.erase(h);
    l.numbered_.erase(it->second.number);
    l.by_ends_.erase(it->second.ends);
    l.sockets_.erase(it);
    --l.connections_;
  }
  return close(fd);
}

void http_client::loop::connected(transfer& t, const std::string& ends) {
  admission_.connected(t.ticket);
  dials_.connected(t.job.call.destination, t.ticket);
  t.going_since = now();
  if (auto it = numbered_.find(t.socket); it != numbered_.end()) { // its own new connection
    sockets_.at(it->second).ends = ends;
    by_ends_[ends] = t.socket;
  } else if (auto known = by_ends_.find(ends); known != by_ends_.end()) t.socket = known->second;
}

/// The peer closed or reset it, or curl did. curl has read what came before.
bool http_client::loop::hung_up(std::uint64_t socket) const {
  auto it = numbered_.find(socket);
  if (it == numbered_.end()) return true;
  char byte;
  auto n = recv(it->second, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/// curl closes a connection whose request was given up, but not one of HTTP/2: that may serve others. If nothing came
/// over it since, not even for others, it is dead (a firewall forgot it, say), and each further request would hang.
void http_client::loop::hang_up_if_silent(std::uint64_t socket, std::int64_t since) {
  auto it = numbered_.find(socket);
  if (it != numbered_.end() && sockets_.at(it->second).heard <= since) shutdown(it->second, SHUT_RDWR);
}

int http_client::loop::on_watch(CURL*, curl_socket_t fd, int what, void* data, void*) {
  auto& s = *static_cast<shard*>(data);
  epoll_event e{};
  e.data.u64 = (static_cast<std::uint64_t>(s.index) << 32) | static_cast<std::uint32_t>(fd);
  if (what == CURL_POLL_REMOVE) {
    epoll_ctl(s.owner->epoll_, EPOLL_CTL_DEL, fd, &e);
    return 0;
  }
  e.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
  if (epoll_ctl(s.owner->epoll_, EPOLL_CTL_MOD, fd, &e) != 0) epoll_ctl(s.owner->epoll_, EPOLL_CTL_ADD, fd, &e);
  return 0;
}

int http_client::loop::on_timer(CURLM*, long ms, void* data) {
  auto& s = *static_cast<shard*>(data);
  s.due = ms < 0 ? -1 : s.owner->now() + ms;
  return 0;
}

} // namespace ranvier
