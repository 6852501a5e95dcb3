#include "actors/discovery_facts.hpp"

#include "messages/ids.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ranvier {
namespace {

using nlohmann::json;
constexpr int version = 1;

json written(const kept_file& k) {
  const auto& f = k.file;
  json out{{"host", k.host}, {"until_ms", k.until_ms}, {"note", f.what.note}};
  if (f.what.what == well_known_result::outcome::delegated) out["server"] = f.what.server;
  if (f.refusals > 0) out["refusals"] = f.refusals;
  if (!f.last_good.empty()) {
    out["last_good"] = f.last_good;
    out["last_good_until_ms"] = f.last_good_until;
  }
  return out;
}

kept_file read_one(const json& in, std::int64_t latest_ms) {
  kept_file k;
  k.host = in.at("host").get<std::string>();
  k.until_ms = std::min(in.at("until_ms").get<std::int64_t>(), latest_ms);
  auto& f = k.file;
  f.what.note = in.value("note", "");
  f.what.server = in.value("server", "");
  if (!f.what.server.empty()) f.what.what = well_known_result::outcome::delegated;
  f.refusals = std::clamp(in.value("refusals", 0), 0, 1'000);
  f.last_good = in.value("last_good", "");
  f.last_good_until = std::min(in.value("last_good_until_ms", std::int64_t{0}), latest_ms);
  bool good = (f.what.server.empty() || is_server_name(f.what.server)) &&
              (f.last_good.empty() || is_server_name(f.last_good)) && !k.host.empty();
  if (!good) throw std::invalid_argument("a fact that can't be one");
  return k;
}

} // namespace

std::int64_t learn_file(known_file& f, const well_known_result& found, std::int64_t now, std::int64_t first_refusal_ms,
                        std::int64_t most_refusal_ms) {
  using outcome = well_known_result::outcome;
  bool passing = found.what == outcome::unknown || found.passing;
  f.what = found;
  if (found.what == outcome::delegated) {
    f.refusals = 0;
    f.last_good = found.server;
    f.last_good_until = now + well_known_walk::ceiling_ms;
    return found.lifetime_ms;
  }
  if (!passing) f.last_good.clear();
  else if (!f.last_good.empty() && now < f.last_good_until) {
    f.what.note = "delegated to " + f.last_good + ", as it was (now: " + found.note + ")";
    f.what.what = outcome::delegated;
    f.what.server = f.last_good;
  }
  if (f.what.what == outcome::unknown) return 0;
  auto lifetime = first_refusal_ms;
  for (int i = 0; i < f.refusals && lifetime < most_refusal_ms; ++i)
    lifetime *= 2;
  ++f.refusals;
  return std::min(lifetime, most_refusal_ms);
}

std::string write_facts(const std::vector<kept_file>& files) {
  json list = json::array();
  for (const auto& k : files)
    list.push_back(written(k));
  return json{{"version", version}, {"well_known", std::move(list)}}.dump(-1, ' ', false,
                                                                          json::error_handler_t::replace);
}

std::vector<kept_file> read_facts(const std::string& text, std::int64_t latest_ms) {
  std::vector<kept_file> out;
  auto all = json::parse(text, nullptr, false);
  if (!all.is_object() || all.value("version", json()) != version || !all.contains("well_known")) return out;
  for (const auto& each : all["well_known"])
    try {
      out.push_back(read_one(each, latest_ms));
    } catch (const std::exception&) {
      continue;
    }
  return out;
}

} // namespace ranvier
