"""Transactions of others that take long: joined, never worked on in parallel, bounded (B106, B107, B41)."""
from __future__ import annotations

import asyncio
import time
from typing import Any

from rig import Hold, Json, Peer, Rig, case, check, equal, until
from test_inbound import event, pair


async def slow_one(rig: Rig) -> tuple[Any, Peer, Any, Any, Json, Hold]:
    """A transaction of peer 1 whose work waits for the key of peer 2, which is held back."""
    engine, peer, room, stream = await pair(rig)
    equal((await peer.send())[0], 200, "a first transaction")
    other = rig.peer(2)
    hold = other.hold("/key/v2/", times=1)
    relayed = other.event(room.room_id, other.user("eve"), "m.room.message", {"body": "relayed"})
    return engine, peer, room, stream, relayed, hold


@case("B106_repeats_of_a_slow_transaction_are_joined", timeout=60)
async def joined(rig: Rig) -> None:
    """A transaction that takes 3 s is repeated meanwhile: worked on once, the same answer for all, also later."""
    engine, peer, room, stream, relayed, hold = await slow_one(rig)
    sends = [asyncio.create_task(peer.send([relayed], txn_id="slow", origin_server_ts=1, timeout=20))]
    await until(lambda: hold.arrived, 5, "the key fetch")
    for _ in range(3):
        sends.append(asyncio.create_task(peer.send([relayed], txn_id="slow", origin_server_ts=1, timeout=20)))
        await asyncio.sleep(0.5)
    hold.release()
    answers = await asyncio.gather(*sends)
    equal([a[0] for a in answers], [200] * 4, f"the statuses of {answers}")
    check(all(a == answers[0] for a in answers), f"the answers differ: {answers}")
    begun = time.monotonic()
    equal(await peer.send([relayed], txn_id="slow", origin_server_ts=1), answers[0], "the stored answer")
    check(time.monotonic() - begun < 1, "the stored answer took over a second")
    await stream.settle(0.7)
    equal([i["event"] for i in stream.of("pdu")], [relayed], "items")


@case("B107_one_transaction_of_an_origin_at_a_time", timeout=60)
async def one_at_a_time(rig: Rig) -> None:
    """While one is in work the origin's next waits or gets 429; another origin's is taken; the order holds."""
    engine, peer, room, stream, relayed, hold = await slow_one(rig)
    third = rig.peer(3)
    first = asyncio.create_task(peer.send([relayed], txn_id="one", timeout=20))
    await until(lambda: hold.arrived, 5, "the key fetch")
    later = event(peer, room, "later")
    second = asyncio.create_task(peer.send([later], txn_id="two", timeout=20))
    status, _ = await third.send([event(third, room, "another origin")], timeout=5)
    equal(status, 200, "another origin's transaction")
    await asyncio.sleep(1)
    await stream.settle(0.3)
    equal([i["event"]["content"]["body"] for i in stream.of("pdu")], ["another origin"], "what came meanwhile")
    hold.release()
    equal((await first)[0], 200, "the slow one")
    status, _ = await second
    check(status in (200, 429), f"the next was answered {status}")
    if status == 429:
        equal((await peer.send([later], txn_id="two"))[0], 200, "the next, again")
    await stream.settle(0.7)
    equal([i["event"] for i in stream.of("pdu") if i["origin"] == peer.name], [relayed, later], "the order")


@case("B41_waiting_transactions_are_bounded", timeout=60)
async def bounded(rig: Rig) -> None:
    """Beside the one in work five wait; the others get 429 with a hint, as many as come; all is served afterwards."""
    engine, peer, room, stream, relayed, hold = await slow_one(rig)
    first = asyncio.create_task(peer.send([relayed], txn_id="one", timeout=25))
    await until(lambda: hold.arrived, 5, "the key fetch")
    events = [event(peer, room, n) for n in range(20)]
    sends = [asyncio.create_task(peer.send([e], txn_id=f"w{n}", timeout=25)) for n, e in enumerate(events)]
    await asyncio.sleep(1.5)
    early = [s.result() for s in sends if s.done()]
    equal({s for s, _ in early}, {429}, "the statuses of those that were answered at once")
    check(len(early) == 15, f"{len(early)} of 20 were refused, where 5 may wait")
    check(all(b["errcode"] == "M_LIMIT_EXCEEDED" and b["retry_after_ms"] > 0 for _, b in early), f"{early[0]}")
    hold.release()
    equal((await first)[0], 200, "the slow one")
    answers = await asyncio.gather(*sends)
    taken = [e for e, (s, _) in zip(events, answers) if s == 200]
    equal(len(taken), 5, "those that waited")
    await stream.settle(0.7)
    equal(sorted(i["event"]["content"]["body"] for i in stream.of("pdu") if i["event"] != relayed),
          sorted(e["content"]["body"] for e in taken), "their events")
    equal((await peer.send([event(peer, room, "last")]))[0], 200, "a later one")


@case("B32_a_gap_in_one_room_fails_nothing")
async def gap(rig: Rig) -> None:
    """An event whose predecessors nobody knows, beside one of another room: both are passed on, 200."""
    engine, peer, room, stream = await pair(rig)
    other = await rig.shared(engine, peer)
    sent = [peer.event(room.room_id, peer.user("bob"), "m.x", {"n": 1}, prev=["$nobody", "$knows"], depth=900),
            event(peer, other)]
    status, body = await peer.send(sent)
    equal([status, list(body["pdus"].values())], [200, [{}, {}]], "the answer")
    await stream.settle(0.7)
    equal([i["event"] for i in stream.of("pdu")], sent, "what was passed on")
    equal((await peer.send([event(peer, room)]))[0], 200, "the next transaction")
