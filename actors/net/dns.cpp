#include "actors/net/dns.hpp"

#include <ares.h>
#include <ares_dns.h>
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace ranvier {
namespace {

struct question {
  bool services = false;
  std::string name;
  dns_client::answer then;
};

/// An address question is two queries; the lookup is complete when both are answered.
struct open_question {
  question what;
  std::string servers; ///< for the words of a failure
  int waiting = 0;
  bool no_name = false, failed = false;
  std::string failure;
  std::vector<std::string> v4, v6;
  std::vector<srv_record> services;
  std::int64_t ttl_s = -1;

  void lives(std::int64_t s) { ttl_s = ttl_s < 0 ? s : std::min(ttl_s, s); }
};

void complete(open_question* q) {
  if (--q->waiting > 0) return;
  std::unique_ptr<open_question> owner(q);
  lookup l;
  l.addresses = std::move(q->v4);
  l.addresses.insert(l.addresses.end(), q->v6.begin(), q->v6.end());
  l.services = std::move(q->services);
  l.ttl_s = std::max<std::int64_t>(q->ttl_s, 0);
  if (!l.addresses.empty() || !l.services.empty()) l.what = lookup::outcome::found;
  else if (q->failed) l.what = lookup::outcome::failed; // half an answer isn't one (B112)
  else l.what = q->no_name ? lookup::outcome::no_name : lookup::outcome::no_records;
  if (l.what == lookup::outcome::failed) l.note = "DNS failed: " + q->failure + " (asked " + q->servers + ")";
  q->what.then(std::move(l));
}

bool usable(open_question* q, int status) {
  if (status == ARES_SUCCESS) return true;
  if (status == ARES_ENOTFOUND) q->no_name = true;
  else if (status != ARES_ENODATA) {
    q->failed = true;
    q->failure = ares_strerror(status);
  }
  return false;
}

void broken(open_question* q, int status) {
  if (status == ARES_ENODATA) return; // an alias without the record that was asked for
  q->failed = true;
  q->failure = ares_strerror(status);
}

template <class TTL, int (*parse)(const unsigned char*, int, hostent**, TTL*, int*), int family>
void on_addresses(void* arg, int status, int, unsigned char* data, int size) {
  auto* q = static_cast<open_question*>(arg);
  if (usable(q, status)) {
    TTL list[64];
    int n = 64;
    int parsed = parse(data, size, nullptr, list, &n);
    if (parsed != ARES_SUCCESS) broken(q, parsed);
    else
      for (int i = 0; i < n; ++i) {
        char text[INET6_ADDRSTRLEN];
        const auto* bytes = reinterpret_cast<const unsigned char*>(&list[i]);
        if (inet_ntop(family, bytes, text, sizeof text)) (family == AF_INET ? q->v4 : q->v6).push_back(text);
        q->lives(list[i].ttl);
      }
  }
  complete(q);
}

void on_services(void* arg, int status, int, unsigned char* data, int size) {
  auto* q = static_cast<open_question*>(arg);
  if (usable(q, status)) {
    ares_srv_reply* list = nullptr;
    int parsed = ares_parse_srv_reply(data, size, &list);
    if (parsed != ARES_SUCCESS) broken(q, parsed);
    for (auto* r = list; r; r = r->next)
      q->services.push_back({r->priority, r->weight, r->port, r->host ? r->host : ""});
    if (list) ares_free_data(list);
  }
  complete(q);
}

/// The smallest time to live among the answers of a raw reply; c-ares doesn't give SRV's. -1: none.
std::int64_t answers_ttl(const unsigned char* data, int size) {
  if (size < HFIXEDSZ) return -1;
  const auto* at = data + HFIXEDSZ;
  auto skip_name = [&] {
    char* name = nullptr;
    long used = 0;
    if (ares_expand_name(at, data, size, &name, &used) != ARES_SUCCESS) return false;
    ares_free_string(name);
    at += used;
    return true;
  };
  for (int i = DNS_HEADER_QDCOUNT(data); i > 0; --i) {
    if (!skip_name()) return -1;
    at += QFIXEDSZ;
  }
  std::int64_t ttl = -1;
  for (int i = DNS_HEADER_ANCOUNT(data); i > 0; --i) {
    if (!skip_name() || data + size - at < RRFIXEDSZ) return ttl;
    auto its = static_cast<std::int64_t>(DNS_RR_TTL(at));
    ttl = ttl < 0 ? its : std::min(ttl, its);
    at += RRFIXEDSZ + DNS_RR_LEN(at);
  }
  return ttl;
}

void on_services_with_ttl(void* arg, int status, int timeouts, unsigned char* data, int size) {
  if (status == ARES_SUCCESS)
    if (auto ttl = answers_ttl(data, size); ttl >= 0) static_cast<open_question*>(arg)->lives(ttl);
  on_services(arg, status, timeouts, data, size);
}

} // namespace

class dns_client::loop {
public:
  explicit loop(dns_settings settings);
  ~loop();
  void start(std::shared_ptr<loop> self);
  void stop();
  void post(question q);

private:
  void run();
  void ask(question q);
  bool from_hosts(open_question& q);
  void wait();
  static void on_socket(void* self, ares_socket_t fd, int readable, int writable);

  dns_settings settings_;
  ares_channel channel_ = nullptr;
  std::string servers_;
  int epoll_ = -1, wake_ = -1;
  std::mutex mutex_;
  std::vector<question> inbox_;
  bool stopping_ = false;
  std::thread thread_;
};

dns_client::loop::loop(dns_settings settings)
    : settings_(std::move(settings)) {
  static const int ready = ares_library_init(ARES_LIB_INIT_ALL);
  if (ready != ARES_SUCCESS) throw std::runtime_error("c-ares can't be initialised");
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.fd = wake_;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &e);
  ares_options o{};
  o.timeout = settings_.timeout_ms;
  o.tries = settings_.tries;
  o.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES;
  o.sock_state_cb = &loop::on_socket;
  o.sock_state_cb_data = this;
  int status =
      ares_init_options(&channel_, &o, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_FLAGS | ARES_OPT_SOCK_STATE_CB);
  if (status != ARES_SUCCESS) throw std::runtime_error(std::string("DNS can't be set up: ") + ares_strerror(status));
  std::string list;
  for (const auto& s : settings_.servers)
    list += (list.empty() ? "" : ",") + s;
  if (!list.empty() && ares_set_servers_ports_csv(channel_, list.c_str()) != ARES_SUCCESS) {
    ares_destroy(channel_);
    close(wake_);
    close(epoll_);
    throw std::runtime_error("\"" + list + "\" isn't a list of DNS servers (ip or ip:port)");
  }
  ares_addr_port_node* nodes = nullptr;
  ares_get_servers_ports(channel_, &nodes);
  for (auto* n = nodes; n; n = n->next) {
    char text[INET6_ADDRSTRLEN] = {};
    inet_ntop(n->family, &n->addr, text, sizeof text);
    servers_ += (servers_.empty() ? "" : ", ") + address_with_port(text, n->udp_port ? n->udp_port : 53);
  }
  if (nodes) ares_free_data(nodes);
}

void dns_client::loop::start(std::shared_ptr<loop> self) {
  thread_ = std::thread([self = std::move(self)] { self->run(); });
}

void dns_client::loop::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_, 1);
  // The last reference to an actor, and with it to the client, may go with a callback: then this is the thread itself.
  if (thread_.get_id() == std::this_thread::get_id()) thread_.detach();
  else thread_.join();
}

dns_client::loop::~loop() {
  close(wake_);
  close(epoll_);
}

void dns_client::loop::post(question q) {
  {
    std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(q));
  }
  eventfd_write(wake_, 1);
}

void dns_client::loop::run() {
  for (;;) {
    std::vector<question> questions;
    bool stop;
    {
      std::lock_guard lock(mutex_);
      questions.swap(inbox_);
      stop = stopping_;
    }
    for (auto& q : questions)
      ask(std::move(q));
    if (stop) break;
    wait();
  }
  ares_destroy(channel_); // answers what is open as failed
}

bool dns_client::loop::from_hosts(open_question& q) {
  hostent* h = nullptr;
  for (int family : {AF_INET, AF_INET6}) {
    if (ares_gethostbyname_file(channel_, q.what.name.c_str(), family, &h) != ARES_SUCCESS) continue;
    for (char** a = h->h_addr_list; *a; ++a) {
      char text[INET6_ADDRSTRLEN];
      if (inet_ntop(h->h_addrtype, *a, text, sizeof text)) (h->h_addrtype == AF_INET ? q.v4 : q.v6).push_back(text);
    }
    ares_free_hostent(h);
  }
  if (q.v4.empty() && q.v6.empty() && q.what.name == "localhost") q.v4 = {"127.0.0.1"}; // RFC 6761: never asked of DNS
  return !q.v4.empty() || !q.v6.empty();
}

void dns_client::loop::ask(question what) {
  auto q = std::make_unique<open_question>();
  q->what = std::move(what);
  q->servers = servers_.empty() ? "no server: none is configured" : servers_;
  auto* p = q.release(); // owned by its last answer
  const auto* name = p->what.name.c_str();
  if (p->what.services) {
    p->waiting = 1;
    ares_query(channel_, name, ns_c_in, ns_t_srv, &on_services_with_ttl, p);
    return;
  }
  if (from_hosts(*p)) {
    p->waiting = 1;
    p->lives(60);
    return complete(p);
  }
  p->waiting = 2; // c-ares may answer at once, within the first call
  ares_query(channel_, name, ns_c_in, ns_t_a, &on_addresses<ares_addrttl, ares_parse_a_reply, AF_INET>, p);
  ares_query(channel_, name, ns_c_in, ns_t_aaaa, &on_addresses<ares_addr6ttl, ares_parse_aaaa_reply, AF_INET6>, p);
}

void dns_client::loop::wait() {
  timeval most{60, 0}, left{};
  auto* t = ares_timeout(channel_, &most, &left);
  int ms = static_cast<int>(t->tv_sec * 1000 + (t->tv_usec + 999) / 1000);
  epoll_event events[64];
  int n = epoll_wait(epoll_, events, 64, ms);
  for (int i = 0; i < n; ++i) {
    if (events[i].data.fd == wake_) {
      eventfd_t ignored;
      eventfd_read(wake_, &ignored);
      continue;
    }
    auto fd = events[i].data.fd;
    bool in = events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP), out = events[i].events & EPOLLOUT;
    ares_process_fd(channel_, in ? fd : ARES_SOCKET_BAD, out ? fd : ARES_SOCKET_BAD);
  }
  if (n <= 0) ares_process_fd(channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

void dns_client::loop::on_socket(void* self, ares_socket_t fd, int readable, int writable) {
  auto& l = *static_cast<loop*>(self);
  epoll_event e{};
  e.data.fd = fd;
  e.events = (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u);
  if (!e.events) epoll_ctl(l.epoll_, EPOLL_CTL_DEL, fd, &e);
  else if (epoll_ctl(l.epoll_, EPOLL_CTL_MOD, fd, &e) != 0) epoll_ctl(l.epoll_, EPOLL_CTL_ADD, fd, &e);
}

dns_client::dns_client(dns_settings settings)
    : loop_(std::make_shared<loop>(std::move(settings))) {
  loop_->start(loop_);
}
dns_client::~dns_client() { loop_->stop(); }
void dns_client::addresses(std::string name, answer then) { loop_->post({false, std::move(name), std::move(then)}); }
void dns_client::services(std::string name, answer then) { loop_->post({true, std::move(name), std::move(then)}); }

} // namespace ranvier
