#!/usr/bin/python3
"""Checks the tree itself: `tidy.py [ROOT]` prints every problem and ends with 1 if there is one."""
from __future__ import annotations

import sys
from pathlib import Path

sys.dont_write_bytecode = True
from rules import RULES  # noqa: E402
from tree import Tree  # noqa: E402


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    tree = Tree.read(root)
    problems = [problem for check in RULES for problem in check(tree)]
    for problem in sorted(problems, key=lambda p: (p.path, p.line)):
        print(problem)
    print(f"{len(tree.files)} files, {len(RULES)} rules, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
