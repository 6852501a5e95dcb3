#include "actors/failure_classes.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

namespace ranvier {

namespace {

constexpr std::int64_t second_ms = 1'000;
constexpr std::size_t quoted_characters = 100;        ///< of a peer's own words in a message
constexpr std::size_t longest_read_error = 64 * 1024; ///< bytes; a longer error body isn't parsed

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const auto from = text.find_first_not_of(blank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(blank) - from + 1);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool begins_like(std::string_view text, std::string_view start) {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(), [](char a, char b) { return a == lower(b); });
}

/// A web host's page instead of a Matrix answer.
bool is_page(const http_answer& answer) {
  std::string_view body = answer.body.view();
  if (body.substr(0, 3) == "\xEF\xBB\xBF") body.remove_prefix(3);
  return begins_like(trimmed(answer.content_type), "text/html") || trimmed(body).substr(0, 1) == "<";
}

/// A peer's text for people: no control characters, at most `most` bytes, cut between characters.
std::string quoted(std::string_view text, std::size_t most) {
  std::string out;
  for (const char c : trimmed(text))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  if (out.size() <= most) return out;
  while (most > 0 && (static_cast<unsigned char>(out[most]) & 0xC0) == 0x80)
    --most;
  return out.substr(0, most) + "...";
}

nlohmann::json error_object(std::string_view body) {
  if (body.size() > longest_read_error || trimmed(body).substr(0, 1) != "{") return nlohmann::json::object();
  auto parsed = nlohmann::json::parse(body, nullptr, false);
  return parsed.is_object() ? std::move(parsed) : nlohmann::json::object();
}

/// "M_FORBIDDEN: not allowed", or what there is of it.
std::string words_of(std::string_view body) {
  const auto object = error_object(body);
  const auto member = [&](const char* name) {
    const auto it = object.find(name);
    return it != object.end() && it->is_string() ? it->get<std::string>() : std::string{};
  };
  const std::string code = member("errcode"), error = member("error");
  return quoted(code.empty() || error.empty() ? code + error : code + ": " + error, quoted_characters);
}

std::string_view reason_of(int status) {
  constexpr std::array<std::pair<int, std::string_view>, 29> reasons{{{201, "Created"},
                                                                      {202, "Accepted"},
                                                                      {204, "No Content"},
                                                                      {301, "Moved Permanently"},
                                                                      {302, "Found"},
                                                                      {303, "See Other"},
                                                                      {304, "Not Modified"},
                                                                      {307, "Temporary Redirect"},
                                                                      {308, "Permanent Redirect"},
                                                                      {400, "Bad Request"},
                                                                      {401, "Unauthorized"},
                                                                      {402, "Payment Required"},
                                                                      {403, "Forbidden"},
                                                                      {404, "Not Found"},
                                                                      {405, "Method Not Allowed"},
                                                                      {406, "Not Acceptable"},
                                                                      {408, "Request Timeout"},
                                                                      {409, "Conflict"},
                                                                      {410, "Gone"},
                                                                      {411, "Length Required"},
                                                                      {413, "Content Too Large"},
                                                                      {415, "Unsupported Media Type"},
                                                                      {422, "Unprocessable Content"},
                                                                      {429, "Too Many Requests"},
                                                                      {500, "Internal Server Error"},
                                                                      {501, "Not Implemented"},
                                                                      {502, "Bad Gateway"},
                                                                      {503, "Service Unavailable"},
                                                                      {504, "Gateway Timeout"}}};
  for (const auto& [number, text] : reasons)
    if (number == status) return text;
  return {};
}

std::string in_seconds(std::int64_t ms) {
  if (ms % second_ms == 0) return std::to_string(ms / second_ms) + " s";
  return std::to_string(ms) + " ms";
}

failure no_answer(const http_answer& answer, const judge_context& about) {
  failure out;
  out.cls = failure_class::unreachable;
  // What failed to connect after a cut failed there, though the round before it may have reached the peer.
  const bool broke = answer.stage == failure_stage::request && answer.request_sent;
  out.stage = broke ? failure_stage::answer : answer.stage;
  out.message = quoted(answer.problem, 3 * quoted_characters);
  if (out.message.empty()) {
    if (answer.took_ms >= about.timeout_ms) out.message = "no answer within " + in_seconds(about.timeout_ms);
    else if (out.stage == failure_stage::answer) out.message = "the connection broke before a whole answer came";
    else out.message = "failed at stage " + std::string(to_string(out.stage));
  }
  if (!about.request.empty()) out.message += " (" + about.request + ")";
  return out;
}

failure answered(failure_class cls, const http_answer& answer, const judge_context& about) {
  failure out;
  out.cls = cls;
  out.stage = failure_stage::answer;
  out.status = answer.status;
  out.message = std::to_string(answer.status);
  if (const auto reason = reason_of(answer.status); !reason.empty()) out.message.append(" ").append(reason);
  if (answer.status == 200) out.message += " with an HTML page instead of a Matrix answer";
  else if (const auto words = words_of(answer.body.view()); !words.empty()) out.message += ": " + words;
  if (!about.request.empty()) out.message += " (" + about.request + ")";
  if (cls == failure_class::rate_limited)
    out.retry_after_ms = retry_after_of(answer.retry_after, answer.body.view(), about.wall_ms, about.longest_wait_ms);
  return out;
}

/// The class of a status that is no success, to /send.
failure_class push_class(int status) {
  if (status == 429) return failure_class::rate_limited;
  if (status == 410) return failure_class::gone;
  if (status >= 500 && status < 600) return failure_class::server_error;
  const bool refused = status == 401 || status == 403 || status == 404 || status == 405;
  return status >= 400 && status < 500 && !refused ? failure_class::content_refused : failure_class::refused;
}

// --- Retry-After ---------------------------------------------------------------------------------------------------

/// Seconds as digits, or a date; in ms. A number too long for us is a very long wait, not a mistake.
std::optional<double> header_wait(std::string_view header, std::int64_t wall_ms) {
  header = trimmed(header);
  if (header.empty()) return std::nullopt;
  if (std::all_of(header.begin(), header.end(), is_digit)) {
    double seconds = 0;
    for (const char c : header)
      seconds = seconds * 10 + (c - '0');
    return seconds * second_ms;
  }
  const auto date = parse_http_date(header);
  if (!date) return std::nullopt;
  return static_cast<double>(*date - wall_ms);
}

std::optional<double> body_wait(std::string_view body) {
  const auto object = error_object(body);
  const auto it = object.find("retry_after_ms");
  if (it == object.end() || !it->is_number()) return std::nullopt;
  const auto wait = it->get<double>();
  return std::isfinite(wait) && wait >= 0 ? std::optional(wait) : std::nullopt;
}

std::optional<int> number(std::string_view text, std::size_t most_digits) {
  int value = 0;
  if (text.empty() || text.size() > most_digits || !std::all_of(text.begin(), text.end(), is_digit))
    return std::nullopt;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::optional<int> month_of(std::string_view name) {
  constexpr std::array<std::string_view, 12> names{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto it = std::find(names.begin(), names.end(), name);
  return it == names.end() ? std::nullopt : std::optional(static_cast<int>(it - names.begin()) + 1);
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  constexpr std::string_view between = " ,-:";
  while (true) {
    const auto from = text.find_first_not_of(between);
    if (from == std::string_view::npos) return out;
    const auto to = std::min(text.find_first_of(between, from), text.size());
    out.push_back(text.substr(from, to - from));
    text.remove_prefix(to);
  }
}

} // namespace

std::optional<std::int64_t> parse_http_date(std::string_view text) {
  const auto w = words(text.substr(0, 64));
  // "Sun, 06 Nov 1994 08:49:37 GMT" and "Sunday, 06-Nov-94 08:49:37 GMT" give the same words in the same order;
  // "Sun Nov  6 08:49:37 1994" is the C library's.
  const bool usual = w.size() == 8 && w[7] == "GMT", c_library = w.size() == 7;
  if (!usual && !c_library) return std::nullopt;
  const auto month = month_of(usual ? w[2] : w[1]);
  const auto day = number(usual ? w[1] : w[2], 2);
  auto year = number(usual ? w[3] : w[6], 4);
  const std::size_t clock = usual ? 4 : 3;
  const auto hour = number(w[clock], 2), minute = number(w[clock + 1], 2), second = number(w[clock + 2], 2);
  if (!month || !day || !year || !hour || !minute || !second || *hour > 23 || *minute > 59 || *second > 60)
    return std::nullopt;
  if (usual && w[3].size() == 2) *year += *year < 70 ? 2000 : 1900;
  const std::chrono::year_month_day date{std::chrono::year{*year}, std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  if (!date.ok()) return std::nullopt;
  const auto days = std::chrono::sys_days{date}.time_since_epoch().count();
  const std::int64_t seconds = static_cast<std::int64_t>(days) * 86'400 + *hour * 3'600 + *minute * 60 + *second;
  return seconds * second_ms;
}

std::int64_t retry_after_of(std::string_view header, std::string_view body, std::int64_t wall_ms,
                            std::int64_t longest_ms) {
  const auto by_header = header_wait(header, wall_ms), by_body = body_wait(body);
  if (!by_header && !by_body) return -1;
  const double wait = by_header ? *by_header : *by_body; // T9
  const auto longest = static_cast<double>(std::max(longest_ms, second_ms));
  return std::llround(std::clamp(wait, static_cast<double>(second_ms), longest));
}

std::optional<failure> classify_push(const http_answer& answer, const judge_context& about) {
  if (answer.status == 0) return no_answer(answer, about);
  if (answer.status == 200 && !is_page(answer)) return std::nullopt;
  return answered(push_class(answer.status), answer, about);
}

judged classify_pull(const http_answer& answer, const judge_context& about) {
  if (answer.cancelled) return {verdict::proves_nothing, {}};
  if (answer.status == 0) return {verdict::failure, no_answer(answer, about)};
  if (answer.status == 200 && !is_page(answer)) return {verdict::success, {}};
  if (answer.status == 429) return {verdict::failure, answered(failure_class::rate_limited, answer, about)};
  if (answer.status >= 500 && answer.status < 600)
    return {verdict::failure, answered(failure_class::server_error, answer, about)};
  return {verdict::proves_nothing, {}};
}

std::string_view to_string(failure_class cls) {
  switch (cls) {
  case failure_class::none:
    return "none";
  case failure_class::unreachable:
    return "unreachable";
  case failure_class::server_error:
    return "server_error";
  case failure_class::rate_limited:
    return "rate_limited";
  case failure_class::refused:
    return "refused";
  case failure_class::content_refused:
    return "content_refused";
  case failure_class::gone:
    return "gone";
  }
  return "none";
}

std::string_view to_string(failure_stage stage) {
  switch (stage) {
  case failure_stage::build:
    return "build";
  case failure_stage::resolve:
    return "resolve";
  case failure_stage::connect:
    return "connect";
  case failure_stage::tls:
    return "tls";
  case failure_stage::request:
    return "request";
  case failure_stage::answer:
    return "answer";
  }
  return "answer";
}

} // namespace ranvier
