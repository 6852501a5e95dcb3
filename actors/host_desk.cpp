// The host's calls inside the ingress actor.
#include "actors/host_api.hpp"
#include "actors/metrics.hpp"

#include "messages/allowed_servers.hpp"
#include "messages/ids.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
constexpr auto read_timeout = 10s;
constexpr auto write_timeout = 60s;
constexpr auto beyond_request = 10s; ///< a pull answers by itself within its own timeout
constexpr std::int64_t longest_request_ms = 120'000;

void not_in_time(const std::shared_ptr<http_exchange>& exchange) {
  exchange->respond_error(503, "M_UNKNOWN", "no answer from the database in time; try again", {{"Retry-After", "5"}});
}

/// POST /requests as a pull, or a sentence that says what is wrong.
struct read_request {
  pull order;
  std::string problem;
};

/// What may stand in a request line as it is; a fragment is nobody's but the asker's.
bool is_percent_encoded(std::string_view uri) {
  return std::all_of(uri.begin(), uri.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f && c != '#'; });
}

read_request read_body(simdjson::dom::element body) {
  read_request out;
  const auto destination = string_member(body, "destination"), method = string_member(body, "method"),
             uri = string_member(body, "uri");
  out.problem = "";
  if (!destination || !is_server_name(*destination)) out.problem = "'destination' must be a server name";
  else if (!method || (*method != "GET" && *method != "PUT" && *method != "POST"))
    out.problem = "'method' must be GET, PUT or POST";
  else if (!uri || !uri->starts_with("/_matrix/") || !is_percent_encoded(*uri))
    out.problem = "'uri' must be a path under /_matrix/ with its query, percent-encoded";
  if (!out.problem.empty()) return out;
  std::int64_t timeout_ms = 30'000;
  simdjson::dom::element member;
  if (!body["timeout_ms"].get(member) && (member.get(timeout_ms) || timeout_ms < 1)) {
    out.problem = "'timeout_ms' must be a positive integer";
    return out;
  }
  out.order.destination = std::string(*destination);
  out.order.method = std::string(*method);
  out.order.uri = std::string(*uri);
  out.order.timeout_ms = std::min(timeout_ms, longest_request_ms);
  out.order.hasty = out.order.timeout_ms < pull::shortest_patience_ms;
  if (!body["content"].get(member) && !member.is_null()) {
    if (*method == "GET") out.problem = "a GET has no 'content'";
    else if (!member.is_object()) out.problem = "'content' must be an object";
    else out.order.body = shared_text(canonical_json(member, numbers::lenient));
  } else if (*method != "GET") {
    out.order.body = shared_text(std::string("{}")); // H1
  }
  return out;
}

void answer_pulled(const std::shared_ptr<http_exchange>& exchange, const pulled& got) {
  if (got.status == 0)
    return exchange->respond_error(502, "M_RANVIER_UNREACHABLE",
                                   got.problem.empty() ? "the server didn't answer" : got.problem);
  std::string content;
  try {
    content = canonical_json(got.body.view(), numbers::lenient);
  } catch (const json_problem&) {
    content = nlohmann::json(got.body.str()).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  exchange->respond(200, R"({"status":)" + std::to_string(got.status) + R"(,"content":)" + content + R"(,"took_ms":)" +
                             std::to_string(got.took_ms) + "}");
}

} // namespace

std::shared_ptr<void> host_desk::ticket() {
  if (*waiting_ >= parts_.settings->limits.waiting_calls) return nullptr;
  ++*waiting_;
  // The last hold of a call may go on another thread, so the counter is atomic and shared.
  return std::shared_ptr<void>(nullptr, [count = waiting_](void*) { --*count; });
}

void host_desk::take(const local<incoming>& in) {
  const auto& name = in->exchange->route.name;
  if (name == "feed_position") return feed_position(in->exchange);
  if (name == "room") return joins_.room(in->exchange);
  auto held = ticket();
  if (held.use_count() == 0)
    return in->exchange->respond_error(503, "M_LIMIT_EXCEEDED", "too many calls wait here ([limits] waiting_calls)",
                                       {{"Retry-After", "5"}});
  if (name == "stream") return stream_.take(in->exchange, std::move(held));
  if (name == "request") return request(in, std::move(held));
  if (join_desk::serves(name)) return joins_.take(in, std::move(held));
  if (key_desk::serves(name)) return keys_.take(in, std::move(held));
  in->exchange->respond_error(404, "M_UNRECOGNIZED", "there is no such endpoint here");
}

void host_desk::feed(const local<feed_step>& step) {
  fed += step->batch->lines.size();
  self_->request(parts_.ledger, write_timeout, step->batch)
      .then(
          [this, step](const local<feed_outcome>& outcome) {
            count(*outcome);
            step->answer(*outcome);
          },
          [step](const caf::error&) {
            feed_outcome unknown;
            unknown.ok = false;
            unknown.problem = "the database didn't answer in time";
            step->answer(unknown);
          });
}

void host_desk::count(const feed_outcome& outcome) {
  if (!parts_.counters || !outcome.ok) return;
  parts_.counters->add(metrics::counter::feed_records, static_cast<double>(outcome.accepted), "accepted");
  parts_.counters->add(metrics::counter::feed_records, static_cast<double>(outcome.skipped), "skipped");
  parts_.counters->add(metrics::counter::feed_records, static_cast<double>(outcome.rejected.size()), "rejected");
}

void host_desk::feed_position(const std::shared_ptr<http_exchange>& exchange) {
  const auto source = exchange->route.query.find("source");
  if (source == exchange->route.query.end() || source->second.empty())
    return exchange->respond_error(400, "M_MISSING_PARAM", "say which source: ?source=...");
  const auto name = source->second;
  self_->request(parts_.reader(), read_timeout, make_local(find_source{name}))
      .then(
          [exchange, name](const local<found_source>& found) {
            exchange->respond(200, R"({"source":)" + json_string(name) + R"(,"seq":)" +
                                       (found->known ? std::to_string(found->seq) : "null") + "}");
          },
          [exchange](const caf::error&) { not_in_time(exchange); });
}

void host_desk::request(const local<incoming>& in, std::shared_ptr<void> held) {
  const auto& exchange = in->exchange;
  auto read = read_body(in->document->root());
  if (!read.problem.empty()) return exchange->respond_error(400, "M_INVALID_PARAM", read.problem);
  const auto& settings = *parts_.settings;
  const auto& server = read.order.destination;
  if (server == settings.server_name)
    return exchange->respond_error(400, "M_INVALID_PARAM", server + " is this server itself; ask your homeserver");
  if (server_is_denied(settings.federation.allow, settings.federation.deny, server)) // for good, unlike a closed gate
    return exchange->respond_error(403, "M_FORBIDDEN", "[federation] allow or deny excludes " + server);
  const auto timeout = std::chrono::milliseconds(read.order.timeout_ms) + beyond_request;
  self_->request(parts_.supervisor, timeout, read.order)
      .then([exchange, held](const pulled& got) { answer_pulled(exchange, got); },
            [exchange, held](const caf::error&) {
              exchange->respond_error(504, "M_RANVIER_UNREACHABLE", "no answer came within the time given");
            });
}

} // namespace ranvier
