#pragma once
// Private to actors/net: one connection of the listener.
#include "actors/net/http_listener.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <deque>
#include <optional>

namespace ranvier::listener {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using error = beast::error_code;
using clock = std::chrono::steady_clock;

/// One client connection; requests one after the other. Everything runs on the socket's strand. Lives as long as an
/// operation or an unanswered exchange holds it.
template <class Stream>
class connection final : public http_connection, public std::enable_shared_from_this<connection<Stream>> {
public:
  connection(std::shared_ptr<http_server::impl> server, Stream stream)
      : loop_(server->loop)
      , server_(std::move(server))
      , stream_(std::move(stream)) {}
  ~connection() override {
    release();
    server_->remove(id_);
  }

  void start() override;
  void close_if_idle() override {
    post([self = this->shared_from_this()] {
      if (self->phase_ == phase::idle) self->close();
    });
  }
  void close_now() override {
    post([self = this->shared_from_this()] { self->close(); });
  }
  void post(std::function<void()> work) {
    if (loop_->running) net::post(stream_.get_executor(), std::move(work));
  }

  void answer(int status, std::string text, http_headers extra);
  void begin(int status, http_headers extra);
  void write(std::string piece, std::function<void(bool)> then);
  void end_stream();
  void when_gone(std::function<void()> then);

private:
  enum class phase { handshake, idle, header, body, working, writing, streaming, closed };
  struct exchange final : http_exchange {
    explicit exchange(std::shared_ptr<connection> of)
        : on(std::move(of)) {}
    ~exchange() override {
      if (claim()) do_respond(500, error_body("M_UNKNOWN", "this request found no answer; it is a fault of ours"), {});
    }
    void do_respond(int status, std::string text, http_headers extra) override {
      on->post([c = on, status, t = std::move(text), e = std::move(extra)]() mutable {
        c->answer(status, std::move(t), std::move(e));
      });
    }
    void do_begin(int status, http_headers extra) override {
      on->post([c = on, status, e = std::move(extra)]() mutable { c->begin(status, std::move(e)); });
    }
    void write(std::string piece, std::function<void(bool)> then) override {
      on->post([c = on, p = std::move(piece), t = std::move(then)]() mutable { c->write(std::move(p), std::move(t)); });
    }
    void end_stream() override {
      on->post([c = on] { c->end_stream(); });
    }
    void when_gone(std::function<void()> then) override {
      on->post([c = on, t = std::move(then)]() mutable { c->when_gone(std::move(t)); });
    }
    void post(std::function<void()> work) override { on->post(std::move(work)); }
    std::shared_ptr<connection> on;
  };

  auto& socket() { return beast::get_lowest_layer(stream_); }
  void next_request();
  void read_header();
  void header_in(error problem);
  void refuse(int status, std::string_view errcode, std::string_view sentence);
  void body_begins();
  void read_body();
  void body_in(error problem);
  void body_done();
  void send(std::string head, std::string text, std::function<void(error)> then);
  void finished();
  void pump();
  void watch();
  void linger();
  void linger_more(std::size_t so_far);
  void close();
  void release() {
    server_->buffered -= counted_;
    counted_ = 0;
  }

  std::shared_ptr<listener_loop> loop_; // first: it goes last
  std::shared_ptr<http_server::impl> server_;
  Stream stream_;
  std::uint64_t id_ = 0;
  phase phase_ = phase::handshake;
  beast::flat_buffer buffer_{128 * 1024};
  std::optional<http::request_parser<http::buffer_body>> parser_;
  std::shared_ptr<exchange> current_; // until the service has it
  body_plan plan_;
  std::vector<char> piece_;
  std::size_t received_ = 0, counted_ = 0;
  clock::time_point body_began_, paused_at_;
  bool keep_ = false, head_only_ = false, reading_ = false, want_linger_ = false;
  std::string out_head_, out_text_;
  struct outgoing {
    std::string text;
    std::function<void(bool)> then;
  };
  std::deque<outgoing> pieces_;
  bool piece_out_ = false, ending_ = false;
  std::function<void()> gone_; // while somebody wants to know
};

} // namespace ranvier::listener
