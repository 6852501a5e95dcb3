#include "bin/render.hpp"
#include "bin/words.hpp"

#include <ctime>

namespace ranvier {

namespace {

using nlohmann::json;

json list_in(const json& object, const char* key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && at != object.end() && at->is_array() ? *at : json::array();
}

bool is_true(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key] == true;
}

std::vector<std::string> texts_of(const json& list) {
  std::vector<std::string> out;
  for (const auto& one : list)
    if (one.is_string()) out.push_back(printable(one.get<std::string>()));
  return out;
}

/// "2026-08-19".
std::string day_text(std::int64_t moment_ms) {
  const std::time_t seconds = moment_ms / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32] = "";
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

std::string certificate_text(const json& certificate, std::int64_t now_ms) {
  const auto from = number_in(certificate, "not_before_ms"), to = number_in(certificate, "not_after_ms");
  if (to == 0) return {};
  const auto names = texts_of(list_in(certificate, "names"));
  std::string out = "certificate for " + (names.empty() ? "no name" : joined(names, ", ")) + ", by " +
                    printable(text_in(certificate, "issuer")) + ", from " + day_text(from) + " to " + day_text(to);
  if (now_ms > to) return out + " (expired " + span_text(now_ms - to) + " ago)";
  return out + (now_ms < from ? " (not valid yet)" : " (" + span_text(to - now_ms) + " left)");
}

std::string address_text(const json& one, std::int64_t now_ms) {
  const auto problem = printable(text_in(one, "problem"));
  std::vector<std::string> parts{printable(text_in(one, "address"))};
  if (!is_true(one, "connected")) return parts[0] + ": not connected: " + problem;
  if (const auto version = text_in(one, "tls_version"); !version.empty())
    parts.push_back(printable(version) + ' ' + printable(text_in(one, "cipher")));
  parts.push_back(certificate_text(object_in(one, "certificate"), now_ms));
  parts.push_back(problem.empty() ? "" : "not accepted: " + problem);
  return joined(parts, "; ");
}

} // namespace

std::string route_text(const json& answer, const screen& on) {
  const auto name = printable(text_in(answer, "destination"));
  const bool ok = is_true(answer, "ok");
  std::string out = painted(name + (ok ? " is found" : " is NOT found"), ok ? tone::good : tone::bad, on) + '\n';
  int number = 0;
  for (const auto& step : texts_of(list_in(answer, "steps")))
    out += labelled(std::to_string(++number), step, on, 2, 4);
  if (!ok) out += labelled("problem", printable(text_in(answer, "problem")), on, 2, 10);
  return out;
}

std::string probe_text(const json& answer, std::int64_t now_ms, const screen& on) {
  const auto name = printable(text_in(answer, "destination"));
  const bool ok = is_true(answer, "ok");
  const auto verdict =
      ok ? name + " is well, as seen from here" : name + " FAILS at " + printable(text_in(answer, "failed_at"));
  std::string out = painted(verdict, ok ? tone::good : tone::bad, on) + '\n';
  for (const auto& stage : list_in(answer, "stages")) {
    const bool known = stage.is_object() && stage.contains("ok") && stage["ok"].is_boolean();
    const auto mark = !known ? std::string("-") : is_true(stage, "ok") ? "ok" : "FAILS";
    auto says = printable(text_in(stage, "says"));
    if (const auto took = number_in(stage, "took_ms"); took > 0) says += " (" + span_text(took) + ')';
    out += labelled(printable(text_in(stage, "stage")), mark + "  " + says, on);
  }
  for (const auto& one : list_in(answer, "addresses"))
    out += labelled("address", address_text(one, now_ms), on);
  if (!ok) out += labelled("you can", "ranvier resolve " + name + " --no-cache · ranvier why " + name, on);
  return out;
}

} // namespace ranvier
