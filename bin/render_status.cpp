// The whole on one screen.
#include "bin/render.hpp"
#include "bin/words.hpp"

#include <algorithm>
#include <map>

namespace ranvier {

namespace {

using nlohmann::json;

const json& gate_of(const json& d) { return object_in(d, "gate"); }
const json& pending_of(const json& d) { return object_in(d, "pending"); }

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
  return joined(parts, " · ");
}

std::string gates_text(const json& stats, const screen& on) {
  const auto& states = object_in(stats, "destinations");
  std::int64_t total = 0;
  std::vector<std::string> parts;
  for (const char* state : {"open", "closed", "probing", "held", "denied"}) {
    auto count = number_in(states, state);
    total += count;
    if (count > 0 || std::string(state) == "open" || std::string(state) == "closed")
      parts.push_back(painted(state, tone_of_state(count > 0 ? state : ""), on) + ' ' + std::to_string(count));
  }
  std::string count = std::to_string(total);
  count.resize(std::max<std::size_t>(count.size(), 4), ' ');
  if (auto n = number_in(states, "catching_up")) parts.push_back("catching up " + std::to_string(n));
  return count + "    " + joined(parts, "   ") + "   (in memory " + std::to_string(number_in(states, "in_memory")) +
         ")";
}

std::string waiting_text(const json& stats, const std::vector<json>& closed) {
  const auto& waiting = object_in(stats, "waiting");
  auto pdus = number_in(waiting, "pdus"), devices = number_in(waiting, "device_lists"),
       messages = number_in(waiting, "to_device");
  if (pdus + devices + messages == 0) return "nothing";
  std::string out = counted(pdus, "pdu", "pdus") + ", " + counted(devices, "device update", "device updates") + ", " +
                    std::to_string(messages) + " to-device";
  auto oldest = number_in(waiting, "oldest_age_ms");
  if (oldest <= 0) return out;
  out += "   oldest " + span_text(oldest);
  auto whose = std::max_element(closed.begin(), closed.end(), [](const json& a, const json& b) {
    return number_in(pending_of(a), "oldest_age_ms") < number_in(pending_of(b), "oldest_age_ms");
  });
  // Named only if it is the same one: the two answers are of two moments.
  if (whose != closed.end() && number_in(pending_of(*whose), "oldest_age_ms") + 60'000 > oldest)
    out += " (" + text_in(*whose, "destination") + ')';
  return out;
}

std::string rates_text(const json& stats) {
  const auto& rates = object_in(stats, "rates");
  if (!rates.contains("transactions_ok") && !rates.contains("transactions_failed")) return {};
  std::string out = counted(number_in(rates, "transactions_ok"), "transaction", "transactions") + " ok   " +
                    std::to_string(number_in(rates, "transactions_failed")) + " failed";
  if (auto half = number_in(rates, "half_ms")) out += "   half in " + span_text(half);
  if (auto most = number_in(rates, "p99_ms")) out += ", 99 % in " + span_text(most);
  return out;
}

/// "certificate expired" of "unreachable: certificate expired 2 days ago (1.2.3.4)": what many may have in common.
std::string common_words(const json& error) {
  auto stage = text_in(error, "stage"), cls = text_in(error, "class"), message = text_in(error, "message");
  if (cls.empty() || cls == "none") return {};
  // A status says enough; of a sentence only what stands before its details.
  if (auto status = number_in(error, "status")) return cls + ", " + std::to_string(status);
  message = message.substr(0, message.find_first_of(":(,0123456789"));
  if (message.ends_with(" to ") || message.ends_with(" with ")) message.clear(); // it goes on with an address
  for (const std::string end : {" ", " after", " at", " of"})
    if (message.ends_with(end)) message.resize(message.size() - end.size());
  return message.size() < 8 || message.size() > 60 ? cls + " at " + stage : message;
}

/// "room !x partial for 2h: 2 refused, 1 unreachable".
std::string join_words(const json& join, std::int64_t now) {
  std::map<std::string, int> verdicts;
  for (const auto& [name, one] : object_in(join, "servers").items()) {
    auto verdict = text_in(one, "verdict");
    ++verdicts[verdict.empty() ? "not asked yet" : verdict];
  }
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : verdicts)
    parts.push_back(std::to_string(count) + ' ' + verdict);
  auto since = number_in(join, "since_ms");
  return "room " + text_in(join, "room_id") + " partial" + (since ? " for " + span_text(now - since) : std::string()) +
         (parts.empty() ? std::string() : ": " + joined(parts, ", "));
}

} // namespace

std::vector<std::string> attention_parts(const json& stats, const std::vector<json>& closed, std::int64_t now) {
  std::map<std::string, int> by_error;
  for (const auto& d : closed)
    if (auto words = common_words(object_in(gate_of(d), "last_error")); !words.empty()) ++by_error[words];
  std::vector<std::pair<int, std::string>> worst;
  for (const auto& [error, count] : by_error)
    worst.emplace_back(-count, error);
  std::sort(worst.begin(), worst.end());
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < worst.size() && i < 3; ++i)
    parts.push_back(counted(-worst[i].first, "destination", "destinations") + ": " + worst[i].second);
  // An engine that doesn't say how old they are counts all.
  const bool aged = stats.is_object() && stats.contains("stale_users_old");
  if (auto count = number_in(stats, aged ? "stale_users_old" : "stale_users"))
    parts.push_back(counted(count, "stale user", "stale users") + (aged ? " over 1 h" : ""));
  std::size_t told = 0;
  if (auto joins = stats.find("partial_join_list"); joins != stats.end() && joins->is_array())
    for (const auto& join : *joins)
      if (told < 3) {
        parts.push_back(join_words(join, now));
        ++told;
      }
  if (auto count = number_in(stats, "partial_joins") - std::int64_t(told); count > 0)
    parts.push_back(counted(count, told ? "further partial join" : "partial join",
                            told ? "further partial joins" : "partial joins"));
  if (auto count = number_in(stats, "quarantined")) parts.push_back(counted(count, "item", "items") + " in quarantine");
  return parts;
}

namespace {

/// The first line: it has no label.
std::string wrapped_line(const std::string& text, const screen& on) {
  if (on.columns == 0 || width_of(text) <= on.columns) return text + '\n';
  return labelled("ranvier", text.substr(std::min(text.size(), text.find(' ') + 1)), {on.columns, false}, 0, 0);
}

screen plain(const screen& on) { return {on.columns, false}; }

} // namespace

std::string status_text(const json& stats, const std::vector<json>& closed, std::int64_t now_ms, const screen& on) {
  std::string out = wrapped_line(engine_line(stats, now_ms), on);
  for (const auto& [label, text] : {std::pair<const char*, std::string>{"destinations", gates_text(stats, on)},
                                    {"waiting", waiting_text(stats, closed)},
                                    {"last minute", rates_text(stats)},
                                    {"attention", joined(attention_parts(stats, closed, now_ms), " · ")}})
    if (!text.empty())
      out += label == std::string("attention") && on.colour
                 ? painted(label, tone::warn, on) +
                       labelled(std::string(label), text, plain(on), 0, 14).substr(std::string(label).size())
                 : labelled(label, text, on, 0, 14);
  return out;
}

std::string stat_text(const json& stats, bool titles, const screen& on) {
  const auto& states = object_in(stats, "destinations");
  const auto& waiting = object_in(stats, "waiting");
  const auto& rates = object_in(stats, "rates");
  const std::vector<std::pair<const char*, std::string>> cells{
      {"  open", std::to_string(number_in(states, "open"))},
      {" closed", std::to_string(number_in(states, "closed"))},
      {" held", std::to_string(number_in(states, "held"))},
      {"   pdus", std::to_string(number_in(waiting, "pdus"))},
      {" devices", std::to_string(number_in(waiting, "device_lists"))},
      {" to-device", std::to_string(number_in(waiting, "to_device"))},
      {"  oldest", span_text(number_in(waiting, "oldest_age_ms"))},
      {" ok/min", std::to_string(number_in(rates, "transactions_ok"))},
      {" failed", std::to_string(number_in(rates, "transactions_failed"))},
      {"  half", span_text(number_in(rates, "half_ms"))},
      {"   99%", span_text(number_in(rates, "p99_ms"))}};
  std::string head, out;
  for (const auto& [title, value] : cells) {
    const std::string name = title;
    head += name;
    out += std::string(name.size() > value.size() + 1 ? name.size() - value.size() : 1, ' ') + value;
  }
  return (titles ? painted(head, tone::faint, on) + '\n' : std::string()) + out + '\n';
}

} // namespace ranvier
