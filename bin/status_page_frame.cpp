#include "bin/status_page_frame.hpp"

namespace ranvier {

namespace {

constexpr const char* style = R"css(
:root { color-scheme: light dark; --ground: #fbfaf7; --card: #fff; --ink: #1d2327; --faint: #667078; --line: #e3e0d8;
  --good: #19713f; --bad: #b3261e; --warn: #8a5a00; --heat: 179, 38, 30; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --card: #1c2125; --ink: #e6e4df; --faint: #98a2aa;
  --line: #2d343a; --good: #6fd197; --bad: #ff8a80; --warn: #f0bd5e; --heat: 255, 138, 128; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 78rem; padding: 1.5rem clamp(1rem, 3vw, 2.5rem) 3rem; background: var(--ground);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1.5rem; }
h1 { font-size: 1.7rem; margin: 0; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem; }
header p, .calm, footer { color: var(--faint); margin: .2rem 0; }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .6rem; margin: 1.2rem 0 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .55rem .8rem; }
.tile dt { color: var(--faint); font-size: .8rem; }
.tile dd { margin: 0; font-size: 1.45rem; font-variant-numeric: tabular-nums; }
.attention { margin: 1rem 0 0; padding: .6rem .8rem .6rem 2rem; background: var(--card);
  border: 1px solid var(--line); border-left: .3rem solid var(--warn); border-radius: .5rem; }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem; border-bottom: 1px solid var(--line); }
tbody tr:last-child > * { border-bottom: 0; }
thead th { color: var(--faint); font-size: .72rem; letter-spacing: .05em; white-space: nowrap; }
tbody th { font-weight: 500; }
td ul { margin: 0; padding-left: 1.1rem; }
.numbers td, .numbers thead th:not(:first-child) { text-align: right; }
.heat0 { color: var(--faint); } .heat1 { background: rgba(var(--heat), .07); }
.heat2 { background: rgba(var(--heat), .15); }
.heat3 { background: rgba(var(--heat), .24); } .heat4 { background: rgba(var(--heat), .34); }
.heat5 { background: rgba(var(--heat), .46); }
footer { margin-top: 2.5rem; font-size: .85rem; }
)css";

/// The engine sends the inside anew whenever it has changed; nothing of it is ever run.
constexpr const char* script = R"js(
const inside = document.querySelector("main"), live = document.querySelector("#live");
const news = new EventSource(location.origin + "/_ranvier/admin/v1/page");
news.addEventListener("page", event => { inside.innerHTML = JSON.parse(event.data); });
news.onopen = () => { live.textContent = "live"; live.className = "good"; };
news.onerror = () => { live.textContent = "not live: the engine doesn't answer"; live.className = "bad"; };
)js";

} // namespace

std::string page_before(const std::string& title) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + title +
         "</title>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<noscript><meta http-equiv=\"refresh\" content=\"10\"></noscript>\n<style>" +
         style + "</style>\n</head>\n<body>\n<main>\n";
}

std::string page_after() {
  return std::string(
             "\n</main>\n<footer>This page is <span id=\"live\">drawn every 10 s</span>. The same on the command "
             "line: <code>ranvier status</code>, <code>ls --state closed</code>, <code>shape</code>, "
             "<code>why NAME</code>.</footer>\n<script>") +
         script + "</script>\n</body>\n</html>\n";
}

} // namespace ranvier
