#include "actors/poison.hpp"

#include <algorithm>
#include <utility>

namespace ranvier {

namespace {
constexpr int too_large = 413;
} // namespace

poison::verdict poison::refused(const failure& why, const std::string& id, std::size_t items, std::size_t bytes) {
  const bool content = why.cls == failure_class::content_refused;
  if (!content && why.cls != failure_class::server_error) return verdict::judge;
  if (items == 0) { // it refuses even this: not the content
    asking_ = false;
    failures_ = 0;
    return verdict::judge;
  }
  if (content && why.status == too_large && items > 1) {
    most_bytes_ = std::max<std::size_t>(1, std::min(most_bytes_, bytes) / 2);
    return verdict::in_parts;
  }
  if (content || lives_) return items == 1 ? alone() : split(items);
  if (id != failing_id_) failures_ = 0;
  failing_id_ = id;
  asked_about_ = items;
  asking_ = ++failures_ >= patience;
  return verdict::judge;
}

poison::verdict poison::split(std::size_t items) {
  suspects_ = std::max(suspects_, items);
  look_within(items);
  return verdict::in_parts;
}

/// One of the next so many items is refused; the older half of them goes first, a single one alone.
void poison::look_within(std::size_t items) {
  refused_within_ = items;
  limit_ = std::max<std::size_t>(1, items / 2);
}

poison::verdict poison::alone() {
  if (nothing_passed_) {
    lives_ = false;
    suspects_ = 1;
    look_within(1); // each probe costs one item's bytes
    return verdict::refuses_all;
  }
  nothing_passed_ = true;
  cleared(1);
  return verdict::set_aside;
}

void poison::passed(std::size_t items) {
  failures_ = 0;
  if (items > 0) nothing_passed_ = false;
  if (std::exchange(asking_, false) && items == 0) {
    lives_ = true;
    suspects_ = asked_about_;
    return look_within(suspects_);
  }
  cleared(items);
}

/// The oldest suspects passed, or were set aside.
void poison::cleared(std::size_t items) {
  suspects_ -= std::min(items, suspects_);
  refused_within_ -= std::min(items, refused_within_);
  if (suspects_ == 0) {
    limit_ = no_bound;
    refused_within_ = 0;
    lives_ = false;
  } else if (refused_within_ > 0) {
    look_within(refused_within_);
  } else {
    limit_ = suspects_; // nothing is known of these but that they stood in a refused transaction
  }
}

} // namespace ranvier
