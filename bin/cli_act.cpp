#include "bin/cli.hpp"
#include "bin/cli_verbs.hpp"
#include "bin/selector.hpp"
#include "bin/table.hpp"
#include "messages/ids.hpp"

#include <iostream>

namespace ranvier {

namespace {

using nlohmann::json;

json body_of(const act_options& how) {
  json body = json::object();
  if (!how.reason.empty()) body["reason"] = how.reason;
  if (how.lasts.empty()) return body;
  auto ms = parse_duration(how.lasts);
  if (ms <= 0) throw cli_failure(exit_usage, "--for must be a duration like 2h, it is " + how.lasts);
  body["for_ms"] = ms;
  return body;
}

std::string said(const act_options& how) {
  if (how.verb == "wake") return "is tried now";
  if (how.verb == "hold") return how.lasts.empty() ? "is held until it is released" : "is held for " + how.lasts;
  if (how.verb == "release") return "is not held any more";
  return "has its failures forgotten";
}

} // namespace

std::vector<std::string> names_for(const admin_client& engine, const selector_options& which) {
  selector plain;
  plain.pattern = which.pattern;
  // A single name goes straight to the engine, which knows whether it knows it.
  if (plain.one_name() && which.pattern != "-" && which.state.empty() && which.error.empty() && which.older.empty())
    return {which.pattern};
  std::vector<std::string> out;
  for (const auto& each : select_destinations(engine, which))
    out.push_back(text_in(each, "destination"));
  return out;
}

int act_on(const admin_client& engine, const selector_options& which, const act_options& how) {
  if (which.pattern.empty() && which.state.empty() && which.error.empty() && which.older.empty())
    throw cli_failure(exit_usage, "name a destination, a glob like \"*\", or a condition like --state closed");
  auto body = body_of(how);
  auto names = names_for(engine, which);
  if (names.empty()) throw cli_failure(exit_no, "no destination matches");
  json done = json::array();
  int code = exit_ok;
  for (const auto& name : names) {
    try {
      engine.post("/destinations/" + percent_encode(name) + '/' + how.verb, body);
      std::cerr << name << ' ' << said(how) << '\n';
      done.push_back({{"destination", name}, {"ok", true}});
    } catch (const cli_failure& problem) {
      // One that was forgotten meanwhile must not keep the others from it; an engine that is gone ends it all.
      if (problem.code == exit_unreachable) throw;
      std::cerr << name << ": " << problem.what() << '\n';
      done.push_back({{"destination", name}, {"ok", false}, {"error", problem.what()}});
      code = problem.code;
    }
  }
  if (how.output == "json") std::cout << json{{"destinations", done}}.dump(2) << '\n';
  return code;
}

int resync_user(const admin_client& engine, const std::string& user, const std::string& output) {
  auto answer = engine.post("/stale_users/" + percent_encode(user) + "/resync", json::object());
  auto problem = text_in(answer, "problem");
  if (output == "json") std::cout << answer.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
  std::cerr << printable(user) << (problem.empty() ? " has its device list fetched" : ": " + printable(problem))
            << '\n';
  return problem.empty() ? exit_ok : exit_no;
}

} // namespace ranvier
