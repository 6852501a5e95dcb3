"""Faults that were found and mended, each named after what went wrong."""
from __future__ import annotations

import asyncio

from rig import Rig, case, check, equal, has, matrix, quote, to_device, until, user


@case("regression-same-message-id-for-two-servers")
async def same_id(rig: Rig) -> None:
    """A host that splits one call into a record for each server uses one message id: each gets its part, once."""
    engine = await rig.engine()
    one, two = rig.peers(2)
    records = [to_device(user(engine), "same", {p.user("bob"): {"D": {"n": p.name}}}) for p in (one, two)]
    for record in records:
        await engine.feed(record)
    await engine.feed(*records)
    for peer in (one, two):
        await until(lambda p=peer: p.edus_of("m.direct_to_device"), 5, f"delivery to {peer.name}")
    await asyncio.sleep(1)
    for peer in (one, two):
        got = peer.edus_of("m.direct_to_device")
        equal([e["messages"] for e in got], [{peer.user("bob"): {"D": {"n": peer.name}}}], "what came")


@case("regression-wake-of-a-held-server")
async def wake_held(rig: Rig) -> None:
    """A wake that can't be carried out doesn't claim success, and a hold that is over isn't shown any more."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await has(peer, records, 5)
    path = f"/destinations/{quote(peer.name)}"
    status, _ = await engine.admin("POST", path + "/hold", {"reason": "test", "for_ms": 1500})
    equal(status, 200, "the hold")
    status, answer = await engine.admin("POST", path + "/wake", {})
    check(status == 409 and "held" in answer["error"], f"wake of a held server: {status} {answer}")
    check((await engine.destination(peer.name))["hold"], "the hold isn't shown")
    await asyncio.sleep(1.7)
    shown = await engine.destination(peer.name)
    equal([shown["hold"], shown["gate"]["state"]], [None, "open"], "the hold when it is over")


@case("regression-edus-in-the-name-of-others")
async def foreign_edus(rig: Rig) -> None:
    """Typing, presence and receipts of another server's user are refused by name (U1, U4, U6)."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    bob = peer.user("bob")
    lines = [
        {"kind": "edu", "edu_type": "m.typing", "room_id": room.room_id,
         "content": {"room_id": room.room_id, "user_id": bob, "typing": True}},
        {"kind": "edu", "edu_type": "m.presence", "room_id": room.room_id,
         "content": {"push": [{"user_id": bob, "presence": "online", "last_active_ago": 1}]}},
        {"kind": "edu", "edu_type": "m.receipt", "room_id": room.room_id,
         "content": {room.room_id: {"m.read": {bob: {"event_ids": ["$x"], "data": {"ts": 1}}}}}},
    ]
    status, body = await engine.feed_lines([matrix.dumps(line) for line in lines])
    equal([status, body["accepted"], [r["line"] for r in body["rejected"]]], [200, 0, [1, 2, 3]], "the answer")
    check(all(bob in r["error"] for r in body["rejected"]), f"the user isn't named: {body['rejected']}")


@case("regression-explicit-destinations-are-never-let-go")
async def explicit(rig: Rig) -> None:
    """More than 50 events with explicit destinations wait for a dead server: all come (it may not be in the room)."""
    engine = await rig.engine(backoff={"first": "2s", "max": "2s"})
    peer = rig.peer(1)
    room = await rig.shared(engine, rig.peer(2))
    peer.down()
    records = [{**r, "destinations": [peer.name]} for r in room.messages(user(engine), 70)]
    await engine.feed(*records[:1])
    await until(lambda: peer.contacts(), 5, "a first attempt")
    await asyncio.sleep(0.3)
    await engine.feed(*records[1:])
    peer.up()
    await has(peer, records, 12)
