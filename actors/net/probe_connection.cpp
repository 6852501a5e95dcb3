#include "actors/net/probe_connection.hpp"

#include "actors/net/http_client.hpp"

#include <boost/beast/core/buffers_prefix.hpp>
#include <boost/beast/http.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <stdexcept>

namespace ranvier {
namespace {

using clock = std::chrono::steady_clock;
constexpr std::size_t most_body_bytes = 1 << 20;

std::int64_t ms_since(clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - then).count();
}

struct target {
  sockaddr_storage at{};
  socklen_t size = 0;
};

target parse_address(const std::string& address) {
  target out;
  const auto colon = address.rfind(':');
  auto host = address.substr(0, colon);
  const auto port = htons(static_cast<std::uint16_t>(std::atoi(address.c_str() + colon + 1)));
  if (!host.empty() && host.front() == '[') {
    host = host.substr(1, host.size() - 2);
    auto* six = reinterpret_cast<sockaddr_in6*>(&out.at);
    six->sin6_family = AF_INET6;
    six->sin6_port = port;
    if (::inet_pton(AF_INET6, host.c_str(), &six->sin6_addr) == 1) out.size = sizeof *six;
  } else {
    auto* four = reinterpret_cast<sockaddr_in*>(&out.at);
    four->sin_family = AF_INET;
    four->sin_port = port;
    if (::inet_pton(AF_INET, host.c_str(), &four->sin_addr) == 1) out.size = sizeof *four;
  }
  return out;
}

std::string text_of(X509_NAME* name) {
  std::unique_ptr<BIO, decltype(&BIO_free_all)> out(BIO_new(BIO_s_mem()), BIO_free_all);
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  char* data = nullptr;
  const auto size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::int64_t ms_of(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? std::int64_t(::timegm(&parts)) * 1000 : 0;
}

std::vector<std::string> names_of(X509* certificate) {
  std::vector<std::string> out;
  auto* list = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; list && i < sk_GENERAL_NAME_num(list); ++i) {
    const auto* one = sk_GENERAL_NAME_value(list, i);
    if (one->type == GEN_DNS) {
      const auto* text = one->d.dNSName;
      out.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                       static_cast<std::size_t>(ASN1_STRING_length(text)));
    } else if (one->type == GEN_IPADD) {
      char text[INET6_ADDRSTRLEN] = "";
      const auto size = ASN1_STRING_length(one->d.iPAddress);
      if (size == 4 || size == 16)
        ::inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(one->d.iPAddress), text, sizeof text);
      out.emplace_back(text);
    }
  }
  GENERAL_NAMES_free(list);
  return out;
}

std::string tls_error() {
  const auto code = ERR_get_error();
  const char* why = code ? ERR_reason_error_string(code) : nullptr;
  ERR_clear_error();
  return why ? why : "the connection was closed";
}

} // namespace

struct probe_connection::impl {
  ~impl() {
    if (ssl) SSL_free(ssl);
    if (context) SSL_CTX_free(context);
    if (socket >= 0) ::close(socket);
  }
  void connect(const std::string& address);
  void prepare(const config& settings);
  void shake(const std::string& tls_name);
  void look_at_certificate();
  /// Waits until the socket is ready; false at the deadline.
  bool ready(short events) const {
    pollfd one{socket, events, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock::now()).count();
    return left > 0 && ::poll(&one, 1, static_cast<int>(left)) > 0;
  }
  /// Whether a call that returned `code` is to be made again, once the socket is ready for it.
  bool again(int code) const {
    const auto what = SSL_get_error(ssl, code);
    if (what == SSL_ERROR_WANT_READ) return ready(POLLIN);
    return what == SSL_ERROR_WANT_WRITE && ready(POLLOUT);
  }
  std::string late_or_broken() const { return clock::now() >= deadline ? "no answer came in time" : tls_error(); }

  tls_facts facts;
  int socket = -1;
  SSL_CTX* context = nullptr;
  SSL* ssl = nullptr;
  clock::time_point deadline;
};

void probe_connection::impl::connect(const std::string& address) {
  const auto began = clock::now();
  const auto to = parse_address(address);
  if (to.size == 0) {
    facts.problem = address + " is no address";
    return;
  }
  socket = ::socket(to.at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int problem = 0;
  socklen_t size = sizeof problem;
  if (socket < 0) problem = errno;
  else if (::connect(socket, reinterpret_cast<const sockaddr*>(&to.at), to.size) != 0) {
    if (errno != EINPROGRESS) problem = errno;
    else if (!ready(POLLOUT)) problem = ETIMEDOUT;
    else ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &problem, &size);
  }
  facts.connect_took_ms = ms_since(began);
  facts.connected = problem == 0;
  if (problem != 0) facts.problem = std::string(std::strerror(problem));
}

void probe_connection::impl::prepare(const config& settings) {
  context = SSL_CTX_new(TLS_client_method());
  if (!context) throw std::runtime_error("TLS can't be set up: " + tls_error());
  SSL_CTX_set_min_proto_version(context, settings.federation.tls_minimum == "1.3" ? TLS1_3_VERSION : TLS1_2_VERSION);
  // The verdict is asked for after the handshake: also a certificate that isn't accepted is to be seen.
  SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
  SSL_CTX_load_verify_locations(context, http_client_settings{}.system_ca_file.c_str(), nullptr);
  const auto& own = settings.federation.ca_file;
  if (!own.empty() && SSL_CTX_load_verify_locations(context, own.c_str(), nullptr) != 1)
    throw std::runtime_error("[federation] ca_file " + own + " can't be read: " + tls_error());
  ERR_clear_error();
}

void probe_connection::impl::shake(const std::string& tls_name) {
  const auto began = clock::now();
  ssl = SSL_new(context);
  SSL_set_fd(ssl, socket);
  unsigned char bytes[16];
  const bool literal =
      ::inet_pton(AF_INET, tls_name.c_str(), bytes) == 1 || ::inet_pton(AF_INET6, tls_name.c_str(), bytes) == 1;
  auto* rules = SSL_get0_param(ssl);
  if (literal) {
    X509_VERIFY_PARAM_set1_ip_asc(rules, tls_name.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl, tls_name.c_str());
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    X509_VERIFY_PARAM_set1_host(rules, tls_name.c_str(), tls_name.size());
  }
  int code = 0;
  while ((code = SSL_connect(ssl)) != 1 && again(code)) {
  }
  facts.tls_took_ms = ms_since(began);
  facts.shaken = code == 1;
  if (!facts.shaken) facts.problem = late_or_broken();
  else look_at_certificate();
}

void probe_connection::impl::look_at_certificate() {
  facts.version = SSL_get_version(ssl);
  facts.cipher = SSL_get_cipher_name(ssl);
  const auto verdict = SSL_get_verify_result(ssl);
  facts.trusted = verdict == X509_V_OK;
  if (!facts.trusted) facts.problem = X509_verify_cert_error_string(verdict);
  std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(ssl), X509_free);
  if (!certificate) return;
  facts.subject = text_of(X509_get_subject_name(certificate.get()));
  facts.issuer = text_of(X509_get_issuer_name(certificate.get()));
  facts.names = names_of(certificate.get());
  facts.not_before_ms = ms_of(X509_get0_notBefore(certificate.get()));
  facts.not_after_ms = ms_of(X509_get0_notAfter(certificate.get()));
}

probe_connection::probe_connection(const std::string& address, const std::string& tls_name, const config& settings,
                                   std::int64_t within_ms)
    : impl_(std::make_unique<impl>()) {
  impl_->deadline = clock::now() + std::chrono::milliseconds(within_ms);
  impl_->prepare(settings);
  impl_->connect(address);
  if (impl_->facts.connected) impl_->shake(tls_name);
}

probe_connection::~probe_connection() = default;
const tls_facts& probe_connection::facts() const { return impl_->facts; }

probe_connection::answer probe_connection::get(const std::string& uri, const std::string& host_header,
                                               std::int64_t within_ms) {
  namespace http = boost::beast::http;
  answer out;
  const auto began = clock::now();
  impl_->deadline = began + std::chrono::milliseconds(within_ms);
  const auto failed = [&](const std::string& why) {
    out.status = 0;
    out.problem = why;
    out.took_ms = ms_since(began);
    return out;
  };
  const auto request = "GET " + uri + " HTTP/1.1\r\nHost: " + host_header +
                       "\r\nUser-Agent: Ranvier\r\nAccept: application/json\r\n\r\n";
  int code = 0;
  while ((code = SSL_write(impl_->ssl, request.data(), static_cast<int>(request.size()))) <= 0)
    if (!impl_->again(code)) return failed(impl_->late_or_broken());
  http::response_parser<http::string_body> parser;
  parser.body_limit(most_body_bytes);
  parser.eager(true);
  std::string kept; // what the parser hasn't eaten yet
  char piece[16 * 1024];
  boost::system::error_code problem;
  while (!parser.is_done()) {
    code = SSL_read(impl_->ssl, piece, sizeof piece);
    if (code <= 0 && impl_->again(code)) continue;
    if (code <= 0 && SSL_get_error(impl_->ssl, code) == SSL_ERROR_ZERO_RETURN && parser.is_header_done()) {
      parser.put_eof(problem); // a body that ends with the connection
      if (!problem && parser.is_done()) break;
    }
    if (code <= 0) return failed(impl_->late_or_broken());
    kept.append(piece, static_cast<std::size_t>(code));
    kept.erase(0, parser.put(boost::asio::buffer(kept), problem));
    if (problem && problem != http::error::need_more) return failed("its answer can't be read: " + problem.message());
  }
  out.status = parser.get().result_int();
  out.body = parser.get().body();
  out.took_ms = ms_since(began);
  return out;
}

} // namespace ranvier
