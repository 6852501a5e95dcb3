// libFuzzer: any JSON may be looked at as a PDU of any room version, and what is accepted keeps its promises.
#include "messages/event.hpp"

#include <cstdint>
#include <cstdlib>

using namespace ranvier;

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

void check(simdjson::dom::element pdu, const std::optional<room_version_rules>& rules) {
  const auto shape = look_at_pdu(pdu, rules);
  expect(shape.ok == shape.problem.empty());
  if (!shape.ok) return expect(shape.problem.ends_with('.'));
  expect(shape.event.size() <= 65'536);
  if (!rules) return;
  expect(!shape.event_id.empty() && event_id_of(pdu, *rules) == shape.event_id);
  // What we hand on has the same id, is accepted again, and signatures over it are over the same bytes.
  const json_document handed_on(shape.event);
  const auto again = look_at_pdu(handed_on.root(), rules);
  expect(again.ok && again.event_id == shape.event_id && again.signed_bytes == shape.signed_bytes);
  expect(!shape.hash_ok || again.hash_ok);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const json_document document(std::string_view(reinterpret_cast<const char*>(data), size));
    check(document.root(), std::nullopt);
    for (const auto& version : known_room_versions()) check(document.root(), rules_of(version));
  } catch (const json_problem&) {
  }
  return 0;
}
