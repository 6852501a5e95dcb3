#include "messages/event.hpp"

#include "messages/redaction.hpp"
#include "messages/signatures.hpp"

#include <algorithm>

namespace ranvier {

const std::vector<std::string>& known_room_versions() {
  static const std::vector<std::string> all{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"};
  return all;
}

std::optional<room_version_rules> rules_of(std::string_view room_version) {
  const auto& all = known_room_versions();
  const auto at = std::find(all.begin(), all.end(), room_version);
  if (at == all.end()) return std::nullopt;
  const int number = static_cast<int>(at - all.begin()) + 1;
  using id_form = room_version_rules::id_form;
  room_version_rules rules;
  rules.number = number;
  rules.redaction = number >= 11 ? 11 : number >= 9 ? 9 : number == 8 ? 8 : number >= 6 ? 6 : 1;
  rules.event_id = number >= 4 ? id_form::url_base64 : number == 3 ? id_form::standard_base64 : id_form::given;
  rules.number_rule = number >= 6 ? numbers::strict : numbers::lenient;
  rules.key_validity = number >= 5;
  rules.create_has_room_id = number < 12;
  return rules;
}

std::string redacted(simdjson::dom::element event, const room_version_rules& rules,
                     std::initializer_list<std::string_view> without) {
  return event_form(event, rules).redacted([&](std::string_view key) {
    return std::find(without.begin(), without.end(), key) != without.end();
  });
}

std::string content_hash(simdjson::dom::element event, const room_version_rules& rules) {
  return base64(sha256(event_form(event, rules).hashed_bytes()));
}

std::string event_id_of(simdjson::dom::element event, const room_version_rules& rules) {
  const event_form form(event, rules);
  return form.event_id(form.signed_bytes());
}

signed_event sign_event(std::string_view event, const room_version_rules& rules, std::string_view entity,
                        const signing_key& key) {
  const json_document document(event);
  event_form form(document.root(), rules);
  form.members().set("hashes", "{\"sha256\":\"" + base64(sha256(form.hashed_bytes())) + "\"}");
  const auto bytes = form.signed_bytes();
  form.members().set("signatures", signatures_with(document.root(), entity, key.key_id(), key.sign(bytes),
                                                   rules.number_rule));
  return {form.event_id(bytes), form.members().whole()};
}

} // namespace ranvier
