#include "messages/records.hpp"

#include "messages/large_numbers.hpp"
#include "messages/record_fields.hpp"

#include <array>

namespace ranvier {

namespace {

struct reader {
  std::string_view kind;
  record (*read)(const fields&, std::string_view);
};
constexpr std::array<reader, 11> readers{{
    {"pdu", read_pdu},
    {"edu", read_edu},
    {"to_device", read_to_device},
    {"roster", read_roster},
    {"membership", read_membership},
    {"device", read_device},
    {"cross_signing", read_cross_signing},
    {"one_time_keys", read_one_time_keys},
    {"partial_join", read_partial_join},
    {"server_acl", read_server_acl},
    {"room_forgotten", read_room_forgotten},
}};

/// source and seq come first: a rejected line's seq counts as seen, so it must be known of a bad line too.
void read_source(const fields& in, feed_line& out) {
  if (!in.find("source") && !in.find("seq")) return;
  if (!in.find("source")) bad_shape("\"seq\" is given without \"source\"; give both or neither");
  auto source = in.text("source");
  auto seq = in.natural("seq");
  if (!seq) bad_shape("\"source\" is given without \"seq\"; give both or neither");
  out.source = std::move(source);
  out.seq = *seq;
}

record read_record(const fields& in, std::string_view server_name) {
  auto kind = string_of(in.need("kind"), "kind");
  std::string known;
  for (const auto& [name, read] : readers) {
    if (name == kind) return read(in, server_name);
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw bad_record{"M_UNRECOGNIZED", "\"kind\" is " + in_quotes(kind) + ", known are " + known};
}

} // namespace

namespace {

/// An event of an old room may hold integers that we have no type for: sent as something else its hash would be wrong
/// everywhere, so it is refused here, by name.
void refuse_changed_numbers(const feed_line& parsed, std::string_view line) {
  const auto* read = std::get_if<record>(&parsed.what);
  const auto* pdu = read ? std::get_if<pdu_record>(read) : nullptr;
  if (pdu && pdu->loose_numbers && with_large_numbers_as_doubles(line) != line)
    bad_value("\"event\" holds a number beyond 64 bits, which can't be carried unchanged");
}

} // namespace

feed_line parse_feed_line(std::string_view line, std::uint64_t number, std::string_view server_name) {
  feed_line out;
  out.number = number;
  try {
    json_document document(line);
    simdjson::dom::object object;
    if (document.root().get(object) != simdjson::SUCCESS) bad_shape("a line must be a JSON object");
    fields in(object, "");
    read_source(in, out);
    out.what = read_record(in, server_name);
    refuse_changed_numbers(out, line);
  } catch (const bad_record& problem) {
    out.what = record_problem{problem.errcode, problem.error};
  } catch (const json_problem& problem) {
    out.what = record_problem{problem.is_json ? "M_BAD_JSON" : "M_NOT_JSON", problem.what()};
  } catch (const std::exception& problem) {
    // Out of memory and the like: this line alone is refused, the others go on.
    out.what = record_problem{"M_UNKNOWN", std::string("the line could not be read: ") + problem.what()};
  }
  return out;
}

} // namespace ranvier
