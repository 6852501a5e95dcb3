#include "actors/net/dns_reply.hpp"

#include <ares.h>
#include <ares_dns.h>
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>

#include <algorithm>

namespace ranvier {
namespace {

constexpr int most_records = 64, cname_type = 5, soa_type = 6;

/// A walk over the resource records of a packet, which c-ares doesn't give with their times to live.
class record_walk {
public:
  record_walk(const unsigned char* data, int size)
      : data_(data)
      , at_(data + HFIXEDSZ)
      , end_(data + size) {
    good_ = data && size >= HFIXEDSZ;
    for (int i = good_ ? DNS_HEADER_QDCOUNT(data) : 0; good_ && i > 0; --i) {
      good_ = skip_name() && end_ - at_ >= QFIXEDSZ;
      if (good_) at_ += QFIXEDSZ;
    }
  }
  /// To the next record; false at the end, or where the packet can't be read.
  bool next() {
    if (good_ && rest_) at_ = rest_;
    good_ = good_ && skip_name() && end_ - at_ >= RRFIXEDSZ;
    if (!good_) return false;
    type_ = DNS_RR_TYPE(at_);
    ttl_ = static_cast<std::int64_t>(DNS_RR_TTL(at_));
    int length = DNS_RR_LEN(at_);
    at_ += RRFIXEDSZ;
    good_ = end_ - at_ >= length;
    rest_ = good_ ? at_ + length : nullptr;
    return good_;
  }
  int type() const { return type_; }
  std::int64_t ttl() const { return ttl_; }
  /// The last number of a SOA: for how long what isn't there isn't asked for. -1: it can't be read.
  std::int64_t soa_minimum() {
    if (!skip_name() || !skip_name() || rest_ - at_ < 20) return -1;
    return static_cast<std::int64_t>(DNS__32BIT(at_ + 16));
  }

private:
  bool skip_name() {
    char* name = nullptr;
    long used = 0;
    if (ares_expand_name(at_, data_, static_cast<int>(end_ - data_), &name, &used) != ARES_SUCCESS) return false;
    ares_free_string(name);
    at_ += used;
    return at_ <= end_;
  }
  const unsigned char *data_, *at_, *end_, *rest_ = nullptr;
  bool good_ = false;
  int type_ = 0;
  std::int64_t ttl_ = -1;
};

std::int64_t answers_ttl(const unsigned char* data, int size) {
  std::int64_t ttl = -1;
  record_walk walk(data, size);
  for (int i = size >= HFIXEDSZ ? DNS_HEADER_ANCOUNT(data) : 0; i > 0 && walk.next(); --i)
    ttl = ttl < 0 ? walk.ttl() : std::min(ttl, walk.ttl());
  return ttl;
}

bool has_alias(const unsigned char* data, int size) {
  record_walk walk(data, size);
  for (int i = size >= HFIXEDSZ ? DNS_HEADER_ANCOUNT(data) : 0; i > 0 && walk.next(); --i)
    if (walk.type() == cname_type) return true;
  return false;
}

/// Of an answer that says "there is none": the smaller of the SOA's own time to live and its minimum (RFC 2308).
std::int64_t negative_ttl(const unsigned char* data, int size) {
  if (!data || size < HFIXEDSZ) return -1;
  record_walk walk(data, size);
  for (int i = DNS_HEADER_ANCOUNT(data) + DNS_HEADER_NSCOUNT(data); i > 0 && walk.next(); --i) {
    if (walk.type() != soa_type) continue;
    auto own = walk.ttl(), least = walk.soa_minimum();
    return least < 0 ? own : std::min(own, least);
  }
  return -1;
}

template <class Node> void add_addresses(dns_reply& r, int family, const Node* list, int n) {
  for (int i = 0; i < n; ++i) {
    char text[INET6_ADDRSTRLEN];
    if (inet_ntop(family, reinterpret_cast<const unsigned char*>(&list[i]), text, sizeof text))
      r.addresses.emplace_back(text);
    r.ttl_s = r.ttl_s < 0 ? list[i].ttl : std::min<std::int64_t>(r.ttl_s, list[i].ttl);
  }
}

int read_records(dns_reply& r, dns_question question, const unsigned char* data, int size) {
  int n = most_records;
  r.alias = question != dns_question::srv && has_alias(data, size);
  if (question == dns_question::a) {
    ares_addrttl list[most_records];
    int status = ares_parse_a_reply(data, size, nullptr, list, &n);
    if (status == ARES_SUCCESS) add_addresses(r, AF_INET, list, n);
    return status;
  }
  if (question == dns_question::aaaa) {
    ares_addr6ttl list[most_records];
    int status = ares_parse_aaaa_reply(data, size, nullptr, list, &n);
    if (status == ARES_SUCCESS) add_addresses(r, AF_INET6, list, n);
    return status;
  }
  ares_srv_reply* list = nullptr;
  int status = ares_parse_srv_reply(data, size, &list);
  for (auto* each = list; each; each = each->next)
    r.services.push_back({each->priority, each->weight, each->port, each->host ? each->host : ""});
  if (list) ares_free_data(list);
  r.ttl_s = answers_ttl(data, size);
  return status == ARES_SUCCESS && r.services.empty() ? ARES_ENODATA : status;
}

} // namespace

dns_reply read_dns_reply(dns_question question, int status, const unsigned char* data, int size) {
  dns_reply r;
  if (status == ARES_SUCCESS) status = read_records(r, question, data, size);
  switch (status) {
  case ARES_SUCCESS:
    r.what = dns_reply::kind::answer;
    return r;
  case ARES_ENODATA: // also an alias that leads to nothing of the kind
  case ARES_ENOTFOUND:
    r = {};
    r.what = dns_reply::kind::answer;
    r.no_name = status == ARES_ENOTFOUND;
    r.ttl_s = negative_ttl(data, size);
    return r;
  case ARES_ESERVFAIL:
  case ARES_EREFUSED:
  case ARES_ENOTIMP:
  case ARES_EFORMERR:
    r.what = dns_reply::kind::refusal;
    break;
  default:
    r = {};
  }
  r.problem = ares_strerror(status);
  return r;
}

void gathered_lookup::take(dns_question question, dns_reply r) {
  if (r.what != dns_reply::kind::answer) {
    failed = true;
    failure = std::move(r.problem);
    return;
  }
  no_name |= r.no_name;
  alias |= r.alias;
  bool found = !r.addresses.empty() || !r.services.empty();
  auto& ttl = found ? ttl_s : nothing_ttl_s;
  if (r.ttl_s >= 0) ttl = ttl < 0 ? r.ttl_s : std::min(ttl, r.ttl_s);
  (question == dns_question::a ? v4 : v6) = std::move(r.addresses);
  services = std::move(r.services);
}

lookup gathered_lookup::outcome() {
  lookup l;
  l.addresses = std::move(v4);
  l.addresses.insert(l.addresses.end(), v6.begin(), v6.end());
  l.services = std::move(services);
  l.ttl_s = ttl_s;
  l.alias = alias;
  if (!l.addresses.empty() || !l.services.empty()) l.what = lookup::outcome::found;
  else if (failed) { // half an answer isn't one (B112)
    l.what = lookup::outcome::failed;
    l.note = "DNS failed: " + failure;
  } else {
    l.what = no_name ? lookup::outcome::no_name : lookup::outcome::no_records;
    l.ttl_s = nothing_ttl_s;
  }
  return l;
}

} // namespace ranvier
