#include "actors/log.hpp"
#include "actors/supervisor_core.hpp"

#include <algorithm>

// Outages of our own (DESIGN section 5): the heartbeat by which the next start knows how long we were away, the word to
// everybody after that, the probes that are brought forward when our uplink is back; and the end of the engine.

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto store_timeout = 60s;
constexpr auto announcement_timeout = 300s; // of one server, from the word to the end of its transaction
constexpr std::int64_t nudge_every_ms = 200, page_retry_ms = 5'000;
constexpr std::int64_t acks_settle_ms = 5'000; // what was acked stands in the database by then
constexpr std::size_t nudges_at_once = 10, names_in_a_page = 500, most_announcements = 200;
constexpr int most_passes = 3;
/// A gate closes before the supervisor hears of it.
constexpr std::int64_t closed_before_told_ms = 10'000;

} // namespace

void supervisor_core::begin_after_boot() {
  const auto reader = parts_.destinations->reader("boot");
  self_->request(reader, store_timeout, make_local(find_unreachable{}))
      .then(
          [this](const local<found_unreachable>& found) {
            // An outage of the uplink may have begun in our last life.
            const auto wall = parts_.destinations->wall_ms();
            const auto ago = std::max<std::int64_t>(0, wall - found->since_ms);
            for (const auto& name : found->list)
              uplink_.failed(name, now_ms() - ago, found->since_ms);
          },
          [this](const caf::error& problem) {
            log_warning("unreachable_not_read", {{"why", self_->system().render(problem)}});
          });
  begin_announcing();
}

void supervisor_core::begin(round& one, std::int64_t since_ms) {
  one = round{};
  one.active = true;
  one.since_ms = since_ms;
  one.number = ++rounds_;
}

void supervisor_core::beat() {
  heartbeat_due_ms_ = now_ms() + heartbeat_ms;
  self_->send(parts_.destinations->ledger, make_local(heartbeat{parts_.destinations->wall_ms(), reached_wall_ms_}));
}

void supervisor_core::begin_announcing() {
  begin(announcing_, 0);
  read_page(announcing_);
}

void supervisor_core::took(const reachability& news) {
  const auto wall = parts_.destinations->wall_ms();
  if (!news.reached) return uplink_.failed(news.server, now_ms(), wall);
  reached_wall_ms_ = wall;
  for (const auto& [room_id, one] : joins_)
    if (one.actor) self_->send(one.actor, heard_from{news.server});
  const auto since = uplink_.reached(now_ms(), wall);
  if (!since || stopping_) return;
  log_info("uplink_back", {{"first_answer_from", news.server}, {"away_since_ms", std::to_string(*since)}});
  const auto earlier = forwarding_.active ? forwarding_.since_ms : *since;
  begin(forwarding_, std::min(earlier, *since - closed_before_told_ms));
  read_page(forwarding_);
}

/// A few at a time; what is really owed goes its own way meanwhile.
void supervisor_core::nudge_some() {
  nudge_due_ms_ = now_ms() + nudge_every_ms;
  auto left = nudges_at_once;
  for (auto* one : {&forwarding_, &announcing_}) {
    while (one->active && left > 0 && !one->names.empty()) {
      if (!nudge(one->names.front(), *one)) break;
      one->names.pop_front();
      --left;
    }
    if (!one->active || one->reading || !one->names.empty()) continue;
    if (!one->last_page) read_page(*one);
    else if (one == &forwarding_) forwarding_ = round{};
    else if (announcements_ == 0) end_pass();
  }
}

/// False if it has to wait for others to be done.
bool supervisor_core::nudge(const std::string& server, const round& of) {
  const bool word = &of == &announcing_;
  if (word && announcements_ >= most_announcements) return false;
  auto* one = ensure(server, false);
  if (!one || !one->actor) return true;
  ++one->sent;
  if (!word) {
    self_->send(one->actor, come_forward{});
    return true;
  }
  ++announcing_.told;
  ++announcements_;
  self_->request(one->actor, announcement_timeout, announce{of.since_ms})
      .then([this](const done&) { --announcements_; }, [this](const caf::error&) { --announcements_; });
  return true;
}

void supervisor_core::read_page(round& of) {
  of.reading = true;
  nudge_due_ms_ = now_ms() + nudge_every_ms;
  const auto mine = of.number;
  const auto reader = parts_.destinations->reader("boot");
  if (&of == &forwarding_) {
    self_->request(reader, store_timeout, make_local(list_unreachable{of.since_ms, of.after, names_in_a_page}))
        .then(
            [this, mine](const local<names>& page) {
              if (mine == forwarding_.number) take_page(forwarding_, page->list);
            },
            [this, mine](const caf::error& problem) {
              if (mine == forwarding_.number) wait_for_page(forwarding_, problem);
            });
    return;
  }
  self_->request(reader, store_timeout, make_local(list_unannounced{of.after, names_in_a_page}))
      .then(
          [this, mine](const local<unannounced>& page) {
            if (mine != announcing_.number) return;
            if (page->since_ms == 0) {
              announcing_ = round{};
              return;
            }
            if (announcing_.since_ms == 0)
              log_info("announcing",
                       {{"to", "servers not reached since"}, {"since_ms", std::to_string(page->since_ms)}});
            announcing_.since_ms = page->since_ms;
            take_page(announcing_, page->list);
          },
          [this, mine](const caf::error& problem) {
            if (mine == announcing_.number) wait_for_page(announcing_, problem);
          });
}

void supervisor_core::take_page(round& of, std::vector<std::string> page) {
  of.reading = false;
  of.last_page = page.size() < names_in_a_page;
  if (!page.empty()) of.after = page.back();
  of.names.assign(std::make_move_iterator(page.begin()), std::make_move_iterator(page.end()));
  arm();
}

void supervisor_core::wait_for_page(round& of, const caf::error& problem) {
  log_warning("names_not_read", {{"why", self_->system().render(problem)}});
  of.reading = false;
  of.last_page = false;
  nudge_due_ms_ = now_ms() + page_retry_ms;
  arm();
}

/// Who was told shows a success or a closed gate now; whoever doesn't (its actor crashed) is told once more. Then the
/// outage is over. A crash before that finds the row, and goes on with those who weren't told.
void supervisor_core::end_pass() {
  const auto passes = announcing_.passes + 1;
  const auto since = announcing_.since_ms;
  const bool again = announcing_.told > 0 && passes < most_passes;
  announcing_ = round{};
  if (again) {
    begin(announcing_, since);
    announcing_.passes = passes;
    nudge_due_ms_ = now_ms() + acks_settle_ms;
    return arm();
  }
  log_info("announced", {{"since_ms", std::to_string(since)}});
  self_->request(parts_.destinations->ledger, store_timeout, make_local(announced{since}))
      .then([](const done&) {}, // not stored: the next start announces to those who are left
            [this](const caf::error& problem) {
              log_warning("announcement_not_ended", {{"why", self_->system().render(problem)}});
            });
}

caf::result<done> supervisor_core::wind_down_all(const wind_down& word) {
  stopping_ = true;
  announcing_ = forwarding_ = round{};
  auto promise = self_->make_response_promise<done>();
  auto missing = std::make_shared<std::size_t>(1);
  auto one_less = [missing, promise]() mutable {
    if (--*missing == 0) promise.deliver(done{});
  };
  for (const auto& [server, one] : children_) {
    if (!one.actor) continue;
    ++*missing;
    self_->request(one.actor, std::chrono::milliseconds(word.within_ms), word)
        .then([one_less](const done&) mutable { one_less(); }, [one_less](const caf::error&) mutable { one_less(); });
  }
  // What waits for its turn to go out isn't in flight: the next life sends it.
  self_
      ->request(parts_.destinations->egress, std::chrono::milliseconds(word.within_ms),
                make_local(cancel_calls{"", true}))
      .then([](const done&) {}, [](const caf::error&) {});
  one_less();
  return promise;
}

} // namespace ranvier
