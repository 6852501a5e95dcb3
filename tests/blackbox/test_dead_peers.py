"""Memory, start-up and dead peers (CASES D): what thousands of rooms and servers cost an engine that just started."""
from __future__ import annotations

import asyncio
import time
from pathlib import Path

from rig import Engine, Rig, case, check, has, ids_of, until, until_async, user
from rig.records import HostRoom


def megabytes(engine: Engine) -> float:
    """What the engine has in memory."""
    assert engine.process
    for line in Path(f"/proc/{engine.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


@case("B34_dead_servers_keep_nothing_in_memory", timeout=150, weight=4)
async def dead(rig: Rig) -> None:
    """20,000 events for 200 servers that are dead: memory hardly grows; one that returns has the newest events of the
    room at once, not 20,000 one after the other."""
    engine = await rig.engine(backoff={"first": "20s"})
    peers = rig.peers(200)
    for peer in peers:
        peer.down()
    room = await rig.shared(engine, *peers)
    warm = room.messages(user(engine), 50)
    await engine.feed(*warm)
    await until(lambda: all(p.refused for p in peers), 30, "each was tried")
    before = megabytes(engine)
    for _ in range(20):
        records = room.messages(user(engine), 1000)
        await engine.feed(*records)
    grown = megabytes(engine) - before
    print(f"     B34: 20,000 events for 200 dead servers: {grown:.0f} MB more than the {before:.0f} before")
    check(grown <= 50, f"memory grew by {grown:.0f} MB")
    peers[0].up()
    await engine.admin("POST", f"/destinations/{peers[0].name}/wake")
    await has(peers[0], records[-1:], 10)
    await asyncio.sleep(1)
    check(len(peers[0].pdus) <= 100, f"{len(peers[0].pdus)} events were sent")
    check(set(ids_of(records[-50:])) <= set(peers[0].event_ids()), "some of the newest fifty are missing")


@case("B35_first_sends_after_a_start", timeout=120, weight=2)
async def first_sends(rig: Rig) -> None:
    """3,000 rooms: the first event after a start is with its five servers within seconds."""
    engine = await rig.engine()
    peers = rig.peers(5)
    rooms = [HostRoom(engine, *(p.user("bob") for p in peers), user(engine)) for _ in range(3000)]
    for start in range(0, len(rooms), 200):
        await engine.feed(*(line for room in rooms[start:start + 200] for line in room.roster()))
    await engine.stop()
    begun = time.monotonic()
    await engine.start()
    ready = time.monotonic() - begun
    records = rooms[1234].messages(user(engine), 1)
    begun = time.monotonic()
    await engine.feed(*records)
    for peer in peers:
        await has(peer, records, 10)
    took = time.monotonic() - begun
    print(f"     B35: with 3,000 rooms ready after {ready:.2f} s, the first event with all five {took:.2f} s later")
    check(took <= 5, f"the first event took {took:.1f} s")


@case("B37_a_start_floods_nobody", timeout=120, weight=3)
async def flood(rig: Rig) -> None:
    """200 servers that are owed something at a start, at most 10 requests at a time and 20 new connections a second:
    both hold in every second, and all is done in the time that this takes."""
    engine = await rig.engine(delivery={"max_in_flight": 10, "max_new_connections_per_second": 20})
    peers = rig.peers(200)
    for peer in peers:
        peer.down("close")
    room = await rig.shared(engine, *peers)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await asyncio.sleep(1)
    await engine.stop()
    for peer in peers:
        peer.up()
        peer.accepts.clear()
        peer.slow("/send/", 0.1)
    await engine.start()
    begun, most = time.monotonic(), 0
    while not all(p.has(*ids_of(records)) for p in peers):
        check(time.monotonic() - begun < 90, "it isn't done after 90 s")
        most = max(most, sum(p.requests[-1].alive for p in peers if p.requests))
        await asyncio.sleep(0.02)
    times = sorted(t for p in peers for t in p.accepts)
    busiest = max(sum(t <= u < t + 1 for u in times) for t in times)
    print(f"     B37: 200 servers after {time.monotonic() - begun:.1f} s, at most {busiest} connections in a second, "
          f"{most} requests at a time")
    check(busiest <= 21, f"{busiest} connections were made within a second")
    check(most <= 10, f"{most} requests at a time")


@case("B38_idle_servers_cost_nothing", timeout=120, weight=3)
async def idle(rig: Rig) -> None:
    """300 servers were contacted once: half a minute later none is in memory, and a late event finds each again."""
    engine = await rig.engine()
    peers = rig.peers(300)
    room = await rig.shared(engine, *peers)
    first = room.messages(user(engine), 1)
    await engine.feed(*first)
    for peer in peers:
        await has(peer, first, 30)

    async def retired() -> bool:
        _, stats = await engine.admin("GET", "/stats")
        return stats["destinations"]["in_memory"] == 0
    await until_async(retired, 60, "all are retired")
    late = room.messages(user(engine), 2)
    await engine.feed(*late)
    for peer in peers:
        await has(peer, late, 30)
        check(peer.event_ids() == ids_of(first + late), "out of order")
