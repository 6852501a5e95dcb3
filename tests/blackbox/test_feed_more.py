"""The feed again: relayed events, limits of bodies and lines, replacing the database."""
from __future__ import annotations

import asyncio

from rig import HostRoom, Rig, case, check, equal, has, ids_of, matrix, pdu, user
from test_inbound import event, pair


@case("feed-relayed-event")
async def relayed(rig: Rig) -> None:
    """An event of another server's user (a join that the host accepted) is sent on as it is (T12)."""
    engine = await rig.engine()
    one, two = rig.peers(2)
    room = await rig.shared(engine, one)
    join = two.event(room.room_id, two.user("eve"), "m.room.member", {"membership": "join"}, state_key=two.user("eve"))
    await engine.feed(pdu(join, exclude=[two.name]), {"kind": "membership", "room_id": room.room_id,
                                                      "user_id": two.user("eve"), "membership": "join"})
    await has(one, [pdu(join)], 5)
    equal(one.pdus[0][2], join, "the event")
    later = room.messages(user(engine), 1)
    await engine.feed(*later)
    await has(two, later, 5)
    equal(two.event_ids(), ids_of(later), "what the new server got")


@case("feed-length-limit")
async def length_limit(rig: Rig) -> None:
    """A body that says it has more than 100 MiB is refused before it is read."""
    engine = await rig.engine()
    reader, writer = await asyncio.open_connection("127.0.0.1", engine.host_port)
    writer.write(f"POST /_ranvier/v1/feed HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {engine.token()}\r\n"
                 f"Content-Type: application/x-ndjson\r\nContent-Length: {200 * 2**20}\r\n\r\n".encode())
    await writer.drain()
    head = await asyncio.wait_for(reader.readline(), 10)
    check(b" 413 " in head, f"the answer is {head!r}")
    writer.close()
    equal((await engine.host("GET", "/feed/position?source=x"))[0], 200, "the next call")


@case("feed-odd-json")
async def odd_json(rig: Rig) -> None:
    """Duplicate keys, deep nesting, floats in an event, a huge integer, a too big event: rejected alone."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    good = room.messages(user(engine), 1)[0]
    text = matrix.dumps(pdu(room.event(user(engine), content={"body": "PLACE"})))
    lines = [text.replace('"PLACE"', "[" * 3000 + "]" * 3000), text.replace('"PLACE"', "1.5"),
             text.replace('"PLACE"', "9007199254740992"), '{"kind":"pdu",' + text[1:],
             matrix.dumps(pdu(room.event(user(engine), content={"body": "x" * 70_000}))), matrix.dumps(good)]
    status, body = await engine.feed_lines(lines)
    equal(status, 200, "the status")
    taken = [n for n in range(1, 7) if n not in {r["line"] for r in body["rejected"]}]
    equal(taken, [6], "the lines that were taken")
    await has(peer, [good], 5)


@case("feed-connection-breaks")
async def breaks(rig: Rig) -> None:
    """A feed whose connection breaks in the middle of a line: what stood before may be applied, half a line never."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 3)
    data = "\n".join(matrix.dumps(r) for r in records).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", engine.host_port)
    writer.write(f"POST /_ranvier/v1/feed HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {engine.token()}\r\n"
                 f"Content-Type: application/x-ndjson\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data[:-40])
    await writer.drain()
    writer.transport.abort()
    await asyncio.sleep(0.5)
    check(not peer.has(records[2]["event_id"]), "half a line was taken")
    body = await engine.feed(*records)
    equal(body["accepted"], 3, "the feed again")
    await has(peer, records, 5)
    equal(peer.event_ids(), ids_of(records), "each once, in order")


@case("stream-instance-of-a-new-database", timeout=60)
async def new_database(rig: Rig) -> None:
    """If the database is replaced the stream's `instance` is another."""
    engine, peer, room, _ = await pair(rig)
    before = (await engine.stream(None))["instance"]
    await engine.stop()
    for path in engine.data.glob("ranvier.db*"):
        path.unlink()
    await engine.start()
    after = (await engine.stream(None))["instance"]
    check(before != after, "the instance is the same")
    equal((await peer.send([event(peer, HostRoom(engine, user(engine)))]))[0], 200, "a transaction afterwards")
