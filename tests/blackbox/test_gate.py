"""The gate: failure classes, growing waits, one probe, recovery, what others' traffic proves (DESIGN 5)."""
from __future__ import annotations

import asyncio
import time
from typing import Any

from rig import Engine, Peer, Rig, case, check, equal, failing, has, ids_of, meet, steady, until, user
from rig.records import HostRoom

PAGE = dict(raw=b"<!DOCTYPE html><html>parked</html>", content_type="text/html")
# (id, script, class, stage, status)
CLASSES: list[tuple[str, Any, str, str, int | None]] = [
    ("301", 301, "refused", "answer", 301), ("302", 302, "refused", "answer", 302),
    ("201", 201, "refused", "answer", 201), ("401", 401, "refused", "answer", 401),
    ("403", 403, "refused", "answer", 403), ("404", 404, "refused", "answer", 404),
    ("405", 405, "refused", "answer", 405), ("410", 410, "gone", "answer", 410),
    ("429", 429, "rate_limited", "answer", 429), ("500", 500, "server_error", "answer", 500),
    ("502", 502, "server_error", "answer", 502), ("503", 503, "server_error", "answer", 503),
    ("504", 504, "server_error", "answer", 504), ("520", 520, "server_error", "answer", 520),
    ("html", "html", "refused", "answer", 200), ("html-untyped", "html-untyped", "refused", "answer", 200),
    ("reset", "rst", "unreachable", "tls", None), ("garbage", "garbage", "unreachable", "tls", None),
    ("dropped", "drop", "unreachable", "answer", None), ("silent", "silent", "unreachable", "answer", None),
]


async def start(rig: Rig, number: int = 1, **overrides: Any) -> tuple[Engine, Peer, HostRoom]:
    engine = await rig.engine(**overrides)
    peer = rig.peer(number)
    return engine, peer, await rig.shared(engine, peer)


def script_failure(peer: Peer, script: Any) -> None:
    if isinstance(script, int):
        peer.answer("/send/", script)
    elif script == "html":
        peer.answer("/send/", 200, **PAGE)
    elif script == "html-untyped":
        peer.answer("/send/", 200, raw=b"  <html></html>")
    elif script == "drop":
        peer.drop("/send/")
    elif script == "silent":
        peer.hold("/send/")
    else:
        peer.down(script)


def _register(name: str, script: Any, wanted: str, stage: str, status: int | None) -> None:
    async def run(rig: Rig) -> None:
        engine, peer, room = await start(rig, backoff={"first": "30s"}, delivery={"request_timeout": "2s"})
        script_failure(peer, script)
        await engine.feed(*room.messages(user(engine), 1))
        gate = await failing_or_limited(engine, peer)
        error = gate["last_error"]
        equal([error["class"], error["stage"], error["status"]], [wanted, stage, status], "class, stage and status")
        check(error["message"], "the message is empty")
        check(gate["state"] == "closed", f"the gate is {gate['state']}")
        count = peer.contacts()
        await engine.feed(*room.messages(user(engine), 1))
        await steady(lambda: peer.contacts() - count, 1.0, "contacts while closed")
        d = await engine.destination(peer.name)
        equal(d["pending"]["pdus"], 2, "what waits")
        check(d["attempts"] and d["attempts"][-1]["outcome"] == wanted or d["attempts"][0]["outcome"] == wanted,
              f"attempts are {d['attempts']}")
    run.__doc__ = f"A delivery that ends with {name} closes the gate as {wanted} at stage {stage} (B20)."
    run.__module__ = __name__
    case(f"gate-class-{name}")(run)


for _row in CLASSES:
    _register(*_row)


async def failing_or_limited(engine: Engine, peer: Peer) -> dict:
    """The gate once it has a last_error (429 grows no streak, so that `failing` would not see it)."""
    for _ in range(100):
        gate = await engine.gate(peer.name)
        if gate["last_error"] and gate["next_attempt_ms"]:
            return gate
        await asyncio.sleep(0.1)
    raise AssertionError(f"no failure is shown: {await engine.gate(peer.name)}")


@case("B17_end_of_wait_triggers_a_try", timeout=60)
async def end_of_wait(rig: Rig) -> None:
    """Waits double (first 1 s, no jitter), each ends in exactly one try without any other traffic (also B11)."""
    engine, peer, room = await start(rig, backoff={"first": "1s"})
    peer.answer("/send/", 403, times=4)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await has(peer, records, 25)
    times = [t.at for t in peer.transactions]
    equal(len(times), 5, "attempts")
    for number, (a, b) in enumerate(zip(times, times[1:])):
        wanted = 2.0 ** number
        check(wanted - 0.15 <= b - a <= wanted + 1.2, f"wait {number + 1} was {b - a:.2f} s, not {wanted:g} s")
    gate = await engine.gate(peer.name)
    equal([gate["state"], gate["consecutive_failures"], gate["interval_ms"]], ["open", 0, 0], "the gate afterwards")


@case("B11_waits_are_capped", timeout=60)
async def capped(rig: Rig) -> None:
    """No wait is longer than `max` (with jitter: max x (1 + jitter)), none is much shorter than the one before."""
    engine, peer, room = await start(rig, backoff={"first": "250ms", "max": "1s", "jitter": 0.25})
    peer.down()
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: len(peer.refused) >= 8, 30, "eight attempts")
    gaps = [b - a for a, b in zip(peer.refused, peer.refused[1:])]
    check(max(gaps) < 1.25 + 0.8, f"the longest wait was {max(gaps):.2f} s")
    check(min(gaps[3:]) > 0.7, f"a late wait was only {min(gaps[3:]):.2f} s")
    gate = await engine.gate(peer.name)
    check(750 <= gate["interval_ms"] <= 1250, f"interval_ms is {gate['interval_ms']}")
    check(gate["consecutive_failures"] >= 7, f"consecutive_failures is {gate['consecutive_failures']}")
    peer.up()
    await until(lambda: peer.pdus, 4, "delivery once it is back")


@case("gate-jitter-spreads")
async def jitter(rig: Rig) -> None:
    """With jitter 0.5 the first waits of many servers differ, within [0.5, 1.5] of the configured one."""
    engine = await rig.engine(backoff={"first": "60s", "jitter": 0.5})
    peers = rig.peers(20)
    for peer in peers:
        peer.down()
    room = await rig.shared(engine, *peers)
    await engine.feed(*room.messages(user(engine), 1))
    waits = [(await failing(engine, p))["interval_ms"] for p in peers]
    check(all(30_000 <= w <= 90_000 for w in waits), f"the waits are {waits}")
    check(len(set(waits)) > 10 and max(waits) - min(waits) > 10_000, f"they hardly differ: {waits}")


@case("gate-one-probe")
async def one_probe(rig: Rig) -> None:
    """When the wait is over exactly one request passes, whatever waits; its success lets everything go."""
    engine, peer, room = await start(rig, backoff={"first": "2s"})
    peer.down()
    records = room.messages(user(engine), 40)
    await engine.feed(*records[:1])
    await failing(engine, peer)
    peer.up()
    hold = peer.hold("/send/", times=1)
    await engine.feed(*records[1:])
    await until(lambda: hold.arrived, 6, "the probe")
    equal((await engine.gate(peer.name))["state"], "probing", "the gate during the probe")
    await steady(lambda: len(peer.requests), 1, "requests beside the probe")
    hold.release()
    await has(peer, records, 5)
    equal(peer.event_ids(), ids_of(records), "the order")


@case("B13_inbound_traffic_brings_the_probe_forward")
async def inbound(rig: Rig) -> None:
    """A peer that comes back and talks to us is served at once, not after the rest of an hour's wait (also B14)."""
    engine, peer, room = await start(rig, backoff={"first": "1h"})
    await meet(peer)
    peer.down()
    records = room.messages(user(engine), 3)
    await engine.feed(*records)
    await failing(engine, peer)
    peer.up()
    await meet(peer)
    await has(peer, records, 5)
    gate = await engine.gate(peer.name)
    equal([gate["state"], gate["consecutive_failures"]], ["open", 0], "the gate afterwards")


@case("B13_one_way_links_are_not_hammered")
async def one_way(rig: Rig) -> None:
    """A peer that talks to us but refuses our requests gets one probe within the minute; its streak goes on growing."""
    engine, peer, room = await start(rig, backoff={"first": "1h"})
    peer.answer("/send/", 503)
    await engine.feed(*room.messages(user(engine), 1))
    await failing(engine, peer)
    count = len(peer.transactions)
    before = await engine.gate(peer.name)
    for _ in range(40):
        await meet(peer)
    await asyncio.sleep(1.5)
    equal(len(peer.transactions) - count, 1, "probes that 40 transactions brought about")
    gate = await engine.gate(peer.name)
    equal(gate["consecutive_failures"], before["consecutive_failures"] + 1, "the streak")
    check(gate["interval_ms"] >= before["interval_ms"], "the wait became shorter")


@case("gate-unsigned-traffic-is-no-evidence")
async def unsigned(rig: Rig) -> None:
    """A request in a closed server's name without its signature brings no probe."""
    engine, peer, room = await start(rig, backoff={"first": "1h"})
    await meet(peer)
    peer.answer("/send/", 503)
    await engine.feed(*room.messages(user(engine), 1))
    await failing(engine, peer)
    count = len(peer.transactions)
    bad = f'X-Matrix origin="{peer.name}",destination="{engine.name}",key="{peer.key.key_id}",sig="{"A" * 86}"'
    uri = "/_matrix/federation/v1/send/forged"
    status, _ = await peer.request("PUT", uri, {"origin": peer.name, "origin_server_ts": 1, "pdus": []}, header=bad)
    equal(status, 401, "the status of a forged request")
    await steady(lambda: len(peer.transactions) - count, 1.5, "probes")


@case("B16_waits_survive_a_restart", timeout=60)
async def survives(rig: Rig) -> None:
    """After kill -9 the stored wait goes on: same next attempt, same streak, no contact before it, one at its end."""
    engine, peer, room = await start(rig, backoff={"first": "6s"})
    peer.down()
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    before = await failing(engine, peer)
    due = time.monotonic() + before["next_attempt_ms"] / 1000 - time.time()
    await engine.kill9()
    peer.up()
    await engine.start()
    after = await engine.gate(peer.name)
    equal([after["consecutive_failures"], after["failing_since_ms"]],
          [before["consecutive_failures"], before["failing_since_ms"]], "the stored streak")
    moved = after["next_attempt_ms"] - before["next_attempt_ms"]  # monotonic and wall clock round apart
    check(abs(moved) < 100, f"the next attempt moved by {moved} ms over the restart")
    await has(peer, records, 10)
    first = peer.transactions[0].at
    check(due - 0.3 <= first <= due + 2, f"tried {first - due:+.1f} s from the stored moment")


@case("B19_a_404_host_does_not_look_alive")
async def parked(rig: Rig) -> None:
    """A host that answers 404 to everything has a streak that grows by one a try and is not reset by other requests."""
    engine, peer, room = await start(rig, backoff={"first": "500ms", "max": "500ms"})
    peer.answer(lambda r: "/key/" not in r.path, 404)
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: len(peer.transactions) >= 4, 8, "four tries")
    await asyncio.sleep(0.2)
    tries = len(peer.transactions)
    gate = await engine.gate(peer.name)
    check(tries - 1 <= gate["consecutive_failures"] <= tries + 1, f"{gate['consecutive_failures']} after {tries} tries")
    peer.rules.clear()
    await until(lambda: peer.pdus, 4, "delivery")
    equal((await engine.gate(peer.name))["consecutive_failures"], 0, "the streak after a 200")


@case("B20_a_refusing_server_is_not_hammered")
async def not_hammered(rig: Rig) -> None:
    """New events for a refusing server make no attempts of their own; the log has a line for the change only."""
    engine, peer, room = await start(rig, backoff={"first": "1s"})
    peer.answer("/send/", 405)
    for _ in range(30):
        await engine.feed(*room.messages(user(engine), 1))
        await asyncio.sleep(0.1)
    check(len(peer.transactions) <= 3, f"{len(peer.transactions)} attempts in 3 s of first 1 s, factor 2")
    lines = [n for n in engine.log_file.read_text().splitlines() if peer.name in n]
    check(len(lines) <= 4, f"{len(lines)} log lines about it: {lines[:5]}")


@case("B20_gone_waits_the_longest")
async def gone(rig: Rig) -> None:
    """410: the longest interval at once."""
    engine, peer, room = await start(rig, backoff={"first": "1s", "max": "2h"})
    peer.answer("/send/", 410)
    await engine.feed(*room.messages(user(engine), 1))
    gate = await failing(engine, peer)
    equal([gate["last_error"]["class"], gate["interval_ms"]], ["gone", 7_200_000], "class and interval")


@case("gate-short-fault-loses-nothing", timeout=60)
async def short_fault(rig: Rig) -> None:
    """Forty events during a fault of some seconds all arrive, once, in order (B34's contrast)."""
    engine, peer, room = await start(rig, backoff={"first": "500ms", "max": "1s"})
    records = room.messages(user(engine), 40)
    peer.down()
    for record in records:
        await engine.feed(record)
        await asyncio.sleep(0.05)
    peer.up()
    await has(peer, records, 6)
    equal(peer.event_ids(), ids_of(records), "each once, in order")


@case("gate-flapping", timeout=60)
async def flapping(rig: Rig) -> None:
    """A peer that goes down and up all the time still gets everything in order."""
    engine, peer, room = await start(rig, backoff={"first": "200ms", "max": "400ms"})
    records = room.messages(user(engine), 80)
    for number, record in enumerate(records):
        if number % 10 == 0:
            peer.down(("rst", "close", "garbage")[number // 10 % 3])
        if number % 10 == 5:
            peer.up()
        await engine.feed(record)
        await asyncio.sleep(0.08)
    peer.up()
    await has(peer, records, 10)
    equal(list(dict.fromkeys(peer.event_ids())), ids_of(records), "the order")
