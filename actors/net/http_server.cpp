#include "actors/net/http_listener.hpp"

#include "actors/log.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>

#include <stdexcept>

namespace ranvier {
namespace net = boost::asio;
using tcp = net::ip::tcp;

http_threads::http_threads(unsigned count)
    : impl_(std::make_unique<impl>()) {
  for (unsigned i = 0; i < count; ++i)
    impl_->threads.emplace_back([loop = impl_->loop] {
      for (;;) {
        try {
          loop->io.run();
          return;
        } catch (const std::exception& problem) {
          // One request's fault must not end the loop of all others; its exchange dies and answers 500.
          log_error("http_handler_failed", {{"problem", problem.what()}});
        }
      }
    });
}

http_threads::~http_threads() {
  impl_->loop->running = false;
  impl_->work.reset();
  impl_->loop->io.stop();
  for (auto& thread : impl_->threads)
    thread.join();
  // What is still queued holds connections, and these hold the loop: run, it lets go of both.
  impl_->loop->io.restart();
  try {
    impl_->loop->io.poll();
  } catch (const std::exception& problem) {
    log_error("http_handler_failed", {{"problem", problem.what()}});
  }
}

namespace {

tcp::endpoint endpoint_of(const std::string& listen) {
  const auto colon = listen.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_integer(listen.substr(colon + 1));
  std::string host = listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  boost::system::error_code problem;
  const auto address = net::ip::make_address(host == "localhost" ? "127.0.0.1" : host, problem);
  if (problem || !port || *port < 0 || *port > 65535)
    throw std::runtime_error("'" + listen + "' is not an address to listen on: write ip:port or [ipv6]:port");
  return {address, static_cast<std::uint16_t>(*port)};
}

std::unique_ptr<net::ssl::context> make_tls(const http_options& options) {
  if (options.tls_certificate.empty()) return nullptr;
  auto context = std::make_unique<net::ssl::context>(net::ssl::context::tls_server);
  boost::system::error_code problem;
  context->use_certificate_chain_file(options.tls_certificate, problem);
  if (problem)
    throw std::runtime_error("the TLS certificate " + options.tls_certificate + " can't be used: " + problem.message());
  context->use_private_key_file(options.tls_private_key, net::ssl::context::pem, problem);
  if (problem)
    throw std::runtime_error("the TLS private key " + options.tls_private_key + " can't be used: " + problem.message());
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  // Idle connections give their 32 KiB of buffers back.
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  return context;
}

} // namespace

http_server::impl::impl(std::shared_ptr<listener_loop> threads, http_options given, http_service& served)
    : loop(std::move(threads))
    , options(std::move(given))
    , service(served)
    , tls(make_tls(options))
    , acceptor(net::make_strand(loop->io))
    , pause(acceptor.get_executor()) {}

void http_server::impl::bind() {
  const auto at = endpoint_of(options.listen);
  boost::system::error_code problem;
  acceptor.open(at.protocol(), problem);
  if (!problem) acceptor.set_option(net::socket_base::reuse_address(true), problem);
  if (!problem) acceptor.bind(at, problem);
  if (!problem) acceptor.listen(1024, problem);
  if (problem) throw std::runtime_error("can't listen on " + options.listen + ": " + problem.message());
  net::post(acceptor.get_executor(), [self = shared_from_this()] { self->accept(); });
}

void http_server::impl::accept() {
  if (stopping) return;
  acceptor.async_accept(net::make_strand(loop->io), [self = shared_from_this()](auto problem, tcp::socket socket) {
    if (self->stopping) return;
    if (!problem) {
      self->accepted(std::move(socket));
      return self->accept();
    }
    if (problem == net::error::operation_aborted) return;
    // Out of descriptors or the like: asking again at once would only burn the processor.
    log_warning("accept_failed", {{"listen", self->options.listen}, {"problem", problem.message()}});
    self->pause.expires_after(std::chrono::milliseconds(100));
    self->pause.async_wait([self](auto) { self->accept(); });
  });
}

void http_server::impl::accepted(tcp::socket socket) {
  boost::system::error_code ignored;
  if (!make_room()) return; // the socket closes
  socket.set_option(tcp::no_delay(true), ignored);
  const auto executor = socket.get_executor();
  auto connection = make_connection(shared_from_this(), std::move(socket));
  net::post(executor, [connection] { connection->start(); });
}

/// False if the cap is reached and nobody is idle.
bool http_server::impl::make_room() {
  std::lock_guard lock(mutex);
  if (open.size() < options.connections) return true;
  if (idle.empty()) return false;
  auto& oldest = open.at(idle.front());
  oldest.idle = false;
  idle.pop_front();
  if (auto connection = oldest.connection.lock()) connection->close_if_idle();
  return true;
}

std::uint64_t http_server::impl::add(const std::shared_ptr<http_connection>& connection) {
  std::lock_guard lock(mutex);
  const auto id = next_id++;
  open[id].connection = connection;
  return id;
}

void http_server::impl::remove(std::uint64_t id) {
  std::lock_guard lock(mutex);
  const auto at = open.find(id);
  if (at == open.end()) return;
  if (at->second.idle) idle.erase(at->second.idle_at);
  open.erase(at);
  removed.notify_all();
}

void http_server::impl::set_idle(std::uint64_t id, bool now_idle) {
  std::lock_guard lock(mutex);
  const auto at = open.find(id);
  if (at == open.end() || at->second.idle == now_idle) return;
  at->second.idle = now_idle;
  if (now_idle) at->second.idle_at = idle.insert(idle.end(), id);
  else idle.erase(at->second.idle_at);
}

void http_server::impl::stop(std::chrono::milliseconds grace) {
  stopping = true;
  net::post(acceptor.get_executor(), [self = shared_from_this()] {
    boost::system::error_code ignored;
    self->acceptor.close(ignored);
    self->pause.cancel();
  });
  const auto each = [this](auto act) {
    std::vector<std::shared_ptr<http_connection>> all;
    {
      std::lock_guard lock(mutex);
      for (auto& [id, one] : open)
        if (auto connection = one.connection.lock()) all.push_back(std::move(connection));
    }
    for (auto& connection : all)
      act(*connection);
  };
  each([](http_connection& one) { one.close_if_idle(); });
  {
    std::unique_lock lock(mutex);
    removed.wait_for(lock, grace, [this] { return open.empty(); });
  }
  each([](http_connection& one) { one.close_now(); });
  std::unique_lock lock(mutex);
  removed.wait_for(lock, std::chrono::seconds(2), [this] { return open.empty(); });
}

http_server::http_server(http_threads& threads, http_options options, http_service& service)
    : impl_(std::make_shared<impl>(threads.get().loop, std::move(options), service)) {
  impl_->bind();
}

http_server::~http_server() {
  if (!impl_->stopping) stop(std::chrono::milliseconds(0));
}

std::uint16_t http_server::port() const {
  boost::system::error_code ignored;
  return impl_->acceptor.local_endpoint(ignored).port();
}

std::size_t http_server::connections() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->open.size();
}

void http_server::stop(std::chrono::milliseconds grace) { impl_->stop(grace); }

} // namespace ranvier
