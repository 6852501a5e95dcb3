#include "storage/own_list_texts.hpp"

#include "messages/canonical_json.hpp"
#include "messages/canonical_object.hpp"

namespace ranvier::storage {

namespace {

/// Appends members of an object; the caller gives them in canonical order.
class object_text {
public:
  void member(std::string_view key, std::string_view json) {
    text_ += text_.size() > 1 ? "," : "";
    append_json_string(text_, key);
    text_.append(":").append(json);
  }
  void text_member(std::string_view key, std::string_view text) { member(key, json_string(text)); }
  void key_member(std::string_view key, const query& row, int column) {
    if (!row.null(column)) member(key, row.view(column));
  }
  std::string done() { return std::move(text_ += '}'); }

private:
  std::string text_ = "{";
};

std::string edu(std::string_view type, const std::string& content) {
  return "{\"content\":" + content + ",\"edu_type\":" + json_string(type) + "}";
}

std::string numbers_of(const std::vector<std::int64_t>& ids) {
  std::string out = "[";
  for (auto id : ids)
    out += (out.size() > 1 ? "," : "") + std::to_string(id);
  return out += ']';
}

} // namespace

std::string own_list_texts::device_update(std::string_view user, std::string_view device, std::int64_t stream_id,
                                          const std::vector<std::int64_t>& prev_ids) {
  object_text content;
  auto row = db_.ask("SELECT keys, display_name FROM local_device WHERE user = ? AND device = ? AND deleted = 0", user,
                     device);
  const bool there = row.step();
  if (!there) content.member("deleted", "true");
  if (there && display_names_ && !row.view(1).empty()) content.text_member("device_display_name", row.view(1));
  content.text_member("device_id", device);
  if (there) content.key_member("keys", row, 0);
  content.member("prev_id", numbers_of(prev_ids));
  content.member("stream_id", std::to_string(stream_id));
  content.text_member("user_id", user);
  return edu("m.device_list_update", content.done());
}

std::string own_list_texts::signing_update(std::string_view user) {
  object_text content;
  auto row = db_.ask("SELECT master_key, self_signing_key FROM cross_signing WHERE user = ?", user);
  if (row.step()) {
    content.key_member("master_key", row, 0);
    content.key_member("self_signing_key", row, 1);
  }
  content.text_member("user_id", user);
  return edu("m.signing_key_update", content.done());
}

bool own_list_texts::has_signing_keys(std::string_view user) {
  return db_
      .integer(
          "SELECT 1 FROM cross_signing WHERE user = ? AND (master_key IS NOT NULL OR self_signing_key IS NOT NULL)",
          user)
      .has_value();
}

std::string own_list_texts::list(std::string_view user, std::int64_t stream_id) {
  std::string devices = "[";
  auto rows = db_.ask("SELECT keys, display_name, device FROM local_device WHERE user = ? AND deleted = 0 "
                      "ORDER BY device",
                      user);
  while (rows.step()) {
    object_text one;
    if (display_names_ && !rows.view(1).empty()) one.text_member("device_display_name", rows.view(1));
    one.text_member("device_id", rows.view(2));
    one.key_member("keys", rows, 0);
    devices += (devices.size() > 1 ? "," : "") + one.done();
  }
  object_text out;
  out.member("devices", devices + "]");
  auto keys = db_.ask("SELECT master_key, self_signing_key FROM cross_signing WHERE user = ?", user);
  if (keys.step()) {
    out.key_member("master_key", keys, 0);
    out.key_member("self_signing_key", keys, 1);
  }
  out.member("stream_id", std::to_string(stream_id));
  out.text_member("user_id", user);
  return out.done();
}

std::string own_list_texts::with_name(const std::string& keys, std::string_view name) {
  json_document document(keys);
  canonical_object out(document.root(), numbers::strict);
  std::string with = "{\"device_display_name\":" + json_string(name) + "}";
  out.set("unsigned", with);
  return out.whole();
}

} // namespace ranvier::storage
