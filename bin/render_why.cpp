// Why something isn't there yet.
#include "bin/render.hpp"
#include "bin/words.hpp"

namespace ranvier {

namespace {

using nlohmann::json;

constexpr std::size_t most_lines = 20;

std::vector<json> list_in(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? std::vector<json>(found->begin(), found->end())
                                                    : std::vector<json>();
}

bool true_in(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

std::string names_in_list(const json& object, const char* key) {
  std::vector<std::string> names;
  for (const auto& one : list_in(object, key))
    if (one.is_string() && names.size() < most_lines) names.push_back(printable(one.get<std::string>()));
  const auto all = list_in(object, key).size();
  return joined(names, ", ") + (all > names.size() ? " and " + std::to_string(all - names.size()) + " more" : "");
}

std::string state_word(const std::string& state, const screen& on) {
  return painted(upper(state), tone_of_state(state), on);
}

std::string waiting_text(const json& waiting) {
  std::vector<std::string> parts;
  if (auto n = number_in(waiting, "pdus")) {
    auto rooms = number_in(waiting, "rooms");
    parts.push_back(counted(n, "pdu", "pdus") + (rooms ? " in " + counted(rooms, "room", "rooms") : std::string()));
  }
  if (auto n = number_in(waiting, "device_lists")) {
    auto users = number_in(waiting, "users");
    parts.push_back(counted(n, "device update", "device updates") +
                    (users ? " (" + counted(users, "user", "users") + ')' : std::string()));
  }
  if (auto n = number_in(waiting, "to_device")) parts.push_back(std::to_string(n) + " to-device");
  if (auto n = number_in(waiting, "ephemeral")) parts.push_back(std::to_string(n) + " ephemeral");
  if (parts.empty()) return "nothing";
  auto out = joined(parts, ", ");
  if (auto oldest = number_in(waiting, "oldest_age_ms")) out += ", oldest " + span_text(oldest);
  if (auto gone = number_in(waiting, "let_go"))
    out += "; of " + counted(gone, "older event", "older events") + " only the newest of each room go";
  return out;
}

std::string next_try_text(const json& next, std::int64_t now) {
  if (next.empty()) return {};
  auto out = due_text(number_in(next, "at_ms"), now) + " (interval " + span_text(number_in(next, "interval_ms"));
  if (auto rule = text_in(next, "rule"); !rule.empty()) out += " = " + rule;
  const auto where = text_in(next, "configured");
  out += where.empty() ? "; [backoff] as built in" : "; [backoff] in " + where;
  return out + "); at once if it contacts us";
}

std::string destination_why(const json& answer, std::int64_t now, const screen& on) {
  const auto& d = object_in(answer, "destination");
  const auto& gate = object_in(d, "gate");
  std::string out = text_in(answer, "subject") + " is " + state_word(text_in(gate, "state"), on);
  if (auto since = number_in(gate, "failing_since_ms")) out += " since " + span_text(now - since);
  if (auto tries = number_in(gate, "consecutive_failures"))
    out += " (" + counted(tries, "failure", "failures") + " in a row)";
  out += '\n';
  const auto because = text_in(answer, "because");
  out += labelled("because", because.empty() ? "nothing hinders it" : because, on);
  const auto last = ago_text(number_in(d, "last_success_ms"), now);
  out += labelled("last ok",
                  (last.empty() ? "never" : last) + ", cursor at " +
                      std::to_string(number_in(object_in(d, "cursor"), "pdu")) + " of " +
                      std::to_string(number_in(d, "head")),
                  on);
  if (auto next = next_try_text(object_in(answer, "next_try"), now); !next.empty())
    out += labelled("next try", next, on);
  out += labelled("waiting", waiting_text(object_in(answer, "waiting")), on);
  std::vector<std::string> innocent, guilty;
  for (const auto& one : list_in(answer, "not_because"))
    (true_in(one, "ok") ? innocent : guilty).push_back(text_in(one, "says"));
  if (!guilty.empty()) out += labelled("also", joined(guilty, ", "), on);
  if (!innocent.empty()) out += labelled("not because", joined(innocent, ", "), on);
  std::vector<std::string> advice;
  for (const auto& one : list_in(answer, "you_can"))
    if (one.is_string()) advice.push_back(printable(one.get<std::string>()));
  return out + labelled("you can", joined(advice, " · "), on);
}

/// One server that lacks something: why, and when it is tried again.
std::string server_line(const json& one, std::int64_t now, const screen& on) {
  auto why = text_in(one, "why");
  std::vector<std::string> parts{text_in(one, "state"), why.empty() ? "goes now" : why};
  if (auto behind = number_in(one, "behind")) parts.insert(parts.begin(), std::to_string(behind) + " behind");
  if (auto since = number_in(one, "since_ms")) parts.push_back("since " + span_text(now - since));
  if (auto next = due_text(number_in(one, "next_attempt_ms"), now); !next.empty()) parts.push_back("next try " + next);
  return labelled(text_in(one, "destination"), joined(parts, ", "), on, 4, 24);
}

std::string waiting_servers(const json& waiting, std::int64_t now, const screen& on) {
  std::string out;
  const auto named = list_in(waiting, "destinations");
  for (const auto& one : named)
    out += server_line(one, now, on);
  const auto total = number_in(waiting, "total");
  if (total > std::int64_t(named.size()))
    out += "    and " + std::to_string(total - std::int64_t(named.size())) + " more\n";
  return out;
}

std::string event_why(const json& answer, std::int64_t now, const screen& on) {
  const auto& waiting = object_in(answer, "waiting");
  const auto left = number_in(waiting, "total"), has = number_in(object_in(answer, "delivered"), "total");
  const auto subject = text_in(answer, "subject");
  if (!true_in(answer, "stored"))
    return subject + " has GONE\n" + labelled("there", "every server that was owed it has it, or it was let go", on) +
           labelled("fed", ago_text(number_in(answer, "at_ms"), now), on);
  std::string out = subject + (left == 0 ? " has GONE to every server that is owed it\n"
                                         : " WAITS for " + counted(left, "server", "servers") + '\n');
  out += labelled(
      "what",
      joined({text_in(answer, "type"), "of " + text_in(answer, "sender"), "in " + text_in(answer, "room_id")}, " "),
      on);
  out += labelled(
      "fed", ago_text(number_in(answer, "at_ms"), now) + ", position " + std::to_string(number_in(answer, "position")),
      on);
  out += labelled("there",
                  counted(has, "server", "servers") +
                      (has ? ": " + names_in_list(object_in(answer, "delivered"), "destinations") : ""),
                  on);
  if (!list_in(answer, "let_go").empty())
    out += labelled("let go", names_in_list(answer, "let_go") + ": newer events of the room go instead", on);
  if (left == 0) return out;
  return out + labelled("waiting", counted(left, "server", "servers"), on) + waiting_servers(waiting, now, on);
}

std::string rooms_line(const json& answer, const screen& on) {
  const auto rooms = list_in(answer, "rooms").size();
  auto text = counted(std::int64_t(rooms), "room", "rooms");
  if (!list_in(answer, "partial_rooms").empty())
    text += "; partially joined: " + names_in_list(answer, "partial_rooms");
  return labelled("shares", text, on);
}

std::string user_why(const json& answer, std::int64_t now, const screen& on) {
  const auto subject = text_in(answer, "subject");
  if (true_in(answer, "ours")) {
    const auto& waiting = object_in(answer, "waiting");
    const auto left = number_in(waiting, "total");
    auto out = subject + " is OURS; its device list is " +
               (left == 0 ? "at every server that shares a room with it\n"
                          : "not yet at " + counted(left, "server", "servers") + '\n');
    out += labelled("version", std::to_string(number_in(answer, "version")), on) + rooms_line(answer, on);
    out += labelled("there", counted(number_in(object_in(answer, "delivered"), "total"), "server", "servers"), on);
    if (left == 0) return out;
    return out + labelled("waiting", counted(left, "server", "servers"), on) + waiting_servers(waiting, now, on);
  }
  const auto& list = object_in(answer, "list");
  const auto state = text_in(list, "state");
  auto out = subject + "'s device list is " +
             painted(upper(state),
                     state == "fresh"   ? tone::good
                     : state == "stale" ? tone::bad
                                        : tone::warn,
                     on);
  if (auto since = number_in(list, "since_ms")) out += " since " + span_text(now - since);
  out += '\n';
  if (state == "stale") {
    out += labelled("because", text_in(list, "cause"), on);
    if (auto problem = text_in(list, "problem"); !problem.empty()) out += labelled("last try", problem, on);
  } else if (state == "not fetched") {
    out += labelled("because", "nobody has asked for it yet, and its server has told of no change", on);
  } else if (state == "too large") {
    out += labelled("because", "it has more devices than [limits] devices_per_user; queries go to its server", on);
  }
  const auto& server = object_in(answer, "server");
  std::vector<std::string> gate{text_in(server, "destination") + " is " + text_in(server, "state"),
                                text_in(server, "why")};
  out += labelled("its server", joined(gate, ": "), on);
  if (state == "stale") {
    auto due = std::max(number_in(list, "next_attempt_ms"), number_in(server, "next_attempt_ms"));
    out += labelled("next try", due > 0 ? due_text(due, now) : "as soon as its server may be asked", on);
  }
  if (auto kept = number_in(list, "kept_updates"))
    out += labelled("kept", counted(kept, "update waits", "updates wait") + " for the end of a partial join", on);
  out += rooms_line(answer, on);
  return out +
         labelled("you can", "ranvier resync " + subject + " · ranvier why " + text_in(server, "destination"), on);
}

std::string room_why(const json& answer, std::int64_t now, const screen& on) {
  const auto servers = list_in(answer, "servers");
  std::vector<json> behind;
  for (const auto& one : servers)
    if (number_in(one, "behind") > 0) behind.push_back(one);
  std::string out = text_in(answer, "subject");
  out += behind.empty() ? " is at every server that shares it\n"
                        : " is behind at " + counted(std::int64_t(behind.size()), "server", "servers") + '\n';
  if (const auto& join = object_in(answer, "partial_join"); !join.empty()) {
    auto since = number_in(join, "since_ms");
    out += labelled("joined",
                    "partially via " + text_in(join, "joined_via") +
                        (since ? ", " + ago_text(since, now) : std::string()) + ", " + text_in(join, "state"),
                    on);
    for (const auto& [name, one] : object_in(join, "servers").items()) {
      auto next = due_text(number_in(one, "next_attempt_ms"), now);
      auto verdict = text_in(one, "verdict");
      out += labelled(printable(name),
                      joined({verdict.empty() ? "not asked yet" : verdict, text_in(one, "reason"),
                              next.empty() ? "" : "next try " + next},
                             ", "),
                      on, 4, 24);
    }
  }
  out += labelled("there", counted(std::int64_t(servers.size() - behind.size()), "server", "servers"), on);
  for (std::size_t i = 0; i < behind.size() && i < most_lines; ++i)
    out += server_line(behind[i], now, on);
  if (behind.size() > most_lines) out += "    and " + std::to_string(behind.size() - most_lines) + " more\n";
  return out;
}

} // namespace

std::string why_text(const json& answer, std::int64_t now_ms, const screen& on) {
  const auto kind = text_in(answer, "kind");
  if (kind == "event") return event_why(answer, now_ms, on);
  if (kind == "user") return user_why(answer, now_ms, on);
  if (kind == "room") return room_why(answer, now_ms, on);
  return destination_why(answer, now_ms, on);
}

} // namespace ranvier
