#pragma once
#include "messages/canonical_object.hpp"
#include "messages/event.hpp"

#include <string>
#include <string_view>

namespace ranvier {

/// An event in its canonical form and what is computed from it. Views into the document that it was made of.
class event_form {
public:
  /// Throws json_problem: no object, numbers (C4), depth, duplicate keys.
  event_form(simdjson::dom::element event, const room_version_rules& rules);

  canonical_object& members() { return members_; }
  /// What hashes.sha256 is over (E1).
  std::string hashed_bytes() const;
  /// Canonical JSON with only what redaction keeps, less the top-level members for which `leave_out` is true. `content`
  /// is there even if the event has none.
  template <class LeaveOut> std::string redacted(LeaveOut leave_out) const {
    auto kept = members_.selected(
        [&](std::string_view key) { return key != "content" && keeps_member(key) && !leave_out(key); });
    kept.set("content", redacted_content());
    return kept.whole();
  }
  /// What signatures and the reference hash are over (E2, E3).
  std::string signed_bytes() const {
    return redacted([](std::string_view key) { return key == "signatures" || key == "unsigned"; });
  }
  /// The event id, given signed_bytes() (E3); of v1-2 the member event_id, empty if it has none.
  std::string event_id(std::string_view signed_bytes) const;

private:
  bool keeps_member(std::string_view key) const;
  std::string redacted_content() const;

  simdjson::dom::element event_;
  room_version_rules rules_;
  std::string_view type_;
  canonical_object members_;
};

} // namespace ranvier
