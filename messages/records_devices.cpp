#include "messages/record_fields.hpp"

namespace ranvier {

namespace {

namespace dom = simdjson::dom;

/// Keys need no more than five levels; what is deeper is refused before anybody walks it.
constexpr int max_keys_depth = 10;
/// A public key is some dozens of bytes.
constexpr std::size_t max_key_bytes = 4096;

std::string whole_keys(const fields& keys, dom::element value, const std::string& path) {
  if (has_nul(value)) bad_value('"' + path + "\" must not hold a NUL character");
  if (depth_of(value) > max_keys_depth) bad_shape('"' + path + "\" is nested more than 10 levels deep");
  auto text = canonical_member(value, path);
  if (text.size() > max_item_bytes)
    too_large('"' + path + "\" has " + std::to_string(text.size()) +
              " bytes as canonical JSON, at most 65536 are allowed");
  // Signatures: user -> key id -> text.
  if (auto signatures = keys.find("signatures")) {
    auto signed_by = fields_of(*signatures, path + ".signatures");
    for (auto [signer, by_key] : signed_by.object()) {
      auto one = signed_by.name(signer);
      for (auto [id, signature] : fields_of(by_key, one).object())
        string_of(signature, one + '.' + std::string(id));
    }
  }
  return text;
}

void must_be(const fields& keys, std::string_view key, const std::string& wanted) {
  auto found = string_of(keys.need(key), keys.name(key));
  if (found != wanted)
    bad_value('"' + keys.name(key) + "\" must be " + in_quotes(wanted) + ", it is " + in_quotes(found));
}

void list_of_strings(const fields& in, std::string_view key) {
  dom::array list;
  if (in.need(key).get(list) != simdjson::SUCCESS) bad_shape('"' + in.name(key) + "\" must be a list of strings");
  for (dom::element each : list)
    string_of(each, in.name(key) + "[]");
}

/// U14. Extra members are kept: other implementations sign them. But `unsigned` is the host's own: a display name in it
/// would leave although [federation] display_names is false, or beside the true one.
std::string device_keys(const fields& in, const std::string& user_id, const std::string& device_id) {
  fields keys = in.child("keys");
  must_be(keys, "user_id", user_id);
  must_be(keys, "device_id", device_id);
  list_of_strings(keys, "algorithms");
  fields by_id = keys.child("keys");
  for (auto [id, key] : by_id.object()) {
    if (id.empty() || id.size() > max_id_bytes) bad_value("\"keys.keys\": a key id has 1 to 255 bytes");
    string_of(key, by_id.name(id));
  }
  keys.child("signatures");
  auto text = whole_keys(keys, in.need("keys"), "keys");
  return keys.find("unsigned") ? canonical_json(in.need("keys"), numbers::strict, {"unsigned"}) : text;
}

/// U13: exactly one ed25519 key that is named by itself.
std::string cross_signing_key(const fields& in, std::string_view name, const std::string& user_id,
                              std::string_view usage, bool signed_by_master) {
  fields key = in.child(name);
  must_be(key, "user_id", user_id);
  list_of_strings(key, "usage");
  bool usable = false;
  for (dom::element each : dom::array(key.need("usage").get_array()))
    usable = usable || std::string_view(each.get_string()) == usage;
  if (!usable) bad_value('"' + key.name("usage") + "\" must hold " + in_quotes(usage));
  fields keys = key.child("keys");
  if (keys.object().size() != 1) bad_value('"' + key.name("keys") + "\" must hold exactly one key");
  for (auto [id, value] : keys.object()) {
    auto text = string_of(value, keys.name(id));
    if (text.empty() || id != "ed25519:" + std::string(text))
      bad_value('"' + keys.name(id) + "\" must be named ed25519:<the public key itself>");
  }
  if (signed_by_master && key.child("signatures").object().size() == 0)
    bad_value('"' + key.name("signatures") + "\" is empty: the master key must have signed it");
  return whole_keys(key, in.need(name), std::string(name));
}

change<std::string> cross_signing_change(const fields& in, std::string_view name, const std::string& user_id,
                                         std::string_view usage, bool signed_by_master) {
  using what = change<std::string>::what;
  if (in.is_null(name)) return {what::removed, {}};
  if (!in.find(name)) return {};
  return {what::given, cross_signing_key(in, name, user_id, usage, signed_by_master)};
}

/// "alg:id" -> a string, or an object that has the key as a string.
std::map<std::string, std::string> keys_to_claim(const fields& in, std::string_view name) {
  std::map<std::string, std::string> out;
  fields keys = in.child(name);
  for (auto [id, value] : keys.object()) {
    auto path = keys.name(id);
    auto colon = id.find(':');
    if (colon == 0 || colon == std::string_view::npos || colon + 1 == id.size() || id.size() > max_id_bytes)
      bad_value('"' + std::string(name) + "\" holds " + in_quotes(id) +
                "; a key id is <algorithm>:<id>, at most 255 bytes");
    if (value.is_object()) {
      fields key = fields_of(value, path);
      key.text("key", max_key_bytes);
      out.emplace(id, whole_keys(key, value, path));
    } else if (value.is_string()) {
      auto text = string_of(value, path);
      if (has_nul(text)) bad_value('"' + path + "\" must not hold a NUL character");
      if (text.size() > max_key_bytes) too_large('"' + path + "\" has more than 4096 bytes");
      out.emplace(id, canonical_member(value, path));
    } else {
      bad_shape('"' + path + "\" must be a string or an object with \"key\"");
    }
    if (has_nul(id)) bad_value('"' + std::string(name) + "\": a key id must not hold a NUL character");
  }
  return out;
}

} // namespace

record read_device(const fields& in, std::string_view server_name) {
  using what = change<std::string>::what;
  device_record out;
  out.user_id = in.local_user("user_id", server_name);
  out.device_id = in.text("device_id");
  out.deleted = in.flag("deleted");
  out.initial = in.flag("initial");
  if (in.is_null("keys")) out.keys.is = what::removed;
  else if (in.find("keys")) out.keys = {what::given, device_keys(in, out.user_id, out.device_id)};
  if (in.is_null("display_name")) {
    out.display_name.is = what::removed;
  } else if (auto name = in.find("display_name")) {
    auto text = string_of(*name, "display_name");
    if (has_nul(text)) bad_value("\"display_name\" must not hold a NUL character");
    if (text.size() > 4096) too_large("\"display_name\" has more than 4096 bytes");
    out.display_name = {what::given, std::string(text)};
  }
  return out;
}

record read_cross_signing(const fields& in, std::string_view server_name) {
  cross_signing_record out;
  out.user_id = in.local_user("user_id", server_name);
  out.master_key = cross_signing_change(in, "master_key", out.user_id, "master", false);
  out.self_signing_key = cross_signing_change(in, "self_signing_key", out.user_id, "self_signing", true);
  out.user_signing_key = cross_signing_change(in, "user_signing_key", out.user_id, "user_signing", true);
  return out;
}

record read_one_time_keys(const fields& in, std::string_view server_name) {
  one_time_keys_record out;
  out.user_id = in.local_user("user_id", server_name);
  out.device_id = in.text("device_id");
  if (in.is_null("one_time_keys"))
    bad_shape("\"one_time_keys\" can't be null: keys go by being claimed, or with their device");
  if (in.find("one_time_keys")) out.one_time_keys = keys_to_claim(in, "one_time_keys");
  using what = change<std::map<std::string, std::string>>::what;
  if (in.is_null("fallback_keys")) out.fallback_keys.is = what::removed;
  else if (in.find("fallback_keys")) out.fallback_keys = {what::given, keys_to_claim(in, "fallback_keys")};
  return out;
}

} // namespace ranvier
