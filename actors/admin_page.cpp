// The status page at "/": facts are gathered here, what they look like is the business of whoever made the desk.
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"
#include "messages/joins.hpp"

#include <algorithm>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
using namespace admin;
constexpr std::size_t most_rows = 200;
constexpr std::int64_t refresh_ms = 2'000; ///< a live page is drawn anew so often,
constexpr std::int64_t share = 10;         ///< but gathering its facts takes at most this part of the time

/// Without an asset, a frame or a script from anywhere else.
const std::vector<std::pair<std::string, std::string>> page_headers{
    {"Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-store"}};

nlohmann::json parsed(const admin_answer& answer) {
  auto value = nlohmann::json::parse(answer.body, nullptr, false);
  return answer.status == 200 && value.is_object() ? value : nlohmann::json::object();
}

nlohmann::json list_in(nlohmann::json answer, const char* name) {
  const auto found = answer.find(name);
  return found != answer.end() && found->is_array() ? std::move(*found) : nlohmann::json::array();
}

/// What one reader of a live page has been shown.
struct live_page {
  std::string shown;
  std::int64_t due_ms = 0;
  int quiet = 0;
};

} // namespace

/// Everything on the page, from the calls that the verbs make.
nlohmann::json admin_desk::page_facts() {
  nlohmann::json facts{{"stats", parsed(stats())}};
  auto closed = nlohmann::json::array();
  for (const auto* state : {"closed", "probing", "held"}) {
    list_view wanted;
    wanted.state = state;
    wanted.order_by = "failing_since_ms";
    wanted.limit = most_rows;
    const auto got = ask<description>(system_, parts_.common.supervisor, make_local(std::move(wanted)));
    if (!got) continue;
    for (auto& one : list_in(nlohmann::json::parse(got->json, nullptr, false), "destinations"))
      closed.push_back(std::move(one));
  }
  facts["closed"] = std::move(closed);
  call every;
  every.route.query["limit"] = "30";
  facts["shape"] = parsed(show_shape(every));
  facts["stale_users"] = list_in(parsed(list_stale_users(every.route)), "stale_users");
  const auto joins = ask<description>(system_, parts_.common.supervisor, make_local(describe_joins{}));
  facts["partial_joins"] =
      joins ? list_in(nlohmann::json::parse(joins->json, nullptr, false), "partial_joins") : nlohmann::json::array();
  return facts;
}

admin_answer admin_desk::page() {
  if (!parts_.page) return refuse(404, "M_UNRECOGNIZED", "this engine has no status page");
  admin_answer out{200, parts_.page(page_facts(), parts_.common.wall_ms(), true), "text/html; charset=utf-8"};
  out.headers = page_headers;
  return out;
}

/// The page's inside whenever it is another one, as server-sent events with a JSON text each.
admin_answer admin_desk::live_page_stream() {
  if (!parts_.page) return refuse(404, "M_UNRECOGNIZED", "this engine has no status page");
  auto state = std::make_shared<live_page>();
  admin_answer out;
  out.content_type = "text/event-stream";
  out.pause_after_nothing = 300ms;
  out.pieces = [this, state]() -> std::optional<std::string> {
    const auto now = parts_.common.wall_ms();
    // A wall clock that was set back must not leave the page standing still.
    if (now < state->due_ms && state->due_ms - now <= share * refresh_ms)
      return ++state->quiet % 10 == 0 ? ":\n\n" : "";
    auto text = parts_.page(page_facts(), now, false);
    const auto after = parts_.common.wall_ms();
    state->due_ms = after + std::max(refresh_ms, share * (after - now));
    if (text == state->shown) return "";
    state->shown = text;
    return "event: page\ndata: " + text_of(nlohmann::json(std::move(text))) + "\n\n";
  };
  return out;
}

} // namespace ranvier
