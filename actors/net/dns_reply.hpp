#pragma once
#include "actors/discovery.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ranvier {

enum class dns_question { a, aaaa, srv };

/// What one DNS server said to one question.
struct dns_reply {
  enum class kind {
    answer,  ///< records, or that there are none, or no such name
    refusal, ///< it said that it can't or won't: asking it once more soon is of no use
    nothing  ///< no answer, or one that can't be read
  };
  kind what = kind::nothing;
  bool no_name = false;
  bool alias = false; ///< the name is a CNAME, and the addresses are those of what it leads to
  std::vector<std::string> addresses;
  std::vector<srv_record> services;
  std::int64_t ttl_s = -1; ///< of the records; of a negative answer that of its SOA (RFC 2308). -1: not told
  std::string problem;     ///< refusal, nothing: why
};

/// From what c-ares gives: its status, and the packet if there was one.
dns_reply read_dns_reply(dns_question question, int status, const unsigned char* data, int size);

/// What several questions about one name came to, put together.
struct gathered_lookup {
  bool no_name = false, alias = false, failed = false;
  std::string failure;
  std::vector<std::string> v4, v6;
  std::vector<srv_record> services;
  std::int64_t ttl_s = -1, nothing_ttl_s = -1;

  void take(dns_question question, dns_reply reply);
  /// Takes the records out.
  lookup outcome();
};

} // namespace ranvier
