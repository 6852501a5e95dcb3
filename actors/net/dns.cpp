#include "actors/net/dns.hpp"

#include "actors/log.hpp"
#include "actors/net/dns_channel.hpp"
#include "actors/net/dns_reply.hpp"
#include "actors/net/dns_servers.hpp"
#include "actors/net/dns_window.hpp"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <fstream>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <unordered_map>

namespace ranvier {
namespace {

constexpr std::int64_t look_at_file_every_ms = 5'000;

struct question {
  bool services = false;
  std::string name;
  dns_client::answer then;
};

/// An address question is two queries; the lookup is complete when both are answered.
struct lookup_job {
  question what;
  int waiting = 0;
  gathered_lookup heard;
};

} // namespace

class dns_client::loop {
public:
  explicit loop(dns_settings settings);
  ~loop();
  void start(std::shared_ptr<loop> self);
  void stop();
  void post(question q);

private:
  /// The servers of one moment. When the system's file changes there is a new one; questions that are under way end
  /// with the old one.
  struct servers {
    explicit servers(std::vector<std::string> list)
        : order(std::move(list)) {}
    dns_servers order;
    std::vector<std::unique_ptr<dns_channel>> channels;
  };
  /// One question on its way from server to server.
  struct query {
    std::shared_ptr<lookup_job> job;
    dns_question what;
    std::shared_ptr<servers> whom;
    std::vector<std::size_t> order, silent, refused; ///< silent: asked again in the next round
    std::size_t at = 0;
    int rounds_left = 0;
    std::uint64_t number = 0; ///< in the window, while it is asked
    std::string problem;
  };

  std::shared_ptr<servers> make_servers(std::vector<std::string> list);
  void look_at_file();
  void run();
  void ask(question q);
  void ask_next(const std::shared_ptr<query>& q);
  void send_waiting();
  void send(const std::shared_ptr<query>& q);
  void take(const std::shared_ptr<query>& q, dns_reply r);
  void strike(servers& s, std::size_t i, const std::string& problem);
  void done(const std::shared_ptr<query>& q, dns_reply r);
  bool from_hosts(lookup_job& job);
  void watch(dns_channel& channel, ares_socket_t fd, bool in, bool out);
  void wait();
  std::int64_t now() const;

  dns_settings settings_;
  std::unique_ptr<dns_channel> hosts_; ///< for the hosts file only
  std::shared_ptr<servers> current_;
  std::vector<std::shared_ptr<servers>> all_; ///< the current one, and older ones with open questions
  std::unordered_map<ares_socket_t, dns_channel*> sockets_;
  dns_window window_;
  std::deque<std::shared_ptr<query>> first_, again_; ///< questions that wait for room: new ones go before repeats
  bool sending_ = false;
  std::int64_t looked_at_file_ = 0;
  timespec file_changed_{};
  bool ending_ = false;
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
  hosts_ = std::make_unique<dns_channel>("", settings_.timeout_ms, [](dns_channel&, ares_socket_t, bool, bool) {});
  if (settings_.servers.empty()) look_at_file();
  else current_ = make_servers(settings_.servers);
  if (!current_) current_ = make_servers({});
  // One with a zone may be right for others; without any server each lookup says what is wrong (B115).
  for (std::size_t i = 0; i < settings_.servers.size(); ++i)
    if (!current_->channels[i]->good() && settings_.servers[i].find('%') == std::string::npos)
      throw std::runtime_error("\"" + settings_.servers[i] + "\" isn't a DNS server (ip or ip:port)");
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.fd = wake_;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &e);
}

std::shared_ptr<dns_client::loop::servers> dns_client::loop::make_servers(std::vector<std::string> list) {
  auto made = std::make_shared<servers>(std::move(list));
  for (std::size_t i = 0; i < made->order.size(); ++i) {
    made->channels.push_back(std::make_unique<dns_channel>(
        made->order.name(i), settings_.timeout_ms,
        [this](dns_channel& c, ares_socket_t fd, bool in, bool out) { watch(c, fd, in, out); }));
    if (made->channels[i]->good()) continue;
    made->order.unusable(i);
    log_warning("dns_server_unusable", {{"server", made->order.name(i)}, {"means", "the others are asked"}});
  }
  all_.push_back(made);
  return made;
}

/// The system's file is read when it is another one than last time; a machine may get its network after us.
void dns_client::loop::look_at_file() {
  auto at = now();
  if (current_ && at - looked_at_file_ < look_at_file_every_ms) return;
  looked_at_file_ = at;
  struct stat s {};
  if (stat(settings_.system_file.c_str(), &s) != 0) return;
  if (current_ && s.st_mtim.tv_sec == file_changed_.tv_sec && s.st_mtim.tv_nsec == file_changed_.tv_nsec) return;
  file_changed_ = s.st_mtim;
  std::ifstream file(settings_.system_file);
  std::ostringstream text;
  text << file.rdbuf();
  current_ = make_servers(nameservers_of(text.str()));
}

std::int64_t dns_client::loop::now() const {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
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
    if (settings_.servers.empty() && !questions.empty()) look_at_file();
    for (auto& q : questions)
      ask(std::move(q));
    if (stop) break;
    wait();
    // An older one goes with its last question.
    std::erase_if(all_, [this](const auto& s) { return s != current_ && s.use_count() == 1; });
  }
  ending_ = true;
  for (auto& s : all_)
    s->channels.clear(); // answers what is open as failed
  for (auto* line : {&first_, &again_})
    for (auto& q : *line)
      ask_next(q);
}

bool dns_client::loop::from_hosts(lookup_job& job) {
  auto& heard = job.heard;
  hostent* h = nullptr;
  for (int family : {AF_INET, AF_INET6}) {
    if (ares_gethostbyname_file(hosts_->handle(), job.what.name.c_str(), family, &h) != ARES_SUCCESS) continue;
    for (char** a = h->h_addr_list; *a; ++a) {
      char text[INET6_ADDRSTRLEN];
      if (inet_ntop(h->h_addrtype, *a, text, sizeof text))
        (h->h_addrtype == AF_INET ? heard.v4 : heard.v6).push_back(text);
    }
    ares_free_hostent(h);
  }
  if (heard.v4.empty() && heard.v6.empty() && job.what.name == "localhost")
    heard.v4 = {"127.0.0.1"}; // RFC 6761: never asked of DNS
  return !heard.v4.empty() || !heard.v6.empty();
}

void dns_client::loop::ask(question what) {
  auto job = std::make_shared<lookup_job>();
  job->what = std::move(what);
  if (!job->what.services && from_hosts(*job)) {
    job->heard.ttl_s = 60;
    return job->what.then(job->heard.outcome());
  }
  std::vector<dns_question> parts{dns_question::srv};
  if (!job->what.services) parts = {dns_question::a, dns_question::aaaa};
  job->waiting = static_cast<int>(parts.size());
  for (auto part : parts) {
    auto q = std::make_shared<query>();
    q->job = job;
    q->what = part;
    q->whom = current_;
    q->order = current_->order.order(now());
    q->rounds_left = settings_.rounds;
    q->problem = "no server";
    ask_next(q);
  }
}

void dns_client::loop::ask_next(const std::shared_ptr<query>& q) {
  if (q->at == q->order.size()) {
    q->order.swap(q->silent);
    q->silent.clear();
    q->at = 0;
    if (--q->rounds_left <= 0) q->order.clear();
  }
  if (q->order.empty() || ending_) {
    dns_reply none;
    none.problem = q->problem + " (asked " + q->whom->order.words() + ")";
    return done(q, std::move(none));
  }
  (q->number == 0 ? first_ : again_).push_back(q);
  send_waiting();
}

void dns_client::loop::send_waiting() {
  if (sending_) return; // a question that was answered at once came back here
  sending_ = true;
  while ((!first_.empty() || !again_.empty()) && window_.room(now())) {
    auto& line = first_.empty() ? again_ : first_;
    auto q = std::move(line.front());
    line.pop_front();
    send(q);
  }
  sending_ = false;
}

void dns_client::loop::send(const std::shared_ptr<query>& q) {
  int type = q->what == dns_question::a ? ns_t_a : q->what == dns_question::aaaa ? ns_t_aaaa : ns_t_srv;
  auto& channel = *q->whom->channels[q->order[q->at]];
  q->number = window_.asked(now());
  channel.ask(q->job->what.name, type, [this, q](int status, const unsigned char* data, int size) {
    window_.answered(q->number);
    take(q, read_dns_reply(q->what, status, data, size));
  });
}

void dns_client::loop::take(const std::shared_ptr<query>& q, dns_reply r) {
  auto server = q->order[q->at];
  auto& s = *q->whom;
  ++q->at;
  switch (r.what) {
  case dns_reply::kind::answer:
    s.order.answered(server);
    // Whether a refusal was the server's fault or the name's is known when another server can answer.
    for (auto i : q->refused)
      strike(s, i, "refused what " + s.order.name(server) + " answered");
    return done(q, std::move(r));
  case dns_reply::kind::refusal:
    q->refused.push_back(server);
    break;
  case dns_reply::kind::nothing:
    if (!ending_) strike(s, server, r.problem);
    q->silent.push_back(server);
    break;
  }
  q->problem = s.order.name(server) + ": " + r.problem;
  ask_next(q);
}

void dns_client::loop::strike(servers& s, std::size_t i, const std::string& problem) {
  if (!s.order.failed(i, now()) || s.order.size() < 2) return;
  log_warning("dns_server_set_aside",
              {{"server", s.order.name(i)},
               {"problem", problem},
               {"means", "for " + std::to_string(dns_servers::set_aside_ms / 60'000) + " minutes others come first"}});
}

void dns_client::loop::done(const std::shared_ptr<query>& q, dns_reply r) {
  auto job = q->job;
  job->heard.take(q->what, std::move(r));
  if (--job->waiting == 0) job->what.then(job->heard.outcome());
}

void dns_client::loop::wait() {
  // c-ares walks all questions to say when the next one is due, so it isn't asked: with 20,000 open ones that costs
  // more than looking every 50 ms.
  bool open = std::any_of(all_.begin(), all_.end(), [](const auto& each) {
    return std::any_of(each->channels.begin(), each->channels.end(), [](const auto& c) { return c->open() > 0; });
  });
  auto at = now();
  int ms = open ? 50 : 60'000;
  if (!first_.empty() || !again_.empty())
    ms = static_cast<int>(std::clamp<std::int64_t>(window_.room_at(at) - at, 0, ms));
  epoll_event events[64];
  int n = epoll_wait(epoll_, events, 64, ms);
  for (int i = 0; i < n; ++i) {
    if (events[i].data.fd == wake_) {
      eventfd_t ignored;
      eventfd_read(wake_, &ignored);
      continue;
    }
    auto it = sockets_.find(events[i].data.fd);
    if (it == sockets_.end()) continue; // closed by an event before this one
    bool in = events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP), out = events[i].events & EPOLLOUT;
    it->second->ready(events[i].data.fd, in, out);
  }
  // Timeouts are looked at even while answers to others keep coming.
  for (const auto& s : all_)
    for (const auto& c : s->channels)
      if (c->open() > 0) c->tick();
  send_waiting();
}

void dns_client::loop::watch(dns_channel& channel, ares_socket_t fd, bool in, bool out) {
  epoll_event e{};
  e.data.fd = fd;
  e.events = (in ? EPOLLIN : 0u) | (out ? EPOLLOUT : 0u);
  if (!e.events) {
    sockets_.erase(fd);
    epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, &e);
    return;
  }
  sockets_[fd] = &channel;
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &e) != 0) epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &e);
}

dns_client::dns_client(dns_settings settings)
    : loop_(std::make_shared<loop>(std::move(settings))) {
  loop_->start(loop_);
}
dns_client::~dns_client() { loop_->stop(); }
void dns_client::addresses(std::string name, answer then) { loop_->post({false, std::move(name), std::move(then)}); }
void dns_client::services(std::string name, answer then) { loop_->post({true, std::move(name), std::move(then)}); }

} // namespace ranvier
