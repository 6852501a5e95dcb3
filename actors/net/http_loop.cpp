#include "actors/net/http_loop.hpp"

#include "actors/log.hpp"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace ranvier {
namespace {

constexpr std::size_t most_spare_handles = 256;
/// What one HTTP/2 connection carries at a time at most: curl's own limit.
constexpr int http2_streams = 100;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return in ? text.str() : std::string();
}

/// curl caches trust anchors only if they come from one file, so the system's and the operator's are put into one that
/// exists in memory only.
int merge_anchors(const http_client_settings& s) {
  auto all = read_file(s.system_ca_file);
  if (!s.ca_file.empty()) {
    auto own = read_file(s.ca_file);
    if (own.find("-----BEGIN ") == std::string::npos)
      throw std::runtime_error("[federation] ca_file " + s.ca_file + " can't be read or holds no PEM certificate");
    all += "\n" + own;
  }
  if (all.empty() && s.verify_certificates)
    log_warning("no_trust_anchors",
                {{"file", s.system_ca_file},
                 {"means", "no certificate can be verified: install ca-certificates or set [federation] ca_file"}});
  int fd = memfd_create("trust-anchors", MFD_CLOEXEC);
  if (fd < 0) throw std::runtime_error("no memory file for the trust anchors can be made");
  for (std::size_t at = 0; at < all.size();) {
    auto n = write(fd, all.data() + at, all.size() - at);
    if (n <= 0) {
      close(fd);
      throw std::runtime_error("the trust anchors can't be copied to a memory file");
    }
    at += static_cast<std::size_t>(n);
  }
  return fd;
}

std::size_t shard_count(const http_client_settings& s) {
  return static_cast<std::size_t>(std::clamp<std::int64_t>(s.max_in_flight / 16, 1, 16));
}

} // namespace

http_client::loop::loop(http_client_settings settings)
    : settings_(std::move(settings))
    , anchors_(merge_anchors(settings_))
    , shards_(shard_count(settings_))
    , admission_({settings_.max_in_flight, settings_.max_new_connections_per_second, settings_.max_young_handshakes},
                 [this](const std::string& name) {
                   auto it = hosts_.find(name);
                   if (it == hosts_.end()) return 0;
                   return it->second.open * (it->second.http2 ? http2_streams : 1);
                 }) {
  static const auto curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (curl_ready != CURLE_OK) throw std::runtime_error("libcurl can't be initialised");
  rules_.settings = &settings_;
  rules_.ca_path = "/proc/self/fd/" + std::to_string(anchors_);
  rules_.deny = ip_ranges(settings_.ip_deny);
  rules_.close_socket = &loop::on_close;
  rules_.close_socket_data = this;
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u64 = ~std::uint64_t{0};
  if (epoll_ < 0 || wake_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &e) != 0)
    throw std::runtime_error("the HTTP client's event queue can't be made");
  auto kept = static_cast<long>(settings_.max_connections / static_cast<std::int64_t>(shards_.size()) + 1);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    auto& s = shards_[i];
    s.owner = this;
    s.index = i;
    s.multi = curl_multi_init();
    s.sweeper = curl_easy_init();
    if (!s.multi || !s.sweeper) throw std::runtime_error("libcurl can't make a handle");
    curl_multi_setopt(s.multi, CURLMOPT_SOCKETFUNCTION, &loop::on_watch);
    curl_multi_setopt(s.multi, CURLMOPT_SOCKETDATA, &s);
    curl_multi_setopt(s.multi, CURLMOPT_TIMERFUNCTION, &loop::on_timer);
    curl_multi_setopt(s.multi, CURLMOPT_TIMERDATA, &s);
    curl_multi_setopt(s.multi, CURLMOPT_MAXCONNECTS, kept);
  }
}

void http_client::loop::start(std::shared_ptr<loop> self) {
  thread_ = std::thread([self = std::move(self)] { self->run(); });
}

void http_client::loop::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_, 1);
  // The last reference to an actor, and with it to the client, may go with a callback: then this is the thread itself.
  if (thread_.get_id() == std::this_thread::get_id()) thread_.detach();
  else thread_.join();
}

http_client::loop::~loop() {
  close(wake_);
  close(epoll_);
  close(anchors_);
}

std::int64_t http_client::loop::now() const {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

void http_client::loop::enter(command c) {
  bool first;
  {
    std::lock_guard lock(mutex_);
    first = inbox_.empty();
    inbox_.push_back(std::move(c));
  }
  if (first) eventfd_write(wake_, 1);
}

void http_client::loop::post(http_job job) { enter(std::move(job)); }
void http_client::loop::post_cancel(std::string asker, std::function<void()> then) {
  enter(cancellation{std::move(asker), std::move(then)});
}

void http_client::loop::post_closing() { enter(closing{}); }

http_client::figures http_client::loop::look() const {
  return {in_flight_, queued_, connections_, started_, cut_, opened_, http2_};
}

void http_client::loop::run() {
  // OpenSSL writes to sockets that peers closed, and with NOSIGNAL curl leaves SIGPIPE to us. It is sent to the thread
  // that wrote, so blocking it here is enough.
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  for (;;) {
    take_inbox();
    {
      std::lock_guard lock(mutex_);
      if (stopping_ && inbox_.empty()) break;
    }
    admit();
    go_released();
    drive_timers();
    // What ended just now may let others go: they aren't left until the next event.
    admit();
    go_released();
    wait();
  }
  end_everything();
}

void http_client::loop::take_inbox() {
  std::vector<command> commands;
  {
    std::lock_guard lock(mutex_);
    commands.swap(inbox_);
  }
  for (auto& c : commands)
    if (auto* job = std::get_if<http_job>(&c)) take_job(std::move(*job));
    else if (auto* end = std::get_if<cancellation>(&c)) take_cancellation(std::move(*end));
    else take_closing();
}

void http_client::loop::take_job(http_job job) {
  auto ticket = ++last_ticket_;
  auto& slot = transfers_[ticket];
  slot = std::make_unique<transfer>(ticket, std::move(job), rules_, *this);
  auto& t = *slot;
  by_asker_[t.job.asker].insert(ticket);
  if (auto why = t.fault(); !why.empty()) {
    http_reply r;
    r.answer.id = t.job.call.id;
    r.answer.stage = failure_stage::build;
    r.answer.problem = std::move(why);
    return finish(t, std::move(r));
  }
  if (closing_) return finish(t, t.cancelled(now()));
  t.shard = std::hash<std::string>{}(t.job.call.destination) % shards_.size();
  admission_.add({ticket, t.job.call.destination, t.job.call.probe, t.job.call.repeatable, t.job.call.timeout_ms});
}

void http_client::loop::take_cancellation(cancellation c) {
  if (auto it = by_asker_.find(c.asker); it != by_asker_.end()) {
    auto tickets = it->second;
    for (auto id : tickets) {
      auto& t = *transfers_.at(id);
      auto reply = t.cancelled(now());
      detach(t);
      admission_.finished(id, false, now());
      finish(t, std::move(reply));
    }
  }
  c.then();
}

void http_client::loop::take_closing() {
  closing_ = true;
  std::vector<transfer*> waiting;
  for (auto& [ticket, t] : transfers_)
    if (!t->easy) waiting.push_back(t.get());
  for (auto* t : waiting) {
    auto reply = t->cancelled(now());
    admission_.finished(t->ticket, false, now());
    finish(*t, std::move(reply));
  }
}

void http_client::loop::admit() {
  auto at = now();
  auto orders = admission_.next(at);
  for (auto id : orders.cut) {
    ++cut_;
    auto& t = *transfers_.at(id);
    t.cut();
    detach(t); // closes its connection or resets its stream: the peer never has two of them at a time
  }
  for (auto id : orders.start) {
    ++started_;
    auto& t = *transfers_.at(id);
    t.admitted = at;
    begin(t);
  }
  in_flight_ = admission_.in_flight();
  queued_ = admission_.waiting();
}

void http_client::loop::begin(transfer& t) {
  if (spare_.empty()) t.easy = curl_easy_init();
  else {
    t.easy = spare_.back();
    spare_.pop_back();
  }
  if (!t.easy) { // no memory: an answer all the same
    http_reply r = t.cancelled(now());
    r.answer.cancelled = false;
    r.answer.stage = failure_stage::build;
    r.answer.problem = "libcurl can't make a handle";
    admission_.finished(t.ticket, false, now());
    return finish(t, std::move(r));
  }
  t.held = must_wait(t);
  if (!t.held) go(t);
}

void http_client::loop::go(transfer& t) {
  auto it = hosts_.find(t.job.call.destination);
  t.prepare(it == hosts_.end() ? std::string() : it->second.good_address, t.admitted + t.job.call.timeout_ms - now());
  curl_multi_add_handle(shards_[t.shard].multi, t.easy);
}

void http_client::loop::detach(transfer& t) {
  if (!t.easy) return;
  dials_.leave(t.job.call.destination, t.ticket);
  if (!t.held) {
    curl_multi_remove_handle(shards_[t.shard].multi, t.easy);
    hang_up_if_silent(t.socket, t.going_since);
  }
  t.held = false;
  auto* handle = t.release();
  if (spare_.size() < most_spare_handles) spare_.push_back(handle);
  else curl_easy_cleanup(handle);
}

void http_client::loop::collect(shard& s) {
  int left = 0;
  std::vector<std::pair<transfer*, CURLcode>> over;
  while (auto* m = curl_multi_info_read(s.multi, &left)) {
    if (m->msg != CURLMSG_DONE) continue;
    if (m->easy_handle == s.sweeper) {
      curl_multi_remove_handle(s.multi, s.sweeper);
      s.sweeping = false;
      continue;
    }
    transfer* t = nullptr;
    curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
    over.emplace_back(t, m->data.result);
  }
  for (auto& [t, code] : over)
    ended(*t, code);
}

void http_client::loop::ended(transfer& t, CURLcode code) {
  auto at = now();
  bool time_left = at - t.admitted < t.job.call.timeout_ms;
  if (t.complete(code)) {
    if (auto it = hosts_.find(t.job.call.destination); it != hosts_.end()) {
      it->second.good_address = t.address();
      it->second.http2 = t.over_http2();
    }
    http2_ += t.over_http2();
    t.socket = 0; // it can be used on
  } else if (time_left && t.try_again(code, hung_up(t.socket))) {
    auto ticket = t.ticket;
    curl_multi_remove_handle(shards_[t.shard].multi, t.easy);
    auto* handle = t.release();
    t.easy = handle;
    go(*transfers_.at(ticket));
    return;
  }
  auto reply = t.reply(code, at);
  share_failure(t, reply);
  detach(t);
  admission_.finished(t.ticket, reply.answer.status != 0, at);
  finish(t, std::move(reply));
}

void http_client::loop::finish(transfer& t, http_reply reply) {
  auto ticket = t.ticket;
  auto of = by_asker_.find(t.job.asker);
  of->second.erase(ticket);
  if (of->second.empty()) by_asker_.erase(of);
  t.job.answer(std::move(reply));
  transfers_.erase(ticket);
}

void http_client::loop::end_everything() {
  for (auto& [id, t] : transfers_) {
    auto reply = t->cancelled(now());
    detach(*t);
    reply.answer.problem = "the engine is ending";
    t->job.answer(std::move(reply));
  }
  transfers_.clear();
  for (auto* handle : spare_)
    curl_easy_cleanup(handle);
  for (auto& s : shards_) {
    if (s.sweeping) curl_multi_remove_handle(s.multi, s.sweeper);
    curl_easy_cleanup(s.sweeper);
    curl_multi_cleanup(s.multi);
  }
}

} // namespace ranvier
