#include "bin/cli.hpp"
#include "bin/cli_verbs.hpp"
#include "bin/listing.hpp"
#include "bin/render.hpp"
#include "messages/ids.hpp"

namespace ranvier {

namespace {

using nlohmann::json;
using namespace std::chrono_literals;
constexpr auto look_up_within = 45s, probe_within = 75s;

int no_unless(const json& answer) { return answer.value("ok", false) ? exit_ok : exit_no; }

} // namespace

int show_route(const admin_client& engine, const std::string& name, bool no_cache, const std::string& output) {
  const auto path = "/destinations/" + percent_encode(name) + "/resolve" + (no_cache ? "?no_cache=true" : "");
  const auto answer = engine.call("GET", path, {}, look_up_within);
  print_answer(answer, output, [&](const screen& on) { return route_text(answer, on); });
  return no_unless(answer);
}

int probe_server(const admin_client& engine, const std::string& name, const std::string& output) {
  const auto path = "/destinations/" + percent_encode(name) + "/probe";
  const auto answer = engine.call("POST", path, json::object(), probe_within);
  print_answer(answer, output, [&](const screen& on) { return probe_text(answer, wall_now_ms(), on); });
  return no_unless(answer);
}

} // namespace ranvier
