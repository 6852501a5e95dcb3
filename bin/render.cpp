#include "bin/render.hpp"

#include "bin/words.hpp"

namespace ranvier {

using nlohmann::json;

std::string error_text(const json& error, bool with_stage) {
  auto cls = text_in(error, "class");
  if (cls.empty() || cls == "none") return {};
  auto stage = text_in(error, "stage"), message = text_in(error, "message");
  if (with_stage && !stage.empty()) cls += " at " + stage;
  auto status = std::to_string(number_in(error, "status"));
  // The engine's sentences begin with the status where there is one.
  if (status != "0" && message.find(status) == std::string::npos) cls += " (" + status + ')';
  return message.empty() ? cls : cls + ": " + message;
}

namespace {

const json& gate_of(const json& d) { return object_in(d, "gate"); }
const json& pending_of(const json& d) { return object_in(d, "pending"); }

std::string next_try_shown(const json& d, std::int64_t now) {
  return due_text(number_in(gate_of(d), "next_attempt_ms"), now);
}

std::string pending_text(const json& d) {
  const auto& pending = pending_of(d);
  std::vector<std::string> parts;
  if (auto n = number_in(pending, "pdus")) parts.push_back(counted(n, "pdu", "pdus"));
  if (auto n = number_in(pending, "device_lists")) parts.push_back(counted(n, "device update", "device updates"));
  if (auto n = number_in(pending, "to_device")) parts.push_back(std::to_string(n) + " to-device");
  if (auto n = number_in(pending, "ephemeral")) parts.push_back(std::to_string(n) + " ephemeral");
  if (parts.empty()) return "nothing";
  auto oldest = number_in(pending, "oldest_age_ms");
  return joined(parts, ", ") + (oldest > 0 ? ", oldest " + span_text(oldest) : std::string());
}

std::string headline(const json& d, std::int64_t now, const screen& on) {
  const auto& gate = gate_of(d);
  std::string out = text_in(d, "destination") + " is " +
                    painted(upper(text_in(gate, "state")), tone_of_state(text_in(gate, "state")), on);
  if (auto since = number_in(gate, "failing_since_ms")) {
    out += ", failing since " + span_text(now - since);
    if (auto tries = number_in(gate, "consecutive_failures"))
      out += " (" + counted(tries, "failure", "failures in a row") + ')';
  }
  return out + '\n';
}

std::string gate_lines(const json& d, std::int64_t now, const screen& on) {
  const auto& gate = gate_of(d);
  std::string out;
  const auto& error = object_in(gate, "last_error");
  if (auto text = error_text(error, true); !text.empty()) {
    auto item = text_in(error, "item");
    out += labelled("because", text + (item.empty() ? std::string() : "; at fault: " + item), on);
  }
  const auto& hold = object_in(d, "hold");
  if (!hold.empty()) {
    auto until = due_text(number_in(hold, "until_ms"), now);
    out += labelled("held", text_in(hold, "reason") + (until.empty() ? "; until released" : "; ends " + until), on);
  }
  if (auto next = next_try_shown(d, now); !next.empty())
    out += labelled("next try", next + " (interval " + span_text(number_in(gate, "interval_ms")) + ')', on);
  std::vector<std::string> lanes;
  for (const auto& [name, state] : object_in(gate, "lanes").items())
    if (state.is_string()) lanes.push_back(name + ' ' + printable(state.get<std::string>()));
  if (!lanes.empty()) out += labelled("lanes", joined(lanes, ", "), on);
  auto last = ago_text(number_in(d, "last_success_ms"), now);
  out += labelled("last ok", last.empty() ? "never" : last, on);
  if (auto heard = ago_text(number_in(d, "last_inbound_ms"), now); !heard.empty())
    out += labelled("heard from", heard, on);
  return out;
}

} // namespace

std::string in_flight_text(const json& d, std::int64_t now) {
  const auto& flight = object_in(d, "in_flight");
  if (text_in(flight, "transaction_id").empty()) return {};
  return bytes_text(number_in(flight, "bytes")) + " for " + span_text(now - number_in(flight, "since_ms"));
}

std::string attempts_text(const json& d, std::int64_t now) {
  auto attempts = d.find("attempts");
  if (attempts == d.end() || !attempts->is_array() || attempts->empty()) return {};
  std::string out = "  attempts\n";
  for (const auto& each : *attempts) {
    std::vector<std::string> parts{ago_text(number_in(each, "at_ms"), now), text_in(each, "request"),
                                   text_in(each, "outcome")};
    if (auto status = number_in(each, "status")) parts.push_back(std::to_string(status));
    parts.push_back(span_text(number_in(each, "took_ms")));
    const auto& items = object_in(each, "items");
    if (!items.empty())
      parts.push_back(counted(number_in(items, "pdus"), "pdu", "pdus") + ", " +
                      counted(number_in(items, "edus"), "edu", "edus"));
    out += "    " + joined(parts, "  ") + '\n';
  }
  return out;
}

std::string destination_text(const json& d, std::int64_t now_ms, const screen& on) {
  const auto& cursor = object_in(d, "cursor");
  std::string out = headline(d, now_ms, on) + gate_lines(d, now_ms, on);
  out += labelled("cursor",
                  std::to_string(number_in(cursor, "pdu")) + " of " + std::to_string(number_in(d, "head")) +
                      " (device lists " + std::to_string(number_in(cursor, "device_lists")) + ", to-device " +
                      std::to_string(number_in(cursor, "to_device")) + ')',
                  on);
  auto catching_up = d.find("catching_up");
  bool behind = catching_up != d.end() && catching_up->is_boolean() && catching_up->get<bool>();
  out += labelled("waiting", pending_text(d) + (behind ? "; catching up" : ""), on);
  auto flight = in_flight_text(d, now_ms);
  out +=
      labelled("in flight",
               flight.empty() ? "nothing"
                              : "transaction " + text_in(object_in(d, "in_flight"), "transaction_id") + ", " + flight,
               on);
  std::vector<std::string> counts{counted(number_in(d, "rooms"), "room", "rooms")};
  if (auto n = number_in(d, "stale_users")) counts.push_back(counted(n, "stale user", "stale users"));
  if (auto n = number_in(d, "resyncing_users")) counts.push_back(std::to_string(n) + " resyncing");
  if (auto n = number_in(d, "quarantined")) counts.push_back(counted(n, "item", "items") + " in quarantine");
  return out + labelled("shares", joined(counts, ", "), on) + attempts_text(d, now_ms);
}

} // namespace ranvier
