#include "actors/resolver.hpp"

#include <random>

namespace ranvier {

resolver_tools make_resolver_tools(std::shared_ptr<dns_client> dns, std::shared_ptr<http_client> http,
                                   std::uint64_t seed) {
  resolver_tools t;
  t.addresses = [dns](std::string name, auto then) { dns->addresses(std::move(name), std::move(then)); };
  t.services = [dns](std::string name, auto then) { dns->services(std::move(name), std::move(then)); };
  t.fetch = [http](http_job j) { http->submit(std::move(j)); };
  t.chance = [random = std::make_shared<std::mt19937_64>(seed)] {
    return std::uniform_real_distribution<double>(0, 1)(*random);
  };
  return t;
}

} // namespace ranvier
