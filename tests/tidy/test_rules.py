#!/usr/bin/python3
"""Each rule of tidy bites: a small bad tree a row, with the problem that must be found, and a good one beside it."""
from __future__ import annotations

import sys
import unittest

sys.dont_write_bytecode = True
import rules  # noqa: E402
from tree import Tree  # noqa: E402

ONCE = "#pragma once\n"
# (rule, bad files, good files)
ROWS = [
    (rules.line_length, {"actors/a.cpp": "int a; " * 20}, {"actors/a.cpp": "x" * 130}),
    (rules.file_length, {"actors/a.cpp": "\n" * 401}, {"actors/a.cpp": "\n" * 400}),
    (rules.banned_calls, {"actors/a.cpp": "auto t = std::chrono::steady_clock::now();"},
     {"actors/net/a.cpp": "auto t = std::chrono::steady_clock::now();"}),
    (rules.banned_calls, {"storage/a.cpp": "auto t = std::chrono::system_clock::now();"},
     {"storage/a.cpp": "// system_clock::now is asked by bin only"}),
    (rules.banned_calls, {"actors/net/a.cpp": "std::this_thread::sleep_for(1s);"}, {"bin/a.cpp": "sleep_for(1s);"}),
    (rules.banned_calls, {"tests/unit/messages/a.cpp": "int a = std::rand();"}, {"tests/bench/a.cpp": "std::rand();"}),
    (rules.banned_calls, {"messages/a.cpp": "std::random_device seed;"}, {"messages/a.cpp": "int operand;"}),
    (rules.requests_end, {"actors/a.cpp": "self->request(a, caf::infinite, b)"},
     {"actors/a.cpp": "self->request(a, 5s, b)"}),
    (rules.include_directions, {"storage/a.cpp": '#include "actors/b.hpp"', "actors/b.hpp": ONCE},
     {"actors/a.cpp": '#include "storage/b.hpp"', "storage/b.hpp": ONCE}),
    (rules.include_directions, {"actors/a.cpp": '#include "b.hpp"', "actors/b.hpp": ONCE},
     {"actors/a.cpp": '#include "actors/b.hpp"', "actors/b.hpp": ONCE}),
    (rules.include_directions, {"storage/a.cpp": "#include <caf/all.hpp>"}, {"actors/a.cpp": "#include <caf/all.hpp>"}),
    (rules.include_directions, {"messages/a.cpp": "#include <caf/all.hpp>"},
     {"messages/protocol/a.hpp": "#include <caf/all.hpp>"}),
    (rules.include_directions, {"messages/a.cpp": "#include <sqlite3.h>"}, {"storage/a.cpp": "#include <sqlite3.h>"}),
    (rules.nothing_left_open, {"bin/a.cpp": "// TO" + "DO: more"}, {"bin/a.cpp": "// done"}),
    (rules.pages, {"README.md": "# One\n# Two\n"}, {"README.md": "# One\n```\n# no title\n```\n"}),
    (rules.pages, {"README.md": "# One\n[gone](docs/GONE.md)\n"}, {"README.md": "# One\n[x](https://matrix.org)\n"}),
    (rules.pages, {"README.md": "# One\n", "docs/ALONE.md": "# Two\n"},
     {"README.md": "# One\n[two](docs/TWO.md)\n", "docs/TWO.md": "# Two\n"}),
    (rules.tests_mirror_sources, {"tests/unit/actors/gate.cpp": "", "actors/other.cpp": ""},
     {"tests/unit/actors/gate_table.cpp": "", "actors/gate.hpp": ONCE}),
    (rules.headers_once, {"actors/a.hpp": ""}, {"actors/a.hpp": ONCE}),
    (rules.scripts_run, {"bin/run": ""}, {}),
    (rules.verbs_are_documented, {"bin/a.cpp": '      {act, "wake", "NAME",', "README.md": "# x\n"},
     {"bin/a.cpp": '      {act, "wake", "NAME",', "README.md": "# x\n`wake`\n"}),
    (rules.verbs_are_documented, {"actors/a.cpp": 'name = "ranvier_sent_total";', "README.md": "# x\n"},
     {"actors/a.cpp": 'name = "ranvier_sent_total";', "README.md": "# x\nranvier_sent_total\n"}),
    (rules.no_noise, {"actors/a.cpp": "int a; \n"}, {"actors/a.cpp": "int a;\n"}),
    (rules.no_noise, {"actors/a.cpp": "\tint a;\n"}, {"actors/a.cpp": "  int a;\n"}),
]


class RulesBite(unittest.TestCase):
    def test_bad_trees(self) -> None:
        for number, (check, bad, _) in enumerate(ROWS):
            with self.subTest(row=number, rule=check.__name__):
                self.assertTrue(list(check(Tree(bad))), f"{check.__name__} finds nothing in {bad}")

    def test_good_trees(self) -> None:
        for number, (check, _, good) in enumerate(ROWS):
            with self.subTest(row=number, rule=check.__name__):
                self.assertEqual(list(map(str, check(Tree(good)))), [])

    def test_every_rule_has_a_row(self) -> None:
        self.assertEqual({r.__name__ for r in rules.RULES}, {row[0].__name__ for row in ROWS})


if __name__ == "__main__":
    unittest.main()
