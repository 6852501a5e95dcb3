"""`ranvier demo`: what it shows, that it ends well, and that nothing of it is left (API 6)."""
from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path

from rig import Rig, binary, case, check, equal, run_command
from rig.process import die_with_parent

SERVERS = {"north.test": 27, "slow.test": 27, "dead.test": 25, "back.test": 25, "picky.test": 25, "crowd.test": 27}
SAID = [r"1\. Delivery", r"slow\.test +has all, in order", r"keeps 3 events for dead\.test", r"2\. Outage",
        r"back\.test +goes away", r"dead\.test +closed", r"dead\.test is CLOSED since",
        r"you can +ranvier probe dead\.test", r"3\. One event refused", r"picky\.test said \"refused by the script\"",
        r"4\. Catch-up", r"has 2\d events waiting for back\.test", r"back\.test +has all, in order",
        r"5\. A stale device list healed",
        r"@bob:north\.test +north\.test .*prev_id", r"bob's devices: 3", r"6\. A partial join",
        r"crowd\.test +has all, in order", r"the room has 62 members", r"7\. Even the dead one",
        r"has 2\d events waiting for dead\.test", r"dead\.test +has all, in order"]


def processes_of(folder: str) -> list[str]:
    """Command lines that name the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if folder in words:
            found.append(words)
    return found


class Folder:
    """A TMPDIR of its own, so that whatever is left can be seen."""

    def __enter__(self) -> Path:
        self.path = Path(tempfile.mkdtemp(prefix="rig-demo-"))
        return self.path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


@case("demo", timeout=90)
async def demo(rig: Rig) -> None:
    """It plays all scenes in less than 60 s, each server has what it is owed, it leaves nothing"""
    with Folder() as folder:
        began = time.monotonic()
        # The caller's environment is about another engine, and has nothing to do with this one.
        done = await run_command([*binary(), "demo"], env={"TMPDIR": str(folder), "RANVIER_SERVER_NAME": "no name"},
                                 timeout=80, cwd=folder)
        took = time.monotonic() - began
        equal(done.code, 0, f"the exit code; it says {done.err[-300:]!r} after {done.out[-300:]!r}")
        check(took < 60, f"it took {took:.0f} s")
        check("\x1b[" not in done.out, "it writes colour to a pipe")
        check(done.err == "", f"words on standard error: {done.err[:200]!r}")
        at = 0
        for wanted in SAID:
            found = re.compile(wanted).search(done.out, at)
            check(found is not None, f"it doesn't say {wanted!r} after {done.out[max(0, at - 80):at]!r}")
            at = found.end() if found else at
        last = done.out.split("The reckoning")[-1]
        for name, count in SERVERS.items():
            check(re.search(rf"{name} +{count} of {count} events, 1 of 1 to-device, ", last) is not None,
                  f"the reckoning of {name}: {last!r}")
        check("every server has what it is owed" in last, f"its last words are {last!r}")
        equal(list(folder.iterdir()), [], "what is left of it")
        equal(processes_of(str(folder)), [], "processes that still run")


@case("demo-interrupted", timeout=60)
async def interrupted(rig: Rig) -> None:
    """Ctrl-C in the middle: it says so, ends its engine, removes its folder, ends with 1. Killed: the engine goes."""
    for last_signal in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with Folder() as folder:
            process = await asyncio.create_subprocess_exec(
                *binary(), "demo", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                start_new_session=True, preexec_fn=die_with_parent, cwd=folder,
                env={**os.environ, "TMPDIR": str(folder)})
            assert process.stdout and process.stderr
            while b"is ready" not in (line := await asyncio.wait_for(process.stdout.readline(), 20)):
                check(line, "it ended before its engine was ready")
            check(len(processes_of(str(folder))) == 1, f"its engine: {processes_of(str(folder))}")
            process.send_signal(last_signal)
            code = await asyncio.wait_for(process.wait(), 15)
            for _ in range(100):
                if not processes_of(str(folder)):
                    break
                await asyncio.sleep(0.05)
            equal(processes_of(str(folder)), [], f"processes that still run after {last_signal.name}")
            if last_signal == signal.SIGKILL:
                continue
            said = (await process.stderr.read()).decode()
            check(code == 1 and said.startswith("demo: interrupted"), f"{last_signal.name}: {code}, it says {said!r}")
            equal(list(folder.iterdir()), [], f"what is left after {last_signal.name}")
