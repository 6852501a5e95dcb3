#include "actors/net/dns_servers.hpp"

#include <doctest/doctest.h>

using namespace ranvier;
using places = std::vector<std::size_t>;

TEST_CASE("dns_servers: the lines of resolv.conf that count") {
  CHECK(nameservers_of("").empty());
  CHECK(nameservers_of("# nameserver 1.1.1.1\n; nameserver 1.1.1.2\nsearch example\nnameserver\n").empty());
  CHECK(nameservers_of("nameserver 192.0.2.1 # first\n\tnameserver\tfe80::1%eth0\nnameservers 192.0.2.3\n") ==
        std::vector<std::string>{"192.0.2.1", "fe80::1%eth0"});
}

TEST_CASE("dns_servers: one that fails twice in a row stands behind the others for five minutes (B115)") {
  dns_servers s({"a", "b", "c"});
  CHECK(s.order(0) == places{0, 1, 2});
  CHECK_FALSE(s.failed(0, 1'000));
  CHECK(s.order(1'000) == places{0, 1, 2});
  s.answered(0);
  CHECK_FALSE(s.failed(0, 2'000)); // not in a row
  CHECK(s.failed(0, 3'000));
  CHECK(s.order(3'000) == places{1, 2, 0});
  CHECK_FALSE(s.failed(0, 4'000)); // it was set aside before
  CHECK(s.order(4'000 + dns_servers::set_aside_ms - 1) == places{1, 2, 0});
  CHECK(s.order(4'000 + dns_servers::set_aside_ms) == places{0, 1, 2});
  CHECK(s.failed(0, 4'000 + dns_servers::set_aside_ms)); // one more is enough then
  s.answered(0);
  CHECK(s.order(4'000 + dns_servers::set_aside_ms) == places{0, 1, 2});
}

TEST_CASE("dns_servers: when all are set aside they are asked as they are listed") {
  dns_servers s({"a", "b"});
  for (std::size_t i : {1, 0, 1, 0})
    s.failed(i, 0);
  CHECK(s.order(1) == places{0, 1});
}

TEST_CASE("dns_servers: what can't be used is never asked, and named") {
  dns_servers s({"fe80::1%eth0", "192.0.2.53:53"});
  s.unusable(0);
  CHECK(s.order(0) == places{1});
  CHECK(s.words() == "fe80::1%eth0 (can't be used), 192.0.2.53:53");
  CHECK(dns_servers({}).words() == "no server: none is configured");
}
