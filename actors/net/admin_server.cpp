#include "actors/net/admin_server.hpp"

#include "actors/net/http_exchange.hpp"

#include <httplib.h>

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace ranvier {
namespace {

constexpr std::size_t body_bytes = 1u << 20;
constexpr std::size_t pool_threads = 16;
constexpr int most_streams = 8; ///< each holds a thread; the others answer calls

void answer_with(httplib::Response& out, admin_answer answer) {
  out.status = answer.status;
  for (const auto& [name, value] : answer.headers)
    out.set_header(name.c_str(), value);
  out.set_content(std::move(answer.body), answer.content_type.c_str());
}

std::string sentence_for(int status) {
  switch (status) {
  case 400:
    return "this is not a usable HTTP request";
  case 413:
    return "the body may have at most " + std::to_string(body_bytes) + " bytes";
  case 414:
    return "the request line is too long";
  default:
    return "this request can't be answered (status " + std::to_string(status) + ")";
  }
}

} // namespace

struct admin_server::impl {
  httplib::Server server;
  std::string socket_path;
  std::thread thread;
  std::atomic<bool> ended{false}, ending{false};
  std::atomic<int> streams{0};
  std::mutex mutex;
  std::condition_variable changed; ///< `ending` is

  /// An answer that goes on. It ends when its pieces do, its reader has gone, or the server ends.
  void stream(httplib::Response& out, admin_answer answer) {
    if (++streams > most_streams) {
      --streams;
      return answer_with(out, {503, error_body("M_UNKNOWN", "as many streams are open as this listener serves")});
    }
    out.status = answer.status;
    out.set_header("Cache-Control", "no-store");
    out.set_chunked_content_provider(
        answer.content_type.c_str(),
        [this, pieces = std::move(answer.pieces), pause = answer.pause_after_nothing](std::size_t,
                                                                                      httplib::DataSink& sink) {
          auto piece = ending ? std::nullopt : pieces();
          if (!piece) {
            sink.done();
            return true;
          }
          if (!piece->empty()) return sink.write(piece->data(), piece->size());
          std::unique_lock lock(mutex);
          changed.wait_for(lock, pause, [this] { return ending.load(); });
          return true;
        },
        [this](bool) { --streams; });
  }

  void set_up(const handler& answer) {
    server.new_task_queue = [] { return new httplib::ThreadPool(pool_threads); };
    server.set_keep_alive_max_count(100);
    server.set_keep_alive_timeout(2); // bounds how long stop() waits for idle callers
    server.set_read_timeout(5);
    server.set_write_timeout(10);
    server.set_payload_max_length(body_bytes);
    // The limit holds for neither chunked nor packed bodies in this version, so neither is taken (LIBRARIES section 5).
    const auto all = [this, answer](const httplib::Request& in, httplib::Response& out) {
      auto given = answer({in.method, in.target, in.get_header_value("Authorization"), in.body, in.remote_addr,
                           in.get_header_value("X-Ranvier-Who").substr(0, 200)});
      given.pieces ? stream(out, std::move(given)) : answer_with(out, std::move(given));
    };
    server.set_pre_routing_handler([all](const httplib::Request& in, httplib::Response& out) {
      if (!in.has_header("Transfer-Encoding") && !in.has_header("Content-Encoding") && in.headers.size() <= 100) {
        if (in.has_header("Content-Length") || in.method == "GET" || in.method == "HEAD")
          return httplib::Server::HandlerResponse::Unhandled;
        // "curl -X POST" has no body and doesn't say so; this version would wait for one.
        all(in, out);
        return httplib::Server::HandlerResponse::Handled;
      }
      out.set_header("Connection", "close");
      answer_with(out, {400, error_body("M_UNKNOWN", "send the body plain, with a Content-Length")});
      return httplib::Server::HandlerResponse::Handled;
    });
    server.set_exception_handler([](const auto&, httplib::Response& out, std::exception_ptr) {
      answer_with(out, {500, error_body("M_UNKNOWN", "this request could not be worked on; it is a fault of ours")});
    });
    server.set_error_handler([](const httplib::Request&, httplib::Response& out) {
      if (out.body.empty()) answer_with(out, {out.status, error_body("M_UNKNOWN", sentence_for(out.status))});
    });
    server.Get(".*", all);
    server.Post(".*", all);
    server.Put(".*", all);
    server.Delete(".*", all);
  }

  void bind_socket(const std::string& path) {
    if (path.size() >= sizeof(sockaddr_un::sun_path))
      throw std::runtime_error("the path of the admin socket is too long for a Unix socket: " + path);
    ::unlink(path.c_str());
    server.set_address_family(AF_UNIX);
    // Listening begins with binding, so the mode must be right from the first moment.
    const auto before = ::umask(0177);
    const bool bound = server.bind_to_port(path.c_str(), 80);
    ::umask(before);
    if (!bound) throw std::runtime_error("can't listen on the admin socket " + path);
    socket_path = path;
  }

  void bind_tcp(const std::string& listen) {
    const auto colon = listen.rfind(':');
    const auto port = colon == std::string::npos ? std::nullopt : parse_integer(listen.substr(colon + 1));
    if (!port || *port < 1 || *port > 65535 ||
        !server.bind_to_port(listen.substr(0, colon).c_str(), static_cast<int>(*port)))
      throw std::runtime_error("can't listen on [admin] listen = \"" + listen + "\"");
  }
};

admin_server::admin_server(const std::string& listen, handler answer)
    : impl_(std::make_unique<impl>()) {
  impl_->set_up(answer);
  listen.find('/') == std::string::npos ? impl_->bind_tcp(listen) : impl_->bind_socket(listen);
  impl_->thread = std::thread([state = impl_.get()] {
    state->server.listen_after_bind();
    state->ended = true;
  });
  // stop() has no effect on a server that doesn't run yet.
  while (!impl_->server.is_running() && !impl_->ended)
    std::this_thread::yield();
}

admin_server::~admin_server() { stop(); }

void admin_server::stop() {
  if (!impl_->thread.joinable()) return;
  {
    std::lock_guard lock(impl_->mutex);
    impl_->ending = true;
  }
  impl_->changed.notify_all();
  impl_->server.stop();
  impl_->thread.join();
  if (!impl_->socket_path.empty()) ::unlink(impl_->socket_path.c_str());
}

} // namespace ranvier
