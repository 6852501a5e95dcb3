#include "bin/render.hpp"
#include "golden.hpp"

using namespace ranvier;

TEST_CASE("render_probe: golden files") {
  for (const std::string name : {"probe-well", "probe-expired", "probe-unknown"})
    golden::check(name,
                  [answer = golden::answer(name)](const screen& on) { return probe_text(answer, golden::now, on); });
  golden::check("resolve", [answer = golden::answer("resolve")](const screen& on) { return route_text(answer, on); });
}

TEST_CASE("render_probe: an answer of another version is no reason to fail") {
  for (const auto& odd :
       {nlohmann::json::object(), nlohmann::json{{"stages", {1, "x", nullptr}}, {"addresses", {7}}, {"steps", {0}}},
        nlohmann::json{{"stages", "none"}, {"addresses", {{{"connected", true}}}}, {"destination", 3}}}) {
    CHECK(!probe_text(odd, golden::now).empty());
    CHECK(!route_text(odd).empty());
  }
}

TEST_CASE("render_probe: control characters of others don't reach the terminal") {
  const nlohmann::json answer{{"stages", {{{"stage", "version"}, {"ok", true}, {"says", "a\x1b[2Jb"}}}}};
  CHECK(probe_text(answer, golden::now).find('\x1b') == std::string::npos);
}
