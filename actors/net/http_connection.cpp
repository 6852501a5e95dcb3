#include "actors/net/http_connection.hpp"

#include <boost/asio/write.hpp>

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <limits>

namespace ranvier {
namespace listener {
namespace {

constexpr std::size_t piece_bytes = 16 * 1024;
/// After an early answer a client may still be sending; so much, and so long, is read and thrown away so that it sees
/// the answer instead of a reset.
constexpr std::size_t linger_bytes = 64u << 20;
constexpr std::chrono::seconds linger_time{5};

std::string response_head(int status, const http_headers& extra, const std::string& framing, bool keep) {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " ";
  out += std::string(http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)))) + "\r\n";
  bool typed = false;
  for (const auto& [name, value] : extra) {
    if (name == "Content-Type") typed = true;
    out += name + ": " + value + "\r\n";
  }
  if (!typed) out += "Content-Type: application/json\r\n";
  out += framing;
  if (!keep) out += "Connection: close\r\n";
  return out += "\r\n";
}

} // namespace

template <class Stream> void connection<Stream>::start() {
  id_ = server_->add(this->shared_from_this());
  if constexpr (std::is_same_v<Stream, beast::tcp_stream>) {
    next_request();
  } else {
    socket().expires_after(server_->options.handshake_timeout);
    stream_.async_handshake(net::ssl::stream_base::server, [self = this->shared_from_this()](error problem) {
      if (problem) return self->close();
      self->next_request();
    });
  }
}

template <class Stream> void connection<Stream>::next_request() {
  if (phase_ == phase::closed) return;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(server_->options.header_bytes));
  // Counted here, with a JSON answer. Not boost::none: Boost 1.74 compares Content-Length with it and refuses all.
  parser_->body_limit(std::numeric_limits<std::uint64_t>::max());
  current_.reset();
  plan_ = {};
  received_ = 0;
  release();
  if (buffer_.size() > 0) return read_header();
  if (server_->stopping) return close();
  phase_ = phase::idle;
  server_->set_idle(id_, true);
  socket().expires_after(server_->options.idle_timeout);
  stream_.async_read_some(buffer_.prepare(4096), [self = this->shared_from_this()](error problem, std::size_t n) {
    if (problem || self->phase_ == phase::closed) return self->close();
    self->buffer_.commit(n);
    self->read_header();
  });
}

template <class Stream> void connection<Stream>::read_header() {
  phase_ = phase::header;
  server_->set_idle(id_, false);
  socket().expires_after(server_->options.header_timeout);
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = this->shared_from_this()](error problem, std::size_t) { self->header_in(problem); });
}

template <class Stream>
void connection<Stream>::refuse(int status, std::string_view errcode, std::string_view sentence) {
  keep_ = false;
  if (current_) current_->respond_error(status, errcode, sentence);
  else answer(status, error_body(errcode, sentence), {});
}

template <class Stream> void connection<Stream>::header_in(error problem) {
  if (phase_ == phase::closed) return;
  head_only_ = false;
  if (problem == http::error::header_limit)
    return refuse(431, "M_TOO_LARGE",
                  "the request headers are longer than " + std::to_string(server_->options.header_bytes) + " bytes");
  if (problem && (problem == http::error::end_of_stream || problem.category() != http::make_error_code({}).category()))
    return close();
  if (problem) return refuse(400, "M_UNKNOWN", "this is not a usable HTTP/1.1 request: " + problem.message());

  auto& request = parser_->get();
  keep_ = parser_->keep_alive();
  head_only_ = request.method() == http::verb::head;
  current_ = std::make_shared<exchange>(this->shared_from_this());
  current_->method = std::string(request.method_string());
  current_->target = std::string(request.target());
  error ignored;
  const auto from = socket().socket().remote_endpoint(ignored);
  current_->peer = from.address().to_string(ignored) + ":" + std::to_string(from.port());
  for (const auto& field : request)
    current_->headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  phase_ = phase::body;
  plan_ = server_->service.headers_in(current_);
  // An answer that the service has given is posted to this strand and comes after this; it stops the reading.
  if (!current_->answered()) body_begins();
}

template <class Stream> void connection<Stream>::body_begins() {
  const auto length = parser_->content_length();
  if (length && *length > plan_.limit)
    return refuse(413, "M_TOO_LARGE", "the body may have at most " + std::to_string(plan_.limit) + " bytes");
  body_began_ = clock::now();
  if (parser_->is_done()) return body_done();
  if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
    out_head_ = "HTTP/1.1 100 Continue\r\n\r\n";
    socket().expires_after(server_->options.write_timeout);
    return net::async_write(stream_, net::buffer(out_head_),
                            [self = this->shared_from_this()](error problem, std::size_t) {
                              if (problem) return self->close();
                              self->read_body();
                            });
  }
  read_body();
}

template <class Stream> void connection<Stream>::read_body() {
  if (phase_ != phase::body) return;
  piece_.resize(piece_bytes);
  auto& body = parser_->get().body();
  body.data = piece_.data();
  body.size = piece_.size();
  body.more = true;
  const auto& options = server_->options;
  const auto earned =
      std::chrono::milliseconds(received_ * 1000 / std::max<std::size_t>(1, options.body_bytes_per_second));
  socket().expires_at(body_began_ + options.body_grace + earned);
  reading_ = true;
  http::async_read_some(stream_, buffer_, *parser_, [self = this->shared_from_this()](error problem, std::size_t) {
    self->reading_ = false;
    self->body_in(problem);
  });
}

template <class Stream> void connection<Stream>::body_in(error problem) {
  if (phase_ != phase::body) { // answered early, or closed
    if (want_linger_) linger();
    return;
  }
  if (problem == http::error::need_buffer) problem = {};
  if (problem) {
    if (plan_.sink) plan_.sink->aborted();
    plan_.sink.reset();
    const bool malformed = problem.category() == http::make_error_code({}).category() &&
                           problem != http::error::partial_message && problem != http::error::end_of_stream;
    if (malformed) return refuse(400, "M_UNKNOWN", "the body isn't framed as HTTP/1.1 asks: " + problem.message());
    return close();
  }
  const auto n = piece_.size() - parser_->get().body().size;
  received_ += n;
  if (received_ > plan_.limit) {
    if (plan_.sink) plan_.sink->aborted();
    plan_.sink.reset();
    return refuse(413, "M_TOO_LARGE", "the body may have at most " + std::to_string(plan_.limit) + " bytes");
  }
  if (!plan_.sink) {
    counted_ += n;
    if ((server_->buffered += n) > server_->options.buffered_bytes) {
      keep_ = false;
      return current_->respond_error(503, "M_LIMIT_EXCEEDED", "too much is in work here; try again soon",
                                     {{"Retry-After", "5"}});
    }
    current_->body.append(piece_.data(), n);
  }
  if (!plan_.sink || n == 0) return parser_->is_done() ? body_done() : read_body();
  paused_at_ = clock::now();
  plan_.sink->data({piece_.data(), n}, [self = this->shared_from_this()] {
    self->post([self] {
      self->body_began_ += clock::now() - self->paused_at_; // our own waiting isn't the client's slowness
      self->parser_->is_done() ? self->body_done() : self->read_body();
    });
  });
}

template <class Stream> void connection<Stream>::body_done() {
  if (phase_ != phase::body) return;
  phase_ = phase::working;
  piece_ = {};
  auto whole = std::move(current_);
  if (auto sink = std::move(plan_.sink)) sink->end(); // it has its own hold of the exchange
  else server_->service.request_in(std::move(whole));
}

template <class Stream>
void connection<Stream>::send(std::string head, std::string text, std::function<void(error)> then) {
  out_head_ = std::move(head);
  out_text_ = std::move(text);
  if (out_text_.size() < piece_bytes) { // one record, one packet
    out_head_ += out_text_;
    out_text_.clear();
  }
  const std::array<net::const_buffer, 2> both{net::buffer(out_head_), net::buffer(out_text_)};
  const auto allowance = std::chrono::milliseconds(out_text_.size() / 32); // 32 KB/s for long answers
  socket().expires_after(server_->options.write_timeout + allowance);
  net::async_write(stream_, both,
                   [self = this->shared_from_this(), then](error problem, std::size_t) { then(problem); });
}

template <class Stream> void connection<Stream>::answer(int status, std::string text, http_headers extra) {
  if (phase_ == phase::closed || phase_ == phase::writing || phase_ == phase::streaming) return;
  if (phase_ == phase::body && plan_.sink) {
    auto sink = std::move(plan_.sink);
    sink->aborted();
  }
  if (!parser_->is_done() || server_->stopping) keep_ = false;
  phase_ = phase::writing;
  gone_ = nullptr;
  current_.reset();
  release();
  const auto framing = "Content-Length: " + std::to_string(text.size()) + "\r\n";
  if (head_only_) text.clear();
  send(response_head(status, extra, framing, keep_), std::move(text), [this](error problem) {
    if (problem) return close();
    out_head_ = {};
    out_text_ = {};
    finished();
  });
}

template <class Stream> void connection<Stream>::finished() {
  if (keep_) return next_request();
  if (parser_->is_done()) return close();
  if (reading_) want_linger_ = true; // the read that is outstanding ends first
  else linger();
}

template <class Stream> void connection<Stream>::begin(int status, http_headers extra) {
  if (phase_ != phase::working) return;
  phase_ = phase::streaming;
  keep_ = false;
  send(response_head(status, extra, "Transfer-Encoding: chunked\r\nCache-Control: no-store\r\n", false), {},
       [this](error problem) {
         if (problem) return close();
         piece_out_ = false;
         pump();
       });
  piece_out_ = true;
}

template <class Stream> void connection<Stream>::write(std::string piece, std::function<void(bool)> then) {
  if (phase_ != phase::streaming || ending_) return then(false);
  if (piece.empty()) return then(true);
  static constexpr char digits[] = "0123456789abcdef";
  std::string size;
  for (auto n = piece.size(); n > 0; n /= 16)
    size.insert(size.begin(), digits[n % 16]);
  pieces_.push_back({size + "\r\n" + std::move(piece) + "\r\n", std::move(then)});
  pump();
}

template <class Stream> void connection<Stream>::end_stream() {
  if (phase_ != phase::streaming || ending_) return;
  ending_ = true;
  pieces_.push_back({"0\r\n\r\n", [this](bool) { close(); }});
  pump();
}

template <class Stream> void connection<Stream>::pump() {
  if (piece_out_ || pieces_.empty() || phase_ != phase::streaming) return;
  piece_out_ = true;
  auto first = std::move(pieces_.front());
  pieces_.pop_front();
  send(std::move(first.text), {}, [this, then = std::move(first.then)](error problem) {
    piece_out_ = false;
    then(!problem);
    if (problem) return close();
    pump();
  });
}

template <class Stream> void connection<Stream>::when_gone(std::function<void()> then) {
  if (phase_ == phase::closed) return then();
  if (phase_ != phase::working && phase_ != phase::streaming) return;
  gone_ = std::move(then);
  watch();
}

/// An older wait that is still there ends with the next bytes; whichever ends looks at what holds then.
template <class Stream> void connection<Stream>::watch() {
  if constexpr (std::is_same_v<Stream, beast::tcp_stream>) {
    socket().socket().async_wait(net::socket_base::wait_read, [self = this->shared_from_this()](error problem) {
      if (!self->gone_ || self->phase_ == phase::closed) return;
      char byte = 0;
      const auto n = ::recv(self->socket().socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (!problem && (n > 0 || (n < 0 && errno == EAGAIN))) return; // the next request comes early
      self->close();
    });
  }
}

template <class Stream> void connection<Stream>::linger() {
  want_linger_ = false;
  if (phase_ == phase::closed) return;
  socket().expires_after(linger_time);
  piece_.resize(piece_bytes);
  linger_more(0);
}

template <class Stream> void connection<Stream>::linger_more(std::size_t so_far) {
  if (so_far > linger_bytes || phase_ == phase::closed) return close();
  stream_.async_read_some(net::buffer(piece_), [self = this->shared_from_this(), so_far](error problem, std::size_t n) {
    if (problem) return self->close();
    self->linger_more(so_far + n);
  });
}

template <class Stream> void connection<Stream>::close() {
  if (phase_ == phase::closed) return;
  const auto was = phase_;
  phase_ = phase::closed;
  if (auto sink = std::move(plan_.sink); sink && was == phase::body) sink->aborted();
  error ignored;
  socket().socket().shutdown(net::socket_base::shutdown_both, ignored);
  socket().close();
  current_.reset();
  release();
  for (auto& piece : std::exchange(pieces_, {}))
    if (piece.then && !ending_) piece.then(false);
  server_->remove(id_);
  if (auto then = std::exchange(gone_, nullptr)) then();
}

} // namespace listener

std::shared_ptr<http_connection> make_connection(const std::shared_ptr<http_server::impl>& server,
                                                 boost::asio::ip::tcp::socket socket) {
  using namespace listener;
  if (server->tls) {
    // Not beast::ssl_stream: of Boost 1.74, it ends a write of two buffers, the second beyond 16 kB, after the first.
    using stream = net::ssl::stream<beast::tcp_stream>;
    return std::make_shared<connection<stream>>(server, stream(beast::tcp_stream(std::move(socket)), *server->tls));
  }
  return std::make_shared<connection<beast::tcp_stream>>(server, beast::tcp_stream(std::move(socket)));
}

} // namespace ranvier
