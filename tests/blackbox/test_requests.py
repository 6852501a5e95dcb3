"""POST /requests: any federation request of the host, discovered, signed and sent through the gate (API 4)."""
from __future__ import annotations

import asyncio
from typing import Any

from rig import Engine, Json, Peer, Rig, case, check, equal, failing, quote, until, user

URI = "/_matrix/federation/v1/event/%24abc?x=a%20b+c"


async def asked(engine: Engine, peer: Peer, method: str = "GET", uri: str = URI, **more: Any) -> tuple[int, Json]:
    """The answer of POST /requests; `more` goes into the body."""
    return await engine.host("POST", "/requests", {"destination": peer.name, "method": method, "uri": uri, **more})


@case("requests-signed-and-answered")
async def answered(rig: Rig) -> None:
    """GET, PUT and POST arrive with a good signature, as they were given; any status comes back as the server's."""
    engine = await rig.engine()
    peer = rig.peer(1)
    peer.answer("/event/", 200, {"pdus": [], "n": 1})
    status, body = await asked(engine, peer)
    equal([status, body["status"], body["content"]], [200, 200, {"pdus": [], "n": 1}], "the answer of a GET")
    check(isinstance(body["took_ms"], int) and body["took_ms"] >= 0, f"took_ms is {body['took_ms']!r}")
    seen = peer.asked("/event/")[-1]
    equal([seen.method, seen.uri, seen.origin, seen.problem, seen.raw], ["GET", URI, engine.name, "", b""], "what came")
    peer.answer("/invite/", 403, {"errcode": "M_FORBIDDEN", "error": "no"})
    content = {"b": [1, 2], "a": "\u00e4"}
    for method in ("PUT", "POST"):
        status, body = await asked(engine, peer, method, "/_matrix/federation/v2/invite/!r/%24e", content=content)
        equal([status, body["status"], body["content"]["errcode"]], [200, 403, "M_FORBIDDEN"],
              f"the answer of a {method}")
        seen = peer.asked("/invite/")[-1]
        equal([seen.method, seen.json, seen.problem], [method, content, ""], f"what came by {method}")
    await asked(engine, peer, "POST", "/_matrix/federation/v2/invite/!r/%24e")
    equal(peer.asked("/invite/")[-1].json, {}, "a POST without content has an empty object (H1)")


@case("requests-odd-answers")
async def odd(rig: Rig) -> None:
    """An answer that is no JSON comes as text; one that breaks off, and silence, are said."""
    engine = await rig.engine()
    peer = rig.peer(1)
    for raw, content in ((b"plain words", "plain words"), (b"", ""), (b"[1, 2]", [1, 2]),
                         (b"\xff\xfe", "\ufffd\ufffd")):
        rule = peer.answer("/event/", raw=raw, content_type="text/plain")
        status, body = await asked(engine, peer)
        equal([status, body.get("content")], [200, content], f"the answer {raw!r}")
        peer.forget(rule)
    hold = peer.hold("/event/")
    began = asyncio.get_running_loop().time()
    status, body = await asked(engine, peer, timeout_ms=500)
    took = asyncio.get_running_loop().time() - began
    check(status in (502, 504) and body["errcode"] == "M_RANVIER_UNREACHABLE", f"silence: {status} {body}")
    check(0.4 < took < 5, f"it took {took:.1f} s of 0.5")
    hold.release()


@case("requests-of-a-dead-server", timeout=60)
async def dead(rig: Rig) -> None:
    """A server that can't be reached: 502 with the reason; behind its closed gate at once, without a try."""
    engine = await rig.engine(backoff={"first": "1h", "max": "1d"})
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    peer.down()
    status, body = await asked(engine, peer)
    equal([status, body["errcode"]], [502, "M_RANVIER_UNREACHABLE"], "nobody there")
    check(peer.name in body["error"], f"it says {body['error']!r}")
    await engine.feed(*room.messages(user(engine), 1))
    await failing(engine, peer)
    peer.up()
    count = len(peer.requests)
    status, body = await asked(engine, peer)
    equal([status, body["errcode"], len(peer.requests)], [502, "M_RANVIER_UNREACHABLE", count], "behind a closed gate")
    check("gate" in body["error"] or "failed" in body["error"], f"it says {body['error']!r}")
    status, _ = await engine.admin("POST", f"/destinations/{quote(peer.name)}/wake")
    equal(status, 200, "the wake")
    await until(lambda: len(peer.pdus) == 1, 10, "delivery after the wake")
    peer.answer("/event/", 200, {})
    equal((await asked(engine, peer))[0], 200, "when it is back")


@case("requests-refused")
async def refused(rig: Rig) -> None:
    """What can't be asked is refused with a sentence, and nothing is sent."""
    peer, other = rig.peer(1), rig.peer(2)
    engine = await rig.engine(federation={"deny": [other.name]})
    good = {"destination": peer.name, "method": "GET", "uri": URI}
    for wrong in ({"destination": None}, {"destination": "no name"}, {"destination": 7}, {"method": "DELETE"},
                  {"method": "get"}, {"method": None}, {"uri": "/etc/passwd"}, {"uri": None}, {"uri": "/_matrix/a b"},
                  {"uri": "/_matrix/a\r\nX: y"}, {"uri": "/_matrix/a#b"}, {"uri": "/_matrix/\u0000a"},
                  {"uri": "/_matrix/\u00e4"}, {"content": {}}, {"method": "PUT", "content": []},
                  {"method": "PUT", "content": "x"}, {"timeout_ms": 0}, {"timeout_ms": -1}, {"timeout_ms": "1"}):
        body = {name: value for name, value in {**good, **wrong}.items() if value is not None}
        status, answer = await engine.host("POST", "/requests", body)
        check(status == 400 and answer["errcode"] and answer["error"], f"{wrong} answered {status} {answer}")
    status, answer = await asked(engine, other)
    check(status == 403 and other.name in answer["error"], f"a denied server: {status} {answer}")
    status, answer = await engine.host("POST", "/requests", {**good, "destination": engine.name})
    check(status == 400 and engine.name in answer["error"], f"ourselves: {status} {answer}")
    equal([len(peer.requests), len(other.requests)], [0, 0], "requests that came")
