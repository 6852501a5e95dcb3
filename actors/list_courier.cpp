#include "actors/list_courier.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace ranvier {
namespace {

bool is_list_entry(entry_kind kind) {
  return kind == entry_kind::device || kind == entry_kind::signing || kind == entry_kind::share;
}

} // namespace

void list_courier::begin(position cursor, position head) {
  forget();
  known_ = std::max(known_, head);
  through_ = cursor;
  work_ = cursor < head;
}

void list_courier::forget() {
  page_.clear();
  extras_.clear();
  work_ = noted_ = more_ = false;
  wait_until_ms_.reset();
}

void list_courier::note(const log_entry& entry) {
  known_ = std::max(known_, entry.pos);
  if (!is_list_entry(entry.kind)) return;
  work_ = noted_ = true;
  // A change of a user who may send must not wait for those who may not.
  wait_until_ms_.reset();
}

bool list_courier::wants_page(moment at, const std::vector<std::string>& senders) const {
  if (!work_ || !page_.empty()) return false;
  if (!wait_until_ms_ || at.now_ms >= *wait_until_ms_) return true;
  return std::any_of(senders.begin(), senders.end(), [this](const auto& user) { return !first_.contains(user); });
}

double list_courier::tokens(const bucket& one, std::int64_t now_ms) const {
  const auto gained =
      limits_.interval_ms > 0 ? double(now_ms - one.at_ms) / double(limits_.interval_ms) : limits_.burst;
  return std::min(limits_.burst, one.tokens + gained);
}

read_device_updates list_courier::question(const std::string& destination, position cursor,
                                           const std::vector<std::string>& senders, std::size_t to_device, moment at) {
  read_device_updates ask;
  ask.destination = destination;
  ask.after = cursor;
  ask.upto = asked_ = known_;
  // To-device messages and the keys that decrypt them share the EDUs of a transaction; neither starves the other.
  ask.max_edus =
      std::max(limits_.transaction_edus / 2, limits_.transaction_edus - std::min(to_device, limits_.transaction_edus));
  ask.max_bytes = limits_.transaction_bytes / 2;
  ask.first = senders;
  first_ = {senders.begin(), senders.end()};
  std::erase_if(sent_, [&](const auto& one) { return one.second <= cursor; });
  ask.sent = sent_;
  throttled_.clear();
  std::erase_if(buckets_, [&](const auto& one) { return tokens(one.second, at.now_ms) >= limits_.burst; });
  for (const auto& [user, one] : buckets_)
    if (tokens(one, at.now_ms) < 1 && std::find(senders.begin(), senders.end(), user) == senders.end())
      throttled_.insert(user);
  ask.throttled.assign(throttled_.begin(), throttled_.end());
  ask.shares_before_ms = std::exchange(clock_went_back_, false) ? std::numeric_limits<std::int64_t>::max()
                                                                : at.wall_ms - limits_.share_delay_ms + 1;
  noted_ = false;
  return ask;
}

void list_courier::take(const device_updates& page, moment at) {
  page_ = page.list;
  extras_ = page.extras;
  more_ = page.more;
  through_ = std::max(through_, page.through);
  wait_until_ms_.reset();
  if (!page_.empty()) return;
  const bool held_back = through_ < asked_;
  work_ = more_ || noted_ || held_back;
  if (!held_back || more_ || noted_) return;
  // A share of the future was appended before our clock was set back: its delay is long over.
  clock_went_back_ = page.next_share_ms > at.wall_ms;
  if (clock_went_back_) return;
  // What is left waits for a share's delay or for somebody's bucket.
  std::int64_t due = at.now_ms + limits_.interval_ms;
  if (page.next_share_ms > 0)
    due =
        std::min(due, at.now_ms + std::max<std::int64_t>(1, page.next_share_ms + limits_.share_delay_ms - at.wall_ms));
  for (const auto& user : throttled_)
    if (auto found = buckets_.find(user); found != buckets_.end())
      due = std::min(due, at.now_ms + 1 +
                              std::int64_t((1 - tokens(found->second, at.now_ms)) * double(limits_.interval_ms)));
  wait_until_ms_ = std::max(due, at.now_ms + 1);
}

list_courier::load list_courier::take_page(position cursor, moment at) {
  load out;
  out.after = std::max(cursor, work_ || !page_.empty() ? through_ : known_);
  out.updates = std::exchange(page_, {});
  out.extras = std::exchange(extras_, {});
  std::set<std::string> users;
  for (const auto& one : out.updates)
    users.insert(one.user);
  for (const auto& user : users) {
    auto [found, fresh] = buckets_.try_emplace(user, bucket{limits_.burst, at.now_ms});
    found->second = {std::max(0.0, tokens(found->second, at.now_ms) - 1), at.now_ms};
  }
  // Full enough to be forgotten: the oldest users then begin with a full bucket, which costs a repeat's worth.
  if (buckets_.size() > limits_.users_remembered) buckets_.clear();
  return out;
}

void list_courier::delivered(const std::vector<device_update>& updates, position cursor) {
  for (const auto& one : updates)
    if (one.through > cursor) sent_[one.user] = std::max(sent_[one.user], one.through);
  std::erase_if(sent_, [&](const auto& one) { return one.second <= cursor; });
  if (sent_.size() > limits_.users_remembered) sent_.clear();
  if (!updates.empty()) work_ = more_ || noted_ || cursor < known_;
}

std::int64_t list_courier::forgettable_at_ms(moment at) const {
  double missing = 0;
  for (const auto& [user, one] : buckets_)
    missing = std::max(missing, limits_.burst - tokens(one, at.now_ms));
  return at.now_ms + std::int64_t(missing * double(limits_.interval_ms));
}

std::optional<std::int64_t> list_courier::next_due(moment at) const {
  if (!work_ || !wait_until_ms_ || *wait_until_ms_ <= at.now_ms) return {};
  return wait_until_ms_;
}

} // namespace ranvier
