#include "actors/outbox.hpp"

#include <algorithm>

namespace ranvier {
namespace {

/// How long an ephemeral EDU means something (DESIGN section 4), ms.
std::int64_t lifetime_ms(const std::string& edu_type) {
  if (edu_type == "m.typing") return 60'000;
  if (edu_type == "m.receipt") return 24 * 3'600'000LL;
  return 600'000;
}

} // namespace

void outbox::begin_reading(position subscribed_from, bool extras) {
  drop();
  phase_ = phase::reading;
  subscribed_from_ = subscribed_from;
  pdus_read_ = at_.pdu;
  to_device_read_ = at_.to_device;
  more_pdus_ = at_.pdu < subscribed_from;
  more_to_device_ = at_.to_device < subscribed_from;
  let_go_at_.clear();
  more_extras_ = extras;
  extras_read_ = 0;
  if (!more_pdus_ && !more_to_device_ && !more_extras_) become_live();
}

bool outbox::wants_read() const {
  return phase_ == phase::reading && (more_pdus_ || more_to_device_ || more_extras_) &&
         pdus_.size() + to_device_.size() + extras_.size() < limits_.transaction_pdus &&
         bytes_ < limits_.window_bytes / 2;
}

read_owed outbox::next_read(const std::string& destination) const {
  read_owed query;
  query.destination = destination;
  query.after = {pdus_read_, at_.device_lists, to_device_read_};
  query.upto = subscribed_from_;
  query.max_pdus = more_pdus_ ? limits_.window_items / 2 : 0;
  query.max_to_device = more_to_device_ ? limits_.transaction_edus : 0;
  query.max_bytes = limits_.window_bytes / 2;
  query.max_extras = more_extras_ ? limits_.transaction_pdus : 0;
  query.extras_after = extras_read_;
  return query;
}

void outbox::take_read(const owed_items& items) {
  if (phase_ != phase::reading) return;
  for (const auto& entry : items.pdus)
    keep(entry);
  for (const auto& entry : items.to_device)
    keep(entry);
  if (more_extras_) {
    for (const auto& one : items.retried) {
      if (!retried_.empty() && one.row <= retried_.back().row) continue;
      retried_.push_back(one);
      bytes_ += one.item.body.size();
    }
    for (const auto& entry : items.extras) {
      extras_.push_back({entry.pos, entry.body, entry.room_id, entry.subject});
      bytes_ += entry.body.size();
      extras_read_ = std::max(extras_read_, entry.pos);
    }
    more_extras_ = items.more_extras;
  }
  if (more_pdus_) {
    pdus_read_ = std::max(pdus_read_, items.pdus_through);
    more_pdus_ = items.more_pdus;
    let_go_at_.insert(let_go_at_.end(), items.let_go_at.begin(), items.let_go_at.end());
    rooms_known_ = true;
    rooms_behind_ = {items.rooms_behind.begin(), items.rooms_behind.end()};
  }
  if (more_to_device_) {
    to_device_read_ = std::max(to_device_read_, items.to_device_through);
    more_to_device_ = items.more_to_device;
  }
  if (!more_pdus_ && !more_to_device_ && !more_extras_) become_live();
}

void outbox::keep(const log_entry& entry) {
  auto& queue = entry.kind == entry_kind::to_device ? to_device_ : pdus_;
  if (!queue.empty() && entry.pos <= queue.back().pos) return; // twice; the order is by position
  if (ahead_.count(entry.pos)) return;                         // it went ahead of the cursor
  queue.push_back({entry.pos, entry.body, entry.room_id, entry.subject});
  bytes_ += entry.body.size();
}

bool outbox::room_is_behind(const std::string& room_id) const {
  return rooms_behind_.count(room_id) > 0 ||
         std::any_of(pdus_.begin(), pdus_.end(), [&](const item& one) { return one.room_id == room_id; });
}

void outbox::become_live() {
  phase_ = phase::live;
  pdus_read_ = std::max(pdus_read_, subscribed_from_);
  to_device_read_ = std::max(to_device_read_, subscribed_from_);
  auto waiting = std::move(live_);
  live_.clear();
  for (const auto& entry : waiting) {
    bytes_ -= entry.body.size();
    add_live(entry);
  }
  // What went ahead has left live_; it is known all the same.
  pdus_read_ = std::max(pdus_read_, live_through_);
  to_device_read_ = std::max(to_device_read_, live_through_);
}

bool outbox::add_live(const log_entry& entry) {
  if (phase_ == phase::closed) return false;
  // Device lists are read when they are sent; here their entries only say how far the log is known.
  const bool held = entry.kind == entry_kind::pdu || entry.kind == entry_kind::to_device;
  if (!held && phase_ == phase::reading) return true;
  if (window_items() >= limits_.window_items || bytes_ + entry.body.size() > limits_.window_bytes) return false;
  if (phase_ == phase::reading) {
    live_.push_back(entry);
    live_through_ = entry.pos;
    bytes_ += entry.body.size();
    return true;
  }
  if (entry.pos <= std::min(pdus_read_, to_device_read_)) return true; // known
  if (held) keep(entry);
  // Entries come in position order over all kinds, so both kinds are known up to here.
  pdus_read_ = to_device_read_ = entry.pos;
  return true;
}

void outbox::drop() {
  phase_ = phase::closed;
  pdus_.clear();
  to_device_.clear();
  extras_.clear();
  retried_.clear();
  live_.clear();
  live_through_ = 0;
  rooms_behind_.clear();
  rooms_known_ = false;
  bytes_ = 0;
  let_go_at_.clear();
}

void outbox::add_ephemeral(const log_entry& entry) {
  const auto version = ++ephemeral_version_;
  // Without a key each stands for itself.
  const auto key = entry.subject.empty() ? "\n" + std::to_string(version) : entry.subject;
  ephemeral_[key] = {entry.detail, entry.body, entry.at_ms, version};
  if (ephemeral_.size() <= limits_.ephemeral_items) return;
  auto oldest = std::min_element(ephemeral_.begin(), ephemeral_.end(),
                                 [](const auto& a, const auto& b) { return a.second.version < b.second.version; });
  ephemeral_.erase(oldest);
}

void outbox::forget_short_lived() {
  std::erase_if(ephemeral_, [](const auto& e) { return e.second.edu_type != "m.receipt"; });
}

void outbox::expire_ephemeral(std::int64_t wall_ms) {
  std::erase_if(ephemeral_, [&](const auto& e) { return wall_ms - e.second.at_ms > lifetime_ms(e.second.edu_type); });
}

bool outbox::has_items(bool with_ephemeral) const { return has_durable() || (with_ephemeral && !ephemeral_.empty()); }

void outbox::delivered(const built_transaction& sent) {
  at_.pdu = std::max(at_.pdu, sent.after.pdu);
  at_.device_lists = std::max(at_.device_lists, sent.after.device_lists);
  at_.to_device = std::max(at_.to_device, sent.after.to_device);
  while (!let_go_at_.empty() && let_go_at_.front() <= at_.pdu)
    let_go_at_.pop_front();
  std::erase_if(retried_, [&](const retried_item& one) {
    const bool went = std::find(sent.retried.begin(), sent.retried.end(), one.row) != sent.retried.end();
    if (went) bytes_ -= one.item.body.size();
    return went;
  });
  forget_extras(sent.extras);
  for (const auto pos : sent.ahead)
    ahead_.insert(pos);
  std::erase_if(live_, [&](const log_entry& entry) {
    const bool went = entry.kind == entry_kind::pdu && ahead_.count(entry.pos) > 0;
    if (went) bytes_ -= entry.body.size();
    return went;
  });
  // While it was under way the backlog may have been read to its end: then they stand among the others by now.
  std::erase_if(pdus_, [&](const item& one) {
    const bool went = ahead_.count(one.pos) > 0;
    if (went) bytes_ -= one.body.size();
    return went;
  });
  forget_delivered();
  // Nothing is left below what went ahead: the cursor passes it now, there may never be another transaction for that.
  if (phase_ == phase::live && !ahead_.empty() && pdus_.empty() && let_go_at_.empty())
    at_.pdu = std::max(at_.pdu, pdus_read_);
  ahead_.erase(ahead_.begin(), ahead_.upper_bound(at_.pdu));
  for (const auto& [key, version] : sent.ephemeral) {
    auto found = ephemeral_.find(key);
    if (found != ephemeral_.end() && found->second.version == version) ephemeral_.erase(found);
  }
}

void outbox::forget_extras(const std::vector<position>& went) {
  for (const auto pos : went) {
    if (extras_.empty() || extras_.front().pos != pos) continue;
    bytes_ -= extras_.front().body.size();
    extras_.pop_front();
  }
}

void outbox::forget_delivered() {
  while (!pdus_.empty() && pdus_.front().pos <= at_.pdu) {
    bytes_ -= pdus_.front().body.size();
    pdus_.pop_front();
  }
  while (!to_device_.empty() && to_device_.front().pos <= at_.to_device) {
    bytes_ -= to_device_.front().body.size();
    to_device_.pop_front();
  }
}

} // namespace ranvier
