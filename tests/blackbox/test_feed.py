"""The feed: what is accepted, skipped and rejected, and that feeding again is harmless (API 3.1)."""
from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from rig import (HostRoom, Rig, case, check, cross_signing, device, device_gone, equal, has, ids_of, matrix,
                 membership, pdu, quote, roster, to_device, until, user)


@case("feed-answer")
async def answer(rig: Rig) -> None:
    """The answer counts, gives a position that grows, and an empty list of rejected lines."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = HostRoom(engine, user(engine), peer.user("bob"))
    first = await engine.feed(*room.roster())
    equal([first["accepted"], first["skipped"], first["rejected"]], [2, 0, []], "the answer")
    second = await engine.feed(*room.messages(user(engine), 3))
    equal(second["accepted"], 3, "accepted")
    check(second["position"] > first["position"], f"positions {first['position']}, {second['position']}")


@case("feed-bad-lines")
async def bad_lines(rig: Rig) -> None:
    """Bad lines are named by number, errcode and a sentence; the good ones are applied in order."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    one, two = room.messages(user(engine), 2)
    alice = user(engine)
    bad: list[str] = [
        '{"kind": "pdu", ', "7", "[]", '"x"', "null", "{}", '{"kind":7}', '{"kind":"no_such_kind"}',
        '{"kind":"membership"}', '{"kind":"membership","room_id":"!r:x","user_id":"bob","membership":"join"}',
        '{"kind":"membership","room_id":"!r:x","user_id":"@b:x","membership":"dance"}',
        '{"kind":"pdu","event_id":"$x"}', '{"kind":"pdu","event_id":7,"event":{}}',
        '{"kind":"pdu","event_id":"$x","event":[]}', '{"kind":"edu"}',
        '{"kind":"edu","edu_type":"m.typing","content":{}}',
        '{"kind":"to_device","sender":"@a:x","type":"t","message_id":"m","messages":{}}',
        '{"kind":"roster","room_id":"!r:x","members":[]}', '{"kind":"room_forgotten"}',
        '{"kind":"server_acl","room_id":"!r:x"}', '{"kind":"device","user_id":"@a:x"}',
        matrix.dumps(to_device(alice, "m" * 33, {peer.user("bob"): {"D": {}}})),
        matrix.dumps(to_device(alice, "m1", {alice: {"D": {}}})),
        matrix.dumps(to_device(peer.user("bob"), "m1", {peer.user("bob"): {"D": {}}})),
        matrix.dumps({**one, "destinations": "x"}), matrix.dumps({**one, "destinations": ["no name"]}),
        "\x00", "\xff",
    ]
    lines = [matrix.dumps(one), *bad, matrix.dumps(two)]
    status, body = await engine.feed_lines(lines)
    equal(status, 200, "the status")
    got = [r["line"] for r in body["rejected"]]
    wanted = list(range(2, 2 + len(bad)))
    missing = [lines[n - 1][:70] for n in wanted if n not in got]
    check(got == wanted, f"accepted although bad: {missing}")
    equal(body["accepted"], 2, "accepted")
    check(all(str(r["errcode"]).startswith("M_") and r["error"] for r in body["rejected"]), "one says nothing")
    await has(peer, [one, two], 5)
    equal(peer.event_ids(), ids_of([one, two]), "what arrived")


@case("feed-rejected-is-bounded")
async def bounded(rig: Rig) -> None:
    """`rejected` lists at most 1,000 lines, rejected_total counts all."""
    engine = await rig.engine()
    status, body = await engine.feed_lines(['{"kind":"nothing"}'] * 1500)
    equal([status, len(body["rejected"]), body["rejected_total"], body["accepted"]], [200, 1000, 1500, 0], "the answer")


@case("feed-blank-lines-and-line-ends")
async def blank(rig: Rig) -> None:
    """Blank lines are nothing, CRLF ends a line too, the last line needs no end; an empty body is no fault."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = HostRoom(engine, user(engine), peer.user("bob"))
    records = room.messages(user(engine), 2)
    texts = [matrix.dumps(r) for r in [*room.roster(), *records]]
    data = ("\r\n".join(texts[:2]) + "\r\n\n\n" + "\n".join(texts[2:])).encode()
    status, body = await engine.host_raw("POST", "/_ranvier/v1/feed", data, content_type="application/x-ndjson")
    equal([status, body["accepted"], body["rejected"]], [200, 4, []], "the answer")
    await has(peer, records, 5)
    status, body = await engine.host_raw("POST", "/_ranvier/v1/feed", b"", content_type="application/x-ndjson")
    equal([status, body["accepted"]], [200, 0], "an empty body")


@case("feed-chunked")
async def chunked(rig: Rig) -> None:
    """A chunked body is accepted; lines may be cut anywhere by the chunks."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = HostRoom(engine, user(engine), peer.user("bob"))
    records = [*room.roster(), *room.messages(user(engine), 40)]
    data = "".join(matrix.dumps(r) + "\n" for r in records).encode()

    async def pieces() -> Any:
        for n in range(0, len(data), 777):
            yield data[n:n + 777]
            await asyncio.sleep(0)
    async with aiohttp.ClientSession() as client:
        async with client.post(engine.host_url + "/_ranvier/v1/feed", data=pieces(), headers={
                "Authorization": f"Bearer {engine.token()}", "Content-Type": "application/x-ndjson"}) as got:
            body = await got.json()
            equal([got.status, body["accepted"], body["rejected"]], [200, 42, []], "the answer")
    await has(peer, records, 5)


@case("feed-large", timeout=90, weight=2)
async def large(rig: Rig) -> None:
    """20,000 records (about 12 MB) in one call are taken and delivered in order."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    event = room.event(user(engine))
    records = []
    for n in range(20_000):  # cheap distinct events: signed once, told apart by an id of the host's own
        records.append(f'{{"kind":"membership","room_id":"!big:x","user_id":"@u{n}:{peer.name}","membership":"join",'
                       f'"room_version":"10","padding":"{"x" * 400}"}}')
    records.append(matrix.dumps(pdu(event)))
    status, body = await engine.feed_lines(records, timeout=60)
    equal([status, body["accepted"], body["rejected"]], [200, 20_001, []], "the answer")
    await has(peer, [pdu(event)], 10)


@case("feed-again-is-harmless", timeout=60)
async def again(rig: Rig) -> None:
    """The same lines again, also after they were delivered and after kill -9: accepted, nothing sent twice."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = HostRoom(engine, user(engine), peer.user("bob"))
    records = [*room.roster(), *room.messages(user(engine), 5),
               to_device(user(engine), "m1", {peer.user("bob"): {"D": {}}})]
    await engine.feed(*records)
    await has(peer, records, 5)
    await until(lambda: peer.edus_of("m.direct_to_device"), 5, "the to-device message")
    for kill in (False, True):
        if kill:
            await asyncio.sleep(1.2)
            await engine.restart(kill=True)
        body = await engine.feed(*records)
        equal(body["accepted"], len(records), "accepted")
    later = room.messages(user(engine), 1)
    await engine.feed(*later)
    await has(peer, later, 5)
    await asyncio.sleep(0.5)
    equal(peer.event_ids(), ids_of(records + later), "PDUs, each once")
    equal(len(peer.edus_of("m.direct_to_device")), 1, "to-device messages")


@case("feed-source-and-seq", timeout=60)
async def source(rig: Rig) -> None:
    """Lines up to a source's last seq are skipped, also after kill -9; a rejected line's seq counts as seen."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 4)

    def line(record: Any, seq: Any, name: str = "A") -> str:
        return matrix.dumps({**record, "source": name, "seq": seq})
    status, body = await engine.host("GET", "/feed/position?source=A")
    equal([status, body], [200, {"source": "A", "seq": None}], "a source that was never seen")
    status, body = await engine.feed_lines([line(records[0], 5), line(records[1], 9)])
    equal([body["accepted"], body["skipped"]], [2, 0], "first")
    status, body = await engine.feed_lines([line(records[0], 5), line(records[2], 7), line({"kind": "odd"}, 11),
                                            line(records[3], 12)])
    equal([body["accepted"], body["skipped"], len(body["rejected"])], [1, 2, 1], "with older ones")
    await engine.restart(kill=True)
    status, body = await engine.host("GET", "/feed/position?source=A")
    equal(body, {"source": "A", "seq": 12}, "the position after a kill")
    status, body = await engine.feed_lines([line(records[3], 12), line(records[2], 7, "B")])
    equal([body["accepted"], body["skipped"]], [1, 1], "another source has its own numbers")
    await has(peer, records, 5)
    for odd in ("x", 1.5, -1, None, [1]):
        status, body = await engine.feed_lines([line(records[0], odd, "C")])
        equal([status, len(body["rejected"])], [200, 1], f"seq {odd!r}")


@case("feed-no-half-done-line")
async def half(rig: Rig) -> None:
    """A roster with one bad member is rejected whole."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = HostRoom(engine, user(engine), peer.user("bob"))
    record = roster(room.room_id, user(engine), peer.user("bob"))
    record["members"]["nobody"] = "join"
    status, body = await engine.feed_lines([matrix.dumps(record), matrix.dumps(pdu(room.event(user(engine))))])
    equal([status, body["accepted"], [r["line"] for r in body["rejected"]]], [200, 0, [1, 2]], "the answer")


@case("feed-room-version-counts")
async def version(rig: Rig) -> None:
    """A room version that nobody knows doesn't stop delivery; a known one lets the event id be checked."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = HostRoom(engine, user(engine), peer.user("bob"))
    lines = [{**m, "room_version": "org.example.strange"} for m in room.roster()]
    record = pdu(room.event(user(engine)))
    await engine.feed(*lines, record)
    await has(peer, [record], 5)


@case("feed-room-version-stays")
async def version_stays(rig: Rig) -> None:
    """A line that names another version neither changes the room's nor undoes the check of later ids; a roster does."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    await engine.feed(roster(room.room_id, user(engine), peer.user("bob")))
    odd, wrong = ({**pdu(room.event(user(engine))), **more} for more in ({"room_version": "999"}, {"event_id": "$no"}))
    await engine.feed(odd)

    async def said() -> str:
        return (await engine.host("GET", f"/rooms/{quote(room.room_id)}"))[1]["room_version"]
    equal(await said(), "10", "the room's version")
    status, body = await engine.feed_lines([matrix.dumps({**wrong, "room_version": "10"})])
    equal([status, body["accepted"], len(body["rejected"])], [200, 0, 1], "a wrong id")
    await has(peer, [odd], 5)
    await engine.feed({**roster(room.room_id, user(engine), peer.user("bob")), "room_version": "11"})
    equal(await said(), "11", "after a roster")


@case("feed-many-at-once")
async def at_once(rig: Rig) -> None:
    """Twenty feeds at the same time are all taken; each one's records keep their order."""
    engine = await rig.engine()
    peer = rig.peer(1)
    rooms = [await rig.shared(engine, peer) for _ in range(20)]
    batches = [r.messages(user(engine), 10) for r in rooms]
    await asyncio.gather(*(engine.feed(*b) for b in batches))
    for batch in batches:
        await has(peer, batch, 10)
        got = [i for i in peer.event_ids() if i in ids_of(batch)]
        equal(got, ids_of(batch), "a room's order")


@case("feed-inert-records-are-stored")
async def inert(rig: Rig) -> None:
    """Device, cross-signing and one-time key records are accepted whatever is known of their users."""
    engine = await rig.engine()
    alice = user(engine)
    await engine.feed(device(alice, "D1", name="phone"), device(alice, "D2", initial=True), device_gone(alice, "D2"),
                      cross_signing(alice),
                      {"kind": "one_time_keys", "user_id": alice, "device_id": "D1", "one_time_keys": {
                          "signed_curve25519:AAA": matrix.one_time_key(alice, "D1", "AAA")}},
                      membership("!r:x", alice))
