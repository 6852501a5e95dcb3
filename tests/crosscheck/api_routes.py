#!/usr/bin/python3
"""Routes served = routes documented: the router tables in actors/ against docs/openapi.yaml, and that document itself.

    api_routes.py [--list]

A route is written as `router_.add("GET", base + "destinations/{name}", "destination")`: of literals, constants that
are literals, and the variable of a loop over a list of literals.
"""
from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Iterator

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from openapi import ROOT, Spec  # noqa: E402

LITERAL = r'"((?:[^"\\]|\\.)*)"'
ADD = re.compile(r"\brout(?:er_?|es)\.add\(")
LOOP = re.compile(r'\bfor\s*\(\s*const auto[*&]?\s+(\w+)\s*:\s*\{([^}]*)\}\s*\)')
CONSTANT = re.compile(r'\bconst(?:expr)?\s+(?:char\s*\*|auto\*?|std::string(?:_view)?)\s*(?:const\s+)?(\w+)\s*'
                      r'(?:=\s*|[({]\s*)' + LITERAL)
# The federation listener speaks Matrix's own API, which is documented elsewhere.
NOT_OURS = {"federation_api.cpp"}


class Unreadable(ValueError):
    pass


def arguments(text: str, start: int) -> tuple[list[str], int]:
    """The arguments of a call whose '(' ends at `start`, and where it ends."""
    parts, depth, begin, at = [], 0, start, start
    while True:
        if text[at] == '"':
            at = re.compile(LITERAL).match(text, at).end()
            continue
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}" and depth:
            depth -= 1
        elif text[at] in ",)" and not depth:
            parts.append(text[begin:at].strip())
            begin = at + 1
            if text[at] == ")":
                return parts, at
        at += 1


def value(expression: str, names: dict[str, str]) -> str:
    """A sum of literals and names."""
    out = ""
    for part in re.split(r'\+(?=(?:[^"]*"[^"]*")*[^"]*$)', expression):
        part = re.sub(r'^(?:std::string(?:_view)?)\s*[({](.*)[)}]$', r"\1", part.strip())
        literal = re.fullmatch(f"(?:{LITERAL}\\s*)+", part)
        if literal:
            out += "".join(re.findall(LITERAL, part))
        elif part in names:
            out += names[part]
        else:
            raise Unreadable(part)
    return out


def extent(text: str, start: int) -> int:
    """Where the statement or block that begins at `start` ends."""
    while text[start].isspace():
        start += 1
    if text[start] != "{":
        return text.index(";", start)
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if not depth:
            return at
    return len(text)


def routes_of(text: str) -> Iterator[tuple[str, str]]:
    """(method, path) of every route that is added in this source text."""
    text = re.sub(r"//[^\n\"]*$", "", text, flags=re.M)
    loops = [(m.end(), extent(text, m.end()), m.group(1), re.findall(LITERAL, m.group(2))) for m in LOOP.finditer(text)]
    for call in ADD.finditer(text):
        given, _ = arguments(text, call.end())
        names = {m.group(1): m.group(2) for m in CONSTANT.finditer(text, 0, call.start())}
        around = [(name, values) for begin, end, name, values in loops if begin <= call.start() < end]
        rows = [names]
        for name, values in around:
            rows = [{**row, name: one} for row in rows for one in values]
        for row in rows:
            try:
                yield value(given[0], row), value(given[1], row)
            except Unreadable as problem:
                line = text.count("\n", 0, call.start()) + 1
                raise Unreadable(f"line {line}: '{problem}' is no literal, constant or loop variable; "
                                 "write the route out") from problem


def served() -> dict[tuple[str, str], str]:
    """Every route of the host and admin routers, and the file that adds it."""
    found = {}
    for path in sorted((ROOT / "actors").rglob("*.cpp")):
        if path.name in NOT_OURS:
            continue
        try:
            for route in routes_of(path.read_text()):
                found[route] = str(path.relative_to(ROOT))
        except Unreadable as problem:
            raise SystemExit(f"{path.relative_to(ROOT)}: {problem}") from problem
    return found


def main() -> int:
    spec, there = Spec(), served()
    if "--list" in sys.argv:
        for (method, path), file in sorted(there.items(), key=lambda r: (r[0][1], r[0][0])):
            print(f"{method:6} {path:70} {file}")
        return 0
    problems = [f"docs/openapi.yaml: {p}" for p in spec.problems()]
    documented, later = spec.routes(served=True), spec.routes(served=False)
    for method, path in sorted(set(there) - documented - later):
        problems.append(f"{method} {path} is served ({there[method, path]}) and not in docs/openapi.yaml: add it")
    for method, path in sorted(set(there) & later):
        problems.append(f"{method} {path} is served ({there[method, path]}): take its 'x-not-yet' out of "
                        "docs/openapi.yaml and see that its answers fit the schema")
    for method, path in sorted(documented - set(there)):
        problems.append(f"{method} {path} is in docs/openapi.yaml and not served: add the route or 'x-not-yet: true'")
    if len(there) < 20:
        problems.append(f"only {len(there)} routes were found in actors/: this test can't read them any more")
    print("\n".join(problems) or f"{len(there)} routes served and documented, {len(later)} documented as not yet")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
