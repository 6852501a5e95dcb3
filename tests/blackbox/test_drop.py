"""Letting go what waits for a server, and ending an actor by hand (API 5 and 6)."""
from __future__ import annotations

import asyncio
from typing import Any

from rig import Rig, case, check, device, equal, failing, has, quote, steady, to_device, until, user
from test_cli import NO, OK, USAGE, ran
from test_cli_json import SPEC, schema
from test_gate import start

ROUTE = "/_ranvier/admin/v1/destinations/{name}/drop"


async def pending(engine: Any, name: str) -> list[int]:
    p = (await engine.destination(name))["pending"]
    return [p["pdus"], p["device_lists"], p["to_device"]]


@case("drop-all", timeout=60)
async def all_of_it(rig: Rig) -> None:
    """What waits is counted by a dry run, asked about, dropped for good (over kill -9), and stands in the audit log."""
    engine, peer, room = await start(rig, backoff={"first": "1h"})
    peer.down()
    records = room.messages(user(engine), 5)
    await engine.feed(*records, device(user(engine), "D1"),
                      to_device(user(engine), "m1", {peer.user("bob"): {"D": {}}}))
    await failing(engine, peer)
    equal(await pending(engine, peer.name), [5, 1, 1], "what waits")
    done = await ran(engine, "drop", peer.name, "--reason", "gone for good", "--dry-run", "-o", "json")
    body = done.json()
    equal(body["destinations"][0]["dropped"], {"pdus": 5, "device_lists": 1, "to_device": 1}, "the dry run")
    check(not SPEC.check(body, schema("drop")), f"-o json: {SPEC.check(body, schema('drop'))}")
    done = await ran(engine, "drop", peer.name, "--reason", "gone for good", code=USAGE)
    check("5 pdus, 1 device update, 1 to-device" in done.err and "--yes" in done.err, f"it says {done.err!r}")
    equal(await pending(engine, peer.name), [5, 1, 1], "what waits after a dry run and a refusal")
    done = await ran(engine, "drop", peer.name, "--reason", "gone for good", "--yes", env={"SUDO_USER": "ada"})
    check(f"{peer.name} lost 5 pdus" in done.err, f"it says {done.err!r}")
    for _ in range(2):
        equal(await pending(engine, peer.name), [0, 0, 0], "what waits after the drop")
        await engine.restart(kill=True)
    line = (await engine.admin("GET", "/audit?limit=1"))[1]["audit"][0]
    equal([line["verb"], line["subject"], line["who"], line["reason"], line["outcome"]],
          ["drop", peer.name, "ada", "gone for good", "done"], "the audit log")
    peer.up()
    newer = room.messages(user(engine), 2)
    await engine.feed(*newer)
    await ran(engine, "wake", peer.name)
    await has(peer, newer, 10)
    equal(peer.event_ids(), [r["event_id"] for r in newer], "events at the peer")
    check(not peer.edus_of("m.direct_to_device") and not peer.device_edus(), "a dropped EDU came")


@case("drop-older", timeout=60)
async def older(rig: Rig) -> None:
    """With --older only what waits as long goes; the rest is delivered, and nothing of another server is touched."""
    engine = await rig.engine(backoff={"first": "1h"})
    peer, other = rig.peers(2)
    room = await rig.shared(engine, peer, other)
    for one in (peer, other):
        one.down()
    old = room.messages(user(engine), 3)
    await engine.feed(*old, to_device(user(engine), "old", {peer.user("bob"): {"D": {}}}))
    await asyncio.sleep(1.6)
    new = room.messages(user(engine), 2)
    await engine.feed(*new, to_device(user(engine), "new", {peer.user("bob"): {"D": {}}}))
    done = await ran(engine, "drop", peer.name, "--older", "1500ms", "--reason", "stale", "--yes", "-o", "json")
    equal(done.json()["destinations"][0]["dropped"], {"pdus": 3, "device_lists": 0, "to_device": 1}, "what went")
    equal([await pending(engine, n.name) for n in (peer, other)], [[2, 0, 1], [5, 0, 0]], "what waits")
    await engine.restart(kill=True)
    for one in (peer, other):
        one.up()
        await ran(engine, "wake", one.name)
    await has(peer, new, 10)
    await has(other, old + new, 10)
    equal(peer.event_ids(), [r["event_id"] for r in new], "events at the peer")
    equal([e["message_id"] for e in peer.edus_of("m.direct_to_device")], ["new"], "to-device messages")


@case("drop-while-in-flight", timeout=60)
async def in_flight(rig: Rig) -> None:
    """A transaction in flight ends first and arrives, what waited behind it doesn't, what comes later does."""
    engine, peer, room = await start(rig)
    hold = peer.hold("/send/", process_first=True)
    first = room.messages(user(engine), 1)
    await engine.feed(*first)
    await until(lambda: hold.arrived, 5, "the first is in flight")
    await engine.feed(*room.messages(user(engine), 3))
    order = asyncio.create_task(ran(engine, "drop", peer.name, "--reason", "x", "--yes", timeout=30))
    await asyncio.sleep(0.5)
    check(not order.done(), "the drop didn't wait")
    hold.release()
    await order
    last = room.messages(user(engine), 1)
    await engine.feed(*last)
    await has(peer, first + last, 5)
    await steady(lambda: len(peer.event_ids()), 0.5, "events")
    equal(peer.event_ids(), [r["event_id"] for r in first + last], "events at the peer")


@case("drop-refused")
async def refused(rig: Rig) -> None:
    """Without a reason, with odd bodies, for an unknown name: refused by name, nothing is done."""
    engine, peer, _ = await start(rig)
    for body in ({}, {"reason": ""}, {"reason": 7}, {"reason": "x", "older_than_ms": "old"},
                 {"reason": "x", "older_than_ms": -1}, {"reason": "x", "dry_run": 1}):
        status, answer = await engine.admin("POST", f"/destinations/{quote(peer.name)}/drop", body)
        check(status == 400 and answer["errcode"] and answer["error"], f"{body} was answered {status}: {answer}")
    await ran(engine, "drop", "none.test", "--reason", "x", "--yes", code=NO)
    await ran(engine, "drop", "--reason", "x", "--yes", code=USAGE)
    await ran(engine, "drop", peer.name, "--yes", code=USAGE)
    status, body = await engine.admin("POST", f"/destinations/{quote(peer.name)}/drop", {"dry_run": True})
    equal([status, body["dropped"]["pdus"]], [200, 0], "a dry run without a reason")
    wrong = SPEC.check(body, SPEC.answer_schema("POST", ROUTE, 200))
    check(not wrong, f"the answer isn't as documented: {wrong}")


@case("restart-actor", timeout=60)
async def restart(rig: Rig) -> None:
    """A destination's actor is ended and made anew, what waits is delivered in order; others can't be; audit log."""
    engine, peer, room = await start(rig, backoff={"first": "1h"})
    peer.down()
    records = room.messages(user(engine), 3)
    await engine.feed(*records)
    await failing(engine, peer)
    actors = (await engine.admin("GET", "/actors"))[1]["actors"]
    mine = next(a for a in actors if a["kind"] == "destination" and a["name"] == peer.name)
    ledger = next(a for a in actors if a["kind"] == "ledger")
    equal((await ran(engine, "restart-actor", str(mine["id"]))).code, OK, "the restart")
    peer.up()
    await ran(engine, "wake", peer.name)
    await has(peer, records, 10)
    equal(peer.event_ids(), [r["event_id"] for r in records], "the order")
    again = next(a for a in (await engine.admin("GET", "/actors"))[1]["actors"]
                 if a["kind"] == "destination" and a["name"] == peer.name)
    check(again["id"] != mine["id"] and again["restarts"] == mine["restarts"] + 1, f"the new one is {again}")
    done = await ran(engine, "restart-actor", str(ledger["id"]), code=NO)
    check("ledger" in done.err, f"it says {done.err!r}")
    for odd in ("999999", "no-id"):
        await ran(engine, "restart-actor", odd, code=NO)
    verbs = [(a["verb"], a["subject"], a["outcome"]) for a in (await engine.admin("GET", "/audit"))[1]["audit"]]
    check(verbs[4] == ("restart", str(mine["id"]), "done"), f"the audit log has {verbs}")
