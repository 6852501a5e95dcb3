#include "actors/why.hpp"

#include "messages/config_text.hpp"

namespace ranvier {
namespace {

using nlohmann::json;

const json& member(const json& of, const char* name) {
  static const json none = json::object();
  const auto found = of.find(name);
  return found != of.end() && found->is_object() ? *found : none;
}
std::string text(const json& of, const char* name) {
  const auto found = of.find(name);
  return found != of.end() && found->is_string() ? found->get<std::string>() : std::string();
}
std::int64_t number(const json& of, const char* name) {
  const auto found = of.find(name);
  return found != of.end() && found->is_number() ? found->get<std::int64_t>() : 0;
}
std::string state_of(const json& d) { return text(member(d, "gate"), "state"); }

std::int64_t waiting_of(const json& d) {
  const auto& pending = member(d, "pending");
  return number(pending, "pdus") + number(pending, "device_lists") + number(pending, "to_device");
}

/// "5 s" of "5s" in quotes, as it stands in the configuration.
std::string span(std::int64_t ms) {
  auto quoted = duration_text(ms);
  return quoted.substr(1, quoted.size() - 2);
}

/// The address that failed last, as far as an attempt came so far.
std::string failed_at(const json& d) {
  const auto attempts = d.find("attempts");
  if (attempts == d.end() || !attempts->is_array()) return {};
  for (auto one = attempts->rbegin(); one != attempts->rend(); ++one)
    if (text(*one, "outcome") != "ok") return text(*one, "address");
  return {};
}

std::string error_of(const json& d) {
  const auto& error = member(member(d, "gate"), "last_error");
  const auto cls = text(error, "class");
  if (cls.empty() || cls == "none") return {};
  auto out = cls + " at " + text(error, "stage");
  if (const auto message = text(error, "message"); !message.empty()) out += ": " + message;
  if (const auto address = failed_at(d); !address.empty() && out.find(address) == std::string::npos)
    out += " (" + address + ')';
  return out;
}

} // namespace

std::string because_of(const json& d, std::int64_t) {
  const auto state = state_of(d);
  const auto& gate = member(d, "gate");
  if (state == "held") {
    const auto reason = text(member(d, "hold"), "reason");
    return "an operator holds it" + (reason.empty() ? std::string() : ": " + reason);
  }
  if (state == "denied") return "the lists allow and deny of [federation] shut it out";
  if (state == "closed" || state == "probing") return error_of(d);
  if (!member(d, "in_flight").empty()) return "a transaction is under way";
  if (waiting_of(d) == 0) {
    if (text(member(gate, "lanes"), "pull") == "closed") return "requests other than /send fail; /send works";
    return {};
  }
  const auto catching_up = d.find("catching_up");
  if (catching_up != d.end() && *catching_up == true) return "it is catching up with what it missed";
  if (d.value("resident", false)) return "it waits for its turn, or for changes that are gathered for a moment";
  return "its actor is being started";
}

json in_short(const json& d, std::int64_t now_ms) {
  const auto& gate = member(d, "gate");
  const auto& error = member(gate, "last_error");
  const auto why = because_of(d, now_ms);
  return {{"destination", text(d, "destination")},
          {"state", state_of(d)},
          {"why", why.empty() ? json() : json(why)},
          {"stage", error.empty() ? json() : json(text(error, "stage"))},
          {"since_ms", gate.contains("failing_since_ms") ? gate["failing_since_ms"] : json()},
          {"next_attempt_ms", gate.contains("next_attempt_ms") ? gate["next_attempt_ms"] : json()}};
}

json next_try_of(const json& d, std::int64_t first_ms, double factor, std::int64_t max_ms,
                 const std::map<std::string, std::string>& origins) {
  const auto& gate = member(d, "gate");
  const auto state = state_of(d);
  const auto at_ms = number(gate, "next_attempt_ms");
  if ((state != "closed" && state != "probing") || at_ms == 0) return nullptr;
  std::string where;
  for (const auto* key : {"[backoff]", "backoff.first", "backoff.factor", "backoff.max", "backoff.jitter"})
    if (const auto found = origins.find(key); where.empty() && found != origins.end() && found->second != "default")
      where = found->second;
  char rule[160];
  std::snprintf(rule, sizeof rule, "%s x %g^n, at most %s", span(first_ms).c_str(), factor, span(max_ms).c_str());
  return {{"at_ms", at_ms},
          {"interval_ms", number(gate, "interval_ms")},
          {"rule", rule},
          {"configured", where.empty() ? json() : json(where)}};
}

std::vector<std::string> advice_for(const json& d) {
  const auto name = text(d, "destination"), state = state_of(d);
  if (state == "held") return {"ranvier release " + name, "ranvier queue " + name};
  if (state == "denied") return {"ranvier config show", "ranvier queue " + name};
  if (state == "closed" || state == "probing")
    return {"ranvier probe " + name, "ranvier wake " + name, "ranvier hold " + name + " --reason ..."};
  if (waiting_of(d) > 0) return {"ranvier queue " + name, "ranvier trace " + name};
  return {"ranvier attempts " + name, "ranvier rooms " + name};
}

} // namespace ranvier
