#include "actors/key_questions.hpp"

#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {
namespace {

namespace dom = simdjson::dom;

/// "timeout" of a body, bounded; a sentence if it can't be used.
std::string read_timeout(dom::element body, std::int64_t& timeout_ms) {
  dom::element value;
  if (body["timeout"].get(value) || value.is_null()) return {};
  std::int64_t given = 0;
  if (value.get(given) || given < 0) return "'timeout' must be an integer from 0, in milliseconds";
  timeout_ms = std::min(given, longest_keys_timeout_ms);
  return {};
}

/// Commas between members, an object around them.
class object_text {
public:
  explicit object_text(std::string& out)
      : out_(out) {
    out_ += '{';
  }
  std::string& member(std::string_view key) {
    if (!first_) out_ += ',';
    first_ = false;
    append_json_string(out_, key);
    out_ += ':';
    return out_;
  }
  void end() { out_ += '}'; }

private:
  std::string& out_;
  bool first_ = true;
};

void append_texts(std::string& out, const std::map<std::string, std::string>& texts) {
  object_text object(out);
  for (const auto& [key, text] : texts)
    object.member(key) += text;
  object.end();
}

void append_failures(std::string& out, const std::map<std::string, std::string>& failures) {
  object_text object(out);
  for (const auto& [server, why] : failures) {
    auto& text = object.member(server);
    text += R"({"errcode":"M_RANVIER_UNREACHABLE","error":)" + json_string(why) + "}";
  }
  object.end();
}

bool says(dom::element object, std::string_view key, std::string_view wanted) {
  const auto text = string_member(object, key);
  return text && *text == wanted;
}

/// As another server has it: other numbers than integers are no reason to lose a key.
std::string text_of(dom::element value) {
  try {
    return canonical_json(value, numbers::lenient);
  } catch (const json_problem&) {
    return {};
  }
}

std::map<std::string, std::string> devices_of(dom::element by_device, const std::string& user) {
  std::map<std::string, std::string> out;
  dom::object devices;
  if (by_device.get(devices)) return out;
  for (auto [id, keys] : devices) {
    if (!keys.is_object() || !says(keys, "user_id", user) || !says(keys, "device_id", id)) continue;
    if (auto text = text_of(keys); !text.empty()) out.emplace(id, std::move(text));
  }
  return out;
}

std::string cross_signing_key(dom::element root, const char* kind, const std::string& user) {
  dom::element of_kind, key;
  if (root[kind].get(of_kind) || !of_kind.is_object() || of_kind[user].get(key)) return {};
  return key.is_object() && says(key, "user_id", user) ? text_of(key) : std::string();
}

} // namespace

query_read read_query(dom::element body) {
  query_read out;
  dom::object users;
  if (!body.is_object() || body["device_keys"].get(users)) {
    out.problem = "the body needs 'device_keys': an object of users, each with a list of device ids";
    return out;
  }
  for (auto [user, devices] : users) {
    dom::array list;
    if (devices.get(list)) {
      out.problem = "'device_keys': the value of " + std::string(user) + " must be a list of device ids";
      return out;
    }
    std::vector<std::string> ids;
    for (auto device : list) {
      std::string_view id;
      if (device.get(id)) {
        out.problem = "'device_keys': the list of " + std::string(user) + " must hold strings only";
        return out;
      }
      ids.emplace_back(id);
    }
    if (is_user_id(user) && is_server_name(server_of(user))) out.users[std::string(user)] = std::move(ids);
  }
  out.problem = read_timeout(body, out.timeout_ms);
  return out;
}

claim_read read_claim(dom::element body) {
  claim_read out;
  dom::object users;
  if (!body.is_object() || body["one_time_keys"].get(users)) {
    out.problem = "the body needs 'one_time_keys': an object of users, each with an object of devices and algorithms";
    return out;
  }
  for (auto [user, by_device] : users) {
    dom::object devices;
    if (by_device.get(devices)) {
      out.problem = "'one_time_keys': the value of " + std::string(user) + " must be an object of devices";
      return out;
    }
    const bool usable = is_user_id(user) && is_server_name(server_of(user));
    for (auto [device, algorithm] : devices) {
      std::string_view name;
      if (algorithm.get(name)) {
        out.problem = "'one_time_keys': the algorithm for " + std::string(device) + " of " + std::string(user) +
                      " must be a string";
        return out;
      }
      if (usable) out.wanted[std::string(user)][std::string(device)] = name;
    }
  }
  out.problem = read_timeout(body, out.timeout_ms);
  return out;
}

std::string query_text(const devices_asked& users) {
  std::string out;
  object_text body(out);
  object_text by_user(body.member("device_keys"));
  for (const auto& [user, devices] : users) {
    auto& text = by_user.member(user) += '[';
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (i > 0) text += ',';
      append_json_string(text, devices[i]);
    }
    text += ']';
  }
  by_user.end();
  body.end();
  return out;
}

std::string claim_text(const keys_claimed& wanted) {
  std::string out;
  object_text body(out);
  object_text by_user(body.member("one_time_keys"));
  for (const auto& [user, devices] : wanted) {
    object_text by_device(by_user.member(user));
    for (const auto& [device, algorithm] : devices)
      append_json_string(by_device.member(device), algorithm);
    by_device.end();
  }
  by_user.end();
  body.end();
  return out;
}

query_answer read_query_answer(std::string_view body, const devices_asked& asked) {
  query_answer out;
  try {
    const json_document document(body, max_body_depth);
    const auto root = document.root();
    dom::object device_keys;
    if (!root.is_object() || root["device_keys"].get(device_keys)) {
      out.problem = "its answer has no device_keys";
      return out;
    }
    for (const auto& [user, ids] : asked) {
      known_keys_of_user one;
      dom::element by_device;
      const bool there = device_keys[user].get(by_device) == simdjson::SUCCESS;
      if (there) one.devices = devices_of(by_device, user);
      one.master_key = cross_signing_key(root, "master_keys", user);
      one.self_signing_key = cross_signing_key(root, "self_signing_keys", user);
      if (there || !one.master_key.empty() || !one.self_signing_key.empty()) out.users.emplace(user, std::move(one));
    }
  } catch (const json_problem& problem) {
    out.problem = std::string("its answer can't be used: ") + problem.what();
  }
  return out;
}

claim_answer read_claim_answer(std::string_view body, const keys_claimed& asked) {
  claim_answer out;
  try {
    const json_document document(body, max_body_depth);
    dom::object users;
    if (!document.root().is_object() || document.root()["one_time_keys"].get(users)) {
      out.problem = "its answer has no one_time_keys";
      return out;
    }
    for (const auto& [user, devices] : asked) {
      dom::element by_device;
      if (users[user].get(by_device) || !by_device.is_object()) continue;
      for (const auto& [device, algorithm] : devices) {
        dom::object keys;
        if (by_device[device].get(keys)) continue;
        for (auto [id, key] : keys) {
          if (!std::string_view(id).starts_with(algorithm + ":") || !(key.is_string() || key.is_object())) continue;
          auto text = text_of(key);
          if (text.empty()) continue;
          out.keys[user][device].emplace(id, std::move(text));
          break;
        }
      }
    }
  } catch (const json_problem& problem) {
    out.problem = std::string("its answer can't be used: ") + problem.what();
  }
  return out;
}

void query_result::add(const std::string& user, const known_keys_of_user& keys,
                       const std::vector<std::string>& devices) {
  auto& mine = devices_[user];
  for (const auto& [id, text] : keys.devices)
    if (devices.empty() || std::find(devices.begin(), devices.end(), id) != devices.end()) mine[id] = text;
  if (!keys.master_key.empty()) master_[user] = keys.master_key;
  if (!keys.self_signing_key.empty()) self_signing_[user] = keys.self_signing_key;
  if (!keys.user_signing_key.empty()) user_signing_[user] = keys.user_signing_key;
}

std::string query_result::text(bool with_failures) const {
  std::string out;
  object_text body(out);
  object_text by_user(body.member("device_keys"));
  for (const auto& [user, devices] : devices_)
    append_texts(by_user.member(user), devices);
  by_user.end();
  if (with_failures) append_failures(body.member("failures"), failures_);
  append_texts(body.member("master_keys"), master_);
  append_texts(body.member("self_signing_keys"), self_signing_);
  if (with_failures) append_texts(body.member("user_signing_keys"), user_signing_); // F5
  body.end();
  return out;
}

std::string claim_result_text(const claimed_keys& keys, const std::map<std::string, std::string>* failures) {
  std::string out;
  object_text body(out);
  if (failures) append_failures(body.member("failures"), *failures);
  object_text by_user(body.member("one_time_keys"));
  for (const auto& [user, devices] : keys) {
    object_text by_device(by_user.member(user));
    for (const auto& [device, by_id] : devices)
      append_texts(by_device.member(device), by_id);
    by_device.end();
  }
  by_user.end();
  body.end();
  return out;
}

} // namespace ranvier
