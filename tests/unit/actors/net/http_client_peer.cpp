#include "tests/unit/actors/net/http_client_peer.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>

namespace ranvier::test {
namespace {

using key_ptr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using certificate_ptr = std::unique_ptr<X509, decltype(&X509_free)>;

key_ptr new_key() { return {EVP_EC_gen("P-256"), &EVP_PKEY_free}; }

certificate_ptr new_certificate(const char* name, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key, long serial,
                                const std::vector<std::pair<int, std::string>>& extensions) {
  certificate_ptr c(X509_new(), &X509_free);
  X509_set_version(c.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(c.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(c.get()), -86400);
  X509_gmtime_adj(X509_getm_notAfter(c.get()), 86400);
  X509_set_pubkey(c.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(c.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  X509_set_issuer_name(c.get(), X509_get_subject_name(issuer ? issuer : c.get()));
  for (const auto& [nid, value] : extensions) {
    auto* e = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
    X509_add_ext(c.get(), e, -1);
    X509_EXTENSION_free(e);
  }
  X509_sign(c.get(), issuer_key, EVP_sha256());
  return c;
}

template <class Write> std::string pem(Write write) {
  BIO* b = BIO_new(BIO_s_mem());
  write(b);
  char* data = nullptr;
  auto n = BIO_get_mem_data(b, &data);
  std::string out(data, static_cast<std::size_t>(n));
  BIO_free(b);
  return out;
}

int listen_on_loopback(int backlog, int& port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  if (bind(fd, reinterpret_cast<sockaddr*>(&a), size) != 0 || (backlog > 0 && listen(fd, backlog) != 0))
    throw std::runtime_error("no loopback port");
  getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size);
  port = ntohs(a.sin_port);
  return fd;
}

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

bool read_request(SSL* ssl, std::string& buffer, tls_peer::request& r) {
  auto more = [&] {
    char chunk[16384];
    int n = SSL_read(ssl, chunk, sizeof chunk);
    if (n > 0) buffer.append(chunk, static_cast<std::size_t>(n));
    return n > 0;
  };
  std::size_t end;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos)
    if (!more()) return false;
  auto head = buffer.substr(0, end + 2);
  buffer.erase(0, end + 4);
  auto line_end = head.find("\r\n");
  auto first = head.substr(0, line_end);
  r.method = first.substr(0, first.find(' '));
  r.target = first.substr(r.method.size() + 1, first.rfind(' ') - r.method.size() - 1);
  for (auto at = line_end + 2; at < head.size();) {
    auto stop = head.find("\r\n", at);
    auto line = head.substr(at, stop - at);
    auto colon = line.find(':');
    if (colon != std::string::npos)
      r.headers[lower(line.substr(0, colon))] = line.substr(std::min(colon + 2, line.size()));
    at = stop + 2;
  }
  auto length = static_cast<std::size_t>(
      std::atoll(r.headers.count("content-length") ? r.headers["content-length"].c_str() : "0"));
  while (buffer.size() < length)
    if (!more()) return false;
  r.body = buffer.substr(0, length);
  buffer.erase(0, length);
  return true;
}

} // namespace

test_certificate test_certificate::make(const std::vector<std::string>& names) {
  auto authority_key = new_key(), leaf_key = new_key();
  auto authority =
      new_certificate("test authority", authority_key.get(), nullptr, authority_key.get(), 1,
                      {{NID_basic_constraints, "critical,CA:TRUE"}, {NID_key_usage, "critical,keyCertSign"}});
  std::string all;
  for (const auto& n : names)
    all += (all.empty() ? "" : ",") + n;
  auto leaf = new_certificate("test leaf", leaf_key.get(), authority.get(), authority_key.get(), 2,
                              {{NID_subject_alt_name, all}});
  return {pem([&](BIO* b) { PEM_write_bio_X509(b, authority.get()); }),
          pem([&](BIO* b) { PEM_write_bio_X509(b, leaf.get()); }),
          pem([&](BIO* b) { PEM_write_bio_PrivateKey(b, leaf_key.get(), nullptr, nullptr, 0, nullptr, nullptr); })};
}

tls_peer::tls_peer(std::vector<std::string> names, script s)
    : script_(std::move(s)) {
  auto c = test_certificate::make(names);
  auto* context = SSL_CTX_new(TLS_server_method());
  BIO* in = BIO_new_mem_buf(c.leaf.data(), static_cast<int>(c.leaf.size()));
  certificate_ptr leaf(PEM_read_bio_X509(in, nullptr, nullptr, nullptr), &X509_free);
  BIO_free(in);
  in = BIO_new_mem_buf(c.key.data(), static_cast<int>(c.key.size()));
  key_ptr key(PEM_read_bio_PrivateKey(in, nullptr, nullptr, nullptr), &EVP_PKEY_free);
  BIO_free(in);
  SSL_CTX_use_certificate(context, leaf.get());
  SSL_CTX_use_PrivateKey(context, key.get());
  context_ = context;
  char name[] = "/tmp/ranvier-test-ca-XXXXXX";
  int fd = mkstemp(name);
  if (fd < 0 || write(fd, c.authority.data(), c.authority.size()) < 0) throw std::runtime_error("no temporary file");
  close(fd);
  authority_file_ = name;
  listener_ = listen_on_loopback(256, port_);
  if (pipe(wake_) != 0) throw std::runtime_error("no pipe");
  std::lock_guard lock(mutex_);
  threads_.emplace_back([this] { accept_all(); });
}

tls_peer::~tls_peer() {
  std::list<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    for (int fd : open_)
      shutdown(fd, SHUT_RDWR);
    changed_.notify_all();
  }
  if (write(wake_[1], "x", 1) != 1) std::abort();
  threads_.front().join(); // no new ones after this
  {
    std::lock_guard lock(mutex_);
    for (int fd : open_)
      shutdown(fd, SHUT_RDWR);
    threads.swap(threads_);
  }
  for (auto& t : threads)
    if (t.joinable()) t.join();
  close(listener_);
  close(wake_[0]);
  close(wake_[1]);
  SSL_CTX_free(static_cast<SSL_CTX*>(context_));
  unlink(authority_file_.c_str());
}

void tls_peer::accept_all() {
  for (;;) {
    pollfd p[2] = {{listener_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
    poll(p, 2, -1);
    if (p[1].revents) return;
    int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    std::lock_guard lock(mutex_);
    int number = ++connections_;
    open_.push_back(fd);
    threads_.emplace_back([this, fd, number] { serve(fd, number); });
  }
}

void tls_peer::serve(int fd, int number) {
  sigset_t broken_pipe; // a client may be gone when its answer is written
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  auto* ssl = SSL_new(static_cast<SSL_CTX*>(context_));
  SSL_set_fd(ssl, fd);
  if (SSL_accept(ssl) == 1) {
    std::string buffer;
    for (int nth = 1;; ++nth) {
      request r;
      if (!read_request(ssl, buffer, r)) break;
      const char* sni = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
      r.sni = sni ? sni : "";
      r.connection = number;
      r.nth = nth;
      {
        std::lock_guard lock(mutex_);
        requests_.push_back(r);
        changed_.notify_all();
      }
      auto text = script_(r);
      if (text.empty() || SSL_write(ssl, text.data(), static_cast<int>(text.size())) <= 0 || close_after_answer) break;
    }
    SSL_shutdown(ssl);
  }
  SSL_free(ssl);
  std::lock_guard lock(mutex_);
  std::erase(open_, fd);
  close(fd);
  ++closed_;
  changed_.notify_all();
}

void tls_peer::hang() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ending_; });
}

bool tls_peer::wait_closed(int how_many) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return closed_ >= how_many; });
}

bool tls_peer::wait_requests(std::size_t how_many) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return requests_.size() >= how_many; });
}

std::vector<tls_peer::request> tls_peer::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

std::string tls_peer::answer(int status, const std::string& body, const std::string& headers) {
  return "HTTP/1.1 " + std::to_string(status) +
         " x\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers +
         "\r\n" + body;
}

silent_port::silent_port() { fd_ = listen_on_loopback(256, port_); }
silent_port::~silent_port() { close(fd_); }

int refusing_port() {
  int port = 0;
  close(listen_on_loopback(0, port));
  return port;
}

} // namespace ranvier::test
