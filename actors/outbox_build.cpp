// How a transaction is made of what waits; see actors/outbox.hpp.
#include "actors/outbox.hpp"
#include "messages/to_device.hpp"
#include "messages/transaction.hpp"

#include <algorithm>

namespace ranvier {
namespace {

/// Room for the members of a transaction that aren't items.
constexpr std::size_t envelope_bytes = 512;

} // namespace

/// The items of a transaction in the making, and whether one more may go in.
struct outbox::draft {
  draft(const outbox_limits& most, transaction_bounds narrower)
      : limits(most)
      , bounds(narrower)
      , budget(std::min(most.transaction_bytes, narrower.bytes)) {
    budget -= std::min(budget, envelope_bytes);
  }

  const outbox_limits& limits;
  transaction_bounds bounds;
  std::size_t budget, used = 0; ///< bytes
  std::vector<shared_text> pdus, live, edus, later_edus;
  built_transaction made;

  std::size_t items() const { return pdus.size() + live.size() + edus.size() + later_edus.size(); }
  std::size_t left() const { return budget - std::min(budget, used); }
  /// One item always goes, however large: the first of its kind, so that no kind starves another; or the first of all
  /// while the peer finds our transactions too large.
  bool fits(std::size_t bytes, std::size_t within, bool first) const {
    if (items() >= bounds.items) return false;
    const bool always = bounds.bytes == transaction_bounds::none ? first : items() == 0;
    return always || used + bytes <= within;
  }
  bool takes_edu(std::size_t bytes, std::size_t within, bool first) const {
    return edus.size() + later_edus.size() < limits.transaction_edus && fits(bytes, within, first);
  }
  bool takes_pdu(std::size_t bytes, bool first) const {
    return pdus.size() + live.size() < limits.transaction_pdus && fits(bytes, budget, first);
  }
  void add(std::vector<shared_text>& to, refused_item item) {
    used += item.body.size() + 1;
    to.push_back(item.body);
    made.sole = std::move(item);
  }
};

/// Senders of the to-device messages that the next transaction takes.
std::vector<std::string> outbox::senders() const {
  std::set<std::string> all;
  for (std::size_t i = 0; i < std::min(to_device_.size(), limits_.transaction_edus); ++i)
    all.emplace(to_device_sender(to_device_[i].body.view()));
  return {all.begin(), all.end()};
}

built_transaction outbox::build(const std::string& origin, const std::string& destination, std::int64_t wall_ms,
                                bool with_ephemeral, list_courier::load lists, transaction_bounds bounds) {
  draft next(limits_, bounds);
  next.made.after = at_;
  take_retried(next);
  take_edus(next, std::move(lists));
  if (phase_ == phase::reading && rooms_known_ && bounds.items == transaction_bounds::none) take_ahead(next);
  take_events(next);
  if (with_ephemeral) take_ephemeral(next, wall_ms);
  auto& made = next.made;
  if (next.items() != 1) made.sole = {};
  next.pdus.insert(next.pdus.end(), next.live.begin(), next.live.end());
  made.pdus = next.pdus.size();
  made.edus = next.edus.size();
  auto body = transaction_body(origin, wall_ms, next.pdus, next.edus);
  made.id = transaction_id(destination, wall_ms, body);
  made.body = shared_text(std::move(body));
  return std::move(made);
}

/// What an operator wants sent again comes before everything.
void outbox::take_retried(draft& next) const {
  for (const auto& [row, what] : retried_) {
    const bool event = what.kind == item_kind::pdu, first = next.made.retried.empty();
    if (event ? !next.takes_pdu(what.body.size(), first) : !next.takes_edu(what.body.size(), next.budget, first)) break;
    next.add(event ? next.pdus : next.edus, what);
    next.made.retried.push_back(row);
  }
}

/// Keys before events: updates of those who sent the to-device messages, these messages, the other updates, signing
/// keys. While events wait too, to-device messages may take half of the bytes, so neither starves the other.
void outbox::take_edus(draft& next, list_courier::load lists) const {
  auto& made = next.made;
  std::vector<std::string> senders;
  std::vector<shared_text> signing;
  if (!lists.updates.empty()) senders = outbox::senders();
  for (const auto& update : lists.updates) {
    const bool first = std::binary_search(senders.begin(), senders.end(), update.user);
    auto& to = first ? next.edus : update.signing ? signing : next.later_edus;
    next.add(to, {item_kind::device_list, update.through, update.user, update.edu});
  }
  next.later_edus.insert(next.later_edus.end(), signing.begin(), signing.end());
  made.after.device_lists = std::max(at_.device_lists, lists.after);
  made.lists = std::move(lists.updates);
  made.list_extras = std::move(lists.extras);
  const auto budget = pdus_.empty() ? next.budget : next.budget / 2;
  for (const auto& part : to_device_) {
    if (!next.takes_edu(part.body.size(), budget, made.to_device.empty())) break;
    next.add(next.edus, {item_kind::to_device, part.pos, part.name, part.body});
    made.to_device.push_back(part.pos);
  }
  next.edus.insert(next.edus.end(), next.later_edus.begin(), next.later_edus.end());
  next.later_edus.clear();
  if (made.to_device.size() < to_device_.size()) {
    if (!made.to_device.empty()) made.after.to_device = made.to_device.back();
  } else if (phase_ != phase::closed) {
    made.after.to_device = std::max(at_.to_device, to_device_read_);
  }
}

/// Live events of rooms without a backlog, up to half of a transaction.
void outbox::take_ahead(draft& next) const {
  const auto budget = next.left() / 2, before = next.used;
  for (const auto& entry : live_) {
    auto& ahead = next.made.ahead;
    if (ahead.size() >= limits_.transaction_pdus / 2 || ahead_.size() + ahead.size() >= limits_.ahead_positions) break;
    if (entry.kind != entry_kind::pdu || room_is_behind(entry.room_id)) continue;
    if (next.used - before + entry.body.size() > budget) break;
    next.add(next.live, {item_kind::pdu, entry.pos, entry.subject, entry.body});
    ahead.push_back(entry.pos);
  }
}

/// Events below the cursor, then those above it: older events first.
void outbox::take_events(draft& next) const {
  auto& made = next.made;
  auto take = [&](const item& event, bool first, std::vector<position>& into) {
    if (!next.takes_pdu(event.body.size(), first)) return false;
    next.add(next.pdus, {item_kind::pdu, event.pos, event.name, event.body});
    into.push_back(event.pos);
    return true;
  };
  for (const auto& event : extras_)
    if (!take(event, made.extras.empty(), made.extras)) break;
  if (made.extras.size() == extras_.size())
    for (const auto& event : pdus_)
      if (!take(event, made.events.empty() && made.extras.empty(), made.events)) break;
  if (!made.events.empty()) made.after.pdu = made.events.back();
  if (made.events.size() == pdus_.size() && phase_ != phase::closed)
    made.after.pdu = std::max(made.after.pdu, pdus_read_);
  const auto passed = std::upper_bound(let_go_at_.begin(), let_go_at_.end(), made.after.pdu);
  made.let_go_at.assign(let_go_at_.begin(), passed);
  made.let_go = passed - let_go_at_.begin();
}

/// The oldest first.
void outbox::take_ephemeral(draft& next, std::int64_t wall_ms) {
  expire_ephemeral(wall_ms);
  std::vector<std::pair<std::uint64_t, std::string>> oldest_first;
  for (const auto& [key, edu] : ephemeral_)
    oldest_first.emplace_back(edu.version, key);
  std::sort(oldest_first.begin(), oldest_first.end());
  for (const auto& [version, key] : oldest_first) {
    const auto& edu = ephemeral_.at(key);
    if (!next.takes_edu(edu.body.size(), next.budget, false)) break;
    next.add(next.edus, {item_kind::ephemeral, 0, edu.edu_type, edu.body});
    next.made.ephemeral.emplace_back(key, version);
  }
}

} // namespace ranvier
