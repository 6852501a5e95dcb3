#!/usr/bin/python3
"""Runs the black-box tests of the files that are named (or all). One line a test; the last line counts.

RANVIER_BIN names the engine; build/release/ranvier otherwise.
"""
from __future__ import annotations

import argparse
import asyncio
import faulthandler
import importlib
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("RANVIER_BIN", str(HERE.parents[1] / "build" / "release" / "ranvier"))

from rig import CASES, Authority, Case, EngineError, Rig  # noqa: E402

STUCK_AFTER = 120  # seconds without a turn of the event loop


def why(problem: BaseException) -> str:
    """One sentence."""
    if isinstance(problem, (AssertionError, EngineError)) and str(problem):
        return " ".join(str(problem).split())[:400]
    place = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{type(problem).__name__}: {str(problem)[:160]} ({Path(place.filename).name}:{place.lineno})"


async def run_one(test: Case, authority: Authority, options: argparse.Namespace) -> str:
    """Empty if it passed, else why not."""
    rig = Rig(authority)
    rig.net.tolerated += test.tolerate
    problem = ""
    try:
        await rig.begin()
        await asyncio.wait_for(test.run(rig), test.timeout * options.patience)
    except asyncio.TimeoutError:
        problem = f"it took more than {test.timeout * options.patience:g} s"
    except Exception as error:  # a test may fail in any way; it must not stop the others
        problem = why(error)
        if options.trace:
            traceback.print_exc()
    if rig.net.violations:
        problem += f" [{len(rig.net.violations)} violations, first: {rig.net.violations[0][:200]}]"
    if problem and rig.notes:
        problem += f" ({', '.join(rig.notes)})"
    try:
        kept = await asyncio.wait_for(rig.end(options.keep and bool(problem)), 30)
    except Exception as error:
        kept, problem = [], problem or f"cleaning up failed: {why(error)}"
    return problem + (f" [kept {' '.join(kept)}]" if kept else "")


async def run_all(tests: list[Case], options: argparse.Namespace) -> int:
    authority = Authority()
    slots = asyncio.Semaphore(options.jobs)
    failed: list[str] = []

    async def beat() -> None:
        while True:
            faulthandler.dump_traceback_later(STUCK_AFTER, exit=True)
            await asyncio.sleep(5)

    async def one(test: Case, count: int) -> None:
        for _ in range(count):
            await slots.acquire()
        begun = time.monotonic()
        try:
            problem = await run_one(test, authority, options)
        finally:
            for _ in range(count):
                slots.release()
        took = time.monotonic() - begun
        if problem:
            failed.append(test.id)
        print(f"{'FAIL' if problem else 'PASS'} {test.id} ({took:.1f} s)" + (f": {problem}" if problem else ""),
              flush=True)

    watch = asyncio.create_task(beat())
    for test in (t for t in tests if t.solo):
        await one(test, options.jobs)
    for test in (t for t in tests if not t.solo and t.weight > 1):
        await one(test, min(test.weight, options.jobs))
    await asyncio.gather(*(one(t, 1) for t in tests if not t.solo and t.weight == 1))
    watch.cancel()
    faulthandler.cancel_dump_traceback_later()
    authority.close()
    print(f"{len(tests) - len(failed)} passed, {len(failed)} failed" + (f": {' '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="test_x.py or x; all if none is named")
    parser.add_argument("-k", metavar="TEXT", action="append", default=[],
                        help="tests whose id holds this (several: any of them; !x: not x)")
    parser.add_argument("--list", action="store_true", help="name the tests and what they assert")
    parser.add_argument("-j", "--jobs", type=int, default=int(os.environ.get("RIG_JOBS", "6")))
    parser.add_argument("--patience", type=float, default=float(os.environ.get("RIG_PATIENCE", "1")),
                        help="factor on each test's hard timeout (sanitizers, busy machines)")
    parser.add_argument("--repeat", type=int, default=1, help="the tests that many times, to find the flaky ones")
    parser.add_argument("--keep", action="store_true", help="keep the data folders of failed tests")
    parser.add_argument("--trace", action="store_true", help="show Python tracebacks")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    stems = [Path(f).stem for f in options.files] or sorted(p.stem for p in HERE.glob("test_*.py"))
    names = [s if s.startswith("test_") else f"test_{s}" for s in stems]
    for name in names:
        importlib.import_module(name)
    wanted = [p for p in options.k if not p.startswith("!")]
    unwanted = [p[1:] for p in options.k if p.startswith("!")]
    tests = [t for t in CASES.values() if t.module in names and (not wanted or any(p in t.id for p in wanted))
             and not any(p in t.id for p in unwanted)]
    for test in [] if wanted else [t for t in tests if t.waits_for]:
        print(f"WAIT {test.id}: {test.waits_for}")
        tests.remove(test)
    if options.list:
        for test in tests:
            print(f"{test.id}  [{test.module}]  {test.says}")
        print(f"{len(tests)} tests")
        return 0
    if not tests:
        print("no test has such a name")
        return 64
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return max(asyncio.run(run_all(tests, options)) for _ in range(options.repeat))


if __name__ == "__main__":
    sys.exit(main())
