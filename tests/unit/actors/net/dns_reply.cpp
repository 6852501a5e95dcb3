#include "actors/net/dns_reply.hpp"

#include <ares.h>
#include <doctest/doctest.h>

#include <string>

using namespace ranvier;

namespace {

dns_reply read(int status, const std::string& packet, dns_question question = dns_question::srv) {
  return read_dns_reply(question, status, reinterpret_cast<const unsigned char*>(packet.data()),
                        static_cast<int>(packet.size()));
}

std::string bytes(std::initializer_list<int> list) {
  std::string out;
  for (int b : list)
    out += static_cast<char>(b);
  return out;
}

/// Header with so many records, then the question "x" SRV.
std::string head(int answers, int authorities) {
  return bytes({0, 1, 0x81, 0x83, 0, 1, 0, answers, 0, authorities, 0, 0}) + bytes({1, 'x', 0, 0, 33, 0, 1});
}
const std::string soa_head = bytes({0, 0, 6, 0, 1, 0, 0, 1, 44, 0, 22}); // root, 300 s, 22 bytes
const std::string soa = bytes({0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 60});

} // namespace

TEST_CASE("dns_reply: a negative answer lives as long as its SOA says") {
  auto r = read(ARES_ENOTFOUND, head(0, 1) + soa_head + soa);
  CHECK(r.what == dns_reply::kind::answer);
  CHECK(r.no_name);
  CHECK(r.ttl_s == 60);
  CHECK_FALSE(read(ARES_ENODATA, head(0, 1) + soa_head + soa).no_name);
  CHECK(read(ARES_ENODATA, head(0, 0)).ttl_s == -1);
}

TEST_CASE("dns_reply: a packet that is cut off anywhere is no accident") {
  auto whole = head(0, 1) + soa_head + soa;
  for (std::size_t n = 0; n < whole.size(); ++n) {
    auto r = read(ARES_ENOTFOUND, whole.substr(0, n));
    CHECK(r.ttl_s == -1);
    CHECK(r.no_name);
  }
  CHECK(read(ARES_SUCCESS, head(1, 0).substr(0, 15)).what == dns_reply::kind::nothing);
  CHECK(read(ARES_SUCCESS, head(1, 0), dns_question::a).what == dns_reply::kind::nothing);
}

TEST_CASE("dns_reply: what a server won't answer is told apart from silence") {
  for (int status : {ARES_ESERVFAIL, ARES_EREFUSED, ARES_ENOTIMP, ARES_EFORMERR})
    CHECK(read(status, "").what == dns_reply::kind::refusal);
  for (int status : {ARES_ETIMEOUT, ARES_ECONNREFUSED, ARES_EDESTRUCTION}) {
    CHECK(read(status, "").what == dns_reply::kind::nothing);
    CHECK_FALSE(read(status, "").problem.empty());
  }
}
