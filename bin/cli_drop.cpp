#include "bin/cli.hpp"
#include "bin/cli_verbs.hpp"
#include "bin/confirm.hpp"
#include "bin/listing.hpp"
#include "bin/selector.hpp"
#include "bin/table.hpp"
#include "bin/words.hpp"
#include "messages/ids.hpp"

#include <iostream>

namespace ranvier {

namespace {

using nlohmann::json;
using namespace std::chrono_literals;
constexpr auto dropped_within = 75s; ///< a transaction in flight ends first

std::string counts_text(const json& counts) {
  const auto parts = joined({counted(number_in(counts, "pdus"), "pdu", "pdus"),
                             counted(number_in(counts, "device_lists"), "device update", "device updates"),
                             std::to_string(number_in(counts, "to_device")) + " to-device"},
                            ", ");
  return parts;
}

std::int64_t sum_of(const json& counts) {
  return number_in(counts, "pdus") + number_in(counts, "device_lists") + number_in(counts, "to_device");
}

} // namespace

int drop_owed(const admin_client& engine, const selector_options& which, const drop_options& how) {
  if (which.pattern.empty() && which.state.empty() && which.error.empty())
    throw cli_failure(exit_usage,
                      "name a destination, a glob like \"*.example.org\", or a condition like --state closed");
  json body{{"reason", how.reason}, {"dry_run", true}};
  if (!how.older.empty()) {
    const auto ms = parse_duration(how.older);
    if (ms < 0) throw cli_failure(exit_usage, "--older must be a duration like 7d, it is " + how.older);
    body["older_than_ms"] = ms;
  }
  const auto call = [&](const std::string& name) {
    return engine.call("POST", "/destinations/" + percent_encode(name) + "/drop", body, dropped_within);
  };
  std::vector<std::pair<std::string, json>> all;
  json sum{{"pdus", 0}, {"device_lists", 0}, {"to_device", 0}};
  for (const auto& name : names_for(engine, which)) {
    all.emplace_back(name, call(name));
    for (auto& [kind, count] : sum.items())
      count = count.get<std::int64_t>() + number_in(object_in(all.back().second, "dropped"), kind.c_str());
  }
  if (all.empty()) throw cli_failure(exit_no, "no destination matches");
  if (!how.dry_run) {
    const auto older = how.older.empty() ? std::string() : " older than " + how.older;
    if (sum_of(sum) > 0)
      confirm(counts_text(sum) + older + " for " + counted(std::int64_t(all.size()), "server", "servers") +
                  " will never be sent.",
              how.yes);
    body["dry_run"] = false;
    for (auto& [name, answer] : all)
      answer = call(name);
  }
  json list = json::array();
  for (const auto& [name, answer] : all) {
    const auto& counts = object_in(answer, "dropped");
    std::cerr << printable(name) << (how.dry_run ? " would lose " : " lost ") << counts_text(counts) << '\n';
    list.push_back({{"destination", name}, {"dropped", counts}});
  }
  if (how.output == "json") std::cout << dumped({{"destinations", list}, {"dry_run", how.dry_run}}, 2) << '\n';
  return exit_ok;
}

int restart_actor(const admin_client& engine, const std::string& id, const std::string& output) {
  const auto answer = engine.post("/actors/" + percent_encode(id) + "/restart", json::object());
  if (output == "json") std::cout << dumped(answer, 2) << '\n';
  std::cerr << "the " << printable(text_in(answer, "kind")) << ' ' << printable(text_in(answer, "name"))
            << " is ended and made anew from the store\n";
  return exit_ok;
}

} // namespace ranvier
