// POST /destinations/{name}/probe: well-known, DNS, TLS, keys and version of a server as they are seen from here, at
// this moment: past its gate, past what is remembered, over connections of its own. Changes nothing.
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"
#include "actors/federation_api.hpp"
#include "actors/key_document.hpp"
#include "actors/net/probe_connection.hpp"
#include "actors/net/stopwatch.hpp"
#include "messages/allowed_servers.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <atomic>
#include <ctime>

namespace ranvier {
namespace {

using namespace admin;
using namespace std::chrono_literals;
using nlohmann::json;
constexpr auto discovery_patience = 20s;
constexpr std::int64_t shake_within_ms = 5'000, answer_within_ms = 5'000, day_ms = 86'400'000;
constexpr std::size_t most_addresses = 4;
constexpr int most_probes = 4; ///< at a time: each holds a thread of the listener
constexpr const char* stage_names[] = {"well_known", "dns", "tls", "keys", "version"};

json or_null(std::int64_t value) { return value == 0 ? json() : json(value); }

/// "2026-08-19", in UTC.
std::string day_of(std::int64_t moment_ms) {
  const std::time_t seconds = moment_ms / 1000;
  std::tm parts{};
  char text[32] = "";
  if (::gmtime_r(&seconds, &parts)) std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string out;
  for (const auto& one : parts)
    out += (out.empty() ? "" : between) + one;
  return out;
}

/// What is found out, stage by stage; after the first that fails the others aren't reached.
class findings {
public:
  explicit findings(std::string name)
      : name_(std::move(name)) {}

  void add(const char* stage, json ok, const std::string& says, std::int64_t took_ms) {
    if (ok == false && failed_at_.empty()) failed_at_ = stage;
    stages_.push_back({{"stage", stage}, {"ok", std::move(ok)}, {"says", says}, {"took_ms", took_ms}});
  }
  bool failed() const { return !failed_at_.empty(); }
  json answer() {
    for (auto i = stages_.size(); i < std::size(stage_names); ++i)
      add(stage_names[i], json(), "not reached", 0);
    return {{"destination", name_}, {"ok", !failed()},        {"failed_at", failed() ? json(failed_at_) : json()},
            {"stages", stages_},    {"addresses", addresses}, {"server", server}};
  }
  json addresses = json::array();
  json server = json::object(); ///< its key ids, its software

private:
  std::string name_, failed_at_;
  json stages_ = json::array();
};

void take_route(findings& found, const route& way, std::int64_t took_ms) {
  std::vector<std::string> file, rest;
  for (const auto& step : way.steps)
    (step.starts_with("GET ") || step.starts_with(".well-known") ? file : rest).push_back(step);
  // No usable file is no failure: then the name itself is looked up (D9).
  found.add("well_known", file.empty() ? json() : json(true), file.empty() ? "not asked for" : joined(file, "; "), 0);
  if (!way.ok) rest.push_back(way.problem);
  found.add("dns", way.ok && !way.addresses.empty(), joined(rest, "; "), took_ms);
}

json facts_of(const std::string& address, const tls_facts& seen) {
  return {{"address", address},
          {"connected", seen.connected},
          {"trusted", seen.trusted},
          {"problem", seen.problem.empty() ? json() : json(seen.problem)},
          {"tls_version", seen.version},
          {"cipher", seen.cipher},
          {"certificate",
           {{"subject", seen.subject},
            {"issuer", seen.issuer},
            {"names", seen.names},
            {"not_before_ms", or_null(seen.not_before_ms)},
            {"not_after_ms", or_null(seen.not_after_ms)}}},
          {"connect_took_ms", seen.connect_took_ms},
          {"tls_took_ms", seen.tls_took_ms}};
}

std::string problem_with(const std::string& address, const tls_facts& seen, const std::string& tls_name,
                         std::int64_t now_ms) {
  if (!seen.connected) return "connecting to " + address + " failed: " + seen.problem;
  if (!seen.shaken) return "no TLS with " + address + ": " + seen.problem;
  auto out = "the certificate of " + address + " isn't accepted for " + tls_name + ": " + seen.problem;
  if (seen.not_after_ms != 0 && seen.not_after_ms < now_ms) out += " (it ended on " + day_of(seen.not_after_ms) + ")";
  return out;
}

struct usable_line {
  std::string address;
  std::unique_ptr<probe_connection> line; ///< null: there is none
};

/// Looks at the addresses in their order; the first that would be used.
usable_line take_tls(findings& found, const route& way, const config& settings, std::int64_t now_ms) {
  usable_line usable;
  std::string says, problems;
  std::int64_t took_ms = 0;
  for (std::size_t i = 0; i < std::min(way.addresses.size(), most_addresses); ++i) {
    const auto& address = way.addresses[i];
    auto line = std::make_unique<probe_connection>(address, way.tls_name, settings, shake_within_ms);
    const auto& seen = line->facts();
    found.addresses.push_back(facts_of(address, seen));
    took_ms += seen.connect_took_ms + seen.tls_took_ms;
    const bool accepted = seen.shaken && (seen.trusted || !settings.federation.verify_certificates);
    if (!accepted || !seen.trusted)
      problems += (problems.empty() ? "" : "; ") + problem_with(address, seen, way.tls_name, now_ms);
    if (!accepted || usable.line) continue;
    says = seen.version + " with " + address + ", certificate for " + joined(seen.names, ", ") + ", good for another " +
           std::to_string((seen.not_after_ms - now_ms) / day_ms) + " days";
    usable = {address, std::move(line)};
  }
  if (usable.line && !usable.line->facts().trusted)
    says += "; certificates aren't checked ([federation] verify_certificates)";
  if (!problems.empty()) says += (says.empty() ? "" : "; ") + problems;
  found.add("tls", usable.line != nullptr, says, took_ms);
  return usable;
}

void take_keys(findings& found, probe_connection& line, const route& way, const std::string& name,
               std::int64_t now_ms) {
  const auto got = line.get("/_matrix/key/v2/server", way.host_header, answer_within_ms);
  if (got.status != 200)
    return found.add("keys", false,
                     "GET /_matrix/key/v2/server: " +
                         (got.status == 0 ? got.problem : "it was answered " + std::to_string(got.status)),
                     got.took_ms);
  const auto read = read_key_document(got.body, name, now_ms);
  if (!read.problem.empty()) return found.add("keys", false, read.problem, got.took_ms);
  std::vector<std::string> current;
  for (const auto& key : read.keys)
    if (key.expired_ms == 0) current.push_back(key.key_id);
  found.server["keys"] = current;
  found.add("keys", true, joined(current, ", ") + ", signed by itself", got.took_ms);
}

void take_version(findings& found, probe_connection& line, const route& way) {
  const auto got = line.get("/_matrix/federation/v1/version", way.host_header, answer_within_ms);
  const auto said = json::parse(got.body, nullptr, false);
  if (got.status != 200 || !said.is_object() || !said.contains("server") || !said["server"].is_object()) {
    const auto why = got.status == 0     ? got.problem
                     : got.status != 200 ? "it was answered " + std::to_string(got.status)
                                         : std::string("its answer names no server");
    return found.add("version", false, "GET /_matrix/federation/v1/version: " + why, got.took_ms);
  }
  const auto word = [&](const char* key) {
    const auto at = said["server"].find(key);
    return at != said["server"].end() && at->is_string() ? at->get<std::string>().substr(0, 100) : std::string("?");
  };
  found.server["name"] = word("name");
  found.server["version"] = word("version");
  found.add("version", true, word("name") + ' ' + word("version"), got.took_ms);
}

} // namespace

admin_answer admin_desk::probe(const std::string& name) {
  if (!is_server_name(name)) return refuse(400, "M_INVALID_PARAM", "\"" + name + "\" is no server name");
  const auto& settings = *parts_.common.settings;
  if (server_is_denied(settings.federation.allow, settings.federation.deny, name))
    return refuse(403, "M_FORBIDDEN", name + " is excluded by [federation] allow or deny: it isn't contacted");
  static std::atomic<int> running{0};
  struct place {
    bool taken = ++running <= most_probes;
    ~place() { --running; }
  } mine;
  if (!mine.taken) return refuse(429, "M_LIMIT_EXCEEDED", "four probes are under way; wait until one has ended");
  const stopwatch looking_up;
  const auto way = ask<local<route>>(system_, parts_.resolver, make_local(resolve{name, true}), discovery_patience);
  if (!way) return refuse(504, "M_UNKNOWN", "the look-up of " + name + " took longer than 20 s; see ranvier resolve");
  const auto now_ms = parts_.common.wall_ms();
  findings found(name);
  take_route(found, **way, looking_up.ms());
  usable_line first;
  if (!found.failed()) first = take_tls(found, **way, settings, now_ms);
  if (!found.failed()) take_keys(found, *first.line, **way, name, now_ms);
  if (!found.failed()) {
    // Once more from the beginning: a server that closes after each answer is none that fails.
    probe_connection again(first.address, (*way)->tls_name, settings, shake_within_ms);
    if (again.facts().shaken) take_version(found, again, **way);
    else found.add("version", false, "connecting once more failed: " + again.facts().problem, 0);
  }
  return answer_with(found.answer());
}

} // namespace ranvier
