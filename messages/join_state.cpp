#include "messages/join_state.hpp"

#include "messages/canonical_json.hpp"
#include "messages/ids.hpp"
#include "messages/json_slices.hpp"

#include <algorithm>

namespace ranvier {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::element;

/// Up to so many events are asked for one by one, if they are less than a tenth of all.
constexpr std::size_t few = 30;

/// Ids of a list in an object; throws json_problem for any other shape.
std::set<std::string> ids_in(element answer, const char* member) {
  simdjson::dom::array list;
  if (answer[member].get(list) != SUCCESS) throw json_problem(true, std::string("it has no list ") + member);
  std::set<std::string> out;
  for (auto id : list) {
    std::string_view text;
    if (id.get(text) != SUCCESS || text.empty() || text.size() > 255)
      throw json_problem(true, std::string(member) + " holds something that is no event id");
    out.emplace(text);
  }
  return out;
}

} // namespace

join_state::join_state(std::string room_id, const room_version_rules& rules, const std::vector<join_event>& known,
                       std::vector<std::string> prev_events)
    : room_id_(std::move(room_id))
    , rules_(rules)
    , prev_events_(std::move(prev_events)) {
  if (!prev_events_.empty()) asked_at_ = prev_events_.front();
  for (const auto& one : known) {
    const json_document document(one.event.view());
    piece had;
    had.shape = look_at_pdu(document.root(), rules_);
    had.shape.signed_bytes.clear();
    // Stored events were judged when they came; the id that they are stored under is theirs.
    had.shape.event_id = one.event_id;
    had.in_state = one.in_state;
    if (one.in_state && had.shape.type == "m.room.create") create_id_ = one.event_id;
    pieces_.emplace(one.event_id, std::move(had));
  }
}

std::string join_state::take_ids(std::string_view answer) {
  try {
    const json_document document(answer);
    state_ids_ = ids_in(document.root(), "pdu_ids");
    auth_ids_ = ids_in(document.root(), "auth_chain_ids");
  } catch (const json_problem& bad) {
    return std::string("its answer to state_ids can't be used: ") + bad.what();
  }
  if (state_ids_.empty()) return "it says that the room has no state";
  if (!create_id_.empty() && !state_ids_.contains(create_id_))
    return "the state that it lists lacks the room's m.room.create event";
  missing_.clear();
  optional_.clear();
  for (const auto* ids : {&state_ids_, &auth_ids_})
    for (const auto& id : *ids)
      if (!pieces_.contains(id)) missing_.insert(id);
  for (const auto& id : prev_events_)
    if (!state_ids_.contains(id) && !auth_ids_.contains(id) && !pieces_.contains(id)) {
      missing_.insert(id);
      optional_.insert(id);
    }
  return {};
}

bool join_state::wants_whole() const {
  const auto needed = missing_.size() - optional_.size();
  return needed > few || (needed > 3 && needed * 10 >= state_ids_.size() + auth_ids_.size() && needed > few / 3);
}

std::string join_state::put(std::string_view event, const std::string& expected_id, bool in_state, bool in_auth_chain) {
  const json_document document(event);
  auto shape = look_at_pdu(document.root(), rules_);
  if (shape.event_id.empty()) return "it gave an event that is none: " + shape.problem;
  if (!expected_id.empty() && shape.event_id != expected_id) return "for the event " + expected_id + " it gave another";
  if (!shape.ok) return leave_out(shape, shape.problem);
  if (shape.room_id != room_id_) return "it gave the event " + shape.event_id + " of another room";
  if (in_state && !shape.state_key)
    return "the state that it gave holds " + shape.event_id + ", which is no state event";
  for (const auto& signer : shape.signers)
    if (!shape.signatures.contains(signer)) return leave_out(shape, signer + " never signed it");
  auto& place = pieces_[shape.event_id];
  place.in_state = place.in_state || in_state;
  place.in_auth_chain = place.in_auth_chain || in_auth_chain;
  missing_.erase(shape.event_id);
  if (!place.shape.event_id.empty()) return {};
  place.shape = std::move(shape);
  place.came = true;
  return {};
}

/// J8: an event that can't be used costs only itself, whoever made it; but there is no room without its first event.
std::string join_state::leave_out(const pdu_shape& shape, const std::string& problem) {
  if (shape.type == "m.room.create") return "the room's m.room.create event that it gave can't be used: " + problem;
  missing_.erase(shape.event_id);
  left_out_.emplace(shape.event_id, problem);
  return {};
}

std::string join_state::take_event(std::string_view answer, const std::string& event_id) {
  if (!missing_.contains(event_id)) return {};
  try {
    for (const auto& [name, slice] : member_slices(answer)) {
      if (name != "pdus") continue;
      item_slices items(slice);
      if (auto first = items.next())
        return put(*first, event_id, state_ids_.contains(event_id), auth_ids_.contains(event_id));
    }
  } catch (const json_problem& bad) {
    return "its answer to /event can't be read: " + std::string(bad.what());
  }
  return "its answer to /event holds no event";
}

void join_state::do_without(const std::string& prev_event) {
  missing_.erase(prev_event);
  optional_.erase(prev_event);
}

std::string join_state::take_state(std::string_view answer) {
  try {
    for (const auto& [name, slice] : member_slices(answer)) {
      const bool state = name == "pdus";
      if (!state && name != "auth_chain") continue;
      item_slices items(slice);
      while (auto one = items.next())
        if (auto problem = put(*one, "", state, !state); !problem.empty()) return problem;
    }
  } catch (const json_problem& bad) {
    return "its answer to /state can't be read: " + std::string(bad.what());
  }
  for (const auto& id : missing_)
    if (!optional_.contains(id)) return "its answer to /state lacks " + id + ", which its state_ids names";
  return {};
}

std::map<std::string, std::map<std::string, std::int64_t>> join_state::wanted_keys() const {
  std::map<std::string, std::map<std::string, std::int64_t>> out;
  for (const auto& [id, one] : pieces_) {
    if (!one.came) continue;
    for (const auto& signer : one.shape.signers)
      for (const auto& [key_id, signature] : one.shape.signatures.at(signer)) {
        const auto at = rules_.key_validity ? one.shape.origin_server_ts : 0;
        auto [found, fresh] = out[signer].try_emplace(key_id, at);
        if (!fresh) found->second = std::min(found->second, at);
      }
  }
  return out;
}

std::string join_state::judge(const std::map<std::string, std::map<std::string, std::string>>& keys,
                              std::size_t at_most) {
  for (auto place = pieces_.upper_bound(judged_up_to_); place != pieces_.end();) {
    auto& [id, one] = *place++;
    if (!one.came) continue;
    if (at_most-- == 0) return {};
    judged_up_to_ = id;
    bool verified = true;
    std::string forged;
    for (const auto& signer : one.shape.signers) {
      const auto of_server = keys.find(signer);
      bool by_this = false;
      for (const auto& [key_id, signature] : one.shape.signatures.at(signer)) {
        if (of_server == keys.end()) break;
        const auto key = of_server->second.find(key_id);
        if (key == of_server->second.end() || key->second.empty()) continue;
        if (!verify_signature(key->second, signature, one.shape.signed_bytes))
          forged = "the signature of " + signer + " is wrong";
        by_this = true;
      }
      verified = verified && by_this;
    }
    if (forged.empty()) {
      unverified_ += !verified;
      continue;
    }
    if (auto problem = leave_out(one.shape, forged); !problem.empty()) return problem;
    pieces_.erase(judged_up_to_);
  }
  // A few bad events are the room's; so many are what this server made of it.
  if (left_out_.size() * 2 > state_ids_.size() + auth_ids_.size())
    return "more than half of the events that it gave can't be used; of one of them: " + left_out_.begin()->second;
  all_judged_ = true;
  return {};
}

complete_join join_state::take() {
  complete_join out;
  // State events among the prev_events stand over what was before them, in their order.
  std::map<std::pair<std::string, std::string>, std::string> places;
  auto place = [&](const std::string& id) {
    const auto found = pieces_.find(id);
    if (found != pieces_.end() && found->second.shape.state_key)
      places[{found->second.shape.type, *found->second.shape.state_key}] = id;
  };
  for (const auto& id : state_ids_)
    place(id);
  for (const auto& id : prev_events_)
    place(id);
  std::set<std::string> in_state;
  for (const auto& [where, id] : places) {
    in_state.insert(id);
    const auto& shape = pieces_.at(id).shape;
    if (where.first == "m.room.member" && is_user_id(where.second)) out.members[where.second] = {shape.membership, id};
    if (where.first == "m.room.server_acl" && where.second.empty()) {
      const json_document document(shape.event);
      element content;
      if (document.root()["content"].get(content) == SUCCESS) out.acl = canonical_json(content, numbers::lenient);
    }
  }
  for (auto& [id, one] : pieces_) {
    const bool state = in_state.contains(id), auth = auth_ids_.contains(id) || one.in_auth_chain;
    if (state || auth) out.events.push_back({id, state, auth, shared_text(one.came ? std::move(one.shape.event) : "")});
  }
  return out;
}

} // namespace ranvier
