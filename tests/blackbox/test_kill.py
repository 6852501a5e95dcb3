"""kill -9 at random moments: nothing that the feed answered 200 for is lost, order holds (DESIGN 9)."""
from __future__ import annotations

import asyncio
import os
import random

from rig import Json, Rig, case, check, equal, has, ids_of, until, user
from rig import matrix, pdu, to_device


@case("kill-at-random-moments", timeout=120, weight=3)
async def random_kills(rig: Rig) -> None:
    """Eight kills while three peers are served: what was answered 200 arrives, first appearances in order."""
    seed = int(os.environ.get("RIG_SEED", "0")) or random.randrange(10**6)
    rig.notes.append(f"RIG_SEED={seed}")
    chance = random.Random(seed)
    engine = await rig.engine(backoff={"first": "300ms", "max": "600ms"})
    peers = rig.peers(3)
    peers[1].slow("/send/", 0.05)
    room = await rig.shared(engine, *peers)
    taken: list[Json] = []
    messages: list[str] = []
    for round_ in range(8):
        for number in range(chance.randint(3, 12)):
            records = room.messages(user(engine), chance.randint(1, 20))
            name = f"k{round_}.{number}"
            word = to_device(user(engine), name, {p.user("bob"): {"D": {}} for p in peers})
            await engine.feed(*records, word)
            taken += records
            messages.append(name)
            await asyncio.sleep(chance.random() * 0.05)
        if chance.random() < 0.4:
            peers[2].down("rst")
        await asyncio.sleep(chance.random() * 0.6)
        await engine.kill9()
        await engine.start()
        peers[2].up()
    for peer in peers:
        wanted = ids_of(taken)
        if peer is not peers[2]:
            await has(peer, taken, 20)
            equal(list(dict.fromkeys(peer.event_ids())), wanted, f"the order at {peer.name}")
        else:  # in its outages more than 50 of a room may be let go, so only the order and the newest are sure
            await has(peer, taken[-20:], 20)
            got = [i for i in dict.fromkeys(peer.event_ids())]
            equal(got, [i for i in wanted if i in set(got)], f"the order at {peer.name}")
        await until(lambda: {e["message_id"] for e in peer.edus_of("m.direct_to_device")} == set(messages), 15,
                    f"all to-device messages at {peer.name}")
        got = list(dict.fromkeys(e["message_id"] for e in peer.edus_of("m.direct_to_device")))
        equal(got, messages, "the order of to-device messages")


@case("kill-while-feeding", timeout=90)
async def while_feeding(rig: Rig) -> None:
    """A feed that is cut by kill -9 may be sent again whole: each event arrives, none twice as a new one, in order."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 2000)
    lines = [matrix.dumps({**r, "source": "host", "seq": n + 1}) for n, r in enumerate(records)]
    feeding = asyncio.create_task(engine.feed_lines(lines))
    await asyncio.sleep(0.1)
    await engine.kill9()
    await feeding
    await engine.start()
    status, position = await engine.host("GET", "/feed/position?source=host")
    equal(status, 200, "feed/position")
    seen = position["seq"] or 0
    check(0 <= seen <= 2000, f"seq is {seen}")
    status, body = await engine.feed_lines(lines)
    equal([status, body["rejected"]], [200, []], "the feed again")
    equal([body["skipped"], body["accepted"]], [seen, 2000 - seen], "skipped and accepted")
    await has(peer, records, 25)
    equal(list(dict.fromkeys(peer.event_ids())), ids_of(records), "the order")


@case("kill-after-the-answer", timeout=60)
async def after_the_answer(rig: Rig) -> None:
    """What the feed answered 200 for survives a kill in the same instant (10 times)."""
    engine = await rig.engine(backoff={"first": "300ms", "max": "300ms"})
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    taken: list[Json] = []
    for _ in range(10):
        record = pdu(room.event(user(engine)))
        await engine.feed(record)
        await engine.kill9()
        taken.append(record)
        await engine.start()
    await has(peer, taken, 10)
    equal(list(dict.fromkeys(peer.event_ids())), ids_of(taken), "the order")


@case("stop-is-orderly")
async def orderly(rig: Rig) -> None:
    """SIGTERM ends with 0 within seconds, also while a peer holds a transaction; nothing is lost."""
    engine = await rig.engine()
    peer = rig.peer(1)
    hold = peer.hold("/send/")
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 3)
    await engine.feed(*records)
    await until(lambda: hold.arrived, 5, "a transaction in flight")
    equal(await engine.stop(10), 0, "the exit status")
    peer.rules.clear()
    await engine.start()
    await has(peer, records, 10)
