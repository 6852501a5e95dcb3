"""The rules of the house that a machine can check. Each takes the tree and yields problems."""
from __future__ import annotations

import posixpath
import re
from typing import Callable, Iterator

from tree import Problem, Tree

Rule = Callable[[Tree], Iterator[Problem]]
RULES: list[Rule] = []

LONGEST_LINE = 120
LONGEST_FILE = 400
LONGEST_TEST_FILE = 600  # a table of cases reads well a little longer
SOURCES = (".cpp", ".hpp", ".py", ".sh", ".cmake", "CMakeLists.txt")
PRODUCT = ("actors/", "bin/", "messages/", "storage/")
# Here time and chance are handed in.
TIMELESS = ("actors/", "messages/", "storage/", "tests/unit/", "tests/simulation/")


def rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


@rule
def line_length(tree: Tree) -> Iterator[Problem]:
    """A line fits into 120 columns, unless a single unbroken word of it (a test vector) doesn't."""
    scripts = [p for p in tree.files if p.startswith(("bin/", ".ci/", "packaging/")) and "." not in p.split("/")[-1]]
    for path in [*tree.under("", ending=SOURCES), *scripts]:
        for number, line in tree.lines(path):
            if len(line) > LONGEST_LINE and max(map(len, line.split())) < 100:
                yield Problem(path, number, f"{len(line)} columns; at most {LONGEST_LINE}")


@rule
def file_length(tree: Tree) -> Iterator[Problem]:
    """A file that one person can't hold in the head is two files."""
    for path in tree.under("", ending=(".cpp", ".hpp", ".py")):
        count = tree.files[path].count("\n")
        most = LONGEST_TEST_FILE if path.startswith("tests/") else LONGEST_FILE
        if count > most:
            yield Problem(path, count, f"{count} lines; split it (at most {most})")


BANNED = (
    (r"\bsystem_clock::now\b", "the wall clock is handed in: take the injected clock", True),
    (r"\bsteady_clock::now\b", "actors ask self->clock().now(); pure code takes `now` as an argument", True),
    (r"\b(gettimeofday|clock_gettime|std::time)\s*\(", "the wall clock is handed in: take the injected clock", True),
    (r"\bsleep_for\b|\bsleep_until\b|\bu?sleep\s*\(", "nothing sleeps: set a delayed message or wait on a condition",
     False),
    (r"\bstd::rand\b|\bsrand\s*\(|\brandom_device\b", "chance is handed in: take the seeded generator", False),
)


@rule
def banned_calls(tree: Tree) -> Iterator[Problem]:
    """Time and chance come from outside. The threads of actors/net read the clocks for everybody."""
    for path in tree.under(*TIMELESS):
        for number, line in tree.code(path):
            for pattern, instead, net_may in BANNED:
                if re.search(pattern, line) and not (net_may and path.startswith("actors/net/")):
                    yield Problem(path, number, f"{re.search(pattern, line).group(0).strip('( ')}: {instead}")


@rule
def requests_end(tree: Tree) -> Iterator[Problem]:
    """Every request has a finite timeout."""
    for path in tree.under("actors/", "messages/"):
        for number, line in tree.code(path):
            if re.search(r"\brequest\s*\(.*\binfinite\b|\bcaf::infinite\b", line):
                yield Problem(path, number, "infinite: every request needs a finite timeout and an error handler")


FLOOR = {"messages": 0, "storage": 1, "actors": 2, "bin": 3}
FORBIDDEN_HEADERS = (  # (where, what, why); the first match counts
    ("messages/protocol/", r"^(sqlite3|SQLiteCpp|curl|httplib|boost)", "the protocols know no database and no network"),
    ("messages/", r"^(caf/|messages/protocol/)", "values know nothing of actors; protocols live in messages/protocol"),
    ("messages/", r"^(sqlite3|SQLiteCpp|curl|httplib|boost|fstream)", "values do no I/O"),
    ("storage/", r"^(caf/|messages/protocol/)", "storage knows nothing of actors"),
    ("storage/", r"^(curl|httplib|boost/(asio|beast))", "storage speaks to no network"),
    ("actors/", r"^(CLI/)", "the command line belongs to bin"),
)


@rule
def include_directions(tree: Tree) -> Iterator[Problem]:
    """bin -> actors -> storage -> messages; quoted includes are written from the root."""
    for path in tree.under(*PRODUCT):
        folder = path.split("/")[0]
        for number, line in tree.lines(path):
            found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if not found:
                continue
            quoted, target = found.group(1) == '"', found.group(2)
            if quoted and target not in tree.files:
                yield Problem(path, number, f'"{target}" is no path from the root of the project')
            if FLOOR.get(target.split("/")[0], -1) > FLOOR[folder]:
                yield Problem(path, number, f"{folder} may not include {target}: includes point down only")
            for where, what, why in FORBIDDEN_HEADERS:
                if path.startswith(where) and re.match(what, target):
                    if where == "messages/" and path.startswith("messages/protocol/"):
                        continue
                    yield Problem(path, number, f"{target}: {why}")


@rule
def nothing_left_open(tree: Tree) -> Iterator[Problem]:
    """What is not done is in the issues, not in the code."""
    for path in [p for p in tree.files if p.startswith(PRODUCT)]:
        for number, line in tree.lines(path):
            found = re.search(r"TODO|FIXME|XXX|stub|not implemented", line)
            if found:
                yield Problem(path, number, f"{found.group(0)}: finish it or file an issue")


@rule
def pages(tree: Tree) -> Iterator[Problem]:
    """One title a page, every link leads somewhere, and every page of docs/ is linked from another one."""
    linked: set[str] = set()
    for path in tree.under("", ending=(".md",)):
        titles, fenced = [], False
        for number, line in tree.lines(path):
            fenced ^= line.startswith("```")
            if fenced:
                continue
            if line.startswith("# "):
                titles.append(number)
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", line):
                if "://" in target or target.startswith("mailto:"):
                    continue
                goal = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
                linked.add(goal) if goal != path else None
                if goal not in tree.files and not any(p.startswith(goal + "/") for p in tree.files) \
                        and goal != "LICENSE":
                    yield Problem(path, number, f"the link to {target} leads nowhere")
        if len(titles) != 1:
            yield Problem(path, titles[1] if titles else 1, f"{len(titles)} titles (# ...); one page, one title")
    for path in tree.under("docs/", ending=(".md", ".yaml")):
        if path not in linked:
            yield Problem(path, 1, "no other page links here")


@rule
def tests_mirror_sources(tree: Tree) -> Iterator[Problem]:
    """tests/unit/actors/x.cpp tests actors/x.cpp (or x.hpp); x_something.cpp tests x too."""
    for path in tree.under("tests/unit/", ending=(".cpp",)):
        inner = path[len("tests/unit/"):-len(".cpp")]
        if inner == "main":
            continue
        parts = inner.split("_")
        stems = ["_".join(parts[:n]) for n in range(len(parts), 0, -1)]
        if not any(f"{stem}{ending}" in tree.files for stem in stems for ending in (".cpp", ".hpp")):
            yield Problem(path, 1, f"there is no {inner}.cpp or .hpp that it could test")


@rule
def headers_once(tree: Tree) -> Iterator[Problem]:
    for path in tree.under(*PRODUCT, ending=(".hpp",)):
        if "#pragma once" not in tree.files[path]:
            yield Problem(path, 1, "#pragma once is missing")


@rule
def scripts_run(tree: Tree) -> Iterator[Problem]:
    """The scripts that people call have the run bit."""
    for path in ("bin/run", "bin/test", ".ci/run"):
        if path in tree.files and path not in tree.executable:
            yield Problem(path, 1, "it lacks the run bit")


@rule
def verbs_are_documented(tree: Tree) -> Iterator[Problem]:
    """Every verb of the command line and every metric stands in a page."""
    prose = "\n".join(tree.files[p] for p in tree.under("", ending=(".md",)))
    for path in tree.under("bin/"):
        # A row of the table of verbs: its group, then the verb.
        for row in re.finditer(r'\{(?:look|probe|act|subjects|run|alone),\s*"([a-z -]+)"', tree.files[path]):
            if not re.search(rf"\b{row[1]}\b", prose):
                yield Problem(path, tree.files[path][:row.start()].count("\n") + 1,
                              f"the verb `{row[1]}` stands in no page")
    for path in tree.under("actors/", "messages/"):
        for number, line in tree.code(path):
            for metric in re.findall(r'"(ranvier_[a-z_]+)"', line):
                if metric not in prose:
                    yield Problem(path, number, f"the metric {metric} stands in no page")


@rule
def no_noise(tree: Tree) -> Iterator[Problem]:
    """White space at the end of a line and tabs in sources only make noise in changes."""
    for path in tree.under("", ending=SOURCES):
        for number, line in tree.lines(path):
            if line != line.rstrip():
                yield Problem(path, number, "white space at the end of the line")
            elif "\t" in line:
                yield Problem(path, number, "a tab; use spaces")
