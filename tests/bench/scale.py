#!/usr/bin/python3
"""What many known servers cost: time until ready, memory, and the listing; one line of JSON for each figure.

    scale.py [--known 100000] [--owed 1000] [--listed 20000] [--spans 0]

`known` servers share rooms with us, `owed` of them refuse connections and wait for an event. Figures: the feed of the
rosters, a start with all that on disk until /readyz says yes, the memory after the idle have retired, GET /destinations
of `listed` servers in one page and in pages of 100. With `--spans 1000000` a start over so many spans is measured too.
The servers are addresses of this machine at a port where nobody listens.
"""
from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Iterator

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "blackbox"))
os.environ.setdefault("RANVIER_BIN", str(HERE.parents[1] / "build" / "release" / "ranvier"))

from rig import Authority, Engine, Json, Rig  # noqa: E402

ROOM_SIZE = 1000
REST = 40.0  # an idle destination retires after 30 s


def memory_mib(pid: int, field: str = "VmRSS") -> float:
    line = next(n for n in Path(f"/proc/{pid}/status").read_text().splitlines() if n.startswith(field))
    return round(int(line.split()[1]) / 1024, 1)


def cpu_ms(pid: int) -> float:
    """User and system time of all threads of the process: what a busy machine doesn't change."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def say(figure: str, **values: object) -> None:
    print(json.dumps({"figure": figure, **values}), flush=True)


def server(number: int) -> str:
    return f"127.{20 + (number >> 16)}.{number >> 8 & 255}.{number & 255}:9"


def rosters(engine: Engine, servers: int, rooms_of_each: int = 1) -> Iterator[Json]:
    """Rooms of up to ROOM_SIZE servers; the first ones hold the first servers."""
    for turn in range(rooms_of_each):
        for first in range(0, servers, ROOM_SIZE):
            members = {f"@u:{server(n)}": "join" for n in range(first, min(first + ROOM_SIZE, servers))}
            members[f"@us:{engine.name}"] = "join"
            yield {"kind": "roster", "room_id": f"!r{turn}.{first}:{engine.name}", "room_version": "10",
                   "members": members}


def message(engine: Engine, room: str, number: int) -> Json:
    return {"kind": "pdu", "event_id": f"$e{number}", "event": {
        "type": "m.room.message", "room_id": room, "sender": f"@us:{engine.name}", "origin_server_ts": 1, "depth": 1,
        "content": {"body": "words"}, "prev_events": [], "auth_events": [], "hashes": {"sha256": "AAAA"},
        "signatures": {engine.name: {"ed25519:1": "AAAA"}}}}


async def feed(engine: Engine, records: list[Json]) -> float:
    began = time.monotonic()
    for at in range(0, len(records), 20):
        status, answer = await engine.feed_lines((json.dumps(r) for r in records[at:at + 20]), 120)
        if status != 200 or answer["rejected"]:
            raise SystemExit(f"the feed was refused: {status} {str(answer)[:300]}")
    return round(time.monotonic() - began, 2)


async def start(engine: Engine) -> float:
    """Seconds from the start of the process until /readyz."""
    began = time.monotonic()
    await engine.start(wait=False)
    while time.monotonic() - began < 120:
        status, _ = await engine.net.http("GET", engine.host_url + "/readyz", None, {}, 2.0)
        if status == 200:
            return round(time.monotonic() - began, 3)
        if not engine.running:
            raise SystemExit(f"the engine ended: {engine.log_tail()}")
        await asyncio.sleep(0.01)
    raise SystemExit("the engine isn't ready within two minutes")


async def stats(engine: Engine) -> Json:
    status, answer = await engine.admin("GET", "/stats")
    if status != 200:
        raise SystemExit(f"/stats answers {status}: {answer}")
    return answer["destinations"]


async def until_closed(engine: Engine, count: int) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if (await stats(engine))["closed"] >= count:
            return
        await asyncio.sleep(0.5)
    raise SystemExit(f"{count} servers aren't closed within two minutes: {await stats(engine)}")


async def many_known(rig: Rig, known: int, owed: int) -> None:
    engine = await rig.engine(backoff={"first": "12h", "max": "1d"}, delivery={"max_new_connections_per_second": 5000})
    took = await feed(engine, list(rosters(engine, known)))
    assert engine.process
    say("feed of rosters", servers=known, seconds=took, rss_mib=memory_mib(engine.process.pid))
    for first in range(0, owed, ROOM_SIZE):
        await feed(engine, [message(engine, f"!r0.{first}:{engine.name}", first)])
    await until_closed(engine, owed)
    say("owed and closed", **await stats(engine), rss_mib=memory_mib(engine.process.pid))
    for how in ("stop", "kill"):
        await (engine.stop() if how == "stop" else engine.kill9())
        ready = await start(engine)
        assert engine.process
        say("ready", known=known, owed=owed, after=how, seconds=ready, cpu_ms=round(cpu_ms(engine.process.pid)),
            target="< 3 s")
    await asyncio.sleep(REST)
    assert engine.process
    say("memory once the idle have retired", known=known, owed=owed, rss_mib=memory_mib(engine.process.pid),
        peak_mib=memory_mib(engine.process.pid, "VmHWM"), in_memory=(await stats(engine))["in_memory"],
        target="< 150 MiB")
    began, cpu = time.monotonic(), cpu_ms(engine.process.pid)
    await stats(engine)
    say("GET /stats", known=known, ms=round(1000 * (time.monotonic() - began)),
        cpu_ms=round(cpu_ms(engine.process.pid) - cpu))
    await engine.stop()


async def listing(rig: Rig, listed: int) -> None:
    engine = await rig.engine()
    await feed(engine, list(rosters(engine, listed)))
    for limit in (listed, 100):
        times = []
        assert engine.process
        cpu = cpu_ms(engine.process.pid)
        for _ in range(5):
            began = time.monotonic()
            status, answer = await engine.admin("GET", f"/destinations?limit={limit}")
            times.append(1000 * (time.monotonic() - began))
            if status != 200 or answer["total"] < listed:
                raise SystemExit(f"/destinations answers {status}, {str(answer)[:200]}")
        say("GET /destinations", known=listed, given=len(answer["destinations"]), ms=round(sorted(times)[2]),
            worst_ms=round(max(times)),
            cpu_ms=round((cpu_ms(engine.process.pid) - cpu) / 5), bytes=len(json.dumps(answer)), target="< 200 ms")
    await engine.stop()


async def spans(rig: Rig, count: int) -> None:
    engine = await rig.engine()
    took = await feed(engine, list(rosters(engine, 20_000, max(1, count // 20_000))))
    say("feed of spans", spans=count, seconds=took)
    await engine.stop()
    say("ready over many spans", spans=count, seconds=await start(engine))
    await engine.stop()


async def run(options: argparse.Namespace) -> None:
    authority = Authority("bench CA")
    rig = Rig(authority)
    await rig.begin()
    try:
        if options.known:
            await many_known(rig, options.known, options.owed)
        if options.listed:
            await listing(rig, options.listed)
        if options.spans:
            await spans(rig, options.spans)
    finally:
        await rig.end(False)
        authority.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--known", type=int, default=100_000)
    parser.add_argument("--owed", type=int, default=1_000)
    parser.add_argument("--listed", type=int, default=20_000)
    parser.add_argument("--spans", type=int, default=0)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
