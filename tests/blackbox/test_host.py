"""The host listener: its token, errors, health, signing of events (API 1, 3.3)."""
from __future__ import annotations

import asyncio
import re

from rig import HostRoom, Rig, case, check, equal, failing, matrix, steady, until, user
from rig.matrix import Json


@case("host-needs-a-token")
async def token(rig: Rig) -> None:
    """Without a token or with a wrong one every call is refused with errcode and error, and nothing is done."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = HostRoom(engine, user(engine), peer.user("bob"))
    records = [*room.roster(), *room.messages(user(engine), 1)]
    data = "\n".join(matrix.dumps(r) for r in records).encode()
    calls = (("POST", "/_ranvier/v1/feed", data), ("GET", "/_ranvier/v1/stream", None),
             ("GET", "/_ranvier/v1/feed/position?source=x", None), ("POST", "/_ranvier/v1/events/sign", b"{}"),
             ("GET", "/_ranvier/v1/no_such", None))
    for given in ("", "wrong", engine.token()[:-1], engine.token() + "x"):
        for method, path, body in calls:
            status, answer = await engine.host_raw(method, path, body, token=given)
            check(status in (401, 403), f"{method} {path} with {given[:8]!r} was answered {status}")
            check(isinstance(answer, dict) and answer.get("errcode") and answer.get("error"), f"it says {answer}")
    await steady(peer.contacts, 1.5, "contacts for a feed without a token")
    await engine.feed(*records)
    await until(lambda: peer.pdus, 5, "delivery with the right token")


@case("host-unknown-calls")
async def unknown(rig: Rig) -> None:
    """Unknown paths 404, wrong methods 405, as JSON with errcode and error."""
    engine = await rig.engine()
    for method, path, wanted in (("GET", "/no_such", 404), ("POST", "/no/such/thing", 404), ("GET", "/feed", 405),
                                 ("DELETE", "/stream", 405), ("GET", "/events/sign", 405)):
        status, body = await engine.host(method, path)
        check(status == wanted and isinstance(body, dict) and body.get("errcode") and body.get("error"),
              f"{method} {path}: {status} {str(body)[:100]}")


@case("host-health-without-token")
async def health(rig: Rig) -> None:
    """/healthz, /readyz and /metrics need no token and tell no secrets; the admin socket has them too."""
    engine = await rig.engine()
    for path in ("/healthz", "/readyz", "/metrics"):
        status, body = await engine.host_raw("GET", path, token="")
        equal(status, 200, path)
        text = body.decode() if isinstance(body, bytes) else str(body)
        check(engine.token() not in text and engine.key.seed_text not in text, f"{path} tells a secret")
        equal((await engine.admin("GET", path, prefix=""))[0], 200, f"{path} on the admin socket")


@case("host-metrics")
async def metrics(rig: Rig) -> None:
    """/metrics is Prometheus text: ranvier_ names with help and type, and figures that move with what happens."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)

    async def read() -> str:
        status, body = await engine.host_raw("GET", "/metrics", token="")
        equal(status, 200, "the status")
        return body.decode() if isinstance(body, bytes) else str(body)
    before = await read()
    await engine.feed(*room.messages(user(engine), 5))
    await until(lambda: len(peer.pdus) == 5, 5, "delivery")
    await asyncio.sleep(0.3)
    after = await read()
    names = set(re.findall(r"^(ranvier_[a-z_]+)", after, re.M))
    check(len(names) >= 5, f"only {sorted(names)}")
    helped, typed = set(re.findall(r"^# HELP (\S+)", after, re.M)), set(re.findall(r"^# TYPE (\S+)", after, re.M))
    untold = {n for n in names if not {n, re.sub(r"_(bucket|sum|count)$", "", n)} & helped & typed}
    equal(untold, set(), "names without help or type")
    check(before != after, "no figure moved")


@case("sign-event")
async def sign(rig: Rig) -> None:
    """events/sign adds hash and signature: both verify, the event id is the reference hash, the rest is as it was."""
    engine = await rig.engine()
    event: Json = {"room_id": "!r:x", "sender": user(engine), "type": "m.room.message",
                   "content": {"body": "日本\u0000", "n": [1, None, {"b": 1, "a": 2}]}, "origin_server_ts": 1,
                   "depth": 1, "prev_events": [], "auth_events": []}
    status, body = await engine.host("POST", "/events/sign", {"room_version": "10", "event": event})
    equal(status, 200, f"the status ({body})")
    check(matrix.hash_ok(body["event"]), "the content hash is wrong")
    public = {engine.key.key_id: engine.key.public_text}
    check(matrix.event_signed_by(body["event"], engine.name, public), "the signature is wrong")
    equal(body["event_id"], matrix.event_id(body["event"]), "the event id")
    equal({k: body["event"].get(k) for k in event}, event, "the rest of the event")


@case("sign-keeps-other-signatures")
async def keeps(rig: Rig) -> None:
    """Signatures of others and `unsigned` stay; a hash that stood there is made anew."""
    engine = await rig.engine()
    peer = rig.peer(1)
    event = {"room_id": "!r:x", "sender": user(engine), "type": "m.room.member", "state_key": user(engine),
             "content": {"membership": "join", "join_authorised_via_users_server": peer.user("bob")},
             "origin_server_ts": 1, "depth": 1, "prev_events": [], "auth_events": [], "unsigned": {"age": 7},
             "hashes": {"sha256": "x"}, "signatures": {peer.name: {peer.key.key_id: "s" * 86}}}
    status, body = await engine.host("POST", "/events/sign", {"room_version": "10", "event": event})
    equal(status, 200, "the status")
    signed = body["event"]
    equal(signed["signatures"][peer.name], event["signatures"][peer.name], "the other's signature")
    equal(signed.get("unsigned"), {"age": 7}, "unsigned")
    check(matrix.hash_ok(signed), "the content hash is wrong")
    check(engine.key.key_id in signed["signatures"][engine.name], "our signature is missing")


@case("sign-every-room-version")
async def versions(rig: Rig) -> None:
    """Versions 1 to 12 are signed; the form of the event id follows the version (E3); an unknown one is refused."""
    engine = await rig.engine()
    for number in range(1, 13):
        event = {"room_id": "!r:x" if number < 12 else "!" + "a" * 43, "sender": user(engine), "type": "m.x",
                 "content": {}, "origin_server_ts": 1, "depth": 1, "prev_events": [], "auth_events": []}
        if number < 3:
            event["event_id"] = f"$own:{engine.name}"
        status, body = await engine.host("POST", "/events/sign", {"room_version": str(number), "event": event})
        equal(status, 200, f"the status for version {number} ({str(body)[:120]})")
        shape = {1: r"\$own:.*", 2: r"\$own:.*", 3: r"\$[A-Za-z0-9+/]{43}"}.get(number, r"\$[A-Za-z0-9_-]{43}")
        check(re.fullmatch(shape, body["event_id"]), f"the id for version {number} is {body['event_id']}")
    for odd in ("13", "0", "org.example", 10, None):
        status, body = await engine.host("POST", "/events/sign", {"room_version": odd, "event": event})
        check(status == 400 and body.get("errcode") and body.get("error"), f"version {odd!r}: {status} {body}")


@case("sign-bad-events")
async def bad_events(rig: Rig) -> None:
    """What can't be signed is refused with a sentence: no object, floats, too big, missing fields, others' senders."""
    engine = await rig.engine()
    good = {"room_id": "!r:x", "sender": user(engine), "type": "m.x", "content": {}, "origin_server_ts": 1,
            "depth": 1, "prev_events": [], "auth_events": []}
    rows: list[tuple[str, object]] = [
        ("no event", {"room_version": "10"}), ("a list", {"room_version": "10", "event": []}),
        ("a float", {"room_version": "10", "event": {**good, "content": {"n": 1.5}}}),
        ("a huge integer", {"room_version": "10", "event": {**good, "content": {"n": 2**53}}}),
        ("too big", {"room_version": "10", "event": {**good, "content": {"n": "x" * 70_000}}}),
        ("no content", {"room_version": "10", "event": {k: v for k, v in good.items() if k != "content"}}),
        ("no type", {"room_version": "10", "event": {k: v for k, v in good.items() if k != "type"}}),
        ("no object at all", []),
    ]
    for what, body in rows:
        status, answer = await engine.host("POST", "/events/sign", body)
        check(status in (400, 413) and answer.get("errcode") and answer.get("error"), f"{what}: {status} {answer}")


@case("host-many-idle-connections")
async def idle(rig: Rig) -> None:
    """A hundred idle keep-alive connections of the host block nothing."""
    engine = await rig.engine()
    kept = [await asyncio.open_connection("127.0.0.1", engine.host_port) for _ in range(100)]
    for _ in range(5):
        status, _ = await engine.host("GET", "/feed/position?source=x", timeout=3)
        equal(status, 200, "a call beside 100 idle connections")
    for _, writer in kept:
        writer.close()


@case("host-metrics-of-a-failing-peer")
async def failing_peer(rig: Rig) -> None:
    """/metrics counts failures by class."""
    engine = await rig.engine(backoff={"first": "1h"})
    peer = rig.peer(1)
    peer.answer("/send/", 503)
    room = await rig.shared(engine, peer)
    await engine.feed(*room.messages(user(engine), 1))
    await failing(engine, peer)
    await asyncio.sleep(0.3)
    _, body = await engine.host_raw("GET", "/metrics", token="")
    text = body.decode() if isinstance(body, bytes) else str(body)
    check(re.search(r'server_error"?\}? [1-9]', text), "no counter of server_error failures")
