// What operators did, with who and why: every call that changes something leaves a line (GET /audit reads them back).
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"
#include "actors/log.hpp"
#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {
namespace {

using namespace admin;
constexpr long long default_listed = 100, most_listed = 1000;

} // namespace

void admin_desk::record(const call& in, const admin_answer& given) {
  if (!parts_.audit || in.route.name == "probe" || in.route.name == "database_check") return; // these only look
  auto body = in.body.is_object() ? in.body : nlohmann::json::object();
  if (body.contains("dry_run") && body["dry_run"] == true) return; // it changed nothing
  audit_line line;
  line.at_ms = parts_.common.wall_ms();
  line.who = in.who;
  line.verb = in.route.name;
  for (const auto* part : {"name", "user_id", "room_id", "id"})
    if (const auto at = in.route.segments.find(part); at != in.route.segments.end()) line.subject = at->second;
  if (const auto reason = body.find("reason"); reason != body.end()) {
    line.reason = reason->is_string() ? reason->get<std::string>() : reason->dump();
    body.erase(reason);
  }
  if (!body.empty()) line.details = text_of(body).substr(0, 1000);
  line.outcome = "done";
  if (given.status >= 400) {
    const auto words = nlohmann::json::parse(given.body, nullptr, false);
    line.outcome = "refused: " + (words.is_object() ? words.value("error", "") : std::to_string(given.status));
  }
  if (const auto problem = parts_.audit->record(line); !problem.empty())
    log_error("audit_not_written", {{"verb", line.verb}, {"who", line.who}, {"why", problem}});
}

/// Newest first.
admin_answer admin_desk::list_audit(const call& in) {
  const auto number = [&in](const char* name, long long fallback) {
    const auto given = in.parameter(name);
    return given.empty() ? std::optional<long long>(fallback) : parse_integer(given);
  };
  const auto limit = number("limit", default_listed), from = number("from", 0);
  if (!limit || *limit < 1) return refuse(400, "M_INVALID_PARAM", "'limit' must be an integer from 1 to 1000");
  if (!from || *from < 0) return refuse(400, "M_INVALID_PARAM", "'from' must be the 'next' of an earlier page");
  std::size_t total = 0;
  auto list = nlohmann::json::array();
  if (parts_.audit)
    for (const auto& line : parts_.audit->newest(std::size_t(std::min(*limit, most_listed)), std::size_t(*from), total))
      list.push_back(nlohmann::json::parse(line.text()));
  const auto end = std::size_t(*from) + list.size();
  nlohmann::json answer{{"audit", std::move(list)}, {"total", total}};
  answer["next"] = end < total ? nlohmann::json(std::to_string(end)) : nlohmann::json();
  return answer_with(answer);
}

} // namespace ranvier
