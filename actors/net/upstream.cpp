#include "actors/net/upstream.hpp"

#include "actors/log.hpp"
#include "actors/log_budget.hpp"
#include "messages/ids.hpp"

#include <httplib.h>
#include <spdlog/details/os.h>

#include <algorithm>
#include <cctype>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace ranvier {

namespace {

struct job {
  std::shared_ptr<http_exchange> exchange;
  std::string origin;
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

/// Authorization too: a homeserver that wants to check the signature once more can.
httplib::Headers headers_for(const job& one) {
  httplib::Headers out{{"X-Ranvier-Origin", one.origin}};
  for (const auto* name : {"Authorization", "Content-Type", "Accept", "Accept-Language", "User-Agent", "Range",
                           "If-None-Match", "If-Modified-Since"})
    if (const auto value = one.exchange->header(name); !value.empty()) out.emplace(name, std::string(value));
  return out;
}

/// What belongs to the connection with the host, and what our listener writes itself, isn't passed back.
http_headers headers_back(const httplib::Headers& given) {
  static const std::set<std::string> ours{"connection",
                                          "keep-alive",
                                          "proxy-authenticate",
                                          "proxy-connection",
                                          "te",
                                          "trailer",
                                          "transfer-encoding",
                                          "upgrade",
                                          "content-length",
                                          "date",
                                          "server"};
  http_headers out;
  for (const auto& [name, value] : given)
    if (!ours.contains(lower(name))) out.emplace_back(name, value);
  return out;
}

} // namespace

struct upstream::state {
  state(const std::string& where, upstream_limits most)
      : base(where)
      , limits(most) {}

  void work() {
    httplib::Client client(base);
    {
      const std::lock_guard held(guard);
      clients.push_back(&client);
    }
    client.set_keep_alive(true);
    client.set_decompress(false); // the bytes as the host sent them
    client.set_url_encode(false); // the target as it was signed
    client.set_connection_timeout(limits.connect);
    client.set_read_timeout(limits.silence);
    client.set_write_timeout(limits.silence);
    while (true) {
      job one;
      {
        std::unique_lock held(guard);
        ++idle;
        moved.wait(held, [this] { return ending || !queue.empty(); });
        --idle;
        if (ending) break;
        one = std::move(queue.front());
        queue.pop_front();
      }
      ask(client, one);
    }
    const std::lock_guard held(guard);
    clients.erase(std::find(clients.begin(), clients.end(), &client));
  }

  void ask(httplib::Client& client, const job& one) {
    auto& exchange = *one.exchange;
    httplib::Request request;
    request.method = exchange.method;
    request.path = exchange.target;
    request.headers = headers_for(one);
    request.body = std::move(exchange.body);
    httplib::Response answer;
    bool too_long = false;
    request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
      too_long = answer.body.size() + size > limits.answer_bytes;
      if (!too_long) answer.body.append(data, size);
      return !too_long;
    };
    auto error = httplib::Error::Success;
    if (client.send(request, answer, error) && !too_long)
      return exchange.respond(answer.status, std::move(answer.body), headers_back(answer.headers));
    failed(exchange, error, too_long);
  }

  void failed(http_exchange& exchange, httplib::Error error, bool too_long) {
    const bool silent = error == httplib::Error::Read;
    const auto why = too_long ? "its answer is longer than " + std::to_string(limits.answer_bytes) + " bytes"
                     : silent ? std::string("it broke off, or said nothing for too long")
                              : "it can't be reached (" + httplib::to_string(error) + ")";
    bool said = false;
    {
      const std::lock_guard held(guard);
      said = !ending && budget.allow(now_ms());
    }
    if (said)
      log_warning("upstream_failed", {{"upstream", base},
                                      {"why", why},
                                      {"means", "requests that the engine doesn't serve itself are answered 502 or 504;"
                                                " look at the homeserver, and at [federation] upstream"}});
    exchange.respond_error(silent ? 504 : 502, "M_UNKNOWN",
                           "the homeserver behind this server could not answer: " + why + "; try again later",
                           {{"Retry-After", "30"}});
  }

  static std::int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(spdlog::details::os::now().time_since_epoch()).count();
  }

  const std::string base;
  const upstream_limits limits;
  std::mutex guard;
  std::condition_variable moved;
  std::deque<job> queue;
  std::vector<std::thread> threads;
  std::vector<httplib::Client*> clients;
  std::size_t idle = 0;
  bool ending = false;
  log_budget budget;
};

upstream::upstream(const std::string& base, upstream_limits limits)
    : state_(std::make_shared<state>(base, limits)) {}

upstream::~upstream() {
  std::vector<std::thread> ended;
  {
    const std::lock_guard held(state_->guard);
    state_->ending = true;
    for (auto* client : state_->clients)
      client->stop();
    ended.swap(state_->threads);
  }
  state_->moved.notify_all();
  for (auto& one : ended)
    one.join();
}

void upstream::pass(std::shared_ptr<http_exchange> exchange, const std::string& origin) {
  const std::lock_guard held(state_->guard);
  if (state_->queue.size() >= state_->limits.waiting)
    return exchange->respond_error(503, "M_UNKNOWN", "too many requests wait for the homeserver behind this server",
                                   {{"Retry-After", "5"}});
  state_->queue.push_back({std::move(exchange), origin});
  if (state_->idle < state_->queue.size() && state_->threads.size() < state_->limits.at_a_time)
    state_->threads.emplace_back([state = state_.get()] { state->work(); });
  state_->moved.notify_one();
}

std::string not_for_upstream(const router& ours, std::string_view target) {
  const auto path = target.substr(0, target.find('?'));
  if (!path.starts_with("/_matrix/federation/")) return "there is no such endpoint here";
  const auto whole = percent_decode(path);
  if (!whole) return "a percent escape in the path is broken";
  // As a host may read it: escapes decoded before the path is split, or after; empty segments dropped.
  for (const bool before : {true, false}) {
    std::string seen;
    std::string_view rest = before ? std::string_view(*whole) : path;
    while (!rest.empty()) {
      const auto end = rest.find('/');
      auto segment = before ? std::string(rest.substr(0, end)) : percent_decode(rest.substr(0, end)).value_or("");
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      if (segment == "." || segment == "..") return "a path with dots isn't served here";
      if (segment.empty()) continue;
      // A slash of an id doesn't part segments here.
      std::replace(segment.begin(), segment.end(), '/', '_');
      std::replace(segment.begin(), segment.end(), '?', '_');
      seen += '/' + segment;
    }
    for (const auto* method : {"GET", "PUT", "POST"})
      if (const auto found = ours.match(method, seen); found.status != 404)
        return "write this endpoint without escapes and empty parts";
  }
  return {};
}

} // namespace ranvier
