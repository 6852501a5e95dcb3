#!/usr/bin/python3
"""A real Synapse as the peer of a real engine, on loopback. Ends with 77 (skipped) where Synapse can't be installed.

    run.py [--folder build/interop] [--without-engine]

--without-engine puts the rig's scripted server in the engine's place and shows only what Synapse and the stand-in host
do, so that a failure can be told from a fault of this script.
"""
from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "blackbox")]
os.environ.setdefault("RANVIER_BIN", str(ROOT / "build" / "release" / "ranvier"))

from devices import device_lists  # noqa: E402
from joins import joins  # noqa: E402
from outages import with_engine  # noqa: E402
from rig import Authority, Rig  # noqa: E402
from scenes import Stage, without_engine  # noqa: E402
from synapse import Synapse, Unavailable, install  # noqa: E402

SKIPPED = 77


async def play(options: argparse.Namespace, python: Path) -> None:
    authority = Authority("interop CA")
    rig = Rig(authority)
    data = options.folder / "synapse"
    shutil.rmtree(data, ignore_errors=True)
    await rig.begin()
    synapse = Synapse(python, data, authority, rig.net)
    try:
        stage = Stage(rig, synapse)
        if options.without_engine:
            await without_engine(stage)
        else:
            short = options.only_devices or options.only_joins
            play = await with_engine(stage, short)
            if not options.only_joins:
                await device_lists(play)
            if not options.only_devices:
                await joins(play)
    finally:
        await synapse.stop()
        await rig.end(keep=options.keep)
        authority.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "interop")
    parser.add_argument("--without-engine", action="store_true")
    parser.add_argument("--only-devices", action="store_true", help="skip the outages of events")
    parser.add_argument("--only-joins", action="store_true", help="skip all but joins through the host API")
    parser.add_argument("--keep", action="store_true", help="keep the engine's data folder")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    try:
        python = install(options.folder)
    except Unavailable as problem:
        print(f"SKIPPED: interop was not run, as Synapse can't be installed here: {problem}", flush=True)
        return SKIPPED
    asyncio.run(play(options, python))
    print(f"interop: all shown in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
