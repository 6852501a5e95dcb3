#include "messages/to_device.hpp"

#include "messages/canonical_json.hpp"
#include "messages/ids.hpp"
#include "messages/signing.hpp"

#include <algorithm>
#include <utility>

namespace ranvier {

namespace {

constexpr std::size_t max_message_id_chars = 32;

/// Stable over a repeat of the record, so that the receiver's deduplication works (U7, U9).
std::string derived_id(const to_device_record& message, const std::string& server, std::size_t part) {
  std::string what;
  for (const std::string& piece : {message.sender, message.message_id, server, std::to_string(part)}) {
    what += piece;
    what += '\0';
  }
  return base64_url(sha256(what)).substr(0, max_message_id_chars);
}

/// The EDU with its members in canonical order; `messages` is canonical JSON of {user: {device: content}}.
std::string edu_of(const to_device_record& message, const std::string& message_id, const std::string& messages) {
  std::string out = R"({"content":{"message_id":)";
  append_json_string(out, message_id);
  out += R"(,"messages":)" + messages + R"(,"sender":)";
  append_json_string(out, message.sender);
  out += R"(,"type":)";
  append_json_string(out, message.type);
  return out + R"(},"edu_type":"m.direct_to_device"})";
}

/// Gathers one destination's devices into EDUs, in order of user and device.
class packer {
public:
  packer(const to_device_record& message, std::string server, std::vector<to_device_part>& out)
      : message_(message)
      , server_(std::move(server))
      , out_(out) {
    // Whichever id the part will have, it must fit with the longer one.
    auto id = std::max(json_string(message.message_id).size(), max_message_id_chars + 2);
    envelope_ = edu_of(message, "", "{}").size() - 2 + id;
  }

  void add(const std::string& user, const std::string& device, const std::string& content) {
    auto one = json_string(device) + ':' + content;
    bool same_user = open_ && user == user_;
    auto opening =
        same_user ? std::string(",") : (open_ ? std::string("},") : std::string()) + json_string(user) + ":{";
    if (open_ && envelope_ + messages_.size() + opening.size() + one.size() + 2 > max_to_device_edu_bytes) {
      finish();
      opening = json_string(user) + ":{";
    }
    messages_ += opening + one;
    user_ = user;
    open_ = true;
  }

  void finish() {
    if (!open_) return;
    auto id = part_ == 0 ? message_.message_id : derived_id(message_, server_, part_);
    auto edu = edu_of(message_, id, messages_ + "}}");
    out_.push_back({server_, std::move(id), std::move(edu)});
    ++part_;
    messages_ = "{";
    open_ = false;
  }

private:
  const to_device_record& message_;
  std::string server_;
  std::vector<to_device_part>& out_;
  std::size_t envelope_ = 0, part_ = 0;
  std::string messages_ = "{", user_;
  bool open_ = false; ///< something waits in messages_
};

} // namespace

std::vector<to_device_part> split_to_device(const to_device_record& message) {
  std::map<std::string, std::vector<const std::string*>> by_server;
  for (const auto& [user, devices] : message.messages)
    if (!devices.empty()) by_server[std::string(server_of(user))].push_back(&user);
  std::vector<to_device_part> out;
  for (const auto& [server, users] : by_server) {
    packer parts(message, server, out);
    for (const std::string* user : users)
      for (const auto& [device, content] : message.messages.at(*user))
        parts.add(*user, device, content);
    parts.finish();
  }
  return out;
}

std::string_view to_device_sender(std::string_view edu) {
  // In canonical JSON only "type" stands behind the content's sender, and a quote inside a string is escaped.
  constexpr std::string_view before = R"(,"sender":")";
  const auto at = edu.rfind(before);
  if (at == std::string_view::npos) return {};
  const auto from = at + before.size();
  const auto to = edu.find('"', from);
  return to == std::string_view::npos ? std::string_view() : edu.substr(from, to - from);
}

} // namespace ranvier
