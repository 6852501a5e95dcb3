"""The host's stream: order, acknowledgement, consumers, bounds, long poll, server-sent events (API 3.2)."""
from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiohttp

from rig import Collector, Engine, HostRoom, Json, Peer, Rig, case, check, equal, until_async, user
from test_inbound import event, message, pair


async def filled(rig: Rig, count: int, **overrides: Any) -> tuple[Engine, Peer, HostRoom, list[Json]]:
    """An engine whose stream holds that many PDUs, none acknowledged."""
    engine, peer, room, _ = await pair(rig, **overrides)
    start = await engine.stream(None, 0)  # the room's members, as device_lists items
    for consumer in overrides.get("host", {}).get("consumers", ["host"]):
        await engine.host("GET", f"/stream?consumer={consumer}&after={start['next']}&timeout_ms=0")
    events = [event(peer, room, n) for n in range(count)]
    for n in range(0, count, 50):
        equal((await peer.send(events[n:n + 50]))[0], 200, "the status")
    return engine, peer, room, events


def bodies(items: list[Json]) -> list[Any]:
    return [i["event"]["content"]["body"] for i in items]


@case("stream-order-and-paging", timeout=60)
async def paging(rig: Rig) -> None:
    """Items come in order, pages by `limit`, positions grow; without `after` nothing is acknowledged."""
    engine, peer, room, events = await filled(rig, 30)
    first = await engine.stream(None, 2000, 12)
    equal(bodies(first["items"]), list(range(12)), "the first page")
    equal(first["next"], first["items"][-1]["position"], "next")
    equal((await engine.stream(None, 0, 12))["items"], first["items"], "asked again without `after`")
    second = await engine.stream(first["next"], 0, 12)
    third = await engine.stream(second["next"], 0, 12)
    equal(bodies(second["items"] + third["items"]), list(range(12, 30)), "the other pages")
    positions = [i["position"] for p in (first, second, third) for i in p["items"]]
    equal(positions, sorted(set(positions)), "the positions")
    last = await engine.stream(third["next"])
    equal([last["items"], last["next"]], [[], third["next"]], "after the last")
    check(isinstance(first["instance"], str) and first["instance"], "instance is missing")
    equal({p["instance"] for p in (first, second, last)}, {first["instance"]}, "the instance")


@case("stream-again-after-kill", timeout=60)
async def again(rig: Rig) -> None:
    """What was not acknowledged comes again after kill -9, what was doesn't; positions never go back."""
    engine, peer, room, events = await filled(rig, 20)
    first = await engine.stream(None, 2000, 10)
    await engine.restart(kill=True)
    equal((await engine.stream(None, 2000, 10))["items"], first["items"], "after a kill without acknowledgement")
    await engine.stream(first["next"], 0, 1)
    await engine.restart(kill=True)
    rest = await engine.stream(first["next"], 2000, 100)
    equal(bodies(rest["items"]), list(range(10, 20)), "after the acknowledgement")
    equal(rest["instance"], first["instance"], "the instance")
    await engine.restart(kill=True)
    equal((await peer.send([event(peer, room, "new")]))[0], 200, "the status")
    fresh = await engine.stream(rest["next"], 3000)
    equal(bodies(fresh["items"]), ["new"], "the new one")
    check(fresh["items"][0]["position"] > rest["next"], "a position went back over a kill")


@case("stream-acknowledged-items-go")
async def acknowledged(rig: Rig) -> None:
    """Acknowledged items are gone: asking from below answers 409 M_RANVIER_POSITION with both bounds."""
    engine, peer, room, events = await filled(rig, 10)
    page = await engine.stream(None, 2000)
    oldest = page["items"][0]["position"]
    await engine.stream(page["next"])
    equal((await engine.stream(None, 0))["items"], [], "what is left")
    status, body = await engine.host("GET", f"/stream?after={oldest - 1}&timeout_ms=0")
    equal([status, body.get("errcode")], [409, "M_RANVIER_POSITION"], "an acknowledged position")
    numbers = [v for v in body.values() if isinstance(v, int)]
    check(len(numbers) >= 2, f"the bounds are missing: {body}")
    status, body = await engine.host("GET", f"/stream?after={page['next'] + 10**9}&timeout_ms=0")
    equal([status, body.get("errcode")], [409, "M_RANVIER_POSITION"], "a position far above the head")


@case("stream-next-without-items")
async def empty(rig: Rig) -> None:
    """Of an empty stream `next` can be used as `after` at once."""
    engine = await rig.engine()
    first = await engine.stream(None, 0)
    equal(first["items"], [], "items")
    again = await engine.stream(first["next"], 0)
    equal([again["items"], again["next"]], [[], first["next"]], "asked from `next`")


@case("stream-consumers", timeout=60)
async def consumers(rig: Rig) -> None:
    """Each configured consumer has its own place; an item goes when all have acknowledged it."""
    engine, peer, room, events = await filled(rig, 4, host={"consumers": ["host", "bot"]})
    page = await engine.stream(None, 2000)
    await engine.stream(page["next"])
    status, bot = await engine.host("GET", "/stream?consumer=bot&timeout_ms=0")
    equal([status, bodies(bot["items"])], [200, [0, 1, 2, 3]], "what the other consumer still gets")
    await engine.restart(kill=True)
    status, bot = await engine.host("GET", f"/stream?consumer=bot&after={bot['items'][1]['position']}&timeout_ms=0")
    equal([status, bodies(bot["items"])], [200, [2, 3]], "after a kill, from its own place")
    status, body = await engine.host("GET", "/stream?consumer=nobody&timeout_ms=0")
    equal([status, body.get("errcode")], [400, "M_INVALID_PARAM"], "an unknown consumer")


@case("stream-bad-parameters")
async def bad(rig: Rig) -> None:
    """Parameters that are no numbers, or below zero, are refused with a sentence."""
    engine = await rig.engine()
    for query in ("after=x", "after=-5", "timeout_ms=soon", "limit=0", "limit=-1", "limit=x", "after=1.5",
                  "after=99999999999999999999999"):
        status, body = await engine.host("GET", f"/stream?{query}")
        check(status in (400, 409) and body.get("errcode") and body.get("error"), f"{query}: {status} {body}")


@case("stream-long-poll")
async def long_poll(rig: Rig) -> None:
    """A long poll answers at once when something comes, and in time when nothing does."""
    engine, peer, room, _ = await pair(rig)
    await peer.send()
    start = await engine.stream(None, 0)
    begun = time.monotonic()
    equal((await engine.stream(start["next"], 1500))["items"], [], "items of a quiet stream")
    check(1.3 < time.monotonic() - begun < 3.5, f"it waited {time.monotonic() - begun:.1f} s of 1.5")
    waiting = asyncio.create_task(engine.stream(start["next"], 20_000))
    await asyncio.sleep(0.5)
    begun = time.monotonic()
    await peer.send([event(peer, room)])
    page = await waiting
    equal(len(page["items"]), 1, "items")
    check(time.monotonic() - begun < 2, f"it answered {time.monotonic() - begun:.1f} s after the event")


@case("stream-many-long-polls")
async def many_polls(rig: Rig) -> None:
    """Waiting calls don't block others; beyond [limits] waiting_calls: 503 with Retry-After."""
    engine, peer, room, _ = await pair(rig, limits={"waiting_calls": 10})
    start = await engine.stream(None, 0)
    polls = [asyncio.create_task(engine.host("GET", f"/stream?after={start['next']}&timeout_ms=15000"))
             for _ in range(10)]
    await asyncio.sleep(0.7)
    status, body = await engine.host("GET", f"/stream?after={start['next']}&timeout_ms=15000", timeout=5)
    equal([status, bool(body.get("errcode"))], [503, True], "one more")
    status, _ = await engine.host("GET", "/feed/position?source=x", timeout=5)
    equal(status, 200, "a call that doesn't wait")
    await peer.send([event(peer, room)])
    answers = await asyncio.gather(*polls)
    equal([(s, len(b["items"])) for s, b in answers], [(200, 1)] * 10, "the waiting ones")


@case("stream-abandoned-long-polls")
async def abandoned(rig: Rig) -> None:
    """A client that goes while its long poll waits gives its place in [limits] waiting_calls back at once."""
    engine, _, _, _ = await pair(rig, limits={"waiting_calls": 3})
    start = await engine.stream(None, 0)
    head = (f"GET /_ranvier/v1/stream?after={start['next']}&timeout_ms=60000 HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {engine.token()}\r\n")
    address = engine.host_url.removeprefix("http://").rsplit(":", 1)
    clients = []
    for accept in ("application/json", "application/json", "text/event-stream"):
        _, writer = await asyncio.open_connection(address[0], int(address[1]))
        writer.write((head + f"Accept: {accept}\r\n\r\n").encode())
        clients.append(writer)

    async def one_more() -> int:
        return (await engine.host("GET", f"/stream?after={start['next']}&timeout_ms=0", timeout=5))[0]

    async def full() -> bool:
        return await one_more() == 503

    async def free() -> bool:
        return await one_more() == 200
    await until_async(full, 5, "503 while three wait")
    clients.pop().close()
    await until_async(free, 3, "the place of an event stream that has gone")
    for writer in clients:
        writer.close()

    async def three() -> bool:
        polls = [engine.host("GET", f"/stream?after={start['next']}&timeout_ms=500") for _ in range(3)]
        return [status for status, _ in await asyncio.gather(*polls)] == [200] * 3
    await until_async(three, 4, "the places of long polls that have gone")


async def sse(engine: Engine, after: int | None, count: int, within: float = 10,
              last_event_id: int | None = None) -> list[tuple[int, Json]]:
    """The first `count` server-sent events: (id, data)."""
    headers = {"Authorization": f"Bearer {engine.token()}", "Accept": "text/event-stream"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = str(last_event_id)
    query = "" if after is None else f"?after={after}"
    got: list[tuple[int, Json]] = []

    async def read() -> None:
        async with aiohttp.ClientSession() as client:
            async with client.get(engine.host_url + "/_ranvier/v1/stream" + query, headers=headers) as answer:
                equal(answer.status, 200, "the status")
                check(answer.headers["Content-Type"].startswith("text/event-stream"), "Content-Type")
                fields: dict[str, str] = {}
                async for raw in answer.content:
                    line = raw.decode().rstrip("\r\n")
                    if line.startswith(":"):
                        continue
                    if line:
                        name, _, value = line.partition(":")
                        fields[name] = value.lstrip(" ")
                    elif "data" in fields:
                        got.append((int(fields["id"]), json.loads(fields["data"])))
                        fields = {}
                        if len(got) >= count:
                            return
    await asyncio.wait_for(read(), within)
    return got


@case("stream-server-sent-events", timeout=60)
async def server_sent(rig: Rig) -> None:
    """The same items as server-sent events, live; Last-Event-ID goes on from there and acknowledges."""
    engine, peer, room, events = await filled(rig, 3)
    waiting = asyncio.create_task(sse(engine, None, 5))
    await asyncio.sleep(0.7)
    await peer.send([event(peer, room, 3)], [message(peer.user("bob"), user(engine), "m1")])
    got = await waiting
    equal([i for i, _ in got], [d["position"] for _, d in got], "ids and positions")
    equal(bodies([d for _, d in got if d["kind"] == "pdu"]), [0, 1, 2, 3], "the events")
    equal(sorted(d["kind"] for _, d in got[3:]), ["pdu", "to_device"], "the live ones")
    rest = await sse(engine, None, 2, last_event_id=got[2][0])
    equal([i for i, _ in rest], [got[3][0], got[4][0]], "what follows Last-Event-ID")
    left = await engine.stream(None, 0)
    equal([i["position"] for i in left["items"]], [got[3][0], got[4][0]], "what is not acknowledged")


@case("stream-full-refuses-peers", timeout=60)
async def full(rig: Rig) -> None:
    """Beyond [limits] stream_bytes /send answers 503 and keeps nothing; reading makes room again."""
    engine, peer, room, stream = await pair(rig, limits={"stream_bytes": 200_000})
    taken = []
    status = 200
    for n in range(60):
        sent = event(peer, room, f"{n}" + "x" * 10_000)
        status, body = await peer.send([sent])
        if status != 200:
            break
        taken.append(sent)
    equal([status, body.get("errcode") is not None], [503, True], "the answer when it is full")
    check(5 <= len(taken) <= 40, f"{len(taken)} events of 10 kB were taken into 200 kB")
    await stream.settle(0.7)
    equal([i["event"] for i in stream.of("pdu")], taken, "what was taken")
    equal((await peer.send([event(peer, room)]))[0], 200, "after reading")


@case("stream-needs-no-reader")
async def no_reader(rig: Rig) -> None:
    """Nobody reads for a while: what came before a restart and after it is all there, once each."""
    engine, peer, room, events = await filled(rig, 5)
    await engine.restart()
    more = [event(peer, room, n) for n in range(5, 10)]
    equal((await peer.send(more))[0], 200, "the status")
    stream = Collector(engine)
    await stream.settle(0.7)
    equal([i["event"] for i in stream.of("pdu")], events + more, "the items")
