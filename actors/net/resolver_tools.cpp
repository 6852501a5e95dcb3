#include "actors/net/fact_file.hpp"
#include "actors/resolver.hpp"

#include <chrono>
#include <random>

namespace ranvier {

resolver_tools make_resolver_tools(std::shared_ptr<dns_client> dns, std::shared_ptr<http_client> http,
                                   std::uint64_t seed, const std::string& kept_in) {
  resolver_tools t;
  t.addresses = [dns](std::string name, auto then) { dns->addresses(std::move(name), std::move(then)); };
  t.services = [dns](std::string name, auto then) { dns->services(std::move(name), std::move(then)); };
  t.fetch = [http](http_job j) { http->submit(std::move(j)); };
  t.chance = [random = std::make_shared<std::mt19937_64>(seed)] {
    return std::uniform_real_distribution<double>(0, 1)(*random);
  };
  if (kept_in.empty()) return t;
  auto file = std::make_shared<fact_file>(kept_in);
  t.load = [file] { return file->load(); };
  t.save = [file](std::string text) { file->save(std::move(text)); };
  t.wall_ms = [] {
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  };
  return t;
}

} // namespace ranvier
