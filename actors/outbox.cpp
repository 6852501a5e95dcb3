#include "actors/outbox.hpp"

#include "messages/to_device.hpp"
#include "messages/transaction.hpp"

#include <algorithm>

namespace ranvier {
namespace {

/// Room for the members of a transaction that aren't items.
constexpr std::size_t envelope_bytes = 512;

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
    for (const auto& entry : items.extras) {
      extras_.push_back({entry.pos, entry.body, entry.room_id});
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
  queue.push_back({entry.pos, entry.body, entry.room_id});
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

std::size_t outbox::take_ahead(std::vector<shared_text>& pdus, built_transaction& made, std::size_t budget) const {
  std::size_t used = 0;
  const auto most = limits_.transaction_pdus / 2;
  for (const auto& entry : live_) {
    if (made.ahead.size() >= most || ahead_.size() + made.ahead.size() >= limits_.ahead_positions) break;
    if (entry.kind != entry_kind::pdu || room_is_behind(entry.room_id)) continue;
    if (used + entry.body.size() > budget) break;
    pdus.push_back(entry.body);
    made.ahead.push_back(entry.pos);
    used += entry.body.size() + 1;
  }
  return used;
}

bool outbox::has_items(bool with_ephemeral) const { return has_durable() || (with_ephemeral && !ephemeral_.empty()); }

std::vector<std::string> outbox::senders() const {
  std::set<std::string> all;
  for (std::size_t i = 0; i < std::min(to_device_.size(), limits_.transaction_edus); ++i)
    all.emplace(to_device_sender(to_device_[i].body.view()));
  return {all.begin(), all.end()};
}

built_transaction outbox::build(const std::string& origin, const std::string& destination, std::int64_t wall_ms,
                                bool with_ephemeral, list_courier::load lists) {
  built_transaction made;
  std::vector<shared_text> pdus, edus;
  // Keys before events (DESIGN section 4, order inside a transaction): to-device first. While PDUs wait too it may take
  // half of the bytes, so neither starves the other; one item always goes, however large.
  std::size_t budget = limits_.transaction_bytes - std::min(limits_.transaction_bytes, envelope_bytes);
  const std::size_t for_edus = pdus_.empty() ? budget : budget / 2;
  std::size_t used = 0;
  std::vector<std::string> senders;
  std::vector<shared_text> others, signing;
  if (!lists.updates.empty()) senders = outbox::senders();
  for (const auto& update : lists.updates) {
    const bool first = std::binary_search(senders.begin(), senders.end(), update.user);
    (first ? edus : update.signing ? signing : others).emplace_back(update.edu);
    used += update.edu.size() + 1;
  }
  others.insert(others.end(), signing.begin(), signing.end());
  for (const auto& part : to_device_) {
    const bool full = edus.size() + others.size() >= limits_.transaction_edus ||
                      (!made.to_device.empty() && used + part.body.size() > for_edus);
    if (full) break;
    edus.push_back(part.body);
    made.to_device.push_back(part.pos);
    used += part.body.size() + 1;
  }
  edus.insert(edus.end(), others.begin(), others.end());
  made.after = at_;
  made.after.device_lists = std::max(at_.device_lists, lists.after);
  made.lists = std::move(lists.updates);
  made.list_extras = std::move(lists.extras);
  if (made.to_device.size() == to_device_.size()) {
    made.after.to_device = std::max(at_.to_device, phase_ == phase::closed ? at_.to_device : to_device_read_);
  } else if (!made.to_device.empty()) {
    made.after.to_device = made.to_device.back();
  }
  std::vector<shared_text> live;
  if (phase_ == phase::reading && rooms_known_) used += take_ahead(live, made, (budget - std::min(budget, used)) / 2);
  for (const auto& event : extras_) {
    const bool full = made.extras.size() + live.size() >= limits_.transaction_pdus ||
                      (!made.extras.empty() && used + event.body.size() > budget);
    if (full) break;
    pdus.push_back(event.body);
    made.extras.push_back(event.pos);
    used += event.body.size() + 1;
  }
  std::size_t taken = 0;
  for (const auto& event : pdus_) {
    if (made.extras.size() < extras_.size()) break; // older events first
    if (taken + live.size() + made.extras.size() >= limits_.transaction_pdus ||
        (taken + made.extras.size() > 0 && used + event.body.size() > budget))
      break;
    pdus.push_back(event.body);
    made.events.push_back(event.pos);
    made.after.pdu = event.pos;
    used += event.body.size() + 1;
    ++taken;
  }
  if (taken == pdus_.size() && phase_ != phase::closed) {
    made.after.pdu = std::max(made.after.pdu, pdus_read_);
  }
  const auto passed = std::upper_bound(let_go_at_.begin(), let_go_at_.end(), made.after.pdu);
  made.let_go_at.assign(let_go_at_.begin(), passed);
  made.let_go = passed - let_go_at_.begin();
  pdus.insert(pdus.end(), live.begin(), live.end());
  if (with_ephemeral) {
    expire_ephemeral(wall_ms);
    std::vector<std::pair<std::uint64_t, std::string>> oldest_first;
    for (const auto& [key, edu] : ephemeral_)
      oldest_first.emplace_back(edu.version, key);
    std::sort(oldest_first.begin(), oldest_first.end());
    for (const auto& [version, key] : oldest_first) {
      const auto& edu = ephemeral_.at(key);
      if (edus.size() >= limits_.transaction_edus || used + edu.body.size() > budget) break;
      edus.push_back(edu.body);
      used += edu.body.size() + 1;
      made.ephemeral.emplace_back(key, version);
    }
  }
  made.pdus = pdus.size();
  made.edus = edus.size();
  auto body = transaction_body(origin, wall_ms, pdus, edus);
  made.id = transaction_id(destination, wall_ms, body);
  made.body = shared_text(std::move(body));
  return made;
}

void outbox::delivered(const built_transaction& sent) {
  at_.pdu = std::max(at_.pdu, sent.after.pdu);
  at_.device_lists = std::max(at_.device_lists, sent.after.device_lists);
  at_.to_device = std::max(at_.to_device, sent.after.to_device);
  while (!let_go_at_.empty() && let_go_at_.front() <= at_.pdu)
    let_go_at_.pop_front();
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
