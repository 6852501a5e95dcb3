#include "bin/sink.hpp"

#include "bin/admin_client.hpp"
#include "bin/certificate.hpp"
#include "bin/cli.hpp"
#include "bin/cli_verbs.hpp"
#include "messages/ids.hpp"
#include "messages/signing.hpp"

#include <httplib.h>
#include <openssl/pem.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <iostream>
#include <mutex>
#include <thread>

namespace ranvier {

namespace {

using nlohmann::json;

constexpr std::size_t most_body_bytes = 16u << 20;
constexpr std::int64_t key_valid_ms = 7LL * 86'400'000;

std::unique_ptr<httplib::Server> make_server(const own_certificate& own, bool plain) {
  if (plain) return std::make_unique<httplib::Server>();
  auto read = [](const std::string& pem) { return BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())); };
  std::unique_ptr<BIO, decltype(&BIO_free_all)> certificate_text(read(own.certificate_pem), BIO_free_all),
      key_text(read(own.private_key_pem), BIO_free_all);
  std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr), X509_free);
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  return std::make_unique<httplib::SSLServer>(certificate.get(), key.get());
}

} // namespace

struct sink::impl {
  impl(sink_options given, std::function<void(const std::string&)> say)
      : options(std::move(given))
      , tell(std::move(say))
      , key(options.key ? *options.key : signing_key::generate())
      , script(options.name, options.room_version, options.behaviour) {}

  void listen();
  void serve_routes();
  void put_send(const httplib::Request& request, httplib::Response& response);
  std::string key_answer() const;
  /// True if whoever made the sink has the answer.
  bool asked(const httplib::Request& request, httplib::Response& response) const {
    if (!options.ask) return false;
    const auto path = request.target.substr(0, request.target.find('?'));
    const auto said = options.ask({request.method, path, {request.params.begin(), request.params.end()}, request.body});
    if (!said) return false;
    response.status = said->status;
    response.set_content(said->body, "application/json");
    return true;
  }
  void answer(httplib::Response& response, int status, const json& body) const {
    response.status = status;
    response.set_content(body.dump(-1, ' ', false, json::error_handler_t::replace), "application/json");
  }

  sink_options options;
  std::function<void(const std::string&)> tell;
  signing_key key;
  std::mutex mutex; ///< guards script, tell and stopping
  std::condition_variable stopped;
  bool stopping = false;
  sink_script script;
  std::unique_ptr<httplib::Server> server;
  std::thread thread;
  int port = 0;
};

std::string sink::impl::key_answer() const {
  json answer{{"server_name", options.name},
              {"verify_keys", {{key.key_id(), {{"key", key.public_key()}}}}},
              {"old_verify_keys", json::object()},
              {"valid_until_ts", wall_now_ms() + key_valid_ms}};
  return sign_json(answer.dump(), options.name, key);
}

void sink::impl::put_send(const httplib::Request& request, httplib::Response& response) {
  sink_answer said;
  {
    std::unique_lock lock(mutex);
    // The delay is a slow server's: a stop ends it at once.
    stopped.wait_for(lock, std::chrono::milliseconds(options.behaviour.delay_ms), [this] { return stopping; });
    auto id = percent_decode(request.matches[1].str()).value_or(request.matches[1].str());
    said = script.receive(id, request.body, request.get_header_value("Authorization"), wall_now_ms());
    for (const auto& line : said.lines)
      tell(line);
  }
  response.status = said.status;
  response.set_content(said.body, "application/json");
}

void sink::impl::serve_routes() {
  const std::string base = "/_matrix/federation/v1/";
  auto keys = [this](const httplib::Request&, httplib::Response& r) {
    r.set_content(key_answer(), "application/json");
  };
  server->Get("/_matrix/key/v2/server", keys);
  server->Get("/_matrix/key/v2/server/(.*)", keys);
  server->Get(base + "version", [this](const auto&, auto& r) {
    answer(r, 200, {{"server", {{"name", "ranvier sink"}, {"version", RANVIER_VERSION}}}});
  });
  server->Put(base + "send/(.+)", [this](const auto& q, auto& r) { put_send(q, r); });
  server->Get(base + "user/devices/(.+)", [this](const auto& q, auto& r) {
    if (!asked(q, r)) answer(r, 200, {{"user_id", q.matches[1].str()}, {"stream_id", 1}, {"devices", json::array()}});
  });
  server->Post(base + "user/keys/query", [this](const auto&, auto& r) {
    answer(r, 200, {{"device_keys", json::object()}});
  });
  server->Post(base + "user/keys/claim", [this](const auto&, auto& r) {
    answer(r, 200, {{"one_time_keys", json::object()}});
  });
  const std::string anything = "/_matrix/federation/.*";
  auto others = [this](const auto& q, auto& r) {
    if (!asked(q, r)) r.status = 404;
  };
  server->Get(anything, others);
  server->Put(anything, others);
  server->Post(anything, others);
  server->set_error_handler([this](const auto&, auto& r) {
    if (r.body.empty()) answer(r, r.status, {{"errcode", "M_UNRECOGNIZED"}, {"error", "a sink knows no such call"}});
  });
  server->set_exception_handler([this](const auto&, auto& r, std::exception_ptr) {
    answer(r, 500, {{"errcode", "M_UNKNOWN"}, {"error", "the sink failed"}});
  });
}

void sink::impl::listen() {
  auto at = parse_server_name(options.listen);
  if (!at || !at->port) throw std::runtime_error("the sink needs host:port to listen at, not " + options.listen);
  std::vector<std::string> names{at->host};
  if (auto named = parse_server_name(options.name); named && named->host != at->host) names.push_back(named->host);
  own_certificate own;
  if (!options.plain) own = options.certificate ? *options.certificate : make_certificate(names);
  server = make_server(own, options.plain);
  if (!server->is_valid()) throw std::runtime_error("the sink's certificate can't be used");
  if (!options.certificate_out.empty()) {
    std::ofstream file(options.certificate_out);
    file << own.certificate_pem;
    if (!file.flush()) throw std::runtime_error(options.certificate_out + " can't be written");
  }
  server->new_task_queue = [count = options.threads] { return new httplib::ThreadPool(count); };
  server->set_keep_alive_max_count(100'000);
  server->set_keep_alive_timeout(2); // a stop waits for idle connections as long
  server->set_payload_max_length(most_body_bytes);
  server->set_tcp_nodelay(true);
  serve_routes();
  port = *at->port;
  if (port == 0) port = server->bind_to_any_port(at->host.c_str());
  else if (!server->bind_to_port(at->host.c_str(), port)) port = -1;
  if (port <= 0) throw std::runtime_error("the sink can't listen at " + options.listen + ": is it taken?");
  auto host = options.listen.substr(0, options.listen.rfind(':'));
  tell(json{{"what", "listening"},
            {"name", options.name},
            {"listen", host + ':' + std::to_string(port)},
            {"tls", !options.plain}}
           .dump());
  thread = std::thread([this] { server->listen_after_bind(); });
}

sink::sink(sink_options options, std::function<void(const std::string&)> tell)
    : impl_(std::make_unique<impl>(std::move(options), std::move(tell))) {
  impl_->listen();
}

sink::~sink() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->stopped.notify_all();
  if (impl_->server) impl_->server->stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

int sink::port() const { return impl_->port; }

void sink::refuse(const std::string& event_id) {
  std::lock_guard lock(impl_->mutex);
  impl_->script.refuse(event_id);
}

int run_sink(const sink_options& options) {
  start_crypto();
  // Before any thread: only sigwait takes them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  if (auto down = options.behaviour.down_ms; down > 0) {
    std::cerr << options.name << " is down for " << down << " ms\n";
    timespec wait{down / 1'000, down % 1'000 * 1'000'000};
    if (sigtimedwait(&signals, nullptr, &wait) > 0) return exit_ok;
  }
  try {
    sink running(options, [](const std::string& line) { std::cout << line << std::endl; });
    int signal = 0;
    sigwait(&signals, &signal);
  } catch (const std::runtime_error& problem) {
    throw cli_failure(exit_fault, problem.what());
  }
  return exit_ok;
}

} // namespace ranvier
