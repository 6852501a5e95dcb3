"""The files of the project, read once, and what a rule answers with."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FOLDERS = (".ci", "actors", "bin", "cmake", "docs", "messages", "packaging", "storage", "tests")
AT_THE_TOP = ("CMakeLists.txt", "CMakePresets.json", "README.md")
SKIPPED = {"__pycache__", "build"}


@dataclass(frozen=True)
class Problem:
    path: str
    line: int
    says: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.says}"


@dataclass
class Tree:
    """Path (from the root, with slashes) -> text. Made from a folder, or by hand in the tests of the rules."""
    files: dict[str, str]
    executable: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, root: Path) -> "Tree":
        files: dict[str, str] = {}
        executable: set[str] = set()
        paths = [root / name for name in AT_THE_TOP]
        for folder in FOLDERS:
            paths += sorted((root / folder).rglob("*"))
        for path in paths:
            if not path.is_file() or SKIPPED & set(path.relative_to(root).parts):
                continue
            name = path.relative_to(root).as_posix()
            try:
                files[name] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # fuzzing corpora and the like
            if path.stat().st_mode & 0o100:
                executable.add(name)
        return cls(files, executable)

    def under(self, *prefixes: str, ending: tuple[str, ...] = (".cpp", ".hpp")) -> list[str]:
        return [p for p in self.files if p.startswith(prefixes) and p.endswith(ending)]

    def lines(self, path: str) -> list[tuple[int, str]]:
        return list(enumerate(self.files[path].split("\n"), 1))

    def code(self, path: str) -> list[tuple[int, str]]:
        """The lines of a C++ file without their comments, so that prose may name what code may not do."""
        return [(n, re.sub(r"(^|\s)//.*$|^\s*\*.*$|/\*.*?\*/", "", line)) for n, line in self.lines(path)]
