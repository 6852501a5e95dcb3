#include "messages/signatures.hpp"

#include <map>

namespace ranvier {

std::string signatures_with(simdjson::dom::element object, std::string_view entity, std::string_view key_id,
                            std::string_view signature, numbers rule) {
  // Values as canonical JSON text, so that what others wrote there is kept, whatever it is.
  std::map<std::string_view, std::map<std::string_view, std::string>> entries;
  simdjson::dom::element there;
  if (object["signatures"].get(there) == simdjson::SUCCESS) {
    simdjson::dom::object by_entity;
    if (there.get_object().get(by_entity) != simdjson::SUCCESS)
      throw json_problem(true, "The member \"signatures\" must be an object.");
    for (auto one : by_entity) {
      simdjson::dom::object by_key;
      if (one.value.get_object().get(by_key) != simdjson::SUCCESS)
        throw json_problem(true, "Each member of \"signatures\" must be an object.");
      auto& keys = entries[one.key];
      for (auto field : by_key) keys[field.key] = canonical_json(field.value, rule);
    }
  }
  entries[entity][key_id] = json_string(signature);

  std::string out;
  const auto separate = [&out](bool first) { out += first ? '{' : ','; };
  for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
    separate(entry == entries.begin());
    append_json_string(out, entry->first);
    out += ':';
    const auto& keys = entry->second;
    if (keys.empty()) out += '{';
    for (auto key = keys.begin(); key != keys.end(); ++key) {
      separate(key == keys.begin());
      append_json_string(out, key->first);
      out += ':';
      out += key->second;
    }
    out += '}';
  }
  out += '}';
  return out;
}

} // namespace ranvier
