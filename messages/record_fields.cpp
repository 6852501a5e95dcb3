#include "messages/record_fields.hpp"

#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {

namespace dom = simdjson::dom;

void bad_shape(const std::string& sentence) { throw bad_record{"M_BAD_JSON", sentence}; }
void bad_value(const std::string& sentence) { throw bad_record{"M_INVALID_PARAM", sentence}; }
void too_large(const std::string& sentence) { throw bad_record{"M_TOO_LARGE", sentence}; }

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 60;
  std::size_t end = std::min(text.size(), most);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;
  std::string out = "\"";
  for (char c : text.substr(0, end))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out + (end < text.size() ? "...\"" : "\"");
}

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

bool has_nul(dom::element value) {
  if (value.is_string()) return has_nul(std::string_view(value.get_string()));
  if (value.is_array()) {
    for (dom::element item : dom::array(value.get_array()))
      if (has_nul(item)) return true;
  } else if (value.is_object()) {
    for (auto [key, item] : dom::object(value.get_object()))
      if (has_nul(key) || has_nul(item)) return true;
  }
  return false;
}

int depth_of(dom::element value) {
  int deepest = 0;
  if (value.is_array()) {
    for (dom::element item : dom::array(value.get_array()))
      deepest = std::max(deepest, depth_of(item));
  } else if (value.is_object()) {
    for (auto [key, item] : dom::object(value.get_object()))
      deepest = std::max(deepest, depth_of(item));
  }
  return deepest + 1;
}

std::size_t code_points(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string canonical_member(dom::element value, const std::string& path, numbers rule) {
  try {
    return canonical_json(value, rule);
  } catch (const json_problem& problem) {
    bad_shape('"' + path + "\" can't be sent: " + problem.what());
  }
}

fields fields_of(dom::element value, const std::string& path) {
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) bad_shape('"' + path + "\" must be a JSON object");
  return {object, path};
}

std::string_view string_of(dom::element value, const std::string& path) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) bad_shape('"' + path + "\" must be a string");
  return text;
}

std::string fields::name(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

std::optional<dom::element> fields::find(std::string_view key) const {
  dom::element value;
  if (object_.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

bool fields::is_null(std::string_view key) const {
  dom::element value;
  return object_.at_key(key).get(value) == simdjson::SUCCESS && value.is_null();
}

dom::element fields::need(std::string_view key) const {
  auto value = find(key);
  if (!value) bad_shape('"' + name(key) + "\" is missing");
  return *value;
}

std::string fields::text(std::string_view key, std::size_t max) const {
  auto text = string_of(need(key), name(key));
  if (text.empty()) bad_value('"' + name(key) + "\" must not be empty");
  if (text.size() > max)
    bad_value('"' + name(key) + "\" has " + std::to_string(text.size()) + " bytes, at most " + std::to_string(max) +
              " are allowed");
  if (has_nul(text)) bad_value('"' + name(key) + "\" must not hold a NUL character");
  return std::string(text);
}

std::string fields::maybe_text(std::string_view key, std::size_t max) const {
  return find(key) ? text(key, max) : std::string();
}

std::string fields::user(std::string_view key) const {
  auto id = string_of(need(key), name(key));
  if (!is_user_id(id))
    bad_value('"' + name(key) + "\" must be a user id like @name:server of at most 255 bytes, it is " + in_quotes(id));
  return std::string(id);
}

std::string fields::local_user(std::string_view key, std::string_view server_name) const {
  auto id = user(key);
  if (server_of(id) != server_name)
    bad_value('"' + name(key) + "\" must be a user of ours (of " + std::string(server_name) + "), it is " +
              in_quotes(id));
  return id;
}

std::string fields::room(std::string_view key) const {
  auto id = string_of(need(key), name(key));
  if (!is_room_id(id))
    bad_value('"' + name(key) + "\" must be a room id that begins with ! and has at most 255 bytes, it is " +
              in_quotes(id));
  return std::string(id);
}

std::string fields::event(std::string_view key) const {
  auto id = string_of(need(key), name(key));
  if (!is_event_id(id))
    bad_value('"' + name(key) + "\" must be an event id that begins with $ and has at most 255 bytes, it is " +
              in_quotes(id));
  return std::string(id);
}

std::string fields::server(std::string_view key) const {
  auto text = string_of(need(key), name(key));
  if (!is_server_name(text)) bad_value('"' + name(key) + "\" must be a server name, it is " + in_quotes(text));
  return std::string(text);
}

std::string fields::one_of(std::string_view key, std::initializer_list<std::string_view> allowed) const {
  auto text = string_of(need(key), name(key));
  if (std::find(allowed.begin(), allowed.end(), text) != allowed.end()) return std::string(text);
  std::string list;
  for (auto word : allowed)
    list += (list.empty() ? "" : ", ") + std::string(word);
  bad_value('"' + name(key) + "\" must be one of " + list + "; it is " + in_quotes(text));
}

bool fields::flag(std::string_view key) const {
  auto value = find(key);
  if (!value) return false;
  bool flag = false;
  if (value->get(flag) != simdjson::SUCCESS) bad_shape('"' + name(key) + "\" must be true or false");
  return flag;
}

std::optional<std::int64_t> fields::natural(std::string_view key) const {
  auto value = find(key);
  if (!value) return std::nullopt;
  std::int64_t number = 0;
  if (value->get(number) != simdjson::SUCCESS || number < 0)
    bad_shape('"' + name(key) + "\" must be an integer from 0 to 2^63 - 1");
  return number;
}

fields fields::child(std::string_view key) const { return fields_of(need(key), name(key)); }

std::optional<std::vector<std::string>> fields::servers(std::string_view key, std::string_view ours) const {
  auto value = find(key);
  if (!value) return std::nullopt;
  dom::array list;
  if (value->get(list) != simdjson::SUCCESS) bad_shape('"' + name(key) + "\" must be a list of server names");
  std::vector<std::string> out;
  for (dom::element item : list) {
    auto server = string_of(item, name(key) + "[]");
    if (!is_server_name(server))
      bad_value('"' + name(key) + "\" holds " + in_quotes(server) + ", which is no server name");
    if (server != ours) out.emplace_back(server);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string room_version_of(const fields& in, bool required) {
  auto version = required ? in.text("room_version") : in.maybe_text("room_version");
  if (code_points(version) > 32) bad_value("\"room_version\" has more than 32 characters");
  return version;
}

std::string membership_of(std::string_view text, const std::string& path) {
  for (std::string_view known : {"join", "leave", "ban", "invite", "knock"})
    if (text == known) return std::string(text);
  bad_value('"' + path + "\" must be one of join, leave, ban, invite, knock; it is " + in_quotes(text));
}

} // namespace ranvier
