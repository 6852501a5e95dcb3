#!/usr/bin/python3
"""What Prometheus and Grafana are told of: alert rules, the board, /metrics of a running engine, and docs/METRICS.md.

    monitoring.py --folder build/promtool

promtool comes with Debian's prometheus, a service that nobody needs for a test: the package is fetched and unpacked
under --folder, not installed. Where that can't be done the parts that need it are left out and it ends with 77.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "packaging" / "monitoring"
SKIPPED = 77
problems: list[str] = []


def check(condition: object, says: str) -> None:
    if not condition:
        problems.append(says)


def promtool(folder: Path) -> str | None:
    """The program, or None with a line that says why."""
    unpacked = folder / "usr" / "bin" / "promtool"
    for known in (os.environ.get("PROMTOOL"), shutil.which("promtool"), str(unpacked)):
        if known and Path(known).exists():
            return known
    folder.mkdir(parents=True, exist_ok=True)
    fetched = subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, text=True)
    packages = sorted(folder.glob("prometheus_*.deb"))
    if fetched.returncode or not packages:
        print(f"SKIPPED: no promtool, and Debian's package can't be fetched: {fetched.stderr.strip()[-200:]}")
        return None
    subprocess.run(["dpkg-deb", "-x", str(packages[-1]), str(folder)], check=True)
    packages[-1].unlink()
    return str(unpacked)


def documented() -> dict[str, tuple[str, str]]:
    """docs/METRICS.md: name -> (type, labels)."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|", (ROOT / "docs" / "METRICS.md").read_text(), re.M)
    return {name: (kind, ",".join(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def served(text: str) -> dict[str, tuple[str, str]]:
    """The same of /metrics."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.M))
    found = {}
    for name, kind in kinds.items():
        labels = {label for group in re.findall(rf"^{name}\{{(.*?)\}} ", text, re.M)
                  for label in re.findall(r'(\w+)="', group)}
        found[name] = (kind, ",".join(sorted(labels)))
    return found


def expressions() -> list[str]:
    """Everything that the board asks Prometheus."""
    board = json.loads((MONITORING / "grafana.json").read_text())
    asked = [t["expr"] for panel in board["panels"] for t in panel["targets"]]
    asked += [a["expr"] for a in board["annotations"]["list"]]
    check(len({p["id"] for p in board["panels"]}) == len(board["panels"]), "the board has two panels with one id")
    check(all(p.get("description") for p in board["panels"]), "a panel of the board explains nothing")
    return [e.replace("$__rate_interval", "5m").replace("$instance", ".*") for e in asked]


def check_names(where: str, text: str, known: set[str]) -> None:
    for name in set(re.findall(r"\b(?:ranvier|process)_\w+", text)) - known:
        check(False, f"{where} asks for {name}, which docs/METRICS.md doesn't know")


def scrape() -> str:
    """/metrics of an engine with defaults, just started."""
    engine = os.environ.get("RANVIER_BIN", str(ROOT / "build" / "release" / "ranvier"))
    ports = []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as one:
            ports.append(one.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "RANVIER_SERVER_NAME": "metrics.test", "RANVIER_DATA_DIR": folder,
               "RANVIER_FEDERATION_LISTEN": f"127.0.0.1:{ports[0]}", "RANVIER_HOST_LISTEN": f"127.0.0.1:{ports[1]}"}
        running = subprocess.Popen([engine, "serve"], env=env, stderr=subprocess.DEVNULL)
        try:
            for _ in range(200):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/readyz", timeout=5):
                        break
                except OSError:
                    time.sleep(0.1)
            with urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/metrics", timeout=5) as answer:
                check(answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"), "the Content-Type is odd")
                return answer.read().decode()
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(20)


def with_promtool(tool: str, text: str) -> None:
    """Rules are right and ring when they should; the board asks in PromQL; /metrics is what Prometheus takes."""
    with tempfile.TemporaryDirectory() as folder:
        board = Path(folder) / "board.yml"
        board.write_text(json.dumps({"groups": [{"name": "board", "rules": [
            {"record": f"panel:{number}", "expr": e} for number, e in enumerate(expressions())]}]}))
        for words, stdin in ((["check", "rules", "alerts.yml"], None), (["test", "rules", "alerts_test.yml"], None),
                             (["check", "rules", str(board)], None), (["check", "metrics"], text)):
            done = subprocess.run([tool, *words], cwd=MONITORING, input=stdin, capture_output=True, text=True)
            said = (done.stdout + done.stderr).strip()
            check(done.returncode == 0, f"promtool {' '.join(words)}: {said[:600]}")
        config = Path(folder) / "prometheus.yml"
        config.write_text((MONITORING / "prometheus.yml").read_text().replace("/usr/share/ranvier/monitoring",
                                                                              str(MONITORING)))
        done = subprocess.run([tool, "check", "config", str(config)], capture_output=True, text=True)
        check(done.returncode == 0, f"promtool check config: {(done.stdout + done.stderr)[:400]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "promtool")
    options = parser.parse_args()
    text, known = scrape(), documented()
    there = served(text)
    for name in sorted(set(there) | set(known)):
        check(there.get(name) == known.get(name), f"{name}: /metrics has (type, labels) {there.get(name)}, "
                                                  f"docs/METRICS.md {known.get(name)}")
    check_names("alerts.yml", (MONITORING / "alerts.yml").read_text(), set(known))
    check_names("the board", " ".join(expressions()), set(known))
    tool = promtool(options.folder.resolve())
    if tool:
        with_promtool(tool, text)
    print("\n".join(problems) or f"{len(known)} metrics documented and served; rules and board use only those")
    return 1 if problems else 0 if tool else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
