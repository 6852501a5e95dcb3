"""Catch-up after outages and at start; what a kill -9 may not cost (DESIGN 4 and 9; CASES C)."""
from __future__ import annotations

import asyncio

from rig import (Rig, case, check, equal, failing, has, ids_of, in_order, matrix, meet, steady, to_device, until,
                 until_async, user)

FAST = {"first": "500ms", "max": "1s"}


@case("B22_newest_of_each_room_without_new_traffic", timeout=60)
async def newest(rig: Rig) -> None:
    """A peer that is back gets what it missed of each room; nothing for a room in which nothing happened."""
    engine = await rig.engine(backoff={"first": "1h"})
    peer = rig.peer(1)
    a, b, c = [await rig.shared(engine, peer) for _ in range(3)]
    await meet(peer)
    peer.down()
    records_a, records_b = a.messages(user(engine), 40), b.messages(user(engine), 1)
    await engine.feed(*records_a, *records_b)
    await failing(engine, peer)
    peer.up()
    await meet(peer)
    await has(peer, records_a + records_b, 10)
    equal([i for i in peer.event_ids() if i in ids_of(records_a)], ids_of(records_a), "the order in room a")
    check(not any(p["room_id"] == c.room_id for _, _, p in peer.pdus), "something came for a room without events")


@case("catchup-beyond-50-events", timeout=60)
async def beyond(rig: Rig) -> None:
    """Of 180 events missed in a room the newest 50 come, in order; of a room with 50 all; `pending` says so."""
    engine = await rig.engine(backoff={"first": "1h"})
    peer = rig.peer(1)
    a, b = [await rig.shared(engine, peer) for _ in range(2)]
    await meet(peer)
    peer.down()
    first = a.messages(user(engine), 1)
    await engine.feed(*first)
    await failing(engine, peer)
    many, fifty = a.messages(user(engine), 180), b.messages(user(engine), 50)
    await engine.feed(*many, *fifty)
    pending = (await engine.destination(peer.name))["pending"]["pdus"]
    # The first one may be in a frozen transaction or below the newest 50; both are right.
    check(pending in (100, 101), f"pending.pdus is {pending}")
    peer.up()
    await meet(peer)
    await has(peer, many[-50:] + fifty, 10)
    await asyncio.sleep(0.5)
    got = [i for i in peer.event_ids() if i in ids_of(many)]
    equal(got, ids_of(many[-50:]), "what came of the room with 180")
    equal([i for i in peer.event_ids() if i in ids_of(fifty)], ids_of(fifty), "what came of the room with 50")


@case("catchup-slow-server-gets-everything", timeout=60)
async def slow(rig: Rig) -> None:
    """A server that is slow but open gets every event, however far it is behind."""
    engine = await rig.engine()
    peer = rig.peer(1)
    peer.slow("/send/", 0.5)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 400)
    await engine.feed(*records)
    await has(peer, records, 20)
    equal(peer.event_ids(), ids_of(records), "each once, in order")


@case("catchup-over-restart", timeout=60)
async def over_restart(rig: Rig) -> None:
    """What a dead server misses before and after a kill -9 of ours is all delivered when it is back."""
    engine = await rig.engine(backoff={"first": "2s", "max": "3s"})
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    peer.down()
    records = room.messages(user(engine), 10)
    await engine.feed(*records)
    await failing(engine, peer)
    await engine.restart(kill=True)
    records += (more := room.messages(user(engine), 10))
    await engine.feed(*more)
    await asyncio.sleep(1)
    peer.up()
    await has(peer, records, 15)
    equal(list(dict.fromkeys(peer.event_ids())), ids_of(records), "the order of delivery")


@case("B23_start_wakes_exactly_who_is_owed", timeout=90)
async def wakes(rig: Rig) -> None:
    """After kill -9: who missed something and isn't waiting is tried, a waiting one not, one without debts never."""
    engine = await rig.engine(backoff={"first": "1h"})
    owed, waiting, settled = rig.peers(3)
    for peer in (owed, waiting, settled):
        await meet(peer)
    rooms = {p: await rig.shared(engine, p) for p in (owed, waiting, settled)}
    done = rooms[settled].messages(user(engine), 1)
    await engine.feed(*done)
    await has(settled, done, 5)
    waiting.down()
    late = rooms[waiting].messages(user(engine), 1)
    await engine.feed(*late)
    await failing(engine, waiting)
    hold = owed.hold("/send/")
    records = rooms[owed].messages(user(engine), 3)
    await engine.feed(*records)
    await until(lambda: hold.arrived, 5, "the first attempt")
    await asyncio.sleep(1.2)  # acknowledgements are gathered for up to a second
    await engine.kill9()
    owed.rules.clear()
    waiting.up()
    marks = {p: p.contacts() for p in rooms}
    await engine.start()
    await has(owed, records, 10)
    await asyncio.sleep(1)
    equal([waiting.contacts() - marks[waiting], settled.contacts() - marks[settled]], [0, 0], "other contacts")
    d = await engine.destination(waiting.name)
    equal([d["gate"]["state"], d["pending"]["pdus"]], ["closed", 1], "the waiting one")


@case("B80_lone_to_device_over_restart", timeout=60)
async def lone_to_device(rig: Rig) -> None:
    """A to-device message for a dead server arrives after our restart without any other traffic."""
    engine = await rig.engine(backoff={"first": "1s", "max": "2s"})
    peer = rig.peer(1)
    peer.down()
    await engine.feed(to_device(user(engine), "m1", {peer.user("bob"): {"D": {"n": 1}}}))
    await until(peer.contacts, 5, "the first attempt")
    await engine.restart(kill=True)
    peer.up()
    await until(lambda: peer.edus_of("m.direct_to_device"), 10, "the message")
    await asyncio.sleep(1)
    equal([e["message_id"] for e in peer.edus_of("m.direct_to_device")], ["m1"], "the messages")


@case("B31_keys_travel_first", timeout=60)
async def keys_first(rig: Rig) -> None:
    """To-device messages are in the first transaction after an outage, in their order, however many events wait."""
    engine = await rig.engine(backoff={"first": "1h"})
    peer = rig.peer(1)
    await meet(peer)
    rooms = [await rig.shared(engine, peer) for _ in range(8)]
    peer.down()
    await engine.feed(*(r for room in rooms for r in room.messages(user(engine), 30)))
    await failing(engine, peer)
    await engine.feed(*(to_device(user(engine), f"m{n}", {peer.user("bob"): {"D": {}}}) for n in range(5)))
    peer.up()
    await meet(peer)
    await until(lambda: len(peer.edus_of("m.direct_to_device")) == 5, 10, "five to-device messages")
    equal([e["message_id"] for e in peer.edus_of("m.direct_to_device")], [f"m{n}" for n in range(5)], "the order")
    # A transaction that was frozen before they were queued may come first; else they are in the first one built.
    number = next(n for n, t in enumerate(t for t in peer.transactions if t.status == 200) if t.edus)
    check(number <= 1, f"they came in transaction {number + 1}")


@case("B26_live_rooms_stay_live", timeout=90, weight=2)
async def live(rig: Rig) -> None:
    """While a long backlog is worked off, a new event of a quiet room is not put behind all of it; nothing starves."""
    engine = await rig.engine(backoff={"first": "1h"}, limits={"transaction_pdus": 10})
    peer = rig.peer(1)
    await meet(peer)
    rooms = [await rig.shared(engine, peer) for _ in range(40)]
    quiet = await rig.shared(engine, peer)
    peer.down()
    backlog = [r for room in rooms for r in room.messages(user(engine), 10)]
    await engine.feed(*backlog)
    await failing(engine, peer)
    peer.slow("/send/", 0.25)
    peer.up()
    await meet(peer)
    await until(lambda: len(peer.pdus) > 20, 10, "the backlog is under way")
    fresh = quiet.messages(user(engine), 1)
    await engine.feed(*fresh)
    await has(peer, fresh, 4)
    check(len(peer.pdus) < len(backlog), "the backlog was already gone")
    await has(peer, backlog, 30)
    for room in rooms:
        ids = [r["event_id"] for r in backlog if r["event"]["room_id"] == room.room_id]
        in_order(ids, peer.event_ids(), "a room")


@case("B28_forgotten_room_ends_catch_up", timeout=60)
async def forgotten(rig: Rig) -> None:
    """`room_forgotten` with `now` lets what is owed of that room go; the other rooms are caught up, then silence."""
    engine = await rig.engine(backoff={"first": "1h"})
    peer = rig.peer(1)
    await meet(peer)
    gone, stays = [await rig.shared(engine, peer) for _ in range(2)]
    peer.down()
    lost, kept = gone.messages(user(engine), 5), stays.messages(user(engine), 5)
    await engine.feed(kept[0])
    await failing(engine, peer)
    await engine.feed(*lost, *kept[1:])
    await engine.feed({"kind": "room_forgotten", "room_id": gone.room_id, "now": True})
    peer.up()
    await meet(peer)
    await has(peer, kept, 10)
    await asyncio.sleep(0.5)
    check(not set(ids_of(lost)) & set(peer.event_ids()), "events of the forgotten room were sent")
    await steady(peer.contacts, 1.5, "contacts after the catch-up")
    equal((await engine.destination(peer.name))["pending"]["pdus"], 0, "pending")


@case("catchup-room-forgotten-lets-the-owed-go-out")
async def forgotten_later(rig: Rig) -> None:
    """Without `now` what is owed still goes out first."""
    engine = await rig.engine()
    peer = rig.peer(1)
    hold = peer.hold("/send/", times=1)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 60)
    await engine.feed(*records)
    await until(lambda: hold.arrived, 5, "the first transaction")
    await engine.feed({"kind": "room_forgotten", "room_id": room.room_id})
    hold.release()
    await has(peer, records, 6)

    async def unknown() -> bool:
        status, body = await engine.feed_lines([matrix.dumps(r) for r in room.messages(user(engine), 1)])
        return status == 200 and body["accepted"] == 0
    await until_async(unknown, 8, "an event for the forgotten room is rejected")


@case("catchup-two-outages", timeout=60)
async def two_outages(rig: Rig) -> None:
    """Two outages with traffic between and during them: each event once, in order."""
    engine = await rig.engine(backoff=FAST)
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    sent = []
    for kind in ("rst", "blackhole"):
        records = room.messages(user(engine), 5)
        await engine.feed(*records)
        await has(peer, sent + records, 8)
        sent += records
        peer.down(kind)
        records = room.messages(user(engine), 15)
        await engine.feed(*records)
        sent += records
        await failing(engine, peer, 15)
        peer.up()
        await has(peer, sent, 15)
    equal(peer.event_ids(), ids_of(sent), "each once, in order")


@case("B05_B10_positions_only_grow")
async def positions(rig: Rig) -> None:
    """Positions of the feed grow over restarts; a delivered destination's cursor reaches the head."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    seen = []
    for _ in range(3):
        records = room.messages(user(engine), 2)
        seen.append((await engine.feed(*records))["position"])
        await has(peer, records, 5)
        await asyncio.sleep(1.3)
        d = await engine.destination(peer.name)
        equal([d["cursor"]["pdu"], d["head"] >= seen[-1]], [d["head"], True], "cursor and head")
        await engine.restart(kill=True)
    equal(seen, sorted(set(seen)), "the positions")
    equal(len(peer.pdus), 6, "PDUs, each once")
