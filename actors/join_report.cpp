#include "actors/join_report.hpp"

#include "messages/canonical_json.hpp"

#include <algorithm>

namespace ranvier {
namespace {

constexpr std::size_t most_words = 200;

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, most_words))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  // Not in the middle of a character.
  while (text.size() > most_words && !out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80)
    out.pop_back();
  if (text.size() > most_words && !out.empty() && static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();
  return out;
}

/// How much an answer says about the join itself.
int weight(const join_try& one) {
  if (one.errcode.empty() || one.status < 400 || one.status >= 500 || one.status == 429) return 0;
  return one.status == 404 ? 1 : 2;
}

} // namespace

join_try read_refusal(const std::string& server, std::string_view request, int status, std::string_view body) {
  join_try out{server, status, {}, {}, {}};
  std::string said;
  try {
    const json_document document(body);
    out.errcode = printable(string_member(document.root(), "errcode").value_or(""));
    said = printable(string_member(document.root(), "error").value_or(""));
    out.room_version = printable(string_member(document.root(), "room_version").value_or(""));
  } catch (const json_problem&) {
    // A page of a proxy: the status says all.
  }
  out.words = "answered " + std::to_string(status) + " to " + std::string(request);
  if (!out.errcode.empty()) out.words += " (" + out.errcode + ")";
  if (!said.empty()) out.words += ": " + said;
  return out;
}

join_failure report_join(const std::vector<join_try>& tries, const std::string& room_id) {
  const join_try* best = nullptr;
  std::string all;
  for (const auto& one : tries) {
    if (!best || weight(one) >= weight(*best)) best = &one;
    all += (all.empty() ? "" : "; ") + one.server + " " + one.words;
  }
  join_failure out;
  std::string errcode = "M_RANVIER_UNREACHABLE", version;
  if (best && weight(*best) > 0) {
    out.status = best->status;
    errcode = best->errcode;
    version = best->room_version;
  } else if (std::any_of(tries.begin(), tries.end(), [](const join_try& one) { return one.status != 0; })) {
    errcode = "M_UNKNOWN"; // somebody answered, but nobody usefully
  }
  out.body = R"({"errcode":)" + json_string(errcode) + R"(,"error":)" +
             json_string("no server could help to join " + room_id + ": " + (all.empty() ? "none was named" : all));
  if (!version.empty()) out.body += R"(,"room_version":)" + json_string(version);
  out.body += "}";
  return out;
}

} // namespace ranvier
