#include "actors/net/http_transfer.hpp"

#include <openssl/x509_vfy.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

namespace ranvier {
namespace {

constexpr std::size_t most_header_bytes = 64 * 1024; ///< of one answer, interim answers included

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](unsigned char x, unsigned char y) {
           return std::tolower(x) == std::tolower(y);
         });
}

bool line_safe(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::string seconds(std::int64_t ms) {
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

} // namespace

transfer::transfer(std::uint64_t id, http_job what, const transfer_rules& rules, transfer_watcher& watcher)
    : job(std::move(what))
    , ticket(id)
    , rules_(rules)
    , watcher_(watcher) {}

transfer::~transfer() {
  curl_slist_free_all(headers_);
  curl_slist_free_all(connect_to_);
}

std::string transfer::fault() const {
  const auto& c = job.call;
  if (!job.way.ok || job.way.addresses.empty())
    return job.way.problem.empty() ? "there is no route to " + c.destination : job.way.problem;
  bool good_method =
      !c.method.empty() && std::all_of(c.method.begin(), c.method.end(), [](char x) { return x >= 'A' && x <= 'Z'; });
  if (!good_method) return "\"" + c.method + "\" isn't a method: it must be upper-case letters";
  bool good_uri = c.uri.starts_with('/') && std::none_of(c.uri.begin(), c.uri.end(), [](unsigned char x) {
                    return x <= 0x20 || x >= 0x7f || x == '#';
                  });
  if (!good_uri) return "the request's path must begin with / and be percent-encoded";
  if (!line_safe(c.authorization) || !line_safe(job.way.host_header)) return "a header would hold a control character";
  return {};
}

void transfer::prepare(const std::string& preferred, std::int64_t left_ms) {
  const auto& list = job.way.addresses;
  // The address that worked last comes first, unless it was just tried in vain.
  bool known = tries_ == 0 && std::find(list.begin(), list.end(), preferred) != list.end();
  dialled_ = known ? preferred : list[next_address_ % list.size()];
  connected_ = new_socket_ = tls_stage_ = too_large_ = denied_ = headers_too_large_ = over_http2_ = false;
  socket = 0;
  header_bytes_ = 0;
  error_[0] = 0;
  body_.clear();
  heard_ = {};
  left_ms_ = static_cast<long>(std::max<std::int64_t>(left_ms, 1));
  const auto& s = *rules_.settings;
  bool more = tries_ + 1 < list.size();
  auto connect_ms = more ? std::min(s.connect_timeout_ms, s.connect_to_another_ms) : s.connect_timeout_ms;
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, left_ms_);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect_ms));
  curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN,
                   static_cast<long>(std::max<std::int64_t>(s.idle_connection_timeout_ms / 1000, 1)));
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, fresh_ || !job.call.repeatable ? 1L : 0L);
  set_request();
  set_security();
}

void transfer::set_request() {
  const auto& c = job.call;
  const auto& way = job.way;
  // The URL's host is the name for SNI and certificate; CONNECT_TO is where it is dialled; Host is the header.
  auto host = way.tls_name.find(':') != std::string::npos ? "[" + way.tls_name + "]" : way.tls_name;
  auto here = host + ":" + std::to_string(port_of(dialled_));
  curl_easy_setopt(easy, CURLOPT_URL, ("https://" + here + "/").c_str());
  curl_easy_setopt(easy, CURLOPT_REQUEST_TARGET, c.uri.c_str()); // the very bytes that were signed (X2)
  connect_to_ = curl_slist_append(nullptr, (here + ":" + dialled_).c_str());
  curl_easy_setopt(easy, CURLOPT_CONNECT_TO, connect_to_);
  auto header = [&](const std::string& line) { headers_ = curl_slist_append(headers_, line.c_str()); };
  header("Host: " + way.host_header);
  header("Expect:");
  header("Accept: application/json");
  if (!c.authorization.empty()) header("Authorization: " + c.authorization);
  bool body = !c.body.empty() || c.method == "PUT" || c.method == "POST";
  header(c.body.empty() ? "Content-Type:" : "Content-Type: application/json"); // H2
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_);
  if (body) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(c.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, c.body.str().data()); // not copied: the job outlives the handle's use
  } else {
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
  }
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, c.method.c_str());
  bool http2 = rules_.settings->http2 && !plain_;
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                   static_cast<long>(http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_USERAGENT, rules_.settings->user_agent.c_str());
  curl_easy_setopt(easy, CURLOPT_PROXY, ""); // the environment's proxies are not for federation
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error_);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &transfer::on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &transfer::on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, &transfer::on_connected);
  curl_easy_setopt(easy, CURLOPT_PREREQDATA, this);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &transfer::on_socket);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, this);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, rules_.close_socket);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, rules_.close_socket_data);
}

void transfer::set_security() {
  const auto& s = *rules_.settings;
  // Without this every handshake reads the system's certificate folder again (LIBRARIES section 4).
  curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  curl_easy_setopt(easy, CURLOPT_CAINFO, rules_.ca_path.empty() ? nullptr : rules_.ca_path.c_str());
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, s.verify_certificates ? 1L : 0L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, s.verify_certificates ? 2L : 0L);
  auto least = s.tls_minimum == "1.3" ? CURL_SSLVERSION_TLSv1_3 : CURL_SSLVERSION_TLSv1_2;
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(least));
  // Called when TCP stands and TLS begins: curl doesn't tell this moment otherwise.
  curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, &transfer::on_tls);
  curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, this);
}

CURL* transfer::release() {
  auto* handle = easy;
  easy = nullptr;
  curl_easy_reset(handle);
  curl_slist_free_all(headers_);
  curl_slist_free_all(connect_to_);
  headers_ = connect_to_ = nullptr;
  return handle;
}

std::size_t transfer::on_body(char* data, std::size_t size, std::size_t n, void* self) {
  auto& t = *static_cast<transfer*>(self);
  if (static_cast<std::int64_t>(t.body_.size() + size * n) > t.job.call.max_answer_bytes) {
    t.too_large_ = true;
    return 0;
  }
  t.body_.append(data, size * n);
  return size * n;
}

std::size_t transfer::on_header(char* data, std::size_t size, std::size_t n, void* self) {
  auto& t = *static_cast<transfer*>(self);
  t.header_bytes_ += size * n;
  if (t.header_bytes_ > most_header_bytes) {
    t.headers_too_large_ = true;
    return 0;
  }
  t.take_header({data, size * n});
  return t.too_large_ ? 0 : size * n;
}

void transfer::take_header(std::string_view line) {
  if (line.starts_with("HTTP/")) { // an interim answer (1xx) may have come before
    heard_ = {};
    over_http2_ = line.starts_with("HTTP/2");
    return;
  }
  auto colon = line.find(':');
  if (colon == std::string_view::npos) return;
  auto name = line.substr(0, colon), value = line.substr(colon + 1);
  auto from = value.find_first_not_of(" \t"), to = value.find_last_not_of(" \t\r\n");
  value = from == std::string_view::npos || to == std::string_view::npos || to < from
              ? ""
              : value.substr(from, to - from + 1);
  if (same_word(name, "content-length")) {
    std::int64_t length = 0;
    auto [p, ec] = std::from_chars(value.data(), value.data() + value.size(), length);
    too_large_ = ec == std::errc::result_out_of_range || length > job.call.max_answer_bytes;
  }
  const std::pair<std::string_view, std::string*> kept[] = {{"content-type", &heard_.answer.content_type},
                                                            {"retry-after", &heard_.answer.retry_after},
                                                            {"location", &heard_.location},
                                                            {"cache-control", &heard_.cache_control},
                                                            {"expires", &heard_.expires},
                                                            {"date", &heard_.date}};
  for (const auto& [wanted, where] : kept)
    if (same_word(name, wanted)) *where = std::string(value);
}

CURLcode transfer::on_tls(CURL*, void*, void* self) {
  static_cast<transfer*>(self)->tls_stage_ = true;
  return CURLE_OK;
}

int transfer::on_connected(void* self, char* peer_ip, char* local_ip, int peer_port, int local_port) {
  auto& t = *static_cast<transfer*>(self);
  t.peer_address_ = address_with_port(peer_ip, peer_port);
  t.watcher_.connected(t, address_with_port(local_ip, local_port) + " " + t.peer_address_);
  if (!t.job.way.pinned && t.rules_.deny.contains(peer_ip)) {
    t.denied_ = true;
    return CURL_PREREQFUNC_ABORT;
  }
  t.connected_ = t.request_sent_ = true;
  return CURL_PREREQFUNC_OK;
}

curl_socket_t transfer::on_socket(void* self, curlsocktype, curl_sockaddr* address) {
  auto& t = *static_cast<transfer*>(self);
  t.new_socket_ = true;
  t.peer_address_ = t.dialled_;
  return t.watcher_.open_socket(t, *address);
}

bool transfer::try_again(CURLcode code, bool hung_up) {
  if (code == CURLE_OK || too_large_ || denied_ || headers_too_large_) return false;
  if (connected_) return may_repeat(code, hung_up);
  if (++tries_ >= job.way.addresses.size()) return false;
  auto at = std::find(job.way.addresses.begin(), job.way.addresses.end(), dialled_) - job.way.addresses.begin();
  next_address_ = static_cast<std::size_t>(at) + 1;
  return true;
}

/// A pooled connection that the peer closed while it was idle is no failure. curl notices most of these itself, and
/// what a server refused over HTTP/2 (GOAWAY, REFUSED_STREAM); not a connection that breaks while the body is being
/// sent.
bool transfer::may_repeat(CURLcode code, bool hung_up) {
  if (header_bytes_ > 0 || !job.call.repeatable) return false;
  bool broke = code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING ||
               code == CURLE_HTTP2 || ((code == CURLE_HTTP2_STREAM || code == CURLE_PARTIAL_FILE) && hung_up);
  if (broke && !new_socket_ && !fresh_tried_) {
    fresh_ = fresh_tried_ = true;
    return true;
  }
  // A server, or something before it, that offers HTTP/2 and can't do it.
  if (code != CURLE_HTTP2 || plain_) return false;
  fresh_ = plain_ = true;
  return true;
}

void transfer::cut() {
  fresh_tried_ = fresh_ = false;
  tries_ = 0;
  if (!connected_) ++next_address_;
}

failure_stage transfer::stage(CURLcode code) const {
  if (denied_ || code == CURLE_COULDNT_CONNECT) return failure_stage::connect;
  if (!connected_) {
    if (code == CURLE_COULDNT_RESOLVE_HOST) return failure_stage::resolve;
    return tls_stage_ ? failure_stage::tls : failure_stage::connect;
  }
  curl_off_t sent = 0;
  curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &sent);
  bool whole = sent >= static_cast<curl_off_t>(job.call.body.size()) || header_bytes_ > 0;
  return whole ? failure_stage::answer : failure_stage::request;
}

std::string transfer::what_for() const {
  return job.call.method + " " + job.call.uri.substr(0, std::min<std::size_t>(job.call.uri.find('?'), 120));
}

std::string transfer::problem(CURLcode code, std::int64_t now) const {
  auto at = stage(code);
  if (denied_) return peer_address_ + " stands in [federation] ip_deny";
  if (too_large_) return "the answer is larger than " + std::to_string(job.call.max_answer_bytes) + " bytes";
  if (headers_too_large_) return "the answer's headers are larger than " + std::to_string(most_header_bytes) + " bytes";
  std::string said = error_[0] ? error_ : curl_easy_strerror(code);
  long of_system = 0; // curl's own words repeat the address instead of saying this
  if (code == CURLE_COULDNT_CONNECT && curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &of_system) == CURLE_OK &&
      of_system != 0 && of_system != EINPROGRESS)
    said = std::generic_category().message(static_cast<int>(of_system));
  auto where = peer_address_.empty() ? dialled_ : peer_address_;
  bool timeout = code == CURLE_OPERATION_TIMEDOUT;
  auto waited = seconds(timeout && now - admitted >= job.call.timeout_ms ? job.call.timeout_ms : now - admitted);
  switch (at) {
  case failure_stage::connect:
    return timeout ? "no connection to " + where + " after " + waited : "connecting to " + where + " failed: " + said;
  case failure_stage::tls: {
    long verdict = 0;
    curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &verdict);
    if (timeout) return "no TLS handshake with " + where + " after " + waited;
    if (code == CURLE_PEER_FAILED_VERIFICATION && verdict != X509_V_OK &&
        verdict != X509_V_ERR_UNSPECIFIED) // else curl itself found the fault: the name
      return "the certificate of " + where + " isn't accepted: " + X509_verify_cert_error_string(verdict);
    return "TLS with " + where + " (as " + job.way.tls_name + ") failed: " + said;
  }
  case failure_stage::request:
    return timeout ? "the request could not be sent whole to " + where + " within " + waited + " (" + what_for() + ")"
                   : "the connection to " + where + " broke while the request was sent: " + said;
  case failure_stage::answer:
    if (timeout)
      return "no " + std::string(header_bytes_ ? "whole " : "") + "answer from " + where + " after " + waited + " (" +
             what_for() + ")";
    return "the connection to " + where + " broke before the whole answer came: " + said;
  default:
    return said;
  }
}

http_reply transfer::reply(CURLcode code, std::int64_t now) {
  http_reply r;
  if (complete(code)) {
    r = heard_;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    r.answer.status = static_cast<int>(status);
    r.answer.body = shared_text(std::move(body_));
  } else {
    r.answer.stage = stage(code);
    r.answer.problem = problem(code, now);
  }
  r.answer.id = job.call.id;
  r.answer.request_sent = request_sent_;
  r.answer.peer_address = peer_address_;
  r.answer.took_ms = now - admitted;
  return r;
}

http_reply transfer::cancelled(std::int64_t now) const {
  http_reply r;
  r.answer.id = job.call.id;
  r.answer.cancelled = true;
  r.answer.request_sent = request_sent_;
  r.answer.stage = request_sent_ ? failure_stage::answer : failure_stage::connect;
  r.answer.problem = "ended by its asker";
  r.answer.peer_address = peer_address_;
  r.answer.took_ms = admitted ? now - admitted : 0;
  return r;
}

} // namespace ranvier
