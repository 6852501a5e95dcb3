"""Pacing with many servers that are slow, hang or have no address: who lives is served within seconds (DESIGN 5; CASES
B07). The figures stand in the notes that each test prints."""
from __future__ import annotations

import asyncio
import time
from typing import Any, Callable

from rig import Peer, Rig, case, check, has, ids_of, membership, until, user
from rig.names import Names
from rig.records import HostRoom


class Peak:
    """The largest value that was seen of something."""

    def __init__(self, count: Callable[[], int]) -> None:
        self.count, self.most = count, 0
        self.task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            self.most = max(self.most, self.count())
            await asyncio.sleep(0.02)


def in_work(peers: list[Peer]) -> int:
    """Requests that the peers are working on."""
    return sum(p.requests[-1].alive for p in peers if p.requests)


@case("B07_as_it_stands", timeout=60, weight=4)
async def as_it_stands(rig: Rig) -> None:
    """190 of 200 servers hang until the timeout of 60 s, ten answer in 50 ms, 64 requests at a time: the ten have the
    event within 5 s, and the event of another room, a second later, is with its server 5 s after that."""
    engine = await rig.engine(delivery={"max_in_flight": 64, "request_timeout": "60s"})
    peers = rig.peers(200)
    live = peers[190:]
    for peer in peers[:190]:
        peer.hold("/send/")
    for peer in live:
        peer.slow("/send/", 0.05)
    room, other = await rig.shared(engine, *peers), await rig.shared(engine, live[0])
    peak = Peak(lambda: in_work(peers))
    begun = time.monotonic()
    first = room.messages(user(engine), 1)
    await engine.feed(*first)
    await asyncio.sleep(begun + 1 - time.monotonic())
    second = other.messages(user(engine), 1)
    await engine.feed(*second)
    for peer in live:
        await has(peer, first, 10)
    await has(live[0], second, 10)

    def when(peer: Peer, records: list[Any]) -> float:
        return max(at for at, event_id, _ in peer.pdus if event_id in ids_of(records)) - begun
    slowest, b = max(when(p, first) for p in live), when(live[0], second)
    await asyncio.sleep(3)
    peak.task.cancel()
    print(f"     B07: a#1 with all ten after {slowest:.2f} s, b#1 after {b:.2f} s, at most {peak.most} in flight")
    check(slowest <= 5, f"a#1 was with the last of ten after {slowest:.1f} s")
    check(b <= 6, f"b#1 came after {b:.1f} s")
    check(peak.most <= 64, f"{peak.most} requests in flight at once")


@case("pacing-600-slow-servers-get-through", timeout=150, solo=True)
async def slow(rig: Rig) -> None:
    """600 servers that all take 3 s to answer, 512 slots: each gets its event, none counts as failing."""
    engine = await rig.engine(delivery={"request_timeout": "60s"})
    peers = rig.peers(600)
    for peer in peers:
        peer.slow("/send/", 3)
    room = await rig.shared(engine, *peers)
    records = room.messages(user(engine), 1)
    peak = Peak(lambda: in_work(peers))
    begun = time.monotonic()
    await engine.feed(*records)
    await until(lambda: all(p.pdus for p in peers), 90, "the event is with all 600")
    took = time.monotonic() - begun
    repeats = sum(len(p.transactions) - 1 for p in peers)
    peak.task.cancel()
    await asyncio.sleep(4)  # the last answers
    status, body = await engine.admin("GET", "/stats")
    print(f"     600 servers of 3 s, 512 slots: all after {took:.1f} s, {repeats} requests begun anew, at most "
          f"{peak.most} in flight")
    check(status == 200 and body["destinations"]["closed"] == 0, f"{body['destinations']} after it")


async def dead_names(rig: Rig, label: str, count: int, mode: str) -> None:
    names = await Names.of(rig)
    engine = await rig.engine(federation=names.config(), delivery={"join_update_delay": "0s"})
    live = [names.server(f"live{n}.test", port=8448) for n in range(50)]
    for peer in live:
        names.dns.a(peer.name, peer.ip)
    room = HostRoom(engine, user(engine))
    dead = [f"@x:dead{n}.example" for n in range(count)]
    for n in range(count):
        names.dns.modes[f"dead{n}.example"] = mode
    # Those who live come last, behind all the dead.
    await engine.feed(membership(room.room_id, user(engine)))
    for start in range(0, count, 1000):
        await engine.feed(*(membership(room.room_id, u) for u in dead[start:start + 1000]))
    await engine.feed(*(membership(room.room_id, p.user("bob")) for p in live))
    figures = []
    for _ in range(2):
        begun = time.monotonic()
        records = room.messages(user(engine), 1)
        await engine.feed(*records)
        await until(lambda: all(p.has(*ids_of(records)) for p in live), 60, "the event is with all who live")
        figures.append(time.monotonic() - begun)
    asked = len(names.dns.asked)
    print(f"     {count} {label} names beside 50 servers that live: first event with all 50 after {figures[0]:.1f} s, "
          f"second after {figures[1]:.1f} s ({asked} questions to DNS so far)")
    # The scripted DNS server answers some 4,000 questions a second, and is asked 36,000.
    check(figures[0] <= 30, f"the first event took {figures[0]:.1f} s")
    check(figures[1] <= 8, f"the second event took {figures[1]:.1f} s")


@case("pacing-9000-names-that-are-not-there", timeout=180, solo=True)
async def not_there(rig: Rig) -> None:
    """9,000 names of a room don't exist: the 50 servers that live have the event within seconds."""
    await dead_names(rig, "unknown", 9_000, "answer")


@case("pacing-9000-names-without-an-answer", timeout=180, solo=True)
async def silent(rig: Rig) -> None:
    """The same where DNS says nothing at all of the 9,000."""
    await dead_names(rig, "silent", 9_000, "silent")
