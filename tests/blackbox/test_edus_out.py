"""Ephemeral EDUs: the newest of a key wins, merged while a transaction is under way (API 3.1; DESIGN 4)."""
from __future__ import annotations

import asyncio
from typing import Any

from rig import (Engine, Hold, HostRoom, Json, Peer, Rig, case, check, edu, equal, has, matrix, receipt, typing, until,
                 user)


async def busy(rig: Rig) -> tuple[Engine, Peer, HostRoom, Hold]:
    """A peer that holds a first transaction, so that what is fed now is gathered."""
    engine = await rig.engine()
    peer = rig.peer(1)
    hold = peer.hold("/send/", times=1)
    room = await rig.shared(engine, peer)
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: hold.arrived, 5, "the first transaction")
    return engine, peer, room, hold


async def arrived(peer: Peer, hold: Hold, marker: Any) -> list[Json]:
    """Releases, waits for the marker PDU, and gives the EDUs."""
    hold.release()
    await has(peer, [marker], 6)
    await asyncio.sleep(0.3)
    return [e for _, e in peer.edus]


@case("edus-out-newest-of-a-key")
async def newest(rig: Rig) -> None:
    """Of EDUs with the same key the newest goes; without a key (and no default) each goes."""
    engine, peer, room, hold = await busy(rig)
    where = {"room_id": room.room_id}
    marker = room.messages(user(engine), 1)[0]
    await engine.feed(*(edu("org.example.a", {"n": n}, key="k", **where) for n in range(5)),
                      *(edu("org.example.a", {"n": 100 + n}, key=f"k{n}", **where) for n in range(2)),
                      *(edu("org.example.b", {"n": n}, **where) for n in range(3)), marker)
    got = await arrived(peer, hold, marker)
    equal(sorted(e["content"]["n"] for e in got if e["edu_type"] == "org.example.a"), [4, 100, 101], "with keys")
    equal([e["content"]["n"] for e in got if e["edu_type"] == "org.example.b"], [0, 1, 2], "without a key")


@case("edus-out-default-keys")
async def default_keys(rig: Rig) -> None:
    """Typing, receipts and presence have a key by default: by room and user, and by user."""
    engine, peer, room, hold = await busy(rig)
    alice, carol = user(engine), user(engine, "carol")
    marker = room.messages(alice, 1)[0]
    records = []
    for n in range(4):
        for who in (alice, carol):
            line = typing(room.room_id, who, n % 2 == 0)
            del line["key"]
            read = receipt(room.room_id, who, f"$e{n}:x")
            del read["key"]
            records += [line, read]
        records.append(edu("m.presence", {"push": [{"user_id": alice, "presence": "online", "last_active_ago": n}]},
                           user_id=alice))
    await engine.feed(*records, marker)
    got = await arrived(peer, hold, marker)
    states = {e["content"]["user_id"]: e["content"]["typing"] for e in got if e["edu_type"] == "m.typing"}
    equal([states, sum(e["edu_type"] == "m.typing" for e in got)], [{alice: False, carol: False}, 2], "typing")
    reads = {}
    for one in (e["content"] for e in got if e["edu_type"] == "m.receipt"):
        for who, what in one[room.room_id]["m.read"].items():
            check(who not in reads, "two receipts of one user")
            reads[who] = what["event_ids"]
    equal(reads, {alice: ["$e3:x"], carol: ["$e3:x"]}, "receipts")
    ages = [p["last_active_ago"] for e in got if e["edu_type"] == "m.presence" for p in e["content"]["push"]]
    equal(ages, [3], "presence")


@case("edus-out-threads-are-apart")
async def threads(rig: Rig) -> None:
    """Receipts of one user for two threads don't replace each other (U3)."""
    engine, peer, room, hold = await busy(rig)
    alice = user(engine)
    marker = room.messages(alice, 1)[0]

    def threaded(event_id: str, thread: str) -> Json:
        line = receipt(room.room_id, alice, event_id)
        del line["key"]
        line["content"][room.room_id]["m.read"][alice]["data"]["thread_id"] = thread
        return line
    await engine.feed(threaded("$a:x", "main"), threaded("$b:x", "$root:x"), marker)
    got = await arrived(peer, hold, marker)
    events = {one[room.room_id]["m.read"][alice]["event_ids"][0]
              for one in (e["content"] for e in got if e["edu_type"] == "m.receipt")}
    equal(events, {"$a:x", "$b:x"}, "the receipts")


@case("edus-out-alone")
async def alone(rig: Rig) -> None:
    """An EDU goes out by itself, without waiting for an event; a user without rooms makes no traffic."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    await engine.feed(edu("m.presence", {"push": []}, user_id=user(engine, "loner")))
    await engine.feed(typing(room.room_id, user(engine)))
    await until(lambda: peer.edus_of("m.typing"), 4, "typing")
    equal([e["edu_type"] for _, e in peer.edus], ["m.typing"], "what came")


@case("edus-out-where-is-needed")
async def where(rig: Rig) -> None:
    """An EDU record needs exactly one of room_id, destinations, user_id; an unknown room is rejected."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    bad = [edu("org.example.a", {}), edu("org.example.a", {}, room_id=room.room_id, destinations=[peer.name]),
           edu("org.example.a", {}, room_id=7),
           edu("org.example.a", {}, destinations=["bad name"]), edu("org.example.a", {}, user_id=peer.user("bob")),
           {"kind": "edu", "edu_type": "", "content": {}, "room_id": room.room_id}]
    status, body = await engine.feed_lines([matrix.dumps(b) for b in bad])
    left = [bad[n] for n in range(len(bad)) if n + 1 not in {r["line"] for r in body["rejected"]}]
    equal([status, left], [200, []], "bad ones that were taken")
