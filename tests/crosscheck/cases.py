#!/usr/bin/python3
"""docs/CASES.md is true: each case of ../shared/CASES.md has a line in it, and the tests that it names exist.

    cases.py

In code face: cases of tests/blackbox; in double quotes: doctests. `*` and `...` stand for anything; a name in code
face that begins with `_` or `-` is another ending of the name before it. RANVIER_SHARED names another folder than
../shared; where there is none the numbers of cases are not checked, and that is said.
"""
from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"\bB\d+\b")
TEST_CASE = re.compile(r'\bTEST_CASE(?:_FIXTURE|_TEMPLATE)?\(\s*(?:\w+,\s*)?((?:"(?:[^"\\]|\\.)*"\s*)+)')
# In code face, and no test.
OTHER = {"tests/blackbox/run.py -k B11"}


def doctests() -> set[str]:
    found = set()
    for folder in ("unit", "simulation", "properties"):
        for path in (ROOT / "tests" / folder).rglob("*.[ch]pp"):
            for call in TEST_CASE.finditer(path.read_text()):
                name = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', call.group(1)))
                found.add(re.sub(r"\\+(.)", r"\1", name))
    return found


def blackbox() -> set[str]:
    """As run.py knows them: many are made in loops."""
    folder = ROOT / "tests" / "blackbox"
    sys.path.insert(0, str(folder))
    for path in sorted(folder.glob("test_*.py")):
        importlib.import_module(path.stem)
    from rig import CASES  # pylint: disable=import-outside-toplevel
    return set(CASES)


def exists(name: str, among: set[str]) -> bool:
    pattern = ".*".join(re.escape(part) for part in re.split(r"\.\.\.|\*", name))
    return any(re.fullmatch(pattern, one) for one in among)


def rows(text: str) -> list[tuple[int, str, str]]:
    """Of each line of a table: its number, what the case is, what is said here."""
    out = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split(" | ", 1)
        if line.startswith("| B") and len(cells) == 2:
            out.append((number, cells[0], cells[1]))
    return out


def problems_of_names(table: list[tuple[int, str, str]], cases: set[str], units: set[str]) -> list[str]:
    problems = []
    for number, _, here in table:
        last = ""
        for name in re.findall(r"`([^`]+)`", here):
            if name in OTHER:
                continue
            if name[0] in "_-" and last:
                name = last[:last.rindex(name[0])] + name
            last = name
            if not exists(name, cases):
                problems.append(f"docs/CASES.md:{number}: no case of tests/blackbox is called `{name}`")
        for name in re.findall(r'"([^"]+)"', here):
            if not exists(name, units):
                problems.append(f'docs/CASES.md:{number}: no doctest is called "{name}"')
    return problems


def main() -> int:
    shared = Path(os.environ.get("RANVIER_SHARED") or ROOT.parent / "shared")
    table = rows((ROOT / "docs" / "CASES.md").read_text())
    cases, units = blackbox(), doctests()
    problems = problems_of_names(table, cases, units)
    if len(table) < 50 or len(cases) < 100 or len(units) < 100:
        problems.append(f"only {len(table)} lines, {len(cases)} black-box cases and {len(units)} doctests were found: "
                        "this test can't read them any more")
    told = f"{len(table)} lines name tests that exist"
    if (shared / "CASES.md").is_file():
        wanted = re.findall(r"^### (B\d+)\b", (shared / "CASES.md").read_text(), flags=re.M)
        there = {one for _, what, _ in table for one in NUMBER.findall(what)}
        problems += [f"docs/CASES.md has no line for {one} of {shared}/CASES.md" for one in wanted if one not in there]
        if len(wanted) < 50:
            problems.append(f"only {len(wanted)} cases were found in {shared}/CASES.md: this test can't read it")
        told += f", each of {len(wanted)} cases has a line"
    else:
        told += f"; {shared}/CASES.md isn't there: whether each case has a line was NOT checked"
    print("\n".join(problems) or told)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
