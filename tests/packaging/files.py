#!/usr/bin/python3
"""What a package installs, checked without installing it: the unit, the configuration, the manual, the scripts."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
ENGINE = os.environ.get("RANVIER_BIN", str(ROOT / "build" / "release" / "ranvier"))
problems: list[str] = []


def check(condition: object, says: str) -> None:
    if not condition:
        problems.append(says)


def run(*words: str, stdin: str | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=60,
                          env={**os.environ, **(env or {})})


def config_keys() -> list[str]:
    """Every key that the program knows, as its schema has it."""
    text = (ROOT / "messages" / "config_schema.cpp").read_text()
    sections = "federation|host|admin|backoff|delivery|partial_join|limits|log"
    return sorted(set(re.findall(rf'"((?:{sections})\.[a-z0-9_]+)"', text)))


def manual() -> None:
    """It can be made, man has nothing to say against it, and it knows every key and every verb."""
    source = (PACKAGING / "ranvier.1.scd").read_text()
    keys = config_keys()
    check(len(keys) > 40, f"only {len(keys)} keys were found in messages/config_schema.cpp")
    section, there = "", set()
    for line in source.splitlines():
        section = found[1] if (found := re.match(r"## \[(\w+(?:\\_\w+)*)\]", line)) else section
        if found := re.match(r"\*([a-z0-9\\_]+)\* = ", line):
            there.add(f"{section}.{found[1]}".replace("\\", ""))
    check(set(keys) <= there, f"the manual lacks {sorted(set(keys) - there)}")
    top = {"server_name", "data_dir", "signing_key", "old_keys", "also_keys"}
    unknown = {k for k in there if k.split(".")[0] and k not in keys and k.strip(".") not in top}
    check(not unknown, f"the manual knows keys that the program doesn't: {sorted(unknown)}")
    verbs = set(re.findall(r"^  ([a-z][a-z-]+)\s", run(ENGINE, "--help").stdout.partition("Look:")[2], re.M))
    check(len(verbs) > 8, f"only {len(verbs)} verbs were found in ranvier --help")
    for verb in sorted(verbs):
        check(re.search(rf"\*{verb}[* ]", source), f"the manual lacks the verb {verb}")
    if shutil.which("scdoc"):
        made = run("scdoc", stdin=source)
        check(made.returncode == 0 and made.stdout.startswith(".\\\""), f"scdoc: {made.stderr}")
        if shutil.which("mandoc"):
            lint = run("mandoc", "-T", "lint", "-W", "error", stdin=made.stdout)
            check(lint.returncode == 0, f"mandoc: {lint.stdout[:300]}")


def unit() -> None:
    """systemd takes it, and finds it well shut in; the program's own promises are kept (notify, 78)."""
    text = (PACKAGING / "ranvier.service").read_text()
    for line in ("Type=notify", "RestartPreventExitStatus=78", "ExecReload=/bin/kill -HUP $MAINPID"):
        check(line in text.splitlines(), f"the unit has no line {line}")
    if not shutil.which("systemd-analyze"):
        return
    with tempfile.TemporaryDirectory() as folder:
        # verify wants the program to be where it says.
        copy = Path(folder) / "ranvier.service"
        copy.write_text(text.replace("/usr/bin/ranvier", "/bin/true"))
        checked = run("systemd-analyze", "verify", "--man=no", str(copy))
        said = [x for x in (checked.stdout + checked.stderr).splitlines() if "ranvier.service" in x]
        check(not said, f"systemd-analyze verify: {said}")
        rated = run("systemd-analyze", "security", "--offline=true", str(copy))
        level = re.search(r"exposure level for \S+: ([\d.]+)", rated.stdout)
        if level:
            check(float(level[1]) <= 1.5, f"its exposure is {level[1]}, more than 1.5 (systemd-analyze security)")


def configuration() -> None:
    """The installed file is refused for its missing name only, and is right with one."""
    text = (PACKAGING / "ranvier.toml").read_text()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ranvier.toml"
        file.write_text(text)
        bare = run(ENGINE, "check-config", "--config", str(file))
        check(bare.returncode == 78 and "server_name" in bare.stderr, f"without a name check-config says {bare.stderr}")
        file.write_text(text.replace('server_name = ""', 'server_name = "example.org"'))
        named = run(ENGINE, "check-config", "--config", str(file))
        check(named.returncode == 0, f"with a name check-config says {named.stderr}")
        # The lines that are commented out are right too.
        file.write_text(re.sub(r"^# (\w+ = )", r"\1", file.read_text(), flags=re.M))
        full = run(ENGINE, "check-config", "--config", str(file))
        check(full.returncode == 78 and "can't be read" in full.stderr and "unknown" not in full.stderr,
              f"with every line check-config says {full.stderr}")


def scripts() -> None:
    """The maintainer scripts are sh, and each passes over what it isn't called for."""
    for name in ("postinst", "prerm", "postrm"):
        path = PACKAGING / "debian" / name
        check(os.access(path, os.X_OK), f"{name} isn't executable")
        check(run("sh", "-n", str(path)).returncode == 0, f"{name} is no sh")
        check(run("sh", str(path), "abort-upgrade", "0").returncode == 0, f"{name} fails for abort-upgrade")


def main() -> int:
    for part in (manual, unit, configuration, scripts):
        part()
    print("\n".join(problems) or "unit, configuration, manual and scripts are in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
