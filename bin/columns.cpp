// The columns of listings.
#include "bin/render.hpp"
#include "bin/words.hpp"

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

template <const char* Key> json text_value(const json& row) { return text_in(row, Key); }
template <const char* Key> std::string text_shown(const json& row, std::int64_t) { return text_in(row, Key); }
template <const char* Key> json number_value(const json& row) { return number_in(row, Key); }
template <const char* Key> std::string ago_shown(const json& row, std::int64_t now) {
  return ago_text(number_in(row, Key), now);
}
template <const char* Key> std::string number_shown(const json& row, std::int64_t) {
  return std::to_string(number_in(row, Key));
}

std::string next_try_shown(const json& d, std::int64_t now) {
  return due_text(number_in(gate_of(d), "next_attempt_ms"), now);
}

constexpr char destination_key[] = "destination", rooms_key[] = "rooms", stale_key[] = "stale_users",
               quarantined_key[] = "quarantined", last_success_key[] = "last_success_ms", id_key[] = "id",
               kind_key[] = "kind", name_key[] = "name", state_key[] = "state", mailbox_key[] = "mailbox",
               handled_key[] = "handled", restarts_key[] = "restarts", started_key[] = "started_ms",
               user_key[] = "user_id", since_key[] = "since_ms", failures_key[] = "failures",
               next_attempt_key[] = "next_attempt_ms", cause_key[] = "cause", problem_key[] = "problem",
               busy_key[] = "busy_with", room_key[] = "room_id", version_key[] = "version", waiting_key[] = "waiting",
               position_key[] = "position", subject_key[] = "subject", detail_key[] = "detail", bytes_key[] = "bytes",
               request_key[] = "request", outcome_key[] = "outcome", status_key[] = "status", took_key[] = "took_ms",
               address_key[] = "address", who_key[] = "who", verb_key[] = "verb", reason_key[] = "reason",
               details_key[] = "details", at_key[] = "at_ms", parent_key[] = "parent", head_key[] = "head";

} // namespace

const std::vector<column>& destination_columns() {
  static const std::vector<column> all{
      {"DESTINATION", text_shown<destination_key>, text_value<destination_key>},
      {"STATE", [](const json& d, std::int64_t) { return text_in(gate_of(d), "state"); },
       [](const json& d) { return json(text_in(gate_of(d), "state")); }, false,
       [](const json& d) { return tone_of_state(text_in(gate_of(d), "state")); }},
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

const std::vector<column>& queue_columns() {
  static const std::vector<column> all{
      {"POSITION", number_shown<position_key>, number_value<position_key>},
      {"KIND", text_shown<kind_key>, text_value<kind_key>},
      {"AGE", [](const json& item, std::int64_t now) { return span_text(now - number_in(item, "at_ms")); },
       [](const json& item) { return json(-number_in(item, "at_ms")); }},
      {"BYTES", number_shown<bytes_key>, number_value<bytes_key>, true},
      {"ROOM", text_shown<room_key>, text_value<room_key>},
      {"SUBJECT", text_shown<subject_key>, text_value<subject_key>},
      {"WHAT", text_shown<detail_key>, text_value<detail_key>},
  };
  return all;
}

const std::vector<column>& room_columns() {
  static const std::vector<column> all{
      {"ROOM", text_shown<room_key>, text_value<room_key>},
      {"VERSION", text_shown<version_key>, text_value<version_key>},
      {"WAITING", number_shown<waiting_key>, number_value<waiting_key>},
      {"STATE",
       [](const json& room, std::int64_t) {
         if (const auto shared = room.find("shared"); shared != room.end() && *shared == false)
           return std::string("left");
         const auto partial = room.find("partial");
         return std::string(partial != room.end() && *partial == true ? "partial" : "shared");
       },
       [](const json& room) { return json(room.value("partial", false)); }},
  };
  return all;
}

const std::vector<column>& attempt_columns() {
  static const std::vector<column> all{
      {"WHEN", ago_shown<at_key>, number_value<at_key>},
      {"REQUEST", text_shown<request_key>, text_value<request_key>},
      {"OUTCOME", text_shown<outcome_key>, text_value<outcome_key>, false,
       [](const json& one) { return text_in(one, "outcome") == "ok" ? tone::good : tone::bad; }},
      {"STATUS",
       [](const json& one, std::int64_t) {
         const auto status = number_in(one, "status");
         return status ? std::to_string(status) : std::string();
       },
       number_value<status_key>},
      {"TOOK", [](const json& one, std::int64_t) { return span_text(number_in(one, took_key)); },
       number_value<took_key>},
      {"CARRIED",
       [](const json& one, std::int64_t) {
         const auto& items = object_in(one, "items");
         if (number_in(items, "pdus") + number_in(items, "edus") == 0) return std::string();
         return counted(number_in(items, "pdus"), "pdu", "pdus") + ", " +
                counted(number_in(items, "edus"), "edu", "edus");
       },
       [](const json& one) { return json(number_in(object_in(one, "items"), "pdus")); }},
      {"ADDRESS", text_shown<address_key>, text_value<address_key>, true},
      {"PROBLEM", text_shown<problem_key>, text_value<problem_key>},
  };
  return all;
}

const std::vector<column>& audit_columns() {
  static const std::vector<column> all{
      {"WHEN", ago_shown<at_key>, number_value<at_key>},
      {"WHO", text_shown<who_key>, text_value<who_key>},
      {"WHAT", text_shown<verb_key>, text_value<verb_key>},
      {"SUBJECT", text_shown<subject_key>, text_value<subject_key>},
      {"OUTCOME", text_shown<outcome_key>, text_value<outcome_key>},
      {"DETAILS", text_shown<details_key>, text_value<details_key>, true},
      {"REASON", text_shown<reason_key>, text_value<reason_key>},
  };
  return all;
}

} // namespace ranvier
