#include "messages/join_answer.hpp"

#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {

namespace {

using simdjson::SUCCESS;
using simdjson::dom::element;

// Unstable names of MSC3706, which older servers still use.
constexpr std::string_view old_omitted = "org.matrix.msc3706.partial_state";
constexpr std::string_view old_servers = "org.matrix.msc3706.servers_in_room";

bool is_true(std::string_view slice) { return slice == "true"; }

} // namespace

join_answer::join_answer(shared_text body, bool wrapped, join_offer offer, join_wish wish, bool asked_to_omit)
    : body_(std::move(body))
    , offer_(std::move(offer))
    , wish_(std::move(wish))
    , asked_to_omit_(asked_to_omit)
    , event_(offer_.event) {
  try {
    state_ = body_.view();
    if (wrapped) { // [200, {...}]
      item_slices items(state_);
      items.next();
      const auto second = items.next();
      if (!second) throw json_problem(true, "the old form of answer is a list of 200 and an object");
      state_ = *second;
    }
    open();
  } catch (const json_problem& bad) {
    problem_ = std::string("it can't be read: ") + bad.what();
  }
}

void join_answer::open() {
  const auto members = member_slices(state_);
  std::string_view state, auth_chain, servers, own;
  for (const auto& [name, slice] : members) {
    if (name == "state") state = slice;
    else if (name == "auth_chain") auth_chain = slice;
    else if (name == "servers_in_room" || (name == old_servers && servers.empty())) servers = slice;
    else if (name == "members_omitted" || name == old_omitted) omitted_ = omitted_ || is_true(slice);
    else if (name == "event") own = slice;
  }
  state_ = state;
  auth_chain_ = auth_chain;
  if (state.empty() || auth_chain.empty()) {
    problem_ = "it has no state or no auth_chain";
    return;
  }
  if (omitted_ && !asked_to_omit_) problem_ = "it omits the members though it wasn't asked to";
  if (problem_.empty() && omitted_) read_servers(servers);
  if (problem_.empty()) read_own_event(own);
  if (problem_.empty()) items_.emplace(state_);
}

/// P2: without them nobody would know whom the room's events go to.
void join_answer::read_servers(std::string_view slice) {
  std::set<std::string> names;
  if (!slice.empty()) {
    const json_document document(slice);
    simdjson::dom::array list;
    if (document.root().get_array().get(list) == SUCCESS)
      for (auto name : list)
        if (std::string_view text; name.get(text) == SUCCESS && is_server_name(text)) names.emplace(text);
  }
  servers_.assign(names.begin(), names.end());
  if (servers_.empty()) problem_ = "it omits the members but doesn't list servers_in_room";
}

/// J6, J7: the returned event has the resident's signature; a restricted join isn't valid without it.
void join_answer::read_own_event(std::string_view slice) {
  std::string bad = "it has no event";
  if (!slice.empty() && slice != "null") {
    const json_document document(slice);
    const auto shape = look_at_pdu(document.root(), offer_.rules);
    bad = problem_of_own_event(shape);
    if (bad.empty()) {
      event_ = shape.event;
      own_event_given_ = true;
    }
  }
  if (!bad.empty() && !offer_.authorised_by.empty()) problem_ = bad + ", which a restricted join needs";
}

std::string join_answer::problem_of_own_event(const pdu_shape& shape) const {
  if (!shape.ok) return "its event is none: " + shape.problem;
  if (shape.event_id != offer_.event_id || shape.room_id != wish_.room_id || !shape.hash_ok)
    return "its event isn't ours";
  const json_document ours(offer_.event);
  const auto sent = look_at_pdu(ours.root(), offer_.rules);
  const auto signed_by_us = shape.signatures.find(wish_.server_name);
  if (shape.signed_bytes != sent.signed_bytes || signed_by_us == shape.signatures.end() ||
      signed_by_us->second != sent.signatures.at(wish_.server_name))
    return "its event lacks our signature";
  if (!offer_.authorised_by.empty() && !shape.signatures.contains(offer_.authorised_by))
    return "its event lacks the signature of " + offer_.authorised_by;
  return {};
}

bool join_answer::walk(std::size_t events, const join_keys* keys) {
  try {
    while (problem_.empty() && events > 0) {
      const auto item = items_->next();
      if (!item) {
        if (!in_state_) return false;
        in_state_ = false;
        if (keys) out_ += R"(],"auth_chain":[)";
        items_.emplace(auth_chain_);
        continue;
      }
      --events;
      if (keys) judge_event(*item, in_state_, *keys);
      else look_at(*item, in_state_);
    }
  } catch (const json_problem& bad) {
    problem_ = std::string("it can't be read: ") + bad.what();
  }
  return problem_.empty();
}

bool join_answer::look(std::size_t events) {
  if (!problem_.empty()) return false;
  if (walk(events, nullptr)) return true;
  finish_looking();
  return false;
}

void join_answer::finish_looking() {
  if (problem_.empty() && create_id_.empty()) problem_ = "its state has no m.room.create event";
  if (!problem_.empty() || !own_event_given_ || offer_.authorised_by.empty()) return;
  const json_document document(event_);
  const auto shape = look_at_pdu(document.root(), offer_.rules);
  if (const auto found = shape.signatures.find(offer_.authorised_by); found != shape.signatures.end())
    for (const auto& [key_id, signature] : found->second)
      wanted_[offer_.authorised_by].try_emplace(key_id, offer_.rules.key_validity ? shape.origin_server_ts : 0);
}

void join_answer::look_at(std::string_view event, bool in_state) {
  const json_document document(event);
  const auto shape = look_at_pdu(document.root(), offer_.rules);
  if (!shape.ok) {
    if (string_member(document.root(), "type").value_or("") == "m.room.create")
      problem_ = "its m.room.create event can't be used: " + shape.problem;
    return;
  }
  if (shape.room_id != wish_.room_id) {
    problem_ = "it has an event of another room, " + shape.event_id;
    return;
  }
  if (shape.type == "m.room.create" && shape.state_key == "") look_at_create(event, shape);
  if (in_state && !shape.state_key) problem_ = "its state has an event without a state_key, " + shape.event_id;
  else if (in_state && !places_.emplace(shape.type, *shape.state_key).second)
    problem_ = "its state has two events for one place, " + shape.type + " of '" + *shape.state_key + "'";
  for (const auto& signer : shape.signers)
    if (const auto found = shape.signatures.find(signer); found != shape.signatures.end())
      for (const auto& [key_id, signature] : found->second) {
        const auto at = offer_.rules.key_validity ? shape.origin_server_ts : 0; // K8
        auto [place, fresh] = wanted_[signer].try_emplace(key_id, at);
        if (!fresh) place->second = std::min(place->second, at);
      }
}

/// Whoever makes up a create event takes over the room, so everything about it must fit.
void join_answer::look_at_create(std::string_view event, const pdu_shape& shape) {
  if (!create_id_.empty() && create_id_ != shape.event_id) {
    problem_ = "it has two m.room.create events";
    return;
  }
  const json_document document(event);
  element content;
  std::string version = "1";
  if (document.root()["content"]["room_version"].get(content) == SUCCESS) {
    std::string_view text;
    version = content.get(text) == SUCCESS ? std::string(text) : std::string();
  }
  if (!rules_of(version))
    problem_ = "its m.room.create event has the unknown room version '" + version.substr(0, 32) + "'";
  else if (version != offer_.room_version)
    problem_ = "its m.room.create event says room version " + version + ", make_join said " + offer_.room_version;
  else if (offer_.rules.create_has_room_id && server_of(shape.sender) != server_of(wish_.room_id))
    problem_ = "its m.room.create event isn't of the server that the room is named after";
  else if (!shape.hash_ok) problem_ = "its m.room.create event has a wrong hash";
  else if (in_state_) create_id_ = shape.event_id;
}

/// Empty if nothing is wrong. Every signature under a known key must be right (E4).
std::string join_answer::verdict_on(const pdu_shape& shape, const std::string& signer, const join_keys& keys,
                                    bool& verified) const {
  verified = false;
  const auto found = shape.signatures.find(signer);
  if (found == shape.signatures.end()) return {};
  const auto of_server = keys.find(signer);
  if (of_server == keys.end()) return {};
  for (const auto& [key_id, signature] : found->second) {
    const auto key = of_server->second.find(key_id);
    if (key == of_server->second.end() || key->second.empty()) continue;
    if (!verify_signature(key->second, signature, shape.signed_bytes))
      return "the signature of " + signer + " on " + shape.event_id + " (" + shape.type + ") is wrong";
    verified = true;
  }
  return {};
}

bool join_answer::judge(const join_keys& keys, std::size_t events) {
  if (!problem_.empty()) return false;
  if (!judging_) {
    judging_ = in_state_ = true;
    std::size_t rest = 4096 + event_.size();
    for (const auto& name : servers_)
      rest += name.size() + 8;
    out_.reserve(body_.size() + rest);
    out_ = R"({"state":[)";
    if (!offer_.authorised_by.empty()) {
      const json_document document(event_);
      bool verified = false;
      problem_ = verdict_on(look_at_pdu(document.root(), offer_.rules), offer_.authorised_by, keys, verified);
      if (!problem_.empty()) return false;
    }
    items_.emplace(state_);
  }
  if (walk(events, &keys)) return true;
  if (!problem_.empty()) return false;
  out_ += ']';
  body_ = {}; // from here on only what was taken out of it is held
  state_ = auth_chain_ = {};
  items_.reset();
  return false;
}

void join_answer::judge_event(std::string_view event, bool in_state, const join_keys& keys) {
  const json_document document(event);
  const auto shape = look_at_pdu(document.root(), offer_.rules);
  bool has_all = shape.ok, verified = true;
  for (const auto& signer : shape.signers) {
    bool by_this = false;
    problem_ = verdict_on(shape, signer, keys, by_this);
    if (!problem_.empty()) return;
    verified = verified && by_this;
    has_all = has_all && shape.signatures.contains(signer);
  }
  if (!has_all) {
    if (shape.event_id == create_id_) problem_ = "its m.room.create event isn't signed by its sender's server";
    ++left_out_;
    return;
  }
  if (!verified) ++unverified_;
  keep(event, shape, in_state);
  if (in_state) learn(shape.event, shape);
}

void join_answer::keep(std::string_view raw, const pdu_shape& shape, bool in_state) {
  if (out_.back() != '[') out_ += ',';
  if (shape.hash_ok) out_ += raw;
  else out_ += shape.event; // E5: the redacted copy
  if (!omitted_) return;
  auto [place, fresh] = records_by_id_.try_emplace(shape.event_id, records_.size());
  if (fresh) records_.push_back({shape.event_id, false, false, shared_text(shape.event)});
  auto& record = records_[place->second];
  (in_state ? record.in_state : record.in_auth_chain) = true;
}

/// What the roster and the ACL take from the state. `event` may be the redacted copy.
void join_answer::learn(std::string_view event, const pdu_shape& shape) {
  if (shape.type == "m.room.member") {
    static const std::set<std::string, std::less<>> all{"join", "leave", "ban", "invite", "knock"};
    if (is_user_id(*shape.state_key) && all.contains(shape.membership)) members_[*shape.state_key] = shape.membership;
  } else if (shape.type == "m.room.server_acl" && shape.state_key->empty()) {
    const json_document document(event);
    element content;
    if (document.root()["content"].get(content) == SUCCESS) acl_ = canonical_json(content, numbers::lenient);
  }
}

record_join join_answer::take_record(const std::string& joined_via) {
  if (!omitted_) { // whoever was shown to be in it
    std::set<std::string> names;
    for (const auto& [user, membership] : members_)
      if (membership == "join") names.emplace(server_of(user));
    servers_.assign(names.begin(), names.end());
  }
  record_join out;
  out.room_id = wish_.room_id;
  out.room_version = offer_.room_version;
  out.user_id = wish_.user_id;
  out.event_id = offer_.event_id;
  out.event = event_;
  out.joined_via = joined_via;
  out.members_omitted = omitted_;
  out.servers_in_room = servers_;
  out.members = std::move(members_);
  out.acl = std::move(acl_);
  out.events = std::move(records_);
  records_by_id_.clear();
  return out;
}

std::string join_answer::take_answer(bool partial, const std::string& joined_via) {
  auto out = std::move(out_);
  out += R"(,"room_id":)" + json_string(wish_.room_id) + R"(,"event_id":)" + json_string(offer_.event_id) +
         R"(,"event":)" + event_ + R"(,"room_version":)" + json_string(offer_.room_version) + R"(,"joined_via":)" +
         json_string(joined_via) + R"(,"partial":)" + (partial ? "true" : "false") + R"(,"servers_in_room":[)";
  for (std::size_t i = 0; i < servers_.size(); ++i)
    out += (i > 0 ? "," : "") + json_string(servers_[i]);
  out += "]}"; // not a copy: it may be long
  return out;
}

} // namespace ranvier
