#!/usr/bin/python3
"""Ten thousand remote device lists gone stale at once: how long until they are fresh again, and what it costs the dead.

    stale_users.py [--servers 500] [--dead 100] [--users 20]

Every server announces an update of each of its users whose predecessor never came; the dead ones then refuse
connections, and one user of a live server gets 404 for ever. One line of JSON for each figure; ends with 1 if those on
live servers aren't fresh within a minute, if a dead server is contacted more often than its backoff allows, or if the
one user delays anybody. The peers live in this one process, so their time is in the figures.
"""
from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "blackbox"))
os.environ.setdefault("RANVIER_BIN", str(HERE.parents[1] / "build" / "release" / "ranvier"))

from rig import Authority, Engine, Json, Peer, Rig  # noqa: E402
from rig.fixture import meet  # noqa: E402

WITHIN = 60.0
IN_A_ROOM = 50  # servers
MOST_CONTACTS = 8  # of a dead server in a minute and a half: 5 s, 10 s, 20 s, 40 s, each at least halved


def say(figure: str, **values: object) -> None:
    print(json.dumps({"figure": figure, **values}), flush=True)


def cpu_seconds(engine: Engine) -> float:
    assert engine.process
    fields = Path(f"/proc/{engine.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def users(peer: Peer, count: int) -> list[str]:
    return [peer.user(f"u{i}") for i in range(count)]


async def share(engine: Engine, peers: list[Peer], count: int) -> None:
    for first in range(0, len(peers), IN_A_ROOM):
        members = {who: "join" for p in peers[first:first + IN_A_ROOM] for who in users(p, count)}
        members[f"@us:{engine.name}"] = "join"
        await engine.feed({"kind": "roster", "room_id": f"!r{first}:{engine.name}", "room_version": "10",
                           "members": members})


async def go_stale(peer: Peer, count: int) -> None:
    edus = []
    for who in users(peer, count):
        peer.book(who).set("D1")
        edus.append(peer.book(who).set("D2"))
    status, body = await peer.send(edus=edus)
    if status != 200:
        raise SystemExit(f"{peer.name} was answered {status}: {body}")


async def stale_count(engine: Engine) -> int:
    status, body = await engine.admin("GET", "/stats")
    if status != 200:
        raise SystemExit(f"/stats answers {status}: {body}")
    return int(body["stale_users"])


async def stale_of(engine: Engine, names: set[str]) -> list[Json]:
    """The stale users of these servers."""
    found, at = [], ""
    while True:
        status, body = await engine.admin("GET", f"/stale_users?limit=1000{'&from=' + at if at else ''}")
        if status != 200:
            raise SystemExit(f"/stale_users answers {status}: {body}")
        found += [u for u in body["stale_users"] if u["destination"] in names]
        at = body.get("next") or ""
        if not at:
            return found


async def measure(rig: Rig, servers: int, dead_count: int, count: int) -> bool:
    engine = await rig.engine(log={"level": "warn"}, backoff={"first": "5s", "max": "1d", "jitter": 0.5})
    peers = rig.peers(servers)
    dead, live = peers[:dead_count], peers[dead_count:]
    await share(engine, peers, count)
    for first in range(0, servers, 50):
        await meet(*peers[first:first + 50])
    for peer in dead:
        peer.drop("/user/")
        await go_stale(peer, count)
        peer.down()
    nobody = users(live[0], count)[0]
    live[0].answer(f"/user/devices/{nobody}", 404, {"errcode": "M_NOT_FOUND", "error": "no such user"})
    lost = dead_count * count + 1
    began, cpu = time.monotonic(), cpu_seconds(engine)
    for first in range(0, len(live), 10):
        await asyncio.gather(*(go_stale(peer, count) for peer in live[first:first + 10]))
    told = time.monotonic() - began
    while await stale_count(engine) > lost and time.monotonic() - began < told + 3 * WITHIN:
        await asyncio.sleep(0.5)
    took = time.monotonic() - began - told
    left = await stale_of(engine, {p.name for p in live})
    say("fresh", users=servers * count, servers=servers, dead=dead_count, seconds_of_telling=round(told, 1),
        seconds_after_the_last=round(took, 1), engine_cpu_s=round(cpu_seconds(engine) - cpu, 2),
        still_stale_on_live=[u["user_id"] for u in left][:5], target=f"< {WITHIN} s")
    await asyncio.sleep(max(0.0, 90 - (time.monotonic() - began)))
    contacts = [peer.contacts(began) for peer in dead]
    again = len(live[0].asked(f"/user/devices/{nobody}"))
    say("the dead", seconds=round(time.monotonic() - began), most_contacts=max(contacts, default=0),
        mean_contacts=round(sum(contacts) / max(1, len(contacts)), 1), fetches_of_the_one_who_gets_404=again)
    fine = [u["user_id"] for u in left] in ([], [nobody]) and took <= WITHIN
    fine = fine and max(contacts, default=0) <= MOST_CONTACTS
    await engine.stop()
    return fine


async def run(options: argparse.Namespace) -> bool:
    authority = Authority("bench CA")
    rig = Rig(authority)
    await rig.begin()
    try:
        return await measure(rig, options.servers, options.dead, options.users)
    finally:
        await rig.end(False)
        authority.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=500)
    parser.add_argument("--dead", type=int, default=100)
    parser.add_argument("--users", type=int, default=20)
    return 0 if asyncio.run(run(parser.parse_args())) else 1


if __name__ == "__main__":
    sys.exit(main())
