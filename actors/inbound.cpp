#include "actors/inbound.hpp"

#include "messages/ids.hpp"
#include "messages/transaction.hpp"

#include <iterator>

namespace ranvier {
namespace {

namespace dom = simdjson::dom;

envelope refuse(int status, std::string errcode, std::string problem) {
  envelope out;
  out.status = status;
  out.errcode = std::move(errcode);
  out.problem = std::move(problem);
  return out;
}

std::string server_without_port(std::string_view server) {
  const auto parts = parse_server_name(server);
  if (!parts) return std::string(server);
  return parts->ipv6 ? "[" + parts->host + "]" : parts->host;
}

bool any_matches(dom::element content, const char* list, std::string_view server) {
  dom::array globs;
  if (content[list].get(globs)) return false;
  for (const auto glob : globs) {
    std::string_view text;
    if (!glob.get(text) && glob_matches(text, server)) return true;
  }
  return false;
}

/// A PDU whose id can't be computed still gets an entry in the answer, under what it calls itself or a guess.
std::string fallback_id(dom::element pdu, std::size_t index) {
  if (const auto given = string_member(pdu, "event_id"); given && is_event_id(*given)) return std::string(*given);
  // Most rooms have version 10 or rules that give the same id.
  if (const auto rules = rules_of("10")) {
    const auto shape = look_at_pdu(pdu, rules);
    if (!shape.event_id.empty()) return shape.event_id;
  }
  return "pdus[" + std::to_string(index) + "]";
}

std::string pdu_item(const std::string& origin, const pdu_shape& shape, bool is_redacted,
                     std::optional<bool> verified) {
  std::string out = R"({"origin":)" + json_string(origin) + R"(,"event":)" + shape.event;
  if (!shape.event_id.empty()) out += R"(,"event_id":)" + json_string(shape.event_id);
  out += R"(,"verified":)";
  out += verified ? (*verified ? "true" : "false") : "null";
  if (is_redacted) out += R"(,"redacted":true)";
  return out += '}';
}

} // namespace

envelope open_transaction(dom::element body, std::string_view origin) {
  if (!body.is_object()) return refuse(400, "M_BAD_JSON", "the body of a transaction must be an object");
  envelope out;
  dom::element member;
  if (!body["origin"].get(member)) {
    std::string_view named;
    if (member.get(named)) return refuse(400, "M_BAD_JSON", "'origin' must be a string");
    if (named != origin)
      return refuse(403, "M_FORBIDDEN", "'origin' in the body is not the server that signed the request");
  }
  dom::array list;
  if (body["pdus"].get(list)) return refuse(400, "M_BAD_JSON", "'pdus' is missing or is no list");
  for (const auto pdu : list)
    out.pdus.push_back(pdu);
  if (!body["edus"].get(member)) {
    if (member.get(list)) return refuse(400, "M_BAD_JSON", "'edus' must be a list");
    for (const auto edu : list)
      out.edus.push_back(edu);
  }
  if (out.pdus.size() > max_transaction_pdus || out.edus.size() > max_transaction_edus)
    return refuse(400, "M_BAD_JSON", "a transaction may hold at most 50 PDUs and 100 EDUs"); // T2, I2
  return out;
}

bool acl_allows(std::string_view acl, std::string_view server) {
  if (acl.empty()) return true;
  try {
    const json_document document(acl);
    const auto content = document.root();
    const auto name = server_without_port(server);
    const auto parts = parse_server_name(server);
    bool literals = true;
    if (content["allow_ip_literals"].get(literals)) literals = true;
    if (!literals && parts && parts->ip_literal) return false;
    if (any_matches(content, "deny", name)) return false;
    return any_matches(content, "allow", name);
  } catch (const json_problem&) {
    return true; // the feed takes only objects, so this is a damaged row; silence would cost the room
  }
}

inbound_judge::inbound_judge(envelope parts, std::string origin, std::string server_name)
    : parts_(std::move(parts))
    , origin_(std::move(origin))
    , server_name_(std::move(server_name)) {}

std::set<std::string> inbound_judge::rooms() const {
  std::set<std::string> out;
  for (const auto pdu : parts_.pdus) {
    const auto room = string_member(pdu, "room_id");
    if (room && is_room_id(*room)) out.emplace(*room);
  }
  for (const auto edu : parts_.edus) {
    if (out.size() >= max_rooms) break;
    rooms_of_edu(edu, out);
  }
  return out;
}

key_question inbound_judge::question(const looked_at& pdu, const std::string& server, const std::string& key_id) const {
  return {server, key_id, pdu.dated_keys ? pdu.shape.origin_server_ts : 0};
}

std::set<key_question> inbound_judge::look(room_book rooms) {
  rooms_ = std::move(rooms);
  std::set<key_question> wanted;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < parts_.pdus.size(); ++i) {
    const auto element = parts_.pdus[i];
    looked_at pdu;
    const auto room_id = string_member(element, "room_id").value_or("");
    const auto room = rooms_.find(std::string(room_id));
    const auto rules = room == rooms_.end() ? std::nullopt : rules_of(room->second.version);
    pdu.shape = look_at_pdu(element, rules);
    pdu.version_known = rules.has_value();
    pdu.dated_keys = rules && rules->key_validity;
    pdu.id_known = !pdu.shape.event_id.empty();
    pdu.answer_id = pdu.id_known ? pdu.shape.event_id : fallback_id(element, i);
    pdu.device = device_named_by(element, origin_);
    if (!pdu.shape.ok) pdu.error = pdu.shape.problem.empty() ? "this is no usable event" : pdu.shape.problem;
    else if (room != rooms_.end() && !acl_allows(room->second.acl, origin_))
      pdu.error = "the access list of this room doesn't allow " + origin_; // I4
    else if (!seen.insert(pdu.shape.event).second) continue;               // the same event twice in one transaction
    if (pdu.error.empty() && pdu.version_known)
      for (const auto& signer : pdu.shape.signers)
        if (const auto by = pdu.shape.signatures.find(signer); by != pdu.shape.signatures.end())
          for (const auto& [key_id, signature] : by->second)
            wanted.insert(question(pdu, signer, key_id));
    pdus_.push_back(std::move(pdu));
  }
  return wanted;
}

/// E4: a required signer without any signature, or with a wrong one under a known key, is false; keys that can't be had
/// are skipped, and if none is left nothing is known.
std::optional<bool> inbound_judge::verified(const looked_at& pdu, const key_book& keys) const {
  if (!pdu.version_known) return std::nullopt;
  bool all_known = true;
  for (const auto& signer : pdu.shape.signers) {
    const auto by = pdu.shape.signatures.find(signer);
    if (by == pdu.shape.signatures.end() || by->second.empty()) return false;
    bool one_good = false;
    for (const auto& [key_id, signature] : by->second) {
      const auto key = keys.find(question(pdu, signer, key_id));
      if (key == keys.end() || key->second.empty()) continue;
      if (!verify_signature(key->second, signature, pdu.shape.signed_bytes)) return false;
      one_good = true;
    }
    all_known = all_known && one_good;
  }
  if (!all_known) return std::nullopt;
  return true;
}

inbound_result inbound_judge::judge(const key_book& keys) const {
  inbound_result out;
  std::vector<stream_item> ephemeral, events;
  std::vector<inbound_device_change> named;
  for (const auto edu : parts_.edus) {
    auto verdict = judge_edu(edu, origin_, server_name_, rooms_);
    switch (verdict.is) {
    case edu_verdict::what::drop:
      out.refused.push_back("EDU: " + verdict.problem);
      break;
    case edu_verdict::what::device_list:
      if (!verdict.problem.empty()) out.refused.push_back("EDU: " + verdict.problem);
      std::move(verdict.devices.begin(), verdict.devices.end(), std::back_inserter(out.device_changes));
      break;
    case edu_verdict::what::edu:
      ephemeral.push_back({"edu", std::move(verdict.json)});
      break;
    case edu_verdict::what::to_device:
      out.items.push_back({"to_device", std::move(verdict.json)});
      out.message_keys.push_back(std::move(verdict.message_key));
      std::move(verdict.devices.begin(), verdict.devices.end(), std::back_inserter(named));
      break;
    }
  }
  std::map<std::string, std::string> results;
  for (const auto& pdu : pdus_) {
    std::string error = pdu.error;
    if (error.empty()) {
      const auto is_verified = verified(pdu, keys);
      // E6: we tell the sender that it isn't accepted; the host still learns of it, marked as false (API 3.2).
      if (is_verified == false) error = "a signature that this event needs is missing or wrong";
      if (pdu.device && error.empty() && (!pdu.version_known || pdu.shape.hash_ok)) named.emplace_back(*pdu.device);
      events.push_back({"pdu", pdu_item(origin_, pdu.shape, pdu.version_known && !pdu.shape.hash_ok, is_verified)});
    }
    if (!error.empty()) out.refused.push_back("PDU: " + error);
    auto& result = results[pdu.answer_id];
    if (result.empty() || !error.empty()) result = error.empty() ? "{}" : R"({"error":)" + json_string(error) + "}";
  }
  // Updates first: what they bring isn't unknown.
  std::move(named.begin(), named.end(), std::back_inserter(out.device_changes));
  out.pdus = events.size();
  out.edus = out.items.size() + ephemeral.size();
  for (auto& item : events)
    out.items.push_back(std::move(item));
  for (auto& item : ephemeral)
    out.items.push_back(std::move(item));
  out.answer = R"({"pdus":{)";
  for (bool first = true; const auto& [id, result] : results) {
    if (!first) out.answer += ',';
    first = false;
    out.answer += json_string(id) + ":" + result;
  }
  out.answer += "}}";
  return out;
}

} // namespace ranvier
