#include "actors/whole_totals.hpp"

#include "actors/admin_ask.hpp"
#include "actors/net/stopwatch.hpp"

#include <algorithm>

namespace ranvier {
namespace {

constexpr std::chrono::milliseconds least_patience{100};

} // namespace

std::optional<nlohmann::json> whole_totals(caf::actor_system& system, const supervisor_actor& supervisor,
                                           const introspector_actor& introspector, std::int64_t wall_ms,
                                           std::chrono::milliseconds within) {
  const stopwatch time;
  const auto got = admin::ask<description>(system, supervisor, make_local(totals{}), within);
  auto all = got ? nlohmann::json::parse(got->json, nullptr, false) : nlohmann::json();
  if (!all.is_object() || !all.contains("waiting")) return {};
  read_waiting rest;
  for (const auto& name : all.value("counted", nlohmann::json::array()))
    rest.without.insert(name.get<std::string>());
  all.erase("counted");
  if (!introspector) return all;
  const auto left = std::max(least_patience, within - std::chrono::milliseconds(time.ms()));
  const auto sums = admin::ask<local<waiting_sums>>(system, introspector, make_local(std::move(rest)), left);
  if (!sums) {
    all["waiting_whole"] = false;
    return all;
  }
  const waiting_sums& more = **sums;
  auto& waiting = all["waiting"];
  const auto add = [&waiting](const char* key, std::int64_t count) {
    waiting[key] = waiting.value(key, std::int64_t(0)) + count;
  };
  add("pdus", more.pdus);
  add("device_lists", more.device_lists);
  add("to_device", more.to_device);
  if (more.oldest_at_ms > 0)
    waiting["oldest_age_ms"] = std::max(waiting.value("oldest_age_ms", std::int64_t(0)),
                                        std::max<std::int64_t>(0, wall_ms - more.oldest_at_ms));
  if (more.as_of_ms > 0) waiting["as_of_ms"] = more.as_of_ms;
  if (!more.whole) all["waiting_whole"] = false;
  return all;
}

} // namespace ranvier
