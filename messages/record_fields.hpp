#pragma once
#include "messages/canonical_json.hpp"
#include "messages/records.hpp"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// Why a feed line can't be used; thrown inside the reading of one record and caught by parse_feed_line.
struct bad_record {
  std::string errcode, error;
};

/// Not more than this many bytes of one member that is kept as JSON (a PDU by E9; keys and EDUs by the same measure).
constexpr std::size_t max_item_bytes = 65'536;
/// Ids, event types and state keys (N8).
constexpr std::size_t max_id_bytes = 255;

/// Throws bad_record with M_BAD_JSON: the shape is wrong.
[[noreturn]] void bad_shape(const std::string& sentence);
/// Throws bad_record with M_INVALID_PARAM: the shape is right, the value can't be used.
[[noreturn]] void bad_value(const std::string& sentence);
/// Throws bad_record with M_TOO_LARGE.
[[noreturn]] void too_large(const std::string& sentence);

/// A value as it may stand in an error sentence: in quotes, without control characters, at most 60 bytes of it.
std::string in_quotes(std::string_view text);
bool has_nul(std::string_view text);
/// A NUL in any string or key of the value.
bool has_nul(simdjson::dom::element value);
/// How deep a value is nested: 1 for a scalar.
int depth_of(simdjson::dom::element value);
std::size_t code_points(std::string_view utf8);

/// canonical_json with its problem told as this record's: names the member, gives M_BAD_JSON.
std::string canonical_member(simdjson::dom::element value, const std::string& path, numbers rule = numbers::strict);

/// An object of a record whose members are read with precise complaints. Views into the json_document.
class fields {
public:
  /// `path` leads to the object in error sentences: empty for the record itself, else "event" or "keys".
  fields(simdjson::dom::object object, std::string path)
      : object_(object)
      , path_(std::move(path)) {}

  simdjson::dom::object object() const { return object_; }
  /// The member's name as sentences have it: "event.sender".
  std::string name(std::string_view key) const;

  /// Nothing if it is absent or null.
  std::optional<simdjson::dom::element> find(std::string_view key) const;
  bool is_null(std::string_view key) const;
  simdjson::dom::element need(std::string_view key) const;

  /// A string that must be there, not empty, at most `max` bytes, without NUL.
  std::string text(std::string_view key, std::size_t max = max_id_bytes) const;
  /// Empty if absent or null.
  std::string maybe_text(std::string_view key, std::size_t max = max_id_bytes) const;
  std::string user(std::string_view key) const;
  std::string local_user(std::string_view key, std::string_view server_name) const;
  std::string room(std::string_view key) const;
  std::string event(std::string_view key) const;
  std::string server(std::string_view key) const;
  /// One of `allowed`.
  std::string one_of(std::string_view key, std::initializer_list<std::string_view> allowed) const;
  bool flag(std::string_view key) const;
  /// Nothing if absent; refuses negative ones.
  std::optional<std::int64_t> natural(std::string_view key) const;
  fields child(std::string_view key) const;
  /// A list of server names, ours and repeated ones left out. Nothing if absent or null.
  std::optional<std::vector<std::string>> servers(std::string_view key, std::string_view ours) const;

private:
  simdjson::dom::object object_;
  std::string path_;
};

/// The value as an object with complaints under `path`.
fields fields_of(simdjson::dom::element value, const std::string& path);
/// The value as a string; `path` for the complaint.
std::string_view string_of(simdjson::dom::element value, const std::string& path);
/// Complains about the room version: a string of 1 to 32 characters; unknown versions pass.
std::string room_version_of(const fields& in, bool required);
/// A membership that a roster may hold.
std::string membership_of(std::string_view text, const std::string& path);

// One reader a kind; each throws bad_record or json_problem.
record read_pdu(const fields& in, std::string_view server_name);
record read_edu(const fields& in, std::string_view server_name);
record read_to_device(const fields& in, std::string_view server_name);
record read_roster(const fields& in, std::string_view server_name);
record read_membership(const fields& in, std::string_view server_name);
record read_device(const fields& in, std::string_view server_name);
record read_cross_signing(const fields& in, std::string_view server_name);
record read_one_time_keys(const fields& in, std::string_view server_name);
record read_partial_join(const fields& in, std::string_view server_name);
record read_server_acl(const fields& in, std::string_view server_name);
record read_room_forgotten(const fields& in, std::string_view server_name);

} // namespace ranvier
