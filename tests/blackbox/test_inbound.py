"""Transactions that others send us: limits, verdicts for each PDU, EDUs routed, duplicates (PROTOCOL I1-I9, U1-U9)."""
from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

from rig import Collector, Engine, HostRoom, Json, Peer, Rig, case, check, equal, matrix, user

SEND = "/_matrix/federation/v1/send/"


async def pair(rig: Rig, **overrides: Any) -> tuple[Engine, Peer, HostRoom, Collector]:
    """An engine and a peer with a shared room, and a reader of the stream."""
    engine = await rig.engine(**overrides)
    peer = rig.peer(1)
    return engine, peer, await rig.shared(engine, peer), rig.collector(engine)


def event(peer: Peer, room: HostRoom, body: Any = "hi", **kw: Any) -> Json:
    return peer.event(room.room_id, peer.user("bob"), "m.room.message", {"msgtype": "m.text", "body": body},
                      prev=["$x"], auth=["$y"], **kw)


def message(sender: str, target: str, message_id: str, content: Json | None = None, device: str = "*") -> Json:
    return {"edu_type": "m.direct_to_device", "content": {
        "sender": sender, "type": "m.test", "message_id": message_id, "messages": {target: {device: content or {}}}}}


def typing_edu(room: HostRoom, who: str, on: bool = True) -> Json:
    return {"edu_type": "m.typing", "content": {"room_id": room.room_id, "user_id": who, "typing": on}}


@case("inbound-pdu")
async def pdu_(rig: Rig) -> None:
    """A PDU reaches the stream once, as it was sent, with origin, event id and verified: true; the answer names it."""
    engine, peer, room, stream = await pair(rig)
    sent = event(peer, room)
    status, body = await peer.send([sent])
    equal([status, body], [200, {"pdus": {matrix.event_id(sent): {}}}], "the answer")
    item = await stream.until(lambda i: i["kind"] == "pdu", 5, "pdu")
    equal([item["origin"], item["event"], item["event_id"], item["verified"]],
          [peer.name, sent, matrix.event_id(sent), True], "the item")
    check(not item.get("redacted"), "a good event is said to be redacted")
    await stream.settle(0.5)
    equal(len(stream.of("pdu")), 1, "items")


@case("inbound-hash-wrong-is-redacted")
async def hash_wrong(rig: Rig) -> None:
    """Content that doesn't fit its hash: the event is passed on redacted (E5), and said to be."""
    engine, peer, room, stream = await pair(rig)
    sent = event(peer, room)
    sent["content"] = {"msgtype": "m.text", "body": "changed on the way"}
    status, body = await peer.send([sent])
    equal([status, body], [200, {"pdus": {matrix.event_id(sent): {}}}], "the answer")
    item = await stream.until(lambda i: i["kind"] == "pdu", 5, "pdu")
    equal([item["redacted"], item["verified"], item["event"]["content"]], [True, True, {}], "the item")
    equal(item["event"], matrix.redact(sent), "the redacted event")


@case("inbound-signature-wrong")
async def signature_wrong(rig: Rig) -> None:
    """A PDU with a wrong signature, or none, gets an error of its own and is never said to be verified; others pass."""
    engine, peer, room, stream = await pair(rig)
    good, bad, bare = event(peer, room, "good"), event(peer, room, "bad"), event(peer, room, "bare")
    bad["signatures"][peer.name][peer.key.key_id] = "A" * 86
    bare["signatures"] = {}
    status, body = await peer.send([bad, good, bare])
    equal(status, 200, "the status")
    equal(body["pdus"][matrix.event_id(good)], {}, "the good one's answer")
    for one in (bad, bare):
        check(body["pdus"].get(matrix.event_id(one), {}).get("error"), f"no error for a bad one: {body}")
    await stream.until(lambda i: i["kind"] == "pdu" and i["event"] == good, 5, "the good one")
    await stream.settle(0.5)
    equal([i["event"] for i in stream.of("pdu") if i["verified"] is not False], [good], "what is not said to be false")


@case("inbound-pdu-of-another-server")
async def of_another(rig: Rig) -> None:
    """A PDU whose sender is of another server (relayed) is verified with that server's key."""
    engine, peer, room, stream = await pair(rig)
    other = rig.peer(2)
    sent = other.event(room.room_id, other.user("eve"), "m.room.message", {"body": "relayed"})
    status, body = await peer.send([sent])
    equal([status, body], [200, {"pdus": {matrix.event_id(sent): {}}}], "the answer")
    item = await stream.until(lambda i: i["kind"] == "pdu", 8, "pdu")
    equal([item["origin"], item["verified"]], [peer.name, True], "origin and verified")


@case("inbound-key-not-to-be-had", timeout=60)
async def key_missing(rig: Rig) -> None:
    """A relayed PDU of a server whose key can't be had is passed on as verified: null."""
    engine, peer, room, stream = await pair(rig)
    other = rig.peer(2)
    other.down()
    sent = other.event(room.room_id, other.user("eve"), "m.room.message", {"body": "relayed"})
    status, body = await peer.send([sent], timeout=30)
    equal([status, body], [200, {"pdus": {matrix.event_id(sent): {}}}], "the answer")
    item = await stream.until(lambda i: i["kind"] == "pdu", 10, "pdu")
    equal([item["event"], item["verified"]], [sent, None], "the item")


@case("inbound-room-of-unknown-version")
async def unknown_version(rig: Rig) -> None:
    """A PDU of a room whose version we don't know is passed on with verified: null; another room is not touched."""
    engine, peer, room, stream = await pair(rig)
    strange = event(peer, HostRoom(engine, peer.user("bob")))
    good = event(peer, room)
    status, _ = await peer.send([strange, good])
    equal(status, 200, "the status")
    await stream.until(lambda i: i["kind"] == "pdu" and i["event"] == good, 5, "the good one")
    await stream.settle(0.5)
    equal({i["event"]["room_id"]: i["verified"] for i in stream.of("pdu")},
          {strange["room_id"]: None, room.room_id: True}, "verified")


@case("B104_envelope_only")
async def envelope(rig: Rig) -> None:
    """No edus, empty pdus, unknown keys, a bad PDU beside a good one: 200. 51 PDUs, 101 EDUs, no pdus: 400."""
    engine, peer, room, stream = await pair(rig)
    good = event(peer, room)
    base = {"origin": peer.name, "origin_server_ts": 1}
    edus = [typing_edu(room, peer.user("bob")) for _ in range(101)]
    rows: list[tuple[str, Any, int]] = [
        ("no edus", {**base, "pdus": []}, 200),
        ("unknown keys", {**base, "pdus": [], "edus": [], "previous_ids": [], "x": {"y": 1.5}}, 200),
        ("a PDU that is no object", {**base, "pdus": ["x", good]}, 200),
        ("a PDU with extra keys", {**base, "pdus": [event(peer, room, "more", unknown={"a": [1]})]}, 200),
        ("50 PDUs and 100 EDUs", {**base, "pdus": [event(peer, room, n) for n in range(50)], "edus": edus[:100]}, 200),
        ("51 PDUs", {**base, "pdus": [good] * 51}, 400),
        ("101 EDUs", {**base, "pdus": [], "edus": edus}, 400),
        ("no pdus", base, 400),
        ("pdus is no list", {**base, "pdus": {}}, 400),
        ("edus is no list", {**base, "pdus": [], "edus": 7}, 400),
        ("a list", [], 400),
    ]
    for number, (what, body, wanted) in enumerate(rows):
        status, answer = await peer.request("PUT", f"{SEND}e{number}", body)
        check(status == wanted, f"{what}: {status}, not {wanted} ({str(answer)[:120]})")
        if wanted == 400:
            check(answer.get("errcode") == "M_BAD_JSON" and answer.get("error"), f"{what}: {answer}")
    await stream.settle(0.7)
    equal(sum(i["event"] == good for i in stream.of("pdu")), 1, "the good PDU beside a bad one")


@case("inbound-bad-bodies")
async def bad_bodies(rig: Rig) -> None:
    """Bytes that are no JSON: 400 M_NOT_JSON; nothing crashes, the next transaction is taken."""
    engine, peer, room, stream = await pair(rig)
    for number, raw in enumerate((b"", b"{", b"\xff\xfe", b"nul", b'{"pdus": NaN}', b"{}" * 2, b"[" * 100_000)):
        uri = f"{SEND}b{number}"
        header = matrix.x_matrix(peer.key, "PUT", uri, peer.name, engine.name, {})
        status, body = await peer.request("PUT", uri, header=header, raw=raw)
        check(status in (400, 401) and isinstance(body, dict) and body.get("errcode") in
              ("M_NOT_JSON", "M_BAD_JSON", "M_UNAUTHORIZED"), f"{raw[:20]!r}: {status} {str(body)[:100]}")
    equal((await peer.send([event(peer, room)]))[0], 200, "the next transaction")


@case("B86_body_limit", timeout=60)
async def body_limit(rig: Rig) -> None:
    """About 9.8 MB of legal items are taken; 20 MB are refused with 413 and JSON."""
    engine, peer, room, stream = await pair(rig)
    pdus = [event(peer, room, "x" * 64_000) for _ in range(50)]
    edus = [message(peer.user("bob"), user(engine), f"m{n}", {"x": "y" * 64_000}) for n in range(100)]
    status, body = await peer.send(pdus, edus, timeout=30)
    equal(status, 200, f"the status of 9.8 MB ({str(body)[:100]})")
    raw = b'{"x":"' + b"y" * 20_000_000 + b'"}'
    header = matrix.x_matrix(peer.key, "PUT", SEND + "huge", peer.name, engine.name, {})
    status, body = await peer.request("PUT", SEND + "huge", header=header, raw=raw, timeout=30)
    check(status in (0, 413), f"20 MB were answered {status}")
    if status == 413:
        equal(body.get("errcode"), "M_TOO_LARGE", "errcode")
    equal((await peer.send([event(peer, room)]))[0], 200, "the next transaction")


@case("B103_numbers")
async def numbers(rig: Rig) -> None:
    """Floats and integers beyond 2^53 - 1 cost the item that has them, and no other (I9): the transaction is taken
    although the peer spells numbers as our canonical JSON wouldn't."""
    engine, peer, room, stream = await pair(rig)
    good = event(peer, room, 9007199254740991)
    small = event(peer, room, -9007199254740991)
    spelt = ("9007199254740992", "1.0", "1e3", "-0.0", "1e400", "18446744073709551616", "1.5")
    bad = [event(peer, room, f"<{text}>") for text in spelt]
    edus = [typing_edu(room, peer.user("bob")) for _ in range(len(spelt) + 1)]
    for edu, text in zip(edus, spelt):
        edu["content"]["more"] = f"<{text}>"
    content = {"origin": peer.name, "origin_server_ts": 1, "pdus": [*bad, good, small], "edus": edus}
    status, answer = await _send_spelt(peer, engine, "n1", content)
    equal(status, 200, f"the answer ({str(answer)[:100]})")
    equal(answer["pdus"].get(matrix.event_id(good)), {}, "the good PDU's answer")
    await stream.settle(0.7)
    equal([i["event"] for i in stream.of("pdu")], [good, small], "what was passed on")
    equal([i["content"] for i in stream.of("edu")], [edus[-1]["content"]], "the EDUs that were passed on")
    for text in spelt:  # each alone
        fine = event(peer, room, 1)
        content = {"origin": peer.name, "origin_server_ts": 1, "pdus": [event(peer, room, f"<{text}>"), fine]}
        status, answer = await _send_spelt(peer, engine, f"n-{text}", content)
        equal([status, answer["pdus"].get(matrix.event_id(fine))], [200, {}], f"a transaction with {text}")
    status, _ = await _send_spelt(peer, engine, "n2", content, ("1", "2"))
    equal(status, 401, "another number than the signed one")


async def _send_spelt(peer: Peer, engine: Engine, txn_id: str, content: Json,
                      changed: tuple[str, str] = ("", "")) -> tuple[int, Any]:
    """Canonical JSON but for numbers in <> strings, which are written bare; `changed` is done to it after signing."""
    body = re.sub(r'"<([^>"]*)>"', r"\1", matrix.canonical(content).decode())
    header = _signed_text(peer, engine, SEND + txn_id, body)
    return await peer.request("PUT", SEND + txn_id, header=header, raw=body.replace(*changed).encode())


def _signed_text(peer: Peer, engine: Engine, uri: str, body: str) -> str:
    signed = (f'{{"content":{body},"destination":"{engine.name}","method":"PUT","origin":"{peer.name}",'
              f'"uri":"{uri}"}}')
    sig = matrix.b64(peer.key.signing.sign(signed.encode()).signature)
    return f'X-Matrix origin="{peer.name}",destination="{engine.name}",key="{peer.key.key_id}",sig="{sig}"'


@case("B101_nul_and_odd_text")
async def nul(rig: Rig) -> None:
    """U+0000 and other odd text in content, keys, state keys and to-device messages: taken, and passed on unchanged."""
    engine, peer, room, stream = await pair(rig)
    odd = "a\u0000b\u2028\U0001f600"
    events = [event(peer, room, odd),
              peer.event(room.room_id, peer.user("bob"), "org.example.state", {odd: odd}, state_key=odd),
              peer.event(room.room_id, peer.user("bob"), "m.room.member", {"membership": "join", "displayname": odd},
                         state_key=peer.user("bob"))]
    status, body = await peer.send(events, [message(peer.user("bob"), user(engine), "m1", {odd: odd})])
    equal([status, list(body["pdus"].values())], [200, [{}, {}, {}]], "the answer")
    item = await stream.until(lambda i: i["kind"] == "to_device", 5, "to_device")
    equal(item["messages"], {user(engine): {"*": {odd: odd}}}, "the to-device message")
    await stream.settle(0.5)
    equal([i["event"] for i in stream.of("pdu")], events, "the events")


@case("inbound-duplicate-transaction", timeout=60)
async def duplicate(rig: Rig) -> None:
    """The same transaction again, also at once and after a kill -9: the same answer, no second item (I3)."""
    engine, peer, room, stream = await pair(rig)
    pdus, edus = [event(peer, room)], [message(peer.user("bob"), user(engine), "m1"),
                                       typing_edu(room, peer.user("bob"))]
    answers = await asyncio.gather(*(peer.send(pdus, edus, txn_id="same", origin_server_ts=1) for _ in range(4)))
    answers.append(await peer.send(pdus, edus, txn_id="same", origin_server_ts=1))
    check(all(a == answers[0] and a[0] == 200 for a in answers), f"the answers differ: {answers}")
    await stream.until(lambda i: i["kind"] == "pdu", 5, "pdu")
    await engine.restart(kill=True)
    equal(await peer.send(pdus, edus, txn_id="same", origin_server_ts=1), answers[0], "the answer after a restart")
    await stream.settle(1)
    equal([len({i["position"] for i in stream.of(k)}) for k in ("pdu", "to_device")], [1, 1], "items")


@case("inbound-same-id-of-two-servers")
async def two_servers(rig: Rig) -> None:
    """The same transaction id of another server is another transaction (B106)."""
    engine, peer, room, stream = await pair(rig)
    other = rig.peer(2)
    one, two = event(peer, room, "one"), event(other, room, "two")
    for sender, sent in ((peer, one), (other, two)):
        status, body = await sender.send([sent], txn_id="same")
        equal([status, body], [200, {"pdus": {matrix.event_id(sent): {}}}], f"the answer to {sender.name}")
    await stream.settle(0.7)
    equal([i["event"] for i in stream.of("pdu")], [one, two], "items")


@case("inbound-same-event-again")
async def same_event(rig: Rig) -> None:
    """The same event in a later transaction: the same answer; it may be passed on again, to be judged anew."""
    engine, peer, room, stream = await pair(rig)
    sent = event(peer, room)
    for _ in range(2):
        status, body = await peer.send([sent])
        equal([status, body], [200, {"pdus": {matrix.event_id(sent): {}}}], "the answer")
    await stream.settle(0.7)
    check(1 <= len(stream.of("pdu")) <= 2, f"{len(stream.of('pdu'))} items")


@case("inbound-ten-copies-in-one")
async def ten_copies(rig: Rig) -> None:
    """Ten copies of one PDU in a transaction: 200, one result."""
    engine, peer, room, stream = await pair(rig)
    sent = event(peer, room)
    status, body = await peer.send([sent] * 10)
    equal([status, body], [200, {"pdus": {matrix.event_id(sent): {}}}], "the answer")


@case("inbound-limits-per-origin", timeout=60)
async def per_origin(rig: Rig) -> None:
    """A flood of one origin: each transaction is taken or gets 429 with a hint; other origins are unaffected (B41)."""
    engine, peer, room, stream = await pair(rig)
    other = rig.peer(2)
    equal((await peer.send())[0], 200, "a first one")
    events = [event(peer, room, n) for n in range(40)]
    flood = asyncio.gather(*(peer.send([e], timeout=30) for e in events))
    status, _ = await other.send([event(other, room, "other")])
    equal(status, 200, "another origin's transaction")
    answers = await flood
    check({s for s, _ in answers} <= {200, 429}, f"statuses {sorted({s for s, _ in answers})}")
    for status, body in answers:
        if status == 429:
            check(body.get("errcode") == "M_LIMIT_EXCEEDED" and body.get("retry_after_ms", 0) > 0, f"a 429 is {body}")
    await stream.settle(1)
    taken = [e for e, (s, _) in zip(events, answers) if s == 200]
    got = [i["event"] for i in stream.of("pdu")]
    check(all(e in got for e in taken), "an event that was answered 200 is not in the stream")


def nested(levels: int) -> Any:
    deep: Any = 1
    for _ in range(levels):
        deep = [deep]
    return deep


@case("in-deep-nesting-costs-only-its-item")
async def deep_nesting(rig: Rig) -> None:
    """A PDU, an EDU or a device that is nested 150 or 900 levels deep costs only itself; a body of more than 1,000 is
    refused as a whole, with a sentence."""
    sys.setrecursionlimit(20_000)  # Python's own JSON goes no deeper than that
    engine, peer, room, stream = await pair(rig)
    for levels in (150, 900):
        good, deep = event(peer, room), event(peer, room, nested(levels))
        who = peer.user(f"u{levels}")
        peer.book(who).set("OK")
        status, body = await peer.send([deep, good], [
            message(peer.user("bob"), user(engine), f"deep{levels}", {"x": nested(levels)}),
            {"edu_type": "m.device_list_update", "content": {
                "user_id": who, "device_id": "D", "stream_id": 1, "keys": nested(levels)}},
            message(peer.user("bob"), user(engine), f"good{levels}")])
        equal(status, 200, f"the status with {levels} levels ({str(body)[:200]})")
        equal(body["pdus"].get(matrix.event_id(good)), {}, "the good event's verdict")
        await stream.until(lambda i: i["kind"] == "pdu" and i["event_id"] == matrix.event_id(good), 5, "good event")
        await stream.until(lambda i, n=levels: i["kind"] == "to_device" and i.get("message_id") == f"good{n}", 5,
                           "good message")
    equal(len(stream.of("pdu")), 2, "events in the stream")
    status, body = await peer.send([event(peer, room, nested(1_001))])
    equal([status, body["errcode"]], [400, "M_BAD_JSON"], "a body nested deeper")
    check("1000 levels" in body["error"], f"the sentence is {body['error']!r}")
    equal((await peer.send([event(peer, room)]))[0], 200, "the next transaction")
