"""Draining the engine before it is stopped (API 5 and 6)."""
from __future__ import annotations

import asyncio
import time

from rig import Rig, case, check, equal, failing, has, matrix, steady, until, user
from test_cli import NO, OK, USAGE, ran
from test_cli_json import SPEC, schema
from test_gate import start


@case("drain", timeout=60)
async def drain(rig: Rig) -> None:
    """A slow server gets what it is owed, the dead one's is kept; then nothing begins, until a restart."""
    engine = await rig.engine(backoff={"first": "300ms", "max": "500ms"})
    slow, dead = rig.peers(2)
    room = await rig.shared(engine, slow, dead)
    dead.down()
    await engine.feed(*room.messages(user(engine), 1))
    await failing(engine, dead)
    await until(lambda: slow.pdus, 5, "the first event")
    slow.slow("/send/", 0.7)
    records = room.messages(user(engine), 4)
    await engine.feed(*records)
    began = time.monotonic()
    done = await ran(engine, "drain", "--within", "20s", "-o", "json", timeout=40)
    body = done.json()
    check(not SPEC.check(body, schema("drain")), f"-o json: {SPEC.check(body, schema('drain'))}")
    equal([body["drained"], body["left"]["pdus"], body["in_flight"], body["waiting"]["pdus"]], [True, 0, 0, 5], "left")
    check(time.monotonic() - began < 15, "it waited on although all was done")
    check("drained after" in done.err and "5 pdus" in done.err, f"it says {done.err!r}")
    await has(slow, records, 1)
    # From here on nothing is taken, nothing begins.
    equal((await engine.host("GET", "/stream?timeout_ms=0"))[0], 200, "the stream")
    status, answer = await engine.feed_lines(matrix.dumps(r) for r in room.messages(user(engine), 1))
    equal([status, answer["errcode"]], [503, "M_RANVIER_NOT_READY"], "a feed")
    dead.up()
    count = dead.contacts()
    await steady(lambda: dead.contacts() - count, 1.5, "contacts after the drain")
    check("drained" in (await ran(engine, "status")).out, "status doesn't say so")
    await engine.restart()
    await has(dead, records, 10)
    equal([(a["verb"], a["outcome"]) for a in (await engine.admin("GET", "/audit"))[1]["audit"]], [("drain", "done")],
          "the audit log")


@case("drain-in-bounded-time", timeout=60)
async def bounded(rig: Rig) -> None:
    """A server that takes longer than there is time: it ends in time with 1, says what is left, loses nothing."""
    engine, peer, room = await start(rig)
    hold = peer.hold("/send/")
    records = room.messages(user(engine), 3)
    await engine.feed(*records)
    await until(lambda: hold.arrived, 5, "a transaction is in flight")
    began = time.monotonic()
    done = await ran(engine, "drain", "--within", "1s", code=NO, timeout=30)
    check(time.monotonic() - began < 12, "it took too long")
    check("NOT drained" in done.err and peer.name in done.err and "3 pdus" in done.err, f"it says {done.err!r}")
    await ran(engine, "drain", "--within", "soon", code=USAGE)
    hold.release()
    await engine.restart()
    await has(peer, records, 10)


@case("drain-ends-with-the-engine", timeout=60)
async def ends(rig: Rig) -> None:
    """A stop while a drain waits ends both soon."""
    engine, peer, room = await start(rig)
    hold = peer.hold("/send/")
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: hold.arrived, 5, "a transaction is in flight")
    order = asyncio.create_task(engine.cli("drain", "--within", "10m", timeout=60))
    await asyncio.sleep(0.7)
    began = time.monotonic()
    await engine.stop()
    check(time.monotonic() - began < 20, f"the stop took {time.monotonic() - began:.0f} s")
    check((await order).code != OK, "the drain says that all is done")
