"""HTTP/2 where a peer offers it, and connections of both kinds: reuse, idle closing, what servers do to them (DESIGN
5, 6)."""
from __future__ import annotations

import asyncio
import time
from typing import Any

from rig import Answer, Engine, Peer, Rig, case, check, equal, has, ids_of, until, until_async, user
from rig.records import HostRoom, pdu

VERSION = "/_matrix/federation/v1/version"


def offers(rig: Rig, number: int = 1) -> Peer:
    """A peer that offers HTTP/2."""
    peer = rig.peer(number)
    peer.context = rig.authority.server_context((), [peer.ip], http2=True, hear=peer.sni.append)
    return peer


async def start(rig: Rig, http2: bool = True, **overrides: Any) -> tuple[Engine, Peer, HostRoom]:
    engine = await rig.engine(**overrides)
    peer = offers(rig) if http2 else rig.peer(1)
    return engine, peer, await rig.shared(engine, peer)


async def ask(engine: Engine, peer: Peer, uri: str = VERSION) -> Any:
    status, body = await engine.host("POST", "/requests", {"destination": peer.name, "method": "GET", "uri": uri})
    return body.get("status") if status == 200 else body


async def one(engine: Engine, peer: Peer, room: HostRoom, within: float = 10) -> float:
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    return await has(peer, records, within)


async def no_failure(engine: Engine, peer: Peer) -> None:
    d = await engine.destination(peer.name)
    equal(d["gate"]["consecutive_failures"], 0, "failures")
    check(all(a["outcome"] == "ok" for a in d["attempts"]),
          f"attempts were {d['attempts']}")


@case("http2-is-used")
async def used(rig: Rig) -> None:
    """A peer that offers HTTP/2 gets it: signed requests arrive whole, several at a time over one connection."""
    engine, peer, room = await start(rig)
    await one(engine, peer, room)
    peer.slow("/version", 0.5)
    begun = time.monotonic()
    answers = await asyncio.gather(*(ask(engine, peer) for _ in range(8)))
    took = time.monotonic() - begun
    equal(answers, [200] * 8, "answers")
    check(took < 1.5, f"8 requests of 0.5 s each took {took:.1f} s")
    equal([len(peer.http2), len(peer.accepts)], [1, 1], "connections")
    check(peer.http2[0].most_at_once >= 4, f"at most {peer.http2[0].most_at_once} requests at a time")
    equal(set(peer.sni), {None}, "SNI for an address")


@case("http2-first-requests-share-a-connection")
async def shared_from_the_start(rig: Rig) -> None:
    """Requests that begin while the first connection is being made wait for it and share it."""
    engine = await rig.engine()
    peer = offers(rig)
    answers = await asyncio.gather(*(ask(engine, peer) for _ in range(8)))
    equal(answers, [200] * 8, "answers")
    equal(len(peer.accepts), 1, "connections")


@case("http2-switched-off")
async def switched_off(rig: Rig) -> None:
    """[federation] http2 = false: HTTP/1.1 with the same peer."""
    engine, peer, room = await start(rig, federation={"http2": False})
    await one(engine, peer, room)
    equal([len(peer.http2), len(peer.accepts)], [0, 1], "connections over HTTP/2, and all")


def _both(name: str, run: Any, **options: Any) -> None:
    for http2 in (True, False):
        async def test(rig: Rig, kind: bool = http2) -> None:
            await run(rig, kind)
        test.__doc__ = f"{run.__doc__} (HTTP/{2 if http2 else '1.1'})"
        test.__module__ = __name__
        case(f"{name}-http{2 if http2 else 1}", **options)(test)


async def reuse(rig: Rig, http2: bool) -> None:
    """30 transactions and 10 requests one after the other: one connection."""
    engine, peer, room = await start(rig, http2)
    for _ in range(30):
        await one(engine, peer, room)
    for _ in range(10):
        equal(await ask(engine, peer), 200, "answer")
    check(len(peer.transactions) == 30, f"{len(peer.transactions)} transactions")
    equal([len(peer.accepts), len(peer.http2)], [1, int(http2)], "connections, and those over HTTP/2")


async def idle(rig: Rig, http2: bool) -> None:
    """An idle connection is closed after its time, not much later, and not before; the next request makes a new one,
    and that is no failure."""
    engine, peer, room = await start(rig, http2, delivery={"idle_connection_timeout": "3s"})
    await one(engine, peer, room)
    begun = time.monotonic()

    def open_connections() -> int:
        return sum(not t.is_closing() for t in peer._connections)
    await until(lambda: open_connections() == 0, 12, "the idle connection is closed")
    took = time.monotonic() - begun
    rig.notes.append(f"closed after {took:.1f} s")
    check(2.5 <= took <= 7, f"it was closed after {took:.1f} s")
    await one(engine, peer, room)
    equal(len(peer.accepts), 2, "connections")
    await no_failure(engine, peer)


async def closed_while_idle(rig: Rig, http2: bool) -> None:
    """A pooled connection that the peer closed or reset while it was idle is no failure."""
    engine, peer, room = await start(rig, http2)
    for way in ("close", "abort"):
        await one(engine, peer, room)
        for transport in list(peer._connections):
            getattr(transport, way)()
        await asyncio.sleep(0.2)
        await one(engine, peer, room)
    await no_failure(engine, peer)
    equal(len(peer.accepts), 3, "connections")


async def breaks_in_use(rig: Rig, http2: bool) -> None:
    """A pooled connection that breaks when it is used again, before a byte of the answer: once more on a new one,
    with the same bytes."""
    engine, peer, room = await start(rig, http2)
    await one(engine, peer, room)

    async def cut(request: Any, _: Any) -> Any:
        for transport in list(peer._connections):
            transport.abort()
        return Answer(drop=True)
    peer.rule("/send/", cut, times=1)
    await one(engine, peer, room)
    check(len(peer.transactions) == 3, f"{len(peer.transactions)} transactions came")
    equal(peer.transactions[1].raw, peer.transactions[2].raw, "the bytes of the repeat")
    await no_failure(engine, peer)


async def large(rig: Rig, http2: bool) -> None:
    """50 events of 20 kB in one transaction, and a large answer: flow control holds up neither."""
    engine, peer, room = await start(rig, http2)
    hold = peer.hold("/send/", times=1)
    first = room.messages(user(engine), 1)
    await engine.feed(*first)
    await until(lambda: hold.arrived, 5, "the first transaction")
    records = [pdu(room.event(user(engine), content={"body": "x" * 20_000})) for _ in range(50)]
    await engine.feed(*records)
    hold.release()
    await has(peer, records, 15)
    check(len(peer.transactions[-1].raw) > 1_000_000 or len(peer.transactions) <= 3,
          f"{[len(t.raw) for t in peer.transactions]} bytes")
    peer.answer("/version", 200, {"server": {"name": "y" * 900_000}})
    equal(await asyncio.gather(*(ask(engine, peer) for _ in range(4))), [200] * 4, "large answers")
    await no_failure(engine, peer)


for _name, _run in (("connections-reuse", reuse), ("connections-idle", idle),
                    ("connections-closed-while-idle", closed_while_idle), ("connections-break-in-use", breaks_in_use),
                    ("connections-large-bodies", large)):
    _both(_name, _run)


@case("http2-goaway-idle")
async def goaway_idle(rig: Rig) -> None:
    """GOAWAY on an idle connection, left open or closed: the next request goes over a new one, and that is no
    failure."""
    engine, peer, room = await start(rig)
    for close in (False, True):
        await one(engine, peer, room)
        peer.http2[-1].goaway(close=close)
        await asyncio.sleep(0.2)
        await one(engine, peer, room)
        await asyncio.sleep(0.1)
    await no_failure(engine, peer)
    equal(len(peer.transactions), 4, "transactions that were looked at")
    equal(len(peer.http2), 3, "connections")


@case("http2-goaway-in-flight")
async def goaway_in_flight(rig: Rig) -> None:
    """GOAWAY that says that a request in flight was never looked at: it is sent again over a new connection; one that
    is in work is answered over the old one."""
    engine, peer, room = await start(rig)
    await one(engine, peer, room)
    connection = peer.http2[0]
    gate = peer.hold("/version", times=1)
    asked = asyncio.create_task(ask(engine, peer))
    await until(lambda: gate.arrived, 5, "the request in work")
    counted = connection.conn.highest_inbound_stream_id

    async def refuse(_: Any, __: Any) -> Any:
        connection.goaway(last=counted)
        return Answer(drop=True)
    peer.rule("/send/", refuse, times=1)
    await one(engine, peer, room)
    equal(len(peer.http2), 2, "connections")
    gate.release()
    equal(await asyncio.wait_for(asked, 10), 200, "the answer of the request in work")
    await no_failure(engine, peer)


@case("http2-refused-stream")
async def refused_stream(rig: Rig) -> None:
    """REFUSED_STREAM means that nothing was done: the request goes out on a new connection, no failure."""
    engine, peer, room = await start(rig)
    await one(engine, peer, room)
    peer.http2_refuse = 1
    await one(engine, peer, room)
    await no_failure(engine, peer)
    equal(len(peer.transactions), 2, "transactions that were looked at")


@case("http2-reset-is-a-failure")
async def reset(rig: Rig) -> None:
    """A request that the server breaks off over HTTP/2 is a failure at stage answer, as over HTTP/1.1; later ones
    succeed."""
    engine, peer, room = await start(rig)
    await one(engine, peer, room)
    peer.drop("/send/", times=1)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)

    async def failed() -> Any:
        return (await engine.gate(peer.name))["last_error"]
    error = await until_async(failed, 10, "a failure is shown")
    equal([error["class"], error["stage"]], ["unreachable", "answer"], "class and stage")
    await has(peer, records, 10)


@case("http2-few-streams")
async def few_streams(rig: Rig) -> None:
    """A server that takes two requests at a time gets no more over a connection; all are answered."""
    engine = await rig.engine()
    peer = offers(rig)
    peer.http2_streams = 2
    peer.slow("/version", 0.2)
    equal(await asyncio.gather(*(ask(engine, peer) for _ in range(12))), [200] * 12, "answers")
    check(all(c.most_at_once <= 2 for c in peer.http2), f"at a time {[c.most_at_once for c in peer.http2]}")


@case("http2-dead-connection", timeout=60)
async def dead(rig: Rig) -> None:
    """A connection over which nothing comes any more (a firewall forgot it): one request times out, as a failure; the
    next try goes over a new connection instead of waiting on the dead one."""
    engine, peer, room = await start(rig, delivery={"request_timeout": "3s"})
    await one(engine, peer, room)
    peer.http2[0].transport.pause_reading()
    records = room.messages(user(engine), 1)
    begun = time.monotonic()
    await engine.feed(*records)
    took = await has(peer, records, 12)
    rig.notes.append(f"after {took:.1f} s")
    check(3 <= time.monotonic() - begun <= 8, f"it took {took:.1f} s")
    equal(len(peer.http2), 2, "connections")
    equal((await engine.destination(peer.name))["attempts"][0]["outcome"] == "ok", True, "the last attempt")


@case("http2-hung-connect", timeout=60)
async def hung(rig: Rig) -> None:
    """Requests that wait for a connection that is never made fail as it does, not later; the next ones connect anew."""
    engine = await rig.engine(delivery={"connect_timeout": "2s"})
    peer = offers(rig)
    peer.down("blackhole")
    begun = time.monotonic()
    answers = await asyncio.gather(*(ask(engine, peer) for _ in range(5)))
    took = time.monotonic() - begun
    check(all(a != 200 for a in answers), f"answers were {answers}")
    check(took < 6, f"it took {took:.1f} s")
    peer.up()
    await engine.admin("POST", f"/destinations/{peer.name}/wake")

    async def again() -> bool:
        return await ask(engine, peer) == 200
    await until_async(again, 15, "a request over a new connection")


@case("connections-claims-are-not-repeated", timeout=60)
async def claims(rig: Rig) -> None:
    """A claim of keys goes over a new connection, once: one that breaks when it has arrived isn't sent again (Q7)."""
    engine, peer, room = await start(rig)
    await one(engine, peer, room)
    before = len(peer.accepts)
    peer.drop("/user/keys/claim")
    status, body = await engine.host("POST", "/keys/claim", {
        "one_time_keys": {peer.user("bob"): {"D": "signed_curve25519"}}, "timeout": 5_000})
    equal(status, 200, f"the host's answer ({str(body)[:100]})")
    check(body.get("failures"), f"no failure is shown: {str(body)[:160]}")
    await asyncio.sleep(2)
    equal(len(peer.asked("/user/keys/claim")), 1, "claims that came")
    check(len(peer.accepts) > before, "it went over the pooled connection")


@case("http2-order-of-transactions")
async def order(rig: Rig) -> None:
    """HTTP/2 changes nothing about one transaction at a time, in order."""
    engine, peer, room = await start(rig)
    peer.slow("/send/", 0.05)
    records = room.messages(user(engine), 200)
    await engine.feed(*records)
    await has(peer, records, 20)
    equal(peer.event_ids(), ids_of(records), "the order")
    equal(len(peer.accepts), 1, "connections")
