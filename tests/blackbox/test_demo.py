"""`ranvier demo`: what it shows, that it ends well, and that nothing of it is left (API 6)."""
from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

from rig import Rig, binary, case, check, equal, run_command
from rig.process import die_with_parent

SERVERS = ["north.test", "slow.test"]


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
        last = done.out.split("The reckoning")[-1]
        for name in SERVERS:
            check(f"{name} " in last and "owed" in last, f"the reckoning lacks {name}: {last!r}")
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
            equal([code, (await process.stderr.read()).decode().strip()], [1, "demo: interrupted"], last_signal.name)
            equal(list(folder.iterdir()), [], f"what is left after {last_signal.name}")
