#!/usr/bin/python3
"""What joining a large room costs: one line of JSON for each figure.

    joins.py [--members 20000] [--servers 2000] [--absent 500] [--full-mib 95]

A room of `members` users on `servers` servers is joined with members omitted; `absent` of its servers are missing in
the join's answer. While it is partial a phone is renamed and a message written. Figures: how long after send_join's
answer the host has its own; the fan-out at completion, from the end of the partial join until every absent server has
what it missed; rows before and after; memory over what the engine had at first. Then a full join of a room whose answer
has about `full-mib` MiB (100 are refused). All servers but the owner only take transactions (light_peer.py); they share
one key.
"""
from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "blackbox"))
sys.path.insert(0, str(HERE))
os.environ.setdefault("RANVIER_BIN", str(HERE.parents[1] / "build" / "release" / "ranvier"))

from fan_out import Peers  # noqa: E402
from rig import Authority, Engine, Json, Peer, Rig, device, matrix, user  # noqa: E402
from rig.records import membership, pdu  # noqa: E402
from rig.rooms import Room, join, view  # noqa: E402
from scale import memory_mib, say  # noqa: E402

TABLES = ("span", "extra", "list_extra", "destination", "pdu", "device_entry", "stream", "member", "join_event")


def rows(engine: Engine) -> dict[str, int]:
    store = sqlite3.connect(f"file:{engine.data}/ranvier.db?mode=ro", uri=True)
    try:
        return {t: store.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in TABLES}
    finally:
        store.close()


def forget_peak(engine: Engine) -> None:
    """The peak is counted anew."""
    assert engine.process
    Path(f"/proc/{engine.process.pid}/clear_refs").write_text("5")


class Crowd:
    """A room of the owner with members on many light servers, all of which sign with the owner's key."""

    def __init__(self, owner: Peer, names: list[str], members: int, pad: int = 0) -> None:
        self.owner = owner
        self.room = room = Room(owner)
        auth = room.auth_for("m.room.member", room.creator, room.creator, room.state)
        for n in range(members):
            server = names[n % len(names)]
            who = f"@u{n}:{server}"
            content: Json = {"membership": "join", "displayname": f"User {n}" + "x" * pad}
            event = matrix.build_event(owner.key, server, room.room_id, who, "m.room.member", content, state_key=who,
                                       prev=["$before"], auth=auth, depth=9, ts=1)
            event_id = matrix.event_id(event)
            room.events[event_id] = event
            room.state[("m.room.member", who)] = event_id
        room.message()
        self.at = 0.0  # when send_join was answered
        room.spoil_answer = self._answered
        owner.answer("/key/v2/query", raw=json.dumps(
            {"server_keys": [owner.key.sign_json(owner.name, self._keys(n)) for n in names]}).encode())

    def _answered(self, _: Json) -> None:
        self.at = time.monotonic()

    def _keys(self, server: str) -> Json:
        return self.owner.key.sign_json(server, {
            "server_name": server, "valid_until_ts": matrix.now_ms() + 86_400_000, "old_verify_keys": {},
            "verify_keys": {self.owner.key.key_id: {"key": self.owner.key.public_text}}})


async def worst_feed_ms(engine: Engine, until: asyncio.Event) -> int:
    """How long the slowest of small batches took that were fed one after the other."""
    worst, number = 0.0, 0
    while not until.is_set():
        number += 1
        began = time.monotonic()
        await engine.feed(membership(f"!none:{engine.name}", f"@n{number}:{engine.name}"))
        worst = max(worst, time.monotonic() - began)
        await asyncio.sleep(0.03)
    return round(1000 * worst)


async def partial(engine: Engine, owner: Peer, peers: Peers, members: int, absent: int) -> None:
    assert engine.process
    pid = engine.process.pid
    began = time.monotonic()
    crowd = Crowd(owner, peers.names, members)
    say("room made", members=members, servers=len(peers.names), seconds=round(time.monotonic() - began, 1))
    room = crowd.room
    room.listed = [owner.name, *peers.names[absent:]]
    alice = user(engine)
    await engine.feed(device(alice, "PHONE", name="phone"))
    base = memory_mib(pid)
    held = owner.hold("/state")
    status, answer = await join(engine, room.room_id, alice, [owner.name])
    done = time.monotonic()
    if status != 200 or not answer["partial"]:
        raise SystemExit(f"the join answered {status}: {str(answer)[:300]}")
    say("partial join answered", ms_after_send_join=round(1000 * (done - crowd.at)), listed=len(room.listed),
        rss_mib=memory_mib(pid))
    message = pdu(matrix.build_event(engine.key, engine.name, room.room_id, alice, "m.room.message", {"body": "x"},
                                     prev=room.head, depth=room.depth + 1))
    await engine.feed({"kind": "device", "user_id": alice, "device_id": "PHONE", "display_name": "renamed"}, message)
    await asyncio.sleep(2)
    while (await peers.count())["addresses"] < len(peers.names) - absent:
        await asyncio.sleep(0.2)
    await asyncio.sleep(3)
    before, tally = rows(engine), await peers.count()
    connected = memory_mib(pid)
    say("before completion", rss_mib=connected, connections=tally["connections"])
    forget_peak(engine)
    asked, over = time.monotonic(), asyncio.Event()
    feeding = asyncio.create_task(worst_feed_ms(engine, over))
    held.release()
    stream = engine.stream
    at = (await stream())["next"]
    while True:
        body = await stream(at, 5_000)
        if any(i["kind"] == "partial_join" for i in body["items"]):
            break
        at = body["next"]
        if time.monotonic() - asked > 120:
            raise SystemExit("the join isn't complete within two minutes")
    full = time.monotonic()
    over.set()
    tally = await peers.count()
    while (await peers.count())["addresses"] < len(peers.names):
        if time.monotonic() - full > 60:
            raise SystemExit(f"the absent servers aren't served within a minute: {await peers.count()}")
        await asyncio.sleep(0.01)
    served = time.monotonic()
    after = rows(engine)
    say("completion", state_seconds=round(full - asked, 2), fan_out_seconds=round(served - full, 2), affected=absent,
        worst_feed_ms=await feeding,
        served_before_the_item=tally["addresses"] - (len(peers.names) - absent), target="fan-out < 2 s",
        rows={t: after[t] - before[t] for t in TABLES}, rss_mib=memory_mib(pid),
        peak_over_base_mib=round(memory_mib(pid, "VmHWM") - base, 1),
        peak_over_connected_mib=round(memory_mib(pid, "VmHWM") - connected, 1), memory_target="< 300 MiB")
    await asyncio.sleep(3)
    say("later", **{k: v for k, v in (await peers.count()).items() if k in ("transactions", "pdus", "addresses")},
        rows={t: n - before[t] for t, n in rows(engine).items()})
    seen = await view(engine, room.room_id)
    if seen["partial"] or len(seen["members"]) < members:
        raise SystemExit("the room isn't full")


async def whole(engine: Engine, owner: Peer, names: list[str], members: int, mib: int) -> None:
    assert engine.process
    pid = engine.process.pid
    crowd = Crowd(owner, names, members, pad=max(0, mib * 1048576 // members - 700))
    room = crowd.room
    base = memory_mib(pid)
    forget_peak(engine)
    size = 0

    def answered(answer: Json) -> None:
        nonlocal size
        crowd.at = time.monotonic()
        size = len(matrix.dumps(answer))
    room.spoil_answer = answered
    status, answer = await join(engine, room.room_id, user(engine), [owner.name], partial=False, timeout=180)
    done = time.monotonic()
    if status != 200:
        raise SystemExit(f"the full join answered {status}: {str(answer)[:300]}")
    say("full join", answer_mib=round(size / 1048576, 1), seconds_after_send_join=round(done - crowd.at, 1),
        members=len(answer["state"]), base_mib=base, peak_over_base_mib=round(memory_mib(pid, "VmHWM") - base, 1),
        memory_target="< 300 MiB")


async def run(options: argparse.Namespace) -> None:
    authority = Authority("bench CA")
    rig = Rig(authority)
    await rig.begin()
    peers = Peers(authority, options.servers)
    # One with 2,000 names would be most of what is measured; nobody checks the name then.
    peers.certificate = authority.certificate("plain", peers.addresses[:1])
    await peers.start()
    try:
        for which in ("partial", "full"):
            engine = await rig.engine(delivery={"join_update_delay": "0s", "max_new_connections_per_second": 5000},
                                      federation={"verify_certificates": False})
            owner = rig.peer(1)
            if which == "partial" and options.members:
                await partial(engine, owner, peers, options.members, options.absent)
            if which == "full" and options.full_mib:
                await whole(engine, owner, peers.names, options.members or 20_000, options.full_mib)
            await engine.stop()
    finally:
        peers.stop()
        await rig.end(False)
        authority.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=20_000)
    parser.add_argument("--servers", type=int, default=2_000)
    parser.add_argument("--absent", type=int, default=500)
    parser.add_argument("--full-mib", type=int, default=95)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
