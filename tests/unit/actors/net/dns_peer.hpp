#pragma once
#include "actors/discovery.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ranvier::test {

/// A scripted DNS server over UDP on 127.0.0.1, on a thread of its own. What it doesn't know doesn't exist.
class dns_peer {
public:
  dns_peer();
  ~dns_peer();
  std::string at() const { return "127.0.0.1:" + std::to_string(port_); }

  void address(const std::string& name, const std::string& ip); ///< A or AAAA
  void alias(const std::string& name, const std::string& target);
  void service(const std::string& name, srv_record r);
  enum class mood { answer, server_failure, refusal, silence };
  void set(mood m) { mood_ = m; }
  /// What it says that it hasn't got comes with a SOA: its time to live, and its minimum.
  void nothing_lives(int soa_ttl_s, int minimum_s);
  int questions(const std::string& name) const;

private:
  struct records {
    std::vector<std::string> v4, v6;
    std::vector<srv_record> services;
    std::string alias;
  };
  void serve();
  std::string answer(const std::string& query);

  int fd_ = -1, port_ = 0, wake_[2] = {-1, -1};
  std::atomic<mood> mood_{mood::answer};
  mutable std::mutex mutex_;
  std::map<std::string, records> names_;
  std::map<std::string, int> asked_;
  int soa_ttl_s_ = -1, soa_minimum_s_ = 0;
  std::thread thread_;
};

} // namespace ranvier::test
