#include "bin/render.hpp"

#include <algorithm>
#include <map>

namespace ranvier {

namespace {

using nlohmann::json;

const json& gate_of(const json& d) { return object_in(d, "gate"); }
const json& pending_of(const json& d) { return object_in(d, "pending"); }

std::int64_t waiting_of(const json& d) {
  const auto& pending = pending_of(d);
  return number_in(pending, "pdus") + number_in(pending, "device_lists") + number_in(pending, "to_device") +
         number_in(pending, "ephemeral");
}

/// A name to the left, what there is to say of it to the right.
std::string line(const std::string& name, const std::string& text) {
  std::string padded = name;
  padded.resize(std::max<std::size_t>(name.size() + 2, 13), ' ');
  return "  " + padded + text + '\n';
}

std::string counted(std::int64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + ' ' + (count == 1 ? one : many);
}

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string out;
  for (const auto& part : parts)
    if (!part.empty()) out += (out.empty() ? "" : between) + part;
  return out;
}

std::string upper(std::string text) {
  for (char& c : text)
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

template <const char* Key> json text_value(const json& row) { return text_in(row, Key); }
template <const char* Key> std::string text_shown(const json& row, std::int64_t) { return text_in(row, Key); }
template <const char* Key> json number_value(const json& row) { return number_in(row, Key); }
template <const char* Key> std::string number_shown(const json& row, std::int64_t) {
  return std::to_string(number_in(row, Key));
}

std::string next_try_shown(const json& d, std::int64_t now) {
  return due_text(number_in(gate_of(d), "next_attempt_ms"), now);
}

std::string in_flight_text(const json& d, std::int64_t now) {
  const auto& flight = object_in(d, "in_flight");
  if (text_in(flight, "transaction_id").empty()) return {};
  return bytes_text(number_in(flight, "bytes")) + " for " + span_text(now - number_in(flight, "since_ms"));
}

constexpr char destination_key[] = "destination", rooms_key[] = "rooms", stale_key[] = "stale_users",
               quarantined_key[] = "quarantined", last_success_key[] = "last_success_ms", id_key[] = "id",
               kind_key[] = "kind", name_key[] = "name", state_key[] = "state", mailbox_key[] = "mailbox",
               handled_key[] = "handled", restarts_key[] = "restarts", started_key[] = "started_ms",
               user_key[] = "user_id", since_key[] = "since_ms", failures_key[] = "failures",
               next_attempt_key[] = "next_attempt_ms", cause_key[] = "cause", problem_key[] = "problem",
               busy_key[] = "busy_with", parent_key[] = "parent", head_key[] = "head";

} // namespace

const std::vector<column>& destination_columns() {
  static const std::vector<column> all{
      {"DESTINATION", text_shown<destination_key>, text_value<destination_key>},
      {"STATE", [](const json& d, std::int64_t) { return text_in(gate_of(d), "state"); },
       [](const json& d) { return json(text_in(gate_of(d), "state")); }},
      {"SINCE",
       [](const json& d, std::int64_t now) {
         auto since = number_in(gate_of(d), "failing_since_ms");
         return since > 0 ? span_text(now - since) : std::string();
       },
       [](const json& d) { return json(-number_in(gate_of(d), "failing_since_ms")); }},
      {"WAITING", [](const json& d, std::int64_t) { return std::to_string(waiting_of(d)); },
       [](const json& d) { return json(waiting_of(d)); }},
      {"OLDEST",
       [](const json& d, std::int64_t) {
         auto age = number_in(pending_of(d), "oldest_age_ms");
         return age > 0 ? span_text(age) : std::string();
       },
       [](const json& d) { return json(number_in(pending_of(d), "oldest_age_ms")); }},
      {"TRIES",
       [](const json& d, std::int64_t) { return std::to_string(number_in(gate_of(d), "consecutive_failures")); },
       [](const json& d) { return json(number_in(gate_of(d), "consecutive_failures")); }},
      {"NEXT TRY", next_try_shown, [](const json& d) { return json(number_in(gate_of(d), "next_attempt_ms")); }},
      {"ROOMS", number_shown<rooms_key>, number_value<rooms_key>, true},
      {"CURSOR", [](const json& d, std::int64_t) { return std::to_string(number_in(object_in(d, "cursor"), "pdu")); },
       [](const json& d) { return json(number_in(object_in(d, "cursor"), "pdu")); }, true},
      {"HEAD", number_shown<head_key>, number_value<head_key>, true},
      {"IN FLIGHT", in_flight_text, [](const json& d) { return json(number_in(object_in(d, "in_flight"), "bytes")); },
       true},
      {"STALE", number_shown<stale_key>, number_value<stale_key>, true},
      {"QUARANTINED", number_shown<quarantined_key>, number_value<quarantined_key>, true},
      {"LAST OK", [](const json& d, std::int64_t now) { return ago_text(number_in(d, "last_success_ms"), now); },
       number_value<last_success_key>, true},
      {"LAST ERROR", [](const json& d, std::int64_t) { return error_text(object_in(gate_of(d), "last_error"), false); },
       [](const json& d) { return json(error_text(object_in(gate_of(d), "last_error"), false)); }},
  };
  return all;
}

const std::vector<column>& stale_user_columns() {
  static const std::vector<column> all{
      {"USER", text_shown<user_key>, text_value<user_key>},
      {"DESTINATION", text_shown<destination_key>, text_value<destination_key>},
      {"SINCE",
       [](const json& u, std::int64_t now) {
         auto since = number_in(u, since_key);
         return since > 0 ? span_text(now - since) : std::string();
       },
       [](const json& u) { return json(-number_in(u, since_key)); }},
      {"REFUSED", number_shown<failures_key>, number_value<failures_key>},
      {"NEXT TRY", [](const json& u, std::int64_t now) { return due_text(number_in(u, next_attempt_key), now); },
       number_value<next_attempt_key>},
      {"CAUSE", text_shown<cause_key>, text_value<cause_key>},
      {"PROBLEM", text_shown<problem_key>, text_value<problem_key>},
  };
  return all;
}

const std::vector<column>& actor_columns() {
  static const std::vector<column> all{
      {"ID", number_shown<id_key>, number_value<id_key>},
      {"KIND", text_shown<kind_key>, text_value<kind_key>},
      {"NAME", text_shown<name_key>, text_value<name_key>},
      {"PARENT", text_shown<parent_key>, text_value<parent_key>, true},
      {"STATE", text_shown<state_key>, text_value<state_key>},
      {"MAILBOX", number_shown<mailbox_key>, number_value<mailbox_key>},
      {"HANDLED", number_shown<handled_key>, number_value<handled_key>},
      {"RESTARTS", number_shown<restarts_key>, number_value<restarts_key>},
      {"UP",
       [](const json& a, std::int64_t now) {
         auto started = number_in(a, "started_ms");
         return started > 0 ? span_text(now - started) : std::string();
       },
       [](const json& a) { return json(-number_in(a, started_key)); }},
      {"BUSY WITH", text_shown<busy_key>, text_value<busy_key>},
  };
  return all;
}

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

/// The engine itself: name, how long it is up, how large it is.
std::string engine_line(const json& stats, std::int64_t now) {
  std::string first = "ranvier";
  if (auto version = text_in(stats, "version"); !version.empty()) first += ' ' + version;
  if (auto name = text_in(stats, "server_name"); !name.empty()) first += " for " + name;
  std::vector<std::string> parts{first};
  if (auto ready = stats.find("ready"); ready != stats.end() && ready->is_boolean()) {
    auto why = text_in(stats, "not_ready_because");
    parts.push_back(ready->get<bool>() ? "ready" : "NOT READY" + (why.empty() ? std::string() : ": " + why));
  }
  if (auto started = number_in(stats, "started_ms")) parts.push_back("up " + span_text(now - started));
  if (auto bytes = number_in(stats, "database_bytes")) parts.push_back("database " + bytes_text(bytes));
  if (auto restarts = number_in(stats, "actor_restarts")) {
    auto last = joined({text_in(stats, "last_restart"), ago_text(number_in(stats, "last_restart_ms"), now)}, ", ");
    parts.push_back(counted(restarts, "actor restart", "actor restarts") +
                    (last.empty() ? std::string() : " (last: " + last + ')'));
  }
  return joined(parts, " · ") + '\n';
}

std::string gates_line(const json& stats) {
  const auto& states = object_in(stats, "destinations");
  std::int64_t total = 0;
  std::vector<std::string> parts;
  for (const char* state : {"open", "closed", "probing", "held", "denied"}) {
    auto count = number_in(states, state);
    total += count;
    if (count > 0 || std::string(state) == "open" || std::string(state) == "closed")
      parts.push_back(std::string(state) + ' ' + std::to_string(count));
  }
  std::string count = std::to_string(total);
  count.resize(std::max<std::size_t>(count.size(), 4), ' ');
  return "destinations  " + count + "    " + joined(parts, "   ") + "   (in memory " +
         std::to_string(number_in(states, "in_memory")) + ")\n";
}

std::string waiting_line(const json& stats, const std::vector<json>& closed) {
  const auto& waiting = object_in(stats, "waiting");
  auto pdus = number_in(waiting, "pdus"), devices = number_in(waiting, "device_lists"),
       messages = number_in(waiting, "to_device");
  if (pdus + devices + messages == 0) return "waiting       nothing\n";
  std::string out = "waiting       " + counted(pdus, "pdu", "pdus") + ", " +
                    counted(devices, "device update", "device updates") + ", " + std::to_string(messages) +
                    " to-device";
  auto oldest = number_in(waiting, "oldest_age_ms");
  if (oldest <= 0) return out + '\n';
  out += "   oldest " + span_text(oldest);
  auto whose = std::max_element(closed.begin(), closed.end(), [](const json& a, const json& b) {
    return number_in(pending_of(a), "oldest_age_ms") < number_in(pending_of(b), "oldest_age_ms");
  });
  // Named only if it is the same one: the two answers are of two moments.
  if (whose != closed.end() && number_in(pending_of(*whose), "oldest_age_ms") + 60'000 > oldest)
    out += " (" + text_in(*whose, "destination") + ')';
  return out + '\n';
}

std::string rates_line(const json& stats) {
  const auto& rates = object_in(stats, "rates");
  if (!rates.contains("transactions_ok") && !rates.contains("transactions_failed")) return {};
  std::string out = "last minute   " + counted(number_in(rates, "transactions_ok"), "transaction", "transactions") +
                    " ok   " + std::to_string(number_in(rates, "transactions_failed")) + " failed";
  if (auto half = number_in(rates, "half_ms")) out += "   half in " + span_text(half);
  if (auto most = number_in(rates, "p99_ms")) out += ", 99 % in " + span_text(most);
  return out + '\n';
}

std::string attention_line(const json& stats, const std::vector<json>& closed) {
  std::map<std::string, int> by_error;
  for (const auto& d : closed) {
    const auto& error = object_in(gate_of(d), "last_error");
    auto cls = text_in(error, "class");
    if (!cls.empty() && cls != "none")
      ++by_error[cls + (text_in(error, "stage").empty() ? "" : " at " + text_in(error, "stage"))];
  }
  std::vector<std::pair<int, std::string>> worst;
  for (const auto& [error, count] : by_error)
    worst.emplace_back(-count, error);
  std::sort(worst.begin(), worst.end());
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < worst.size() && i < 3; ++i)
    parts.push_back(counted(-worst[i].first, "destination", "destinations") + ": " + worst[i].second);
  if (auto count = number_in(stats, "stale_users")) parts.push_back(counted(count, "stale user", "stale users"));
  if (auto count = number_in(stats, "partial_joins")) parts.push_back(counted(count, "partial join", "partial joins"));
  if (auto count = number_in(stats, "quarantined")) parts.push_back(counted(count, "item", "items") + " in quarantine");
  return parts.empty() ? std::string() : "attention     " + joined(parts, " · ") + '\n';
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

std::string headline(const json& d, std::int64_t now) {
  const auto& gate = gate_of(d);
  std::string out = text_in(d, "destination") + " is " + upper(text_in(gate, "state"));
  if (auto since = number_in(gate, "failing_since_ms")) {
    out += ", failing since " + span_text(now - since);
    if (auto tries = number_in(gate, "consecutive_failures"))
      out += " (" + counted(tries, "failure", "failures in a row") + ')';
  }
  return out + '\n';
}

std::string gate_lines(const json& d, std::int64_t now) {
  const auto& gate = gate_of(d);
  std::string out;
  const auto& error = object_in(gate, "last_error");
  if (auto text = error_text(error, true); !text.empty()) {
    auto item = text_in(error, "item");
    out += line("because", text + (item.empty() ? std::string() : "; at fault: " + item));
  }
  const auto& hold = object_in(d, "hold");
  if (!hold.empty()) {
    auto until = due_text(number_in(hold, "until_ms"), now);
    out += line("held", text_in(hold, "reason") + (until.empty() ? "; until released" : "; ends " + until));
  }
  if (auto next = next_try_shown(d, now); !next.empty())
    out += line("next try", next + " (interval " + span_text(number_in(gate, "interval_ms")) + ')');
  std::vector<std::string> lanes;
  for (const auto& [name, state] : object_in(gate, "lanes").items())
    if (state.is_string()) lanes.push_back(name + ' ' + printable(state.get<std::string>()));
  if (!lanes.empty()) out += line("lanes", joined(lanes, ", "));
  auto last = ago_text(number_in(d, "last_success_ms"), now);
  out += line("last ok", last.empty() ? "never" : last);
  if (auto heard = ago_text(number_in(d, "last_inbound_ms"), now); !heard.empty()) out += line("heard from", heard);
  return out;
}

std::string attempts_lines(const json& d, std::int64_t now) {
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

} // namespace

std::string status_text(const json& stats, const std::vector<json>& closed, std::int64_t now_ms) {
  return engine_line(stats, now_ms) + gates_line(stats) + waiting_line(stats, closed) + rates_line(stats) +
         attention_line(stats, closed);
}

std::string destination_text(const json& d, std::int64_t now_ms) {
  const auto& cursor = object_in(d, "cursor");
  std::string out = headline(d, now_ms) + gate_lines(d, now_ms);
  out += line("cursor", std::to_string(number_in(cursor, "pdu")) + " of " + std::to_string(number_in(d, "head")) +
                            " (device lists " + std::to_string(number_in(cursor, "device_lists")) + ", to-device " +
                            std::to_string(number_in(cursor, "to_device")) + ')');
  auto catching_up = d.find("catching_up");
  bool behind = catching_up != d.end() && catching_up->is_boolean() && catching_up->get<bool>();
  out += line("waiting", pending_text(d) + (behind ? "; catching up" : ""));
  auto flight = in_flight_text(d, now_ms);
  out += line("in flight", flight.empty()
                               ? "nothing"
                               : "transaction " + text_in(object_in(d, "in_flight"), "transaction_id") + ", " + flight);
  std::vector<std::string> counts{counted(number_in(d, "rooms"), "room", "rooms")};
  if (auto n = number_in(d, "stale_users")) counts.push_back(counted(n, "stale user", "stale users"));
  if (auto n = number_in(d, "resyncing_users")) counts.push_back(std::to_string(n) + " resyncing");
  if (auto n = number_in(d, "quarantined")) counts.push_back(counted(n, "item", "items") + " in quarantine");
  return out + line("shares", joined(counts, ", ")) + attempts_lines(d, now_ms);
}

} // namespace ranvier
