#include "bin/status_page.hpp"

#include "bin/render.hpp"
#include "bin/status_page_frame.hpp"
#include "bin/words.hpp"

#include <algorithm>
#include <cmath>

namespace ranvier {

namespace {

using nlohmann::json;

constexpr std::size_t most_rows = 50;

/// For the inside of an element and for an attribute: the words of other servers must stay words.
std::string safe(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else if (c == '\'') out += "&#39;";
    else out += c;
  }
  return out;
}

std::vector<json> list_in(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? std::vector<json>(found->begin(), found->end())
                                                    : std::vector<json>();
}

std::string element(const std::string& name, const std::string& inside, const std::string& cls = "") {
  return '<' + name + (cls.empty() ? "" : " class=\"" + cls + '"') + '>' + inside + "</" + name + '>';
}

std::string tile(const std::string& label, const std::string& value, const std::string& cls = "") {
  return element("div", element("dt", safe(label)) + element("dd", safe(value)), "tile " + cls);
}

std::string header(const json& stats, std::int64_t now) {
  const auto ready = stats.find("ready");
  const bool is_ready = ready != stats.end() && *ready == true;
  std::vector<std::string> parts{"ranvier " + text_in(stats, "version")};
  if (auto started = number_in(stats, "started_ms")) parts.push_back("up " + span_text(now - started));
  if (auto bytes = number_in(stats, "database_bytes")) parts.push_back("database " + bytes_text(bytes));
  if (auto restarts = number_in(stats, "actor_restarts"))
    parts.push_back(counted(restarts, "actor restart", "actor restarts"));
  auto why = text_in(stats, "not_ready_because");
  return element(
      "header",
      element("h1", safe(text_in(stats, "server_name"))) +
          element("p", element("strong", is_ready ? "ready" : safe("not ready" + (why.empty() ? "" : ": " + why)),
                               is_ready ? "good" : "bad") +
                           " · " + safe(joined(parts, " · "))));
}

std::string tiles(const json& stats) {
  const auto& states = object_in(stats, "destinations");
  const auto& waiting = object_in(stats, "waiting");
  const auto& rates = object_in(stats, "rates");
  auto number = [](const json& of, const char* name) { return std::to_string(number_in(of, name)); };
  auto colour = [&](const char* name, const char* cls) { return number_in(states, name) > 0 ? cls : ""; };
  std::string out = tile("open", number(states, "open"), "good");
  out += tile("closed", number(states, "closed"), colour("closed", "bad"));
  out += tile("probing", number(states, "probing"), colour("probing", "warn"));
  out += tile("held", number(states, "held"), colour("held", "warn"));
  out += tile("catching up", number(states, "catching_up"), colour("catching_up", "warn"));
  out += tile("pdus wait", number(waiting, "pdus"));
  out += tile("device updates wait", number(waiting, "device_lists"));
  out += tile("to-device wait", number(waiting, "to_device"));
  const auto oldest = number_in(waiting, "oldest_age_ms");
  out += tile("oldest", oldest > 0 ? span_text(oldest) : "–");
  out += tile("ok, last minute", number(rates, "transactions_ok"));
  out += tile("failed, last minute", number(rates, "transactions_failed"),
              number_in(rates, "transactions_failed") > 0 ? "warn" : "");
  const auto half = number_in(rates, "half_ms");
  out += tile("half of them within", half > 0 ? span_text(half) : "–");
  return element("dl", out, "tiles");
}

std::string attention(const json& facts, std::int64_t now) {
  auto stats = object_in(facts, "stats");
  stats["partial_join_list"] = list_in(facts, "partial_joins");
  std::vector<json> failing;
  for (const auto& d : list_in(facts, "closed"))
    if (text_in(object_in(d, "gate"), "state") != "held") failing.push_back(d);
  std::string items;
  for (const auto& part : attention_parts(stats, failing, now))
    items += element("li", safe(part));
  if (items.empty()) return element("p", "Nothing needs attention.", "calm");
  return element("ul", items, "attention");
}

/// A table with a caption; a sentence instead where it has no rows.
std::string table(const std::string& id, const std::string& caption, const std::string& none,
                  const std::vector<const column*>& columns, const std::vector<json>& rows, std::int64_t total,
                  std::int64_t now) {
  auto head = element("h2", safe(caption));
  if (rows.empty()) return "<section id=\"" + id + "\">" + head + element("p", safe(none), "calm") + "</section>";
  std::string titles, lines;
  for (const auto* one : columns)
    titles += "<th scope=\"col\">" + safe(one->title) + "</th>";
  for (std::size_t i = 0; i < rows.size() && i < most_rows; ++i) {
    std::string cells;
    for (const auto* one : columns) {
      const auto how = one->toned ? one->toned(rows[i]) : tone::plain;
      cells += element("td", safe(one->shown(rows[i], now)),
                       how == tone::bad    ? "bad"
                       : how == tone::warn ? "warn"
                       : how == tone::good ? "good"
                                           : "");
    }
    lines += element("tr", cells) + '\n';
  }
  auto out = "<section id=\"" + id + "\">" + head +
             element("div", element("table", element("thead", element("tr", titles)) + "\n" + element("tbody", lines)),
                     "wide");
  const auto shown = std::int64_t(std::min(rows.size(), most_rows));
  if (total > shown) out += element("p", safe("and " + std::to_string(total - shown) + " more"), "calm");
  return out + "</section>";
}

std::vector<const column*> narrow(const std::vector<column>& all) {
  std::vector<const column*> out;
  for (const auto& one : all)
    if (!one.wide) out.push_back(&one);
  return out;
}

/// Ages as columns; the more waits, the deeper a cell's colour.
std::string shape(const json& answer) {
  const auto rows = list_in(answer, "destinations");
  if (rows.empty())
    return "<section id=\"shape\"><h2>What waits, by age</h2><p class=\"calm\">Nothing waits.</p></section>";
  std::string titles = "<th scope=\"col\">DESTINATION</th><th scope=\"col\">TOTAL</th>";
  std::string last;
  for (const auto& bound : list_in(answer, "bounds_ms")) {
    last = bound == 604'800'000 ? "1w" : span_text(bound.is_number() ? bound.get<std::int64_t>() : 0);
    titles += "<th scope=\"col\">" + last + "</th>";
  }
  titles += "<th scope=\"col\">" + last + "+</th>";
  auto line = [](const std::string& name, const json& of) {
    auto cells = "<th scope=\"row\">" + safe(name) + "</th>" + element("td", std::to_string(number_in(of, "total")));
    for (const auto& count : list_in(of, "counts")) {
      const auto n = count.is_number() ? count.get<std::int64_t>() : 0;
      const auto heat = n <= 0 ? 0 : std::min(5, 1 + int(std::log10(double(n))));
      cells += element("td", std::to_string(n), "heat" + std::to_string(heat));
    }
    return element("tr", cells) + '\n';
  };
  auto lines = line("all", object_in(answer, "total"));
  for (std::size_t i = 0; i < rows.size() && i < most_rows; ++i)
    lines += line(text_in(rows[i], "destination"), rows[i]);
  return "<section id=\"shape\"><h2>What waits, by age</h2>" +
         element("div",
                 element("table", element("thead", element("tr", titles)) + "\n" + element("tbody", lines), "numbers"),
                 "wide") +
         "</section>";
}

std::string joins(const std::vector<json>& rows, std::int64_t now) {
  std::string out = "<section id=\"partial-joins\"><h2>Partial joins</h2>";
  if (rows.empty()) return out + "<p class=\"calm\">No room is partially joined.</p></section>";
  std::string lines;
  for (const auto& join : rows) {
    std::string servers;
    for (const auto& [name, one] : object_in(join, "servers").items()) {
      const auto verdict = text_in(one, "verdict");
      servers += element("li", safe(joined({printable(name), verdict.empty() ? "not asked yet" : verdict,
                                            text_in(one, "reason"), due_text(number_in(one, "next_attempt_ms"), now)},
                                           ", ")));
    }
    const auto since = number_in(join, "since_ms");
    lines += element(
        "tr", "<th scope=\"row\">" + safe(text_in(join, "room_id")) + "</th>" +
                  element("td", safe(text_in(join, "state"))) + element("td", since ? span_text(now - since) : "") +
                  element("td", safe(text_in(join, "joined_via"))) + element("td", element("ul", servers)));
  }
  return out +
         element("div",
                 "<table><thead><tr><th scope=\"col\">ROOM</th><th scope=\"col\">STATE</th><th scope=\"col\">SINCE</th>"
                 "<th scope=\"col\">VIA</th><th scope=\"col\">SERVERS</th></tr></thead>" +
                     element("tbody", lines) + "</table>",
                 "wide") +
         "</section>";
}

} // namespace

std::string status_page(const json& facts, std::int64_t now_ms, bool whole) {
  const auto& stats = object_in(facts, "stats");
  const auto closed = list_in(facts, "closed"), stale = list_in(facts, "stale_users");
  const auto& states = object_in(stats, "destinations");
  const auto shut = number_in(states, "closed") + number_in(states, "probing") + number_in(states, "held");
  auto inside =
      header(stats, now_ms) + '\n' + attention(facts, now_ms) + '\n' + tiles(stats) + '\n' +
      table("closed", "Destinations that aren't open", "Every gate is open.", narrow(destination_columns()), closed,
            std::max<std::int64_t>(shut, std::int64_t(closed.size())), now_ms) +
      '\n' + shape(object_in(facts, "shape")) + '\n' + joins(list_in(facts, "partial_joins"), now_ms) + '\n' +
      table("stale-users", "Stale device lists", "Every list that is kept is fresh.", narrow(stale_user_columns()),
            stale, std::max(number_in(stats, "stale_users"), std::int64_t(stale.size())), now_ms);
  if (!whole) return inside;
  const auto name = text_in(stats, "server_name");
  return page_before(safe(name.empty() ? "ranvier" : name + " · ranvier")) + inside + page_after();
}

} // namespace ranvier
