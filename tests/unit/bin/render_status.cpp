#include "bin/render.hpp"
#include "golden.hpp"

using namespace ranvier;

TEST_CASE("render_status: golden files") {
  const auto all = golden::answer("status");
  const std::vector<nlohmann::json> closed(all["closed"].begin(), all["closed"].end());
  golden::check("status", [&](const screen& on) { return status_text(all["stats"], closed, golden::now, on); });
  golden::check("stat", [&](const screen& on) { return stat_text(all["stats"], true, on); });
}
