#include "actors/happenings.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/details/os.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace ranvier {

namespace {

constexpr std::size_t most_at_once = 200;

/// The clock that the log has.
std::int64_t log_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(spdlog::details::os::now().time_since_epoch()).count();
}

} // namespace

std::string happening::json() const {
  nlohmann::ordered_json all{{"number", number}, {"at_ms", at_ms}, {"level", level}, {"event", slug}};
  for (const auto& [key, value] : fields)
    all[key] = value;
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

bool happening::concerns(const std::string& destination) const {
  return std::any_of(fields.begin(), fields.end(), [&](const auto& field) {
    return (field.first == "destination" || field.first == "server" || field.first == "origin") &&
           field.second == destination;
  });
}

happenings& happenings::of_process() {
  static happenings all;
  return all;
}

void happenings::add(happening one) {
  one.at_ms = log_ms();
  {
    std::lock_guard lock(mutex_);
    one.number = ++last_;
    list_.push_back(std::make_shared<const happening>(std::move(one)));
    if (list_.size() > kept) list_.pop_front();
  }
  changed_.notify_all();
}

std::vector<std::shared_ptr<const happening>> happenings::after(std::uint64_t& number, const std::string& destination,
                                                                bool details, std::chrono::milliseconds within) {
  std::vector<std::shared_ptr<const happening>> out;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, within, [&] { return last_ > number; });
  for (const auto& one : list_) {
    if (one->number <= number) continue;
    number = one->number;
    if ((one->detail && !details) || (!destination.empty() && !one->concerns(destination))) continue;
    out.push_back(one);
    if (out.size() == most_at_once) break;
  }
  return out;
}

std::uint64_t happenings::before_last(std::size_t count) const {
  std::lock_guard lock(mutex_);
  return last_ - std::min<std::uint64_t>(last_, std::min(count, list_.size()));
}

happenings::trace::trace(happenings& of)
    : of_(of) {
  ++of_.traces_;
}

happenings::trace::~trace() { --of_.traces_; }

void tell_step(std::string_view slug, const std::string& destination,
               const std::vector<std::pair<std::string_view, std::string>>& fields) {
  auto& all = happenings::of_process();
  if (!all.traced()) return;
  happening one;
  one.level = "trace";
  one.slug = slug;
  one.detail = true;
  one.fields.emplace_back("destination", destination);
  for (const auto& [key, value] : fields)
    one.fields.emplace_back(key, value);
  all.add(std::move(one));
}

} // namespace ranvier
