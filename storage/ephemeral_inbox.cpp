#include "storage/ephemeral_inbox.hpp"

#include <iterator>

namespace ranvier::storage {

void ephemeral_inbox::publish(std::vector<item> items, bounds now, std::int64_t now_ms) {
  std::lock_guard lock(mutex_);
  items_.insert(items_.end(), std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
  std::erase_if(items_, [&](const item& one) { return one.expires_ms <= now_ms || one.what.pos <= now.floor; });
  while (items_.size() > max_items)
    items_.pop_front();
  bounds_ = now;
  bounds_.known = true;
}

ephemeral_inbox::bounds ephemeral_inbox::limits() const {
  std::lock_guard lock(mutex_);
  return bounds_;
}

std::vector<inbox_item> ephemeral_inbox::read(position after, position upto, std::size_t limit,
                                              std::int64_t now_ms) const {
  std::lock_guard lock(mutex_);
  std::vector<inbox_item> out;
  for (const auto& one : items_) {
    if (one.what.pos <= after || one.what.pos > upto || one.expires_ms <= now_ms) continue;
    if (out.size() == limit) break;
    out.push_back(one.what);
  }
  return out;
}

std::size_t ephemeral_inbox::size() const {
  std::lock_guard lock(mutex_);
  return items_.size();
}

std::int64_t ephemeral_age_ms(std::string_view edu_type) {
  constexpr std::int64_t minute = 60'000;
  if (edu_type == "m.typing") return minute;
  if (edu_type == "m.presence") return 10 * minute;
  return 24 * 60 * minute; // receipts, and types that we don't know
}

} // namespace ranvier::storage
