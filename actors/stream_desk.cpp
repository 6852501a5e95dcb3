// The host's stream inside the ingress actor: long polls and server-sent events.
#include "actors/host_api.hpp"

#include <algorithm>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto read_timeout = 10s;
constexpr auto write_timeout = 60s;
constexpr auto sign_of_life = 15s; ///< of an event stream without events
constexpr std::size_t most_items = 1000;
constexpr long long longest_poll_ms = 120'000, default_poll_ms = 30'000;

std::string item_text(position at, const stream_item& item) {
  std::string out = R"({"position":)" + std::to_string(at) + R"(,"kind":)" + json_string(item.kind);
  // `json` is an object of the other members; an empty one adds nothing.
  if (item.json.size() > 2) out += "," + item.json.substr(1);
  else out += "}";
  return out;
}

std::string page_text(const stream_page& page, position next) {
  std::string out = R"({"instance":)" + json_string(page.instance) + R"(,"items":[)";
  for (bool first = true; const auto& [at, item] : page.items) {
    if (!first) out += ',';
    first = false;
    out += item_text(at, item);
  }
  return out + R"(],"next":)" + std::to_string(next) + "}";
}

std::string event_text(const stream_page& page) {
  std::string out;
  for (const auto& [at, item] : page.items)
    out += "id: " + std::to_string(at) + "\nevent: " + item.kind + "\ndata: " + item_text(at, item) + "\n\n";
  return out;
}

/// The parameters of a stream request; a sentence if one can't be used.
std::string read_parameters(const http_exchange& exchange, stream_call& call, long long& timeout_ms) {
  const auto& query = exchange.route.query;
  const auto number = [&](const char* name, std::optional<long long>& out) {
    const auto at = query.find(name);
    if (at == query.end()) return true;
    out = parse_integer(at->second);
    return out.has_value() && *out >= 0;
  };
  std::optional<long long> after, limit, timeout;
  if (!number("after", after)) return "'after' must be a position: an integer from 0";
  if (!number("timeout_ms", timeout)) return "'timeout_ms' must be an integer from 0";
  if (!number("limit", limit) || (limit && *limit < 1)) return "'limit' must be an integer from 1 to 1000";
  call.events = exchange.header("Accept").find("text/event-stream") != std::string_view::npos;
  if (!after && call.events && !exchange.header("Last-Event-ID").empty()) {
    after = parse_integer(exchange.header("Last-Event-ID"));
    if (!after || *after < 0) return "'Last-Event-ID' must be a position";
  }
  call.has_after = after.has_value();
  call.after = after.value_or(0);
  call.limit = std::min<std::size_t>(static_cast<std::size_t>(limit.value_or(100)), most_items);
  timeout_ms = std::min(timeout.value_or(default_poll_ms), longest_poll_ms);
  const auto consumer = query.find("consumer");
  call.consumer = consumer == query.end() ? "host" : consumer->second;
  return {};
}

void wrong_position(const stream_call& call, const stream_page& page) {
  const auto bound = std::max(page.head, page.reserved);
  std::string body =
      error_body("M_RANVIER_POSITION", "'after' is " + std::to_string(call.after) + ", but must be between " +
                                           std::to_string(page.oldest - 1) + " and " + std::to_string(bound));
  body.pop_back();
  body += R"(,"oldest":)" + std::to_string(page.oldest) + R"(,"head":)" + std::to_string(page.head) +
          R"(,"first_valid":)" + std::to_string(page.oldest - 1) + R"(,"last_valid":)" + std::to_string(bound) +
          R"(,"instance":)" + json_string(page.instance) + "}";
  call.exchange->respond(409, std::move(body));
}

} // namespace

void stream_desk::take(const std::shared_ptr<http_exchange>& exchange, std::shared_ptr<void> ticket) {
  auto call = std::make_shared<stream_call>();
  call->exchange = exchange;
  call->ticket = std::move(ticket);
  long long timeout_ms = 0;
  const auto problem = read_parameters(*exchange, *call, timeout_ms);
  if (!problem.empty()) return exchange->respond_error(400, "M_INVALID_PARAM", problem);
  const auto& consumers = parts_.settings->host.consumers;
  if (std::find(consumers.begin(), consumers.end(), call->consumer) == consumers.end())
    return exchange->respond_error(400, "M_INVALID_PARAM",
                                   "no consumer '" + call->consumer + "' is configured in [host] consumers");
  // Weak: the exchange leads to the connection, which holds this.
  exchange->when_gone(
      [known = std::weak_ptr(call), self = caf::actor_cast<ingress_actor>(self_->ctrl())] {
        if (auto one = known.lock()) caf::anon_send(self, make_local(stream_written{std::move(one), false}));
      });
  call->due = self_->clock().now() + (call->events ? sign_of_life : std::chrono::milliseconds(timeout_ms));
  read(call);
}

void stream_desk::read(const call_ptr& call) {
  const auto seen = advances_;
  self_
      ->request(parts_.reader(), read_timeout,
                make_local(read_stream{call->consumer, call->has_after, call->after, call->limit}))
      .then(
          [this, call, seen](const local<stream_page>& page) {
            const bool early = call->after<page->oldest - 1, late = call->after> std::max(page->head, page->reserved);
            if (call->has_after && (early || late) && !call->begun) return wrong_position(*call, *page);
            if (call->has_after && !call->acknowledged) return acknowledge(call, seen, page);
            hand_over(call, seen, *page);
          },
          [call](const caf::error&) {
            if (call->begun) return call->exchange->end_stream();
            call->exchange->respond_error(503, "M_UNKNOWN", "the stream could not be read in time; try again",
                                          {{"Retry-After", "5"}});
          });
}

/// What was read is handed over only when the acknowledgement is durable, so that it can't be given again.
void stream_desk::acknowledge(const call_ptr& call, std::uint64_t seen, const local<stream_page>& page) {
  call->acknowledged = true;
  const auto known = acknowledged_.find(call->consumer);
  if (known != acknowledged_.end() && known->second >= call->after) return hand_over(call, seen, *page);
  self_->request(parts_.ledger, write_timeout, make_local(acknowledge_stream{call->consumer, call->after}))
      .then(
          [this, call, seen, page](const done& written) {
            auto& upto = acknowledged_[call->consumer];
            if (written.ok) upto = std::max(upto, call->after);
            hand_over(call, seen, *page);
          },
          // A full disk must not keep the host from reading on: what isn't acknowledged comes again.
          [this, call, seen, page](const caf::error&) { hand_over(call, seen, *page); });
}

void stream_desk::hand_over(const call_ptr& call, std::uint64_t seen, const stream_page& page) {
  if (call->gone) return;
  const auto next = !page.items.empty() ? page.items.back().first : call->has_after ? call->after : page.oldest - 1;
  if (call->events && !call->begun) {
    call->begun = true;
    call->exchange->begin_stream(200, {{"Content-Type", "text/event-stream"}});
    if (page.items.empty()) return write(call, ": ranvier " + page.instance + "\n\n");
  }
  if (call->events && !page.items.empty()) {
    call->has_after = true; // where to read on; acknowledged by the next request only
    call->acknowledged = true;
    call->after = next;
    return write(call, event_text(page));
  }
  if (!call->events && (!page.items.empty() || call->due <= self_->clock().now()))
    return call->exchange->respond(200, page_text(page, next));
  if (seen != advances_) return read(call);
  wait(call);
}

void stream_desk::write(const call_ptr& call, std::string piece) {
  auto self = caf::actor_cast<ingress_actor>(self_->ctrl());
  call->exchange->write(std::move(piece), [call, self](bool ok) {
    caf::anon_send(self, make_local(stream_written{call, ok}));
  });
}

void stream_desk::written(const stream_written& done) {
  if (!done.ok) { // the client has gone, and with the last hold of the call its ticket
    done.call->gone = true;
    waiting_.remove(done.call);
    return;
  }
  done.call->due = self_->clock().now() + sign_of_life;
  read(done.call);
}

void stream_desk::wait(const call_ptr& call) {
  waiting_.push_back(call);
  arm();
}

void stream_desk::advanced() {
  ++advances_;
  for (auto& call : std::exchange(waiting_, {}))
    read(call);
}

/// One timer for the earliest due moment; an older one that still comes is ignored.
void stream_desk::arm() {
  if (waiting_.empty()) return;
  const auto earliest =
      std::min_element(waiting_.begin(), waiting_.end(), [](const auto& a, const auto& b) { return a->due < b->due; });
  if (armed_ && armed_for_ <= (*earliest)->due) return;
  armed_ = true;
  armed_for_ = (*earliest)->due;
  self_->scheduled_send(caf::actor_cast<ingress_actor>(self_->ctrl()), armed_for_, tick{++generation_});
}

void stream_desk::due(std::uint64_t generation) {
  if (generation != generation_) return;
  armed_ = false;
  const auto now = self_->clock().now();
  std::list<call_ptr> over;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto here = at++;
    if ((*here)->due <= now) over.splice(over.end(), waiting_, here);
  }
  for (auto& call : over) {
    if (call->events) write(call, ":\n\n");
    else read(call); // answers now, whatever there is
  }
  arm();
}

} // namespace ranvier
