"""One bad item must not stop the others: bisecting, quarantine, refusals of everything (DESIGN 6; B08)."""
from __future__ import annotations

import asyncio

from rig import (SPLITS, Engine, Json, Rig, case, check, device, equal, has, matrix, to_device, typing, until,
                 until_async, user)
from test_gate import start

FAST = {"first": "200ms", "factor": 1.5, "max": "500ms"}


async def quarantine(engine: Engine) -> list[Json]:
    status, body = await engine.admin("GET", "/quarantine")
    equal(status, 200, "GET /quarantine")
    return body["quarantine"]


async def in_quarantine(engine: Engine, within: float = 10) -> Json:
    rows = await until_async(lambda: quarantine(engine), within, "something is in quarantine")
    return rows[0]


@case("B08_one_refused_event", tolerate=SPLITS, timeout=60)
async def refused_event(rig: Rig) -> None:
    """400 for any transaction that holds one event: the others arrive, that one is in quarantine with the words."""
    engine, peer, room = await start(rig, backoff=FAST)
    hold = peer.hold("/send/", times=1)
    first = room.messages(user(engine), 1)
    await engine.feed(*first)
    await until(lambda: hold.arrived, 5, "the first transaction")
    records = room.messages(user(engine), 12)
    bad = records[5]
    peer.refuse_event(bad["event_id"], 400, {"errcode": "M_BAD_JSON", "error": "rig dislikes it"})
    await engine.feed(*records, to_device(user(engine), "m1", {peer.user("bob"): {"D": {}}}))
    hold.release()
    good = [r for r in records if r is not bad]
    await has(peer, first + good, 12)
    await until(lambda: peer.edus_of("m.direct_to_device"), 5, "the to-device message")
    row = await in_quarantine(engine)
    equal([row["destination"], row["item"], row["kind"], row["status"]], [peer.name, bad["event_id"], "pdu", 400],
          "the row")
    check("rig dislikes it" in row["message"], f"the message is {row['message']!r}")
    d = await engine.destination(peer.name)
    equal([d["quarantined"], d["pending"]["pdus"]], [1, 0], "quarantined and pending")
    equal(d["gate"]["state"], "open", "the gate")
    more = room.messages(user(engine), 2)
    await engine.feed(*more)
    await has(peer, more, 5)
    check(len(peer.transactions) < 30, f"{len(peer.transactions)} transactions to find it")


@case("B08_one_event_that_makes_500s", tolerate=SPLITS, timeout=60)
async def crashing_event(rig: Rig) -> None:
    """An event that makes the peer answer 500, while an empty transaction passes, is found and set aside."""
    engine, peer, room = await start(rig, backoff=FAST)
    hold = peer.hold("/send/", times=1)
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: hold.arrived, 5, "the first transaction")
    records = room.messages(user(engine), 6)
    bad = records[2]
    peer.refuse_event(bad["event_id"], 500)
    await engine.feed(*records)
    hold.release()
    await has(peer, [r for r in records if r is not bad], 20)
    row = await in_quarantine(engine)
    equal([row["item"], row["status"]], [bad["event_id"], 500], "the row")
    check(not peer.has(bad["event_id"]), "the bad one arrived")


@case("poison-not-in-an-outage")
async def outage(rig: Rig) -> None:
    """A server that answers 500 to everything, the empty transaction too, is down: nothing is set aside."""
    engine, peer, room = await start(rig, backoff=FAST)
    peer.answer("/send/", 500)
    records = room.messages(user(engine), 5)
    await engine.feed(*records)
    await until(lambda: len(peer.transactions) >= 6, 10, "six attempts")
    equal(await quarantine(engine), [], "the quarantine")
    peer.rules.clear()
    await has(peer, records, 5)


@case("poison-refuses-everything", tolerate=SPLITS, timeout=60)
async def refuses_everything(rig: Rig) -> None:
    """A server that refuses each of many events is not poisoned by each: at most one is set aside, then it closes."""
    engine, peer, room = await start(rig, backoff={"first": "1s", "max": "1h"})
    peer.refuse_item(lambda i: True)
    await engine.feed(*room.messages(user(engine), 10))

    async def closed() -> bool:
        gate = await engine.gate(peer.name)
        return gate["state"] == "closed" and gate["last_error"]["class"] == "content_refused"
    await until_async(closed, 15, "the gate is closed as content_refused")
    await asyncio.sleep(3)
    check(len(await quarantine(engine)) <= 1, f"in quarantine: {await quarantine(engine)}")
    check((await engine.destination(peer.name))["pending"]["pdus"] >= 9, "the others don't wait any more")


@case("poison-413-only-splits", tolerate=SPLITS, timeout=60)
async def too_large(rig: Rig) -> None:
    """413 makes the transactions smaller and sets nothing aside."""
    engine, peer, room = await start(rig, backoff=FAST)
    peer.answer(lambda r: "/send/" in r.path and len(r.raw) > 6000, 413,
                {"errcode": "M_TOO_LARGE", "error": "too large"})
    hold = peer.hold("/send/", times=1)
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: hold.arrived, 5, "the first transaction")
    records = room.messages(user(engine), 40)
    await engine.feed(*records)
    hold.release()
    await has(peer, records, 15)
    equal(await quarantine(engine), [], "the quarantine")


@case("poison-quarantine-retry-and-drop", tolerate=SPLITS, timeout=60)
async def retry_and_drop(rig: Rig) -> None:
    """An operator may send an item again once the peer takes it, or let it go; both survive nothing twice."""
    engine, peer, room = await start(rig, backoff=FAST)
    one, two, three = room.messages(user(engine), 3)
    rules = [peer.refuse_event(r["event_id"]) for r in (one, three)]
    await engine.feed(one)
    row = await in_quarantine(engine)
    await engine.feed(two)
    await has(peer, [two], 8)
    peer.forget(rules[0])
    status, _ = await engine.admin("POST", f"/quarantine/{row['id']}/retry", {})
    check(status in (200, 202, 204), f"retry answered {status}")
    await has(peer, [one], 8)
    equal(await quarantine(engine), [], "the quarantine after the retry")
    await engine.feed(three)
    row = await in_quarantine(engine)
    await engine.restart(kill=True)
    equal([r["id"] for r in await quarantine(engine)], [row["id"]], "the quarantine after kill -9")
    status, _ = await engine.admin("DELETE", f"/quarantine/{row['id']}")
    check(status in (200, 204), f"DELETE answered {status}")
    equal(await quarantine(engine), [], "the quarantine after DELETE")
    for method, path in (("POST", f"/quarantine/{row['id']}/retry"), ("DELETE", f"/quarantine/{row['id']}")):
        status, body = await engine.admin(method, path)
        equal([status, body.get("errcode")], [404, "M_NOT_FOUND"], f"{method} of a row that is gone")


@case("poison-ephemeral-is-dropped", tolerate=SPLITS, timeout=60)
async def ephemeral(rig: Rig) -> None:
    """A typing EDU that a peer refuses is dropped, not kept; events pass."""
    engine, peer, room = await start(rig, backoff=FAST)
    peer.refuse_item(lambda i: i.get("edu_type") == "m.typing")
    hold = peer.hold("/send/", times=1)
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: hold.arrived, 5, "the first transaction")
    records = room.messages(user(engine), 3)
    await engine.feed(typing(room.room_id, user(engine)), *records)
    hold.release()
    await has(peer, records, 12)
    equal(await quarantine(engine), [], "the quarantine")
    await until_async(lambda: _none_waits(engine, peer.name), 5, "nothing ephemeral waits")


async def _none_waits(engine: Engine, name: str) -> bool:
    d = await engine.destination(name)
    return d["pending"]["ephemeral"] == 0 and d["in_flight"] is None


@case("poison-to-device", tolerate=SPLITS, timeout=60)
async def to_device_poison(rig: Rig) -> None:
    """A refused to-device message is set aside with its id; those around it arrive in order."""
    engine, peer, room = await start(rig, backoff=FAST)
    peer.refuse_item(lambda i: i.get("content", {}).get("message_id") == "bad")
    hold = peer.hold("/send/", times=1)
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: hold.arrived, 5, "the first transaction")
    await engine.feed(*(to_device(user(engine), m, {peer.user("bob"): {"D": {}}}) for m in ("a", "b", "bad", "c", "d")))
    hold.release()
    await until(lambda: len(peer.edus_of("m.direct_to_device")) == 4, 12, "four messages")
    equal([e["message_id"] for e in peer.edus_of("m.direct_to_device")], ["a", "b", "c", "d"], "the messages")
    row = await in_quarantine(engine)
    check(row["kind"] == "to_device" and "bad" in str(row["item"]), f"the row is {row}")
    check(matrix.now_ms() - row["since_ms"] < 60_000, "since_ms")


@case("poison-retry-into-an-outage", tolerate=SPLITS, timeout=60)
async def retry_into_an_outage(rig: Rig) -> None:
    """A retried item that meets an outage goes when that is over, over a kill too."""
    engine, peer, room = await start(rig, backoff=FAST)
    one, two = room.messages(user(engine), 2)
    rule = peer.refuse_event(one["event_id"])
    await engine.feed(one)
    row = await in_quarantine(engine)
    await engine.feed(two)
    await has(peer, [two], 8)
    peer.forget(rule)
    peer.down("rst")
    status, _ = await engine.admin("POST", f"/quarantine/{row['id']}/retry", {})
    equal(status, 200, "retry")
    await until_async(lambda: _closed(engine, peer.name), 10, "the gate is closed")
    d = await engine.destination(peer.name)
    equal([d["pending"]["pdus"], d["quarantined"]], [1, 0], "it waits, and is in the quarantine no longer")
    await engine.restart(kill=True)
    peer.up()
    await has(peer, [one], 8)
    await until_async(lambda: _nothing_waits(engine, peer.name), 5, "nothing waits")


@case("poison-retry-while-open-meets-an-outage", tolerate=SPLITS, timeout=60)
async def retry_then_outage(rig: Rig) -> None:
    """The window that held a retried item is dropped when the gate closes: it is read again."""
    engine, peer, room = await start(rig, backoff=FAST)
    one, two = room.messages(user(engine), 2)
    rule = peer.refuse_event(one["event_id"])
    await engine.feed(one)
    row = await in_quarantine(engine)
    await engine.feed(two)
    await has(peer, [two], 8)
    peer.forget(rule)
    peer.down("rst")
    await engine.admin("POST", f"/quarantine/{row['id']}/retry", {})
    await until_async(lambda: _closed(engine, peer.name), 10, "the gate is closed")
    peer.up()
    await has(peer, [one], 8)


async def _closed(engine: Engine, name: str) -> bool:
    return (await engine.gate(name))["state"] in ("closed", "probing")


async def _nothing_waits(engine: Engine, name: str) -> bool:
    d = await engine.destination(name)
    return d["pending"]["pdus"] == 0 and d["quarantined"] == 0


@case("poison-refuses-everything-over-a-restart", tolerate=SPLITS, timeout=60)
async def refuses_everything_restarted(rig: Rig) -> None:
    """A restart forgets no set-aside item: who refuses everything loses one, however often we start."""
    engine, peer, room = await start(rig, backoff=FAST)
    peer.refuse_item(lambda i: True)
    records = room.messages(user(engine), 6)
    await engine.feed(*records)
    row = await in_quarantine(engine)
    for _ in range(2):
        await until_async(lambda: _closed(engine, peer.name), 10, "the gate is closed")
        await engine.restart(kill=True)
        await asyncio.sleep(1.5)
    equal([r["id"] for r in await quarantine(engine)], [row["id"]], "the quarantine")
    peer.rules.clear()
    await has(peer, records[1:], 10)


@case("poison-device-list", tolerate=SPLITS, timeout=60)
async def device_list(rig: Rig) -> None:
    """A refused device-list update is set aside; the next one names its version as the one before, which the peer
    doesn't have, so that it fetches the list (DESIGN 7)."""
    engine, peer, room = await start(rig, backoff=FAST, delivery={"join_update_delay": "0s"})
    alice = user(engine)
    await engine.feed(device(alice, "D1", name="one"))
    await until(lambda: peer.device_edus(alice), 5, "the first update")
    first = peer.device_edus(alice)[-1]["stream_id"]
    rule = peer.refuse_item(lambda i: i.get("content", {}).get("device_display_name") == "two")
    more = room.messages(alice, 1)
    await engine.feed({"kind": "device", "user_id": alice, "device_id": "D1", "display_name": "two"}, *more)
    await has(peer, more, 10)
    row = await in_quarantine(engine)
    equal([row["kind"], row["item"]], ["device_list", alice], "the row")
    peer.forget(rule)
    await engine.feed({"kind": "device", "user_id": alice, "device_id": "D1", "display_name": "three"})
    await until(lambda: peer.device_edus(alice)[-1].get("device_display_name") == "three", 5, "the next update")
    prev = peer.device_edus(alice)[-1]["prev_id"]
    check(len(prev) == 1 and prev[0] > first, f"prev_id is {prev}, the last one that arrived was {first}")
