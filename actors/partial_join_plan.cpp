#include "actors/partial_join_plan.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace ranvier {
namespace {

constexpr std::int64_t second_ms = 1'000, minute_ms = 60 * second_ms, hour_ms = 60 * minute_ms;
constexpr int rounds_of_a_refusal = 5;
/// A further look at an unreachable one waits so long for each of them.
constexpr std::int64_t turn_each_ms = 1'800;
/// What is remembered over a restart.
constexpr std::size_t remembered = 200;
constexpr std::size_t reason_bytes = 300;

constexpr std::int64_t doubled(std::int64_t first, int times, std::int64_t most) {
  for (int i = 1; i < times && first < most; ++i)
    first *= 2;
  return std::min(first, most);
}

constexpr std::pair<candidate_answer, std::string_view> words[] = {{candidate_answer::ok, "ok"},
                                                                   {candidate_answer::unreachable, "unreachable"},
                                                                   {candidate_answer::refused, "refused"},
                                                                   {candidate_answer::server_error, "server_error"},
                                                                   {candidate_answer::invalid, "invalid"}};

} // namespace

std::string_view to_string(candidate_answer answer) {
  for (const auto& [is, word] : words)
    if (is == answer) return word;
  return "";
}

partial_join_plan::partial_join_plan(const std::vector<std::string>& servers, join_plan_settings settings,
                                     const std::string& progress)
    : settings_(std::move(settings)) {
  add(servers);
  const auto stored = nlohmann::json::parse(progress, nullptr, false);
  if (!stored.is_object()) return;
  refused_since_ms_ = stored.value("refused_since_ms", std::int64_t(0));
  if (!stored.contains("servers") || !stored["servers"].is_object()) return;
  for (const auto& [name, was] : stored["servers"].items()) {
    const auto found = candidates_.find(name);
    if (found == candidates_.end() || !was.is_object()) continue;
    for (const auto& [is, word] : words)
      if (was.value("verdict", "") == word) found->second.verdict = is;
    found->second.reason = was.value("reason", "");
    found->second.failures = was.value("failures", 0);
    // Its turn comes at once: a restart may well be what everybody waited for.
  }
}

void partial_join_plan::add(const std::vector<std::string>& servers) {
  for (const auto& name : servers)
    candidates_.try_emplace(name);
}

std::vector<std::string> partial_join_plan::next(std::int64_t now_ms, const std::string& preferred) {
  std::vector<std::string> out;
  const auto busy =
      std::count_if(candidates_.begin(), candidates_.end(), [](const auto& one) { return one.second.asked; });
  if (std::size_t(busy) >= at_a_time) return out;
  struct turn {
    int health;
    std::int64_t due;
    std::string name;
    auto operator<=>(const turn&) const = default;
  };
  std::vector<turn> ready;
  for (const auto& [name, one] : candidates_) {
    const bool slow = one.verdict == candidate_answer::unreachable && one.next_ms > 0;
    const int health = one.verdict == candidate_answer::unreachable ? 2 : name == preferred ? 0 : 1;
    if (!one.asked && one.next_ms <= now_ms && (!slow || slow_turn_ms_ <= now_ms))
      ready.push_back({health, one.next_ms, name});
  }
  std::sort(ready.begin(), ready.end());
  const auto unreachable = std::count_if(candidates_.begin(), candidates_.end(), [](const auto& one) {
    return one.second.verdict == candidate_answer::unreachable;
  });
  for (const auto& one : ready) {
    if (std::size_t(busy) + out.size() >= at_a_time) break;
    auto& chosen = candidates_[one.name];
    if (chosen.verdict == candidate_answer::unreachable && chosen.next_ms > 0) {
      if (slow_turn_ms_ > now_ms) continue;
      if (unreachable > 20) slow_turn_ms_ = now_ms + unreachable * turn_each_ms;
    }
    chosen.asked = true;
    out.push_back(one.name);
  }
  return out;
}

std::int64_t partial_join_plan::wait_after(const candidate& one) {
  switch (*one.verdict) {
  case candidate_answer::unreachable:
    return doubled(minute_ms, one.failures, 36 * hour_ms);
  case candidate_answer::invalid:
    return doubled(10 * minute_ms, one.failures, 24 * hour_ms);
  default:
    return doubled(15 * second_ms, one.failures, 10 * minute_ms);
  }
}

void partial_join_plan::answered(const std::string& server, candidate_answer answer, const std::string& reason,
                                 std::int64_t now_ms) {
  const auto found = candidates_.find(server);
  if (found == candidates_.end()) return;
  auto& one = found->second;
  one.asked = false;
  one.answered = true;
  // A live server's failures add up whatever their kind; falling silent begins anew, and so does what comes after it.
  const bool was_silent = one.verdict == candidate_answer::unreachable;
  const bool silent = answer == candidate_answer::unreachable;
  one.failures = was_silent == silent ? one.failures + 1 : 1;
  one.verdict = answer;
  one.reason = reason.substr(0, reason_bytes);
  const double jitter = silent ? 1 + settings_.uniform() * 0.2 : 1;
  one.next_ms = now_ms + std::int64_t(double(wait_after(one)) * jitter);
  judge(now_ms);
}

void partial_join_plan::bring_forward(const std::string& server, std::int64_t now_ms) {
  for (auto& [name, one] : candidates_)
    if (server.empty() || name == server) {
      one.next_ms = std::min<std::int64_t>(one.next_ms, now_ms);
      if (one.verdict == candidate_answer::unreachable) one.next_ms = 0; // past the others' turns
    }
}

bool partial_join_plan::refuses(const candidate& one) {
  if (one.verdict == candidate_answer::refused) return true;
  return (one.verdict == candidate_answer::server_error || one.verdict == candidate_answer::invalid) &&
         one.failures >= rounds_of_a_refusal;
}

void partial_join_plan::judge(std::int64_t now_ms) {
  const auto may_yet = [](const auto& one) { return one.second.verdict && !refuses(one.second); };
  const auto decided = [](const auto& one) { return one.second.verdict.has_value(); };
  if (std::any_of(candidates_.begin(), candidates_.end(), may_yet)) refused_since_ms_ = 0;
  else if (refused_since_ms_ == 0 && std::all_of(candidates_.begin(), candidates_.end(), decided))
    refused_since_ms_ = now_ms;
}

std::optional<std::int64_t> partial_join_plan::hopeless_at() const {
  if (refused_since_ms_ == 0) return {};
  const auto answered = [](const auto& one) { return one.second.answered; };
  if (!std::all_of(candidates_.begin(), candidates_.end(), answered)) return {};
  return refused_since_ms_ + settings_.abandon_after_ms;
}

bool partial_join_plan::hopeless(std::int64_t now_ms) const {
  const auto at = hopeless_at();
  return at && *at <= now_ms;
}

std::optional<std::int64_t> partial_join_plan::next_due() const {
  std::size_t busy = 0;
  auto due = std::numeric_limits<std::int64_t>::max();
  for (const auto& [name, one] : candidates_) {
    if (one.asked) {
      ++busy;
      continue;
    }
    const bool slow = one.verdict == candidate_answer::unreachable && one.next_ms > 0;
    due = std::min(due, slow ? std::max(one.next_ms, slow_turn_ms_) : one.next_ms);
  }
  if (busy >= at_a_time || due == std::numeric_limits<std::int64_t>::max()) return {};
  return due;
}

bool partial_join_plan::is_unreachable(const std::string& server) const {
  const auto found = candidates_.find(server);
  return found != candidates_.end() && found->second.verdict == candidate_answer::unreachable;
}

std::map<std::string, server_verdict> partial_join_plan::verdicts() const {
  std::map<std::string, server_verdict> out;
  for (const auto& [name, one] : candidates_)
    out[name] = {one.verdict ? std::string(to_string(*one.verdict)) : "", one.reason};
  return out;
}

std::map<std::string, std::int64_t> partial_join_plan::turns() const {
  std::map<std::string, std::int64_t> out;
  for (const auto& [name, one] : candidates_)
    out[name] = one.asked ? 0 : one.next_ms;
  return out;
}

std::string partial_join_plan::summary() const {
  std::map<std::string, std::size_t> counts;
  for (const auto& [name, one] : candidates_)
    ++counts[!one.verdict                                    ? "not asked yet"
             : *one.verdict == candidate_answer::unreachable ? "unreachable"
             : *one.verdict == candidate_answer::refused     ? "refusing"
             : *one.verdict == candidate_answer::invalid     ? "with invalid data"
             : *one.verdict == candidate_answer::ok          ? "ok"
                                                             : "with errors of their own"];
  std::string out;
  for (const auto& [what, count] : counts)
    out += (out.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  return out.empty() ? "no server is known that could give the state" : out;
}

std::string partial_join_plan::progress() const {
  nlohmann::json out{{"refused_since_ms", refused_since_ms_}, {"servers", nlohmann::json::object()}};
  for (const auto& [name, one] : candidates_) {
    if (out["servers"].size() >= remembered) break;
    if (!one.verdict) continue;
    out["servers"][name] = {{"verdict", to_string(*one.verdict)}, {"reason", one.reason}, {"failures", one.failures}};
  }
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace ranvier
