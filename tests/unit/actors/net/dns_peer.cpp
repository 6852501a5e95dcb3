#include "tests/unit/actors/net/dns_peer.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace ranvier::test {
namespace {

constexpr int type_a = 1, type_cname = 5, type_soa = 6, type_aaaa = 28, type_srv = 33;

void put16(std::string& out, int v) {
  out += static_cast<char>(v >> 8);
  out += static_cast<char>(v & 0xff);
}

std::string wire_name(const std::string& name) {
  std::string out;
  for (std::size_t at = 0; at < name.size() && name != ".";) {
    auto dot = std::min(name.find('.', at), name.size());
    out += static_cast<char>(dot - at);
    out += name.substr(at, dot - at);
    at = dot + 1;
  }
  return out + '\0';
}

void record(std::string& out, const std::string& owner, int type, const std::string& data, int ttl_s = 120) {
  out += wire_name(owner);
  put16(out, type);
  put16(out, 1);
  put16(out, 0);
  put16(out, ttl_s);
  put16(out, static_cast<int>(data.size()));
  out += data;
}

std::string packed(const std::string& ip) {
  char bytes[16];
  bool v6 = ip.find(':') != std::string::npos;
  if (inet_pton(v6 ? AF_INET6 : AF_INET, ip.c_str(), bytes) != 1) throw std::runtime_error(ip);
  return {bytes, v6 ? 16u : 4u};
}

} // namespace

dns_peer::dns_peer() {
  fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  if (bind(fd_, reinterpret_cast<sockaddr*>(&a), size) != 0 || pipe(wake_) != 0) throw std::runtime_error("no port");
  getsockname(fd_, reinterpret_cast<sockaddr*>(&a), &size);
  port_ = ntohs(a.sin_port);
  thread_ = std::thread([this] { serve(); });
}

dns_peer::~dns_peer() {
  if (write(wake_[1], "x", 1) != 1) std::abort();
  thread_.join();
  for (int fd : {fd_, wake_[0], wake_[1]})
    close(fd);
}

void dns_peer::address(const std::string& name, const std::string& ip) {
  std::lock_guard lock(mutex_);
  (ip.find(':') == std::string::npos ? names_[name].v4 : names_[name].v6).push_back(ip);
}

void dns_peer::alias(const std::string& name, const std::string& target) {
  std::lock_guard lock(mutex_);
  names_[name].alias = target;
}

void dns_peer::service(const std::string& name, srv_record r) {
  std::lock_guard lock(mutex_);
  names_[name].services.push_back(std::move(r));
}

void dns_peer::nothing_lives(int soa_ttl_s, int minimum_s) {
  std::lock_guard lock(mutex_);
  soa_ttl_s_ = soa_ttl_s;
  soa_minimum_s_ = minimum_s;
}

int dns_peer::questions(const std::string& name) const {
  std::lock_guard lock(mutex_);
  auto it = asked_.find(name);
  return it == asked_.end() ? 0 : it->second;
}

void dns_peer::serve() {
  for (;;) {
    pollfd p[2] = {{fd_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
    poll(p, 2, -1);
    if (p[1].revents) return;
    char buffer[1500];
    sockaddr_in from{};
    socklen_t size = sizeof from;
    auto n = recvfrom(fd_, buffer, sizeof buffer, 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (n < 17) continue;
    auto text = answer({buffer, static_cast<std::size_t>(n)});
    if (mood_ == mood::silence) continue;
    if (sendto(fd_, text.data(), text.size(), 0, reinterpret_cast<sockaddr*>(&from), size) < 0) return;
  }
}

std::string dns_peer::answer(const std::string& query) {
  std::string name;
  std::size_t at = 12;
  while (query[at]) {
    auto n = static_cast<std::size_t>(query[at]);
    name += (name.empty() ? "" : ".") + query.substr(at + 1, n);
    at += n + 1;
  }
  int type = static_cast<unsigned char>(query[at + 1]) * 256 + static_cast<unsigned char>(query[at + 2]);
  auto question = query.substr(12, at + 5 - 12);
  std::lock_guard lock(mutex_);
  ++asked_[name];
  std::string body;
  int count = 0;
  auto add = [&](const std::string& owner, int t, const std::string& data) {
    record(body, owner, t, data);
    ++count;
  };
  bool known = names_.count(name) > 0;
  auto owner = name;
  if (known && !names_[name].alias.empty()) {
    owner = names_[name].alias;
    add(name, type_cname, wire_name(owner));
    known = names_.count(owner) > 0;
  }
  if (known) {
    const auto& r = names_[owner];
    if (type == type_a)
      for (const auto& ip : r.v4)
        add(owner, type_a, packed(ip));
    if (type == type_aaaa)
      for (const auto& ip : r.v6)
        add(owner, type_aaaa, packed(ip));
    if (type == type_srv)
      for (const auto& s : r.services) {
        std::string data;
        for (int v : {static_cast<int>(s.priority), static_cast<int>(s.weight), static_cast<int>(s.port)})
          put16(data, v);
        add(owner, type_srv, data + wire_name(s.target));
      }
  }
  auto now = mood_.load();
  bool failure = now != mood::answer;
  bool soa = !failure && soa_ttl_s_ >= 0 && count == (owner != name); // nothing but the alias, if any
  if (soa) {
    std::string data = wire_name("ns.example") + wire_name("admin.example");
    for (int v : {1, 3600, 600, 86400, soa_minimum_s_})
      put16(data, 0), put16(data, v);
    record(body, "example", type_soa, data, soa_ttl_s_);
  }
  std::string out = query.substr(0, 2);
  put16(out, 0x8180 | (now == mood::refusal ? 5 : failure ? 2 : known ? 0 : 3));
  put16(out, 1);
  put16(out, failure ? 0 : count);
  put16(out, soa);
  put16(out, 0);
  return out + question + (failure ? "" : body);
}

} // namespace ranvier::test
