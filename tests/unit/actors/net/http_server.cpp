#include "actors/net/http_server.hpp"

#include "tests/unit/actors/net/raw_client.hpp"

#include <doctest/doctest.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

using namespace ranvier;
using namespace ranvier::testing;
using namespace std::chrono_literals;

namespace {

/// Counts what it is given, and lets the test say when reading goes on.
struct counting_sink final : body_sink {
  explicit counting_sink(std::shared_ptr<http_exchange> of)
      : exchange(std::move(of)) {}
  void data(std::string_view piece, std::function<void()> resume) override {
    bytes += piece.size();
    resume();
  }
  void end() override { std::exchange(exchange, nullptr)->respond(200, std::to_string(bytes)); }
  void aborted() override { exchange.reset(); }
  std::shared_ptr<http_exchange> exchange;
  std::size_t bytes = 0;
};

/// /echo answers at once, /later from another thread when told, /never not at all, /sink counts, /no refuses at the
/// headers, /events streams, /long has 100,000 bytes.
struct service final : http_service {
  body_plan headers_in(const std::shared_ptr<http_exchange>& exchange) override {
    if (exchange->target == "/no") exchange->respond_error(403, "M_FORBIDDEN", "no");
    if (exchange->target == "/sink") return {50'000, std::make_shared<counting_sink>(exchange)};
    return {1000, nullptr};
  }
  void request_in(std::shared_ptr<http_exchange> exchange) override {
    if (exchange->target == "/never") return;
    if (exchange->target == "/throw") throw std::runtime_error("a fault of the service");
    if (exchange->target == "/long") return exchange->respond(200, std::string(100'000, 'x'));
    if (exchange->target == "/events") return stream(std::move(exchange));
    if (exchange->target == "/later") {
      std::lock_guard lock(mutex);
      held = std::move(exchange);
      changed.notify_all();
      return;
    }
    exchange->respond(200, exchange->method + " " + exchange->body,
                      {{"X-Given", std::string(exchange->header("x-GIVEN"))}});
    exchange->respond(500, "a second answer counts for nothing");
  }
  void stream(std::shared_ptr<http_exchange> exchange) {
    exchange->begin_stream(200, {{"Content-Type", "text/event-stream"}});
    exchange->write("data: 1\n\n", [exchange](bool ok) {
      if (!ok) return;
      exchange->write("data: 2\n\n", [](bool) {});
      exchange->end_stream();
    });
  }
  std::shared_ptr<http_exchange> take_held() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return held != nullptr; });
    return std::exchange(held, nullptr);
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<http_exchange> held;
};

struct fixture {
  static http_options with(http_options options = {}) {
    options.listen = "127.0.0.1:0";
    return options;
  }
  explicit fixture(http_options options = {})
      : server(threads, with(std::move(options)), served) {}
  service served;
  http_threads threads{2};
  http_server server;
};

http_options short_times() {
  http_options out;
  out.header_timeout = out.body_grace = out.idle_timeout = out.handshake_timeout = 100ms;
  return out;
}

std::string chunked(const std::string& target, const std::vector<std::string>& pieces) {
  std::string out = "POST " + target + " HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const auto& piece : pieces) {
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
    out += size + piece + "\r\n";
  }
  return out + "0\r\n\r\n";
}

/// A self-signed certificate and its key in one PEM file.
struct certificate {
  certificate()
      : path(std::filesystem::temp_directory_path() / ("ranvier-http-" + std::to_string(::getpid()) + ".pem")) {
    auto* key = EVP_EC_gen("P-256");
    auto* x509 = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), 0);
    X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
    X509_set_pubkey(x509, key);
    auto* name = X509_get_subject_name(x509);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(x509, name);
    X509_sign(x509, key, EVP_sha256());
    auto* file = std::fopen(path.c_str(), "w");
    PEM_write_X509(file, x509);
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    X509_free(x509);
    EVP_PKEY_free(key);
  }
  ~certificate() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

} // namespace

TEST_CASE("requests on one connection are answered one after the other, and only once each") {
  fixture f;
  raw_client client(f.server.port());
  const auto first = client.ask(request("PUT", "/echo", "one", "X-Given: 7\r\n"));
  CHECK(first.status == 200);
  CHECK(first.body == "PUT one");
  CHECK(first.head.find("X-Given: 7\r\n") != std::string::npos);
  CHECK(first.head.find("Content-Type: application/json\r\n") != std::string::npos);
  CHECK_FALSE(first.closes());
  client.send(request("PUT", "/echo", "two") + request("PUT", "/echo", "three"));
  CHECK(client.read().body == "PUT two");
  CHECK(client.read().body == "PUT three");
  CHECK(client.ask(chunked("/echo", {"fo", "ur"})).body == "POST four");
  client.send(request("HEAD", "/echo"));
  CHECK(client.read(true).status == 200);
  CHECK(client.ask(request("GET", "/echo", "", "Connection: close\r\n")).closes());
  CHECK(client.at_end());
}

TEST_CASE("an answer may come later and from another thread; a client that has gone doesn't hurt") {
  fixture f;
  raw_client client(f.server.port());
  client.send(request("GET", "/later"));
  std::thread([&] { f.served.take_held()->respond(200, "late"); }).join();
  CHECK(client.read().body == "late");
  {
    raw_client gone(f.server.port());
    gone.send(request("GET", "/later"));
    auto exchange = f.served.take_held();
    // The client is closed here, before its answer.
    f.served.held = std::move(exchange);
  }
  f.served.take_held()->respond(200, "to nobody");
  CHECK(client.ask(request("PUT", "/echo", "still here")).body == "PUT still here");
}

TEST_CASE("a request that nobody answers, or whose service throws, is answered 500") {
  fixture f;
  raw_client client(f.server.port());
  const auto answer = client.ask(request("GET", "/never"));
  CHECK(answer.status == 500);
  CHECK(answer.body.find("M_UNKNOWN") != std::string::npos);
  CHECK(client.ask(request("GET", "/throw")).status == 500);
  raw_client other(f.server.port());
  CHECK(other.ask(request("PUT", "/echo", "x")).status == 200);
}

TEST_CASE("a body beyond the limit is answered 413 in JSON, by its length and when it is chunked") {
  fixture f;
  const std::string big(5000, 'x');
  for (const auto& text : {request("POST", "/echo", big), chunked("/echo", {big}),
                           chunked("/echo", std::vector<std::string>(20, std::string(60, 'y'))),
                           request("POST", "/sink", std::string(60'000, 'z')),
                           chunked("/sink", std::vector<std::string>(60, std::string(1000, 'z')))}) {
    raw_client client(f.server.port());
    const auto answer = client.ask(text);
    CHECK(answer.status == 413);
    CHECK(answer.body.find("M_TOO_LARGE") != std::string::npos);
    CHECK(answer.closes());
  }
}

TEST_CASE("a sink takes a body in pieces, plain or chunked") {
  fixture f;
  raw_client client(f.server.port());
  CHECK(client.ask(request("POST", "/sink", std::string(50'000, 'x'))).body == "50000");
  CHECK(client.ask(chunked("/sink", std::vector<std::string>(49, std::string(1000, 'z')))).body == "49000");
}

TEST_CASE("a service may refuse at the headers, before the body is sent") {
  fixture f;
  raw_client client(f.server.port());
  client.send("POST /no HTTP/1.1\r\nHost: t\r\nContent-Length: 900\r\n\r\nonly a part");
  const auto answer = client.read();
  CHECK(answer.status == 403);
  CHECK(answer.closes());
  raw_client without(f.server.port());
  CHECK_FALSE(without.ask(request("GET", "/no")).closes());
  CHECK(without.ask(request("PUT", "/echo", "x")).status == 200);
}

TEST_CASE("who expects 100-continue gets it, or the refusal") {
  fixture f;
  raw_client client(f.server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  CHECK(client.until("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  CHECK(client.ask("ab").body == "POST ab");
  CHECK(client.ask("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2000\r\nExpect: 100-continue\r\n\r\n").status ==
        413);
}

TEST_CASE("what is no HTTP is refused and closed") {
  fixture f;
  const std::string long_header = "X-Long: " + std::string(40'000, 'x') + "\r\n";
  struct row {
    std::string text;
    int status;
  };
  const row rows[] = {
      {request("GET", "/echo", "", long_header), 431},
      {"nonsense\r\n\r\n", 400},
      {"GET /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400},
  };
  for (const auto& one : rows) {
    CAPTURE(one.text.substr(0, 60));
    raw_client client(f.server.port());
    const auto answer = client.ask(one.text);
    CHECK(answer.status == one.status);
    CHECK(answer.closes());
  }
}

TEST_CASE("slow headers, slow bodies and idle connections are cut") {
  fixture f(short_times());
  for (const auto* text : {"GET /echo HT", "", "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nab"}) {
    CAPTURE(std::string(text));
    raw_client client(f.server.port());
    client.send(text);
    CHECK(client.at_end());
  }
}

TEST_CASE("at the cap of connections the longest idle one makes room, but none that is at work") {
  http_options two;
  two.connections = 2;
  fixture f(two);
  raw_client busy(f.server.port());
  busy.send(request("GET", "/later"));
  auto exchange = f.served.take_held();
  raw_client idle(f.server.port());
  CHECK(idle.ask(request("PUT", "/echo", "x")).status == 200);
  // The server knows of its idleness a moment after the client has the answer, so the third may have to come again.
  std::optional<raw_client> newcomer;
  for (int i = 0; i < 1000; ++i) {
    newcomer.emplace(f.server.port());
    if (newcomer->ask(request("PUT", "/echo", "x")).status == 200) break;
  }
  auto& third = *newcomer;
  CHECK(idle.at_end());
  third.send(request("GET", "/later"));
  auto second = f.served.take_held();
  raw_client fourth(f.server.port());
  fourth.send(request("PUT", "/echo", "x"));
  CHECK(fourth.at_end());
  exchange->respond(200, "done");
  second->respond(200, "done");
  CHECK(busy.read().status == 200);
  CHECK(third.read().status == 200);
}

TEST_CASE("too much in work at once is answered 503 with Retry-After") {
  http_options small;
  small.buffered_bytes = 500;
  fixture f(small);
  raw_client client(f.server.port());
  const auto answer = client.ask(request("POST", "/echo", std::string(600, 'x')));
  CHECK(answer.status == 503);
  CHECK(answer.head.find("Retry-After: 5") != std::string::npos);
  raw_client next(f.server.port());
  CHECK(next.ask(request("POST", "/echo", std::string(400, 'x'))).status == 200);
  CHECK(next.ask(request("POST", "/echo", std::string(400, 'x'))).status == 200);
}

TEST_CASE("an event stream is chunked and ends") {
  fixture f;
  raw_client client(f.server.port());
  client.send(request("GET", "/events"));
  const auto head = client.read(true);
  CHECK(head.head.find("Content-Type: text/event-stream") != std::string::npos);
  CHECK(client.until("0\r\n\r\n") == "9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  CHECK(client.at_end());
}

TEST_CASE("stopping lets a running request end and takes no new connection") {
  fixture f;
  raw_client client(f.server.port()), idle(f.server.port());
  client.send(request("GET", "/later"));
  auto exchange = f.served.take_held();
  const auto port = f.server.port();
  std::thread stopping([&] { f.server.stop(10s); });
  CHECK(idle.at_end()); // closed as the first act of stopping
  exchange->respond(200, "the last word");
  stopping.join();
  const auto answer = client.read();
  CHECK(answer.body == "the last word");
  CHECK(answer.closes());
  CHECK(f.server.connections() == 0);
  CHECK_THROWS(raw_client(port).ask(""));
}

TEST_CASE("the same over TLS, and a silent or plain client is cut") {
  const certificate pem;
  auto options = short_times();
  options.header_timeout = options.idle_timeout = options.body_grace = 10s;
  options.tls_certificate = options.tls_private_key = pem.path;
  fixture f(options);
  raw_client client(f.server.port(), true);
  CHECK(client.ask(request("PUT", "/echo", "safe")).body == "PUT safe");
  CHECK(client.ask(request("GET", "/long", "")).body == std::string(100'000, 'x')); // more than one TLS record
  CHECK(client.ask(request("PUT", "/echo", "still")).body == "PUT still");
  CHECK(client.ask(request("POST", "/echo", std::string(5000, 'x'))).status == 413);
  raw_client silent(f.server.port());
  CHECK(silent.at_end());
}

TEST_CASE("an address or a certificate that can't be used is told in a sentence") {
  service served;
  http_threads threads(1);
  http_options options;
  for (const auto* listen : {"", "nowhere", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "203.0.113.1:0"}) {
    options.listen = listen;
    CHECK_THROWS_AS(http_server(threads, options, served), std::runtime_error);
  }
  options.listen = "127.0.0.1:0";
  options.tls_certificate = "/nowhere.pem";
  CHECK_THROWS_AS(http_server(threads, options, served), std::runtime_error);
}
