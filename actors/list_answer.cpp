#include "actors/list_answer.hpp"

#include "messages/canonical_json.hpp"

#include <algorithm>
#include <set>

namespace ranvier {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t max_keys_bytes = 65'536;
constexpr std::size_t max_id_bytes = 255; // N8
constexpr std::size_t max_name_bytes = 4'096;

bool usable(std::string_view text, std::size_t longest) {
  return text.size() <= longest && text.find('\0') == std::string_view::npos;
}

/// Canonical JSON; nothing if it can't be used.
std::string text_of(dom::element value) {
  try {
    auto text = canonical_json(value);
    return text.size() > max_keys_bytes || text.find("\\u0000") != std::string::npos ? std::string() : text;
  } catch (const json_problem&) {
    return {};
  }
}

/// If the member is there it must be this.
bool says(dom::element object, std::string_view key, std::string_view wanted) {
  dom::element value;
  if (object[key].get(value)) return true;
  std::string_view text;
  return !value.get(text) && text == wanted;
}

/// A cross-signing key of the user (U13), or nothing; its public keys go into `taken`.
std::string cross_signing_key(dom::element body, std::string_view name, const std::string& user,
                              std::set<std::string, std::less<>>& taken) {
  dom::element key;
  dom::object keys;
  if (body[name].get(key) || !key.is_object() || !says(key, "user_id", user) || key["keys"].get(keys)) return {};
  auto text = text_of(key);
  if (!text.empty())
    for (auto [id, value] : keys)
      if (std::string_view public_key; !value.get(public_key)) taken.emplace(public_key);
  return text;
}

std::optional<remote_device> device_of(dom::element entry, const std::string& user,
                                       const std::set<std::string, std::less<>>& taken) {
  if (!entry.is_object()) return {};
  const auto id = string_member(entry, "device_id");
  if (!id || id->empty() || !usable(*id, max_id_bytes) || taken.contains(*id)) return {};
  remote_device out;
  out.device = *id;
  if (const auto name = string_member(entry, "device_display_name"); name && usable(*name, max_name_bytes))
    out.display_name = *name;
  dom::element keys;
  if (entry["keys"].get(keys) || keys.is_null()) return out;
  if (!keys.is_object() || !says(keys, "user_id", user) || !says(keys, "device_id", *id)) return {};
  out.keys = text_of(keys);
  if (out.keys.empty()) return {};
  return out;
}

read_list refused(read_list out, const std::string& problem) {
  if (out.how == fetch_end::failed) out.how = fetch_end::refused;
  out.list.is = save_device_list::outcome::refused;
  out.list.problem = problem;
  return out;
}

/// What a server says of its refusal, short.
std::string words_of(std::string_view body) {
  try {
    const json_document document(body);
    const auto code = string_member(document.root(), "errcode"), words = string_member(document.root(), "error");
    std::string out(code.value_or("").substr(0, 64));
    if (words && !words->empty()) out += (out.empty() ? "" : ": ") + std::string(words->substr(0, 200));
    return out;
  } catch (const json_problem&) {
    return {};
  }
}

} // namespace

read_list read_device_list(const std::string& user, int status, std::string_view body, std::size_t devices_per_user) {
  read_list out;
  out.list.user = user;
  if (status != 200) {
    if (status == 404) out.how = fetch_end::unknown;
    const auto words = words_of(body);
    return refused(std::move(out), "its server answered " + std::to_string(status) +
                                       (words.empty() ? std::string() : " (" + words + ")"));
  }
  try {
    const json_document document(body, max_body_depth);
    const auto root = document.root();
    dom::array devices;
    if (!root.is_object()) return refused(std::move(out), "its server's answer is no JSON object");
    if (!says(root, "user_id", user)) return refused(std::move(out), "its server answered for another user");
    if (root["stream_id"].get(out.list.stream_id))
      return refused(std::move(out), "its server's answer has no stream_id");
    if (root["devices"].get(devices)) return refused(std::move(out), "its server's answer has no list of devices");
    std::set<std::string, std::less<>> taken;
    out.list.master_key = cross_signing_key(root, "master_key", user, taken);
    out.list.self_signing_key = cross_signing_key(root, "self_signing_key", user, taken);
    std::set<std::string> seen;
    for (auto entry : devices) {
      auto device = device_of(entry, user, taken);
      if (!device || !seen.insert(device->device).second) continue;
      if (seen.size() > devices_per_user) {
        out.how = fetch_end::too_large;
        out.list.is = save_device_list::outcome::too_large;
        out.list.devices.clear();
        out.list.problem = "its list has more than " + std::to_string(devices_per_user) + " devices";
        return out;
      }
      out.list.devices.push_back(std::move(*device));
    }
    out.how = fetch_end::list;
    out.list.is = save_device_list::outcome::list;
    return out;
  } catch (const json_problem& problem) {
    return refused(std::move(out), std::string("its server's answer can't be used: ") + problem.what());
  }
}

} // namespace ranvier
