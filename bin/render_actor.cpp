// `actor`: one part of the engine, and what it says of itself.
#include "bin/render.hpp"

namespace ranvier {

namespace {

using nlohmann::json;

std::string worded(const std::string& name, const json& value, std::int64_t now_ms) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_number_integer() && name.ends_with("_ms")) {
    const auto ms = value.get<std::int64_t>();
    if (ms <= 0) return {};
    if (ms < 1'000'000'000'000) return span_text(ms); // a duration
    return ms > now_ms ? due_text(ms, now_ms) : ago_text(ms, now_ms);
  }
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

void lines_of(const json& object, const std::string& prefix, std::int64_t now_ms, const screen& on, std::string& out) {
  constexpr std::size_t label_width = 26;
  for (const auto& [name, value] : object.items()) {
    const auto label = printable(prefix + name);
    if (value.is_object() && !value.empty()) lines_of(value, label + ".", now_ms, on, out);
    else if (const auto text = worded(name, value, now_ms);
             !value.is_null() && !text.empty() && text != "[]" && text != "{}")
      out += labelled(label, text, on, 2, label_width);
  }
}

} // namespace

std::string actor_text(const json& actor, std::int64_t now_ms, const screen& on) {
  const auto name = text_in(actor, "name");
  std::string out = painted(printable(text_in(actor, "kind") + (name.empty() ? "" : " " + name)), tone::strong, on) +
                    " (actor " + std::to_string(number_in(actor, "id")) + ") is " + printable(text_in(actor, "state")) +
                    '\n';
  auto own = actor;
  for (const auto* told : {"kind", "name", "id", "state", "described"})
    own.erase(told);
  lines_of(own, "", now_ms, on, out);
  auto described = object_in(actor, "described");
  // What the entry of the list says already.
  for (const auto& [key, value] : actor.items())
    described.erase(key);
  if (described.empty()) return out;
  out += painted("says of itself", tone::faint, on) + '\n';
  lines_of(described, "", now_ms, on, out);
  return out;
}

} // namespace ranvier
