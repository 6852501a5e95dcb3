"""X-Matrix as others may write it, and what is refused (PROTOCOL A1-A8, N1-N3, W10)."""
from __future__ import annotations

import asyncio
from typing import Any

from rig import Collector, Engine, Peer, Rig, case, check, equal, matrix, steady
from rig.matrix import Key

URI = "/_matrix/federation/v1/send/"


async def attempt(peer: Peer, engine: Engine, write: Any, **kw: Any) -> tuple[int, Any]:
    """A transaction whose header `write` makes from the parameters."""
    uri = URI + matrix.unique("a")
    content = {"origin": peer.name, "origin_server_ts": 1, "pdus": []}
    signed = kw.pop("signed", None) or matrix.request_object("PUT", uri, peer.name, engine.name, content)
    values = {"origin": peer.name, "destination": engine.name, "key": peer.key.key_id,
              "sig": kw.pop("key", peer.key).sign_text(signed)}
    return await peer.request("PUT", uri, content, header=write(values), **kw)


def quoted(values: dict[str, str], **changes: str | None) -> str:
    merged = {**values, **changes}
    return "X-Matrix " + ",".join(f'{k}="{v}"' for k, v in merged.items() if v is not None)


GOOD = {
    "as-the-spec-has-it": quoted,
    "spaces-round-commas": lambda v: "X-Matrix " + " , ".join(f'{k}="{x}"' for k, x in v.items()),
    "tabs-round-commas": lambda v: "X-Matrix " + "\t,\t".join(f'{k}="{x}"' for k, x in v.items()),
    "several-spaces": lambda v: quoted(v).replace("X-Matrix ", "X-Matrix    ", 1),
    "any-order": lambda v: quoted(dict(reversed(v.items()))),
    "names-in-capitals": lambda v: "X-Matrix " + ",".join(f'{k.upper()}="{x}"' for k, x in v.items()),
    "unquoted-values": lambda v: f'X-Matrix origin={v["origin"]},destination={v["destination"]},key={v["key"]},'
                                 f'sig="{v["sig"]}"',
    "backslash-pairs": lambda v: quoted({**v, "origin": "\\" + v["origin"]}),
    "unknown-parameters": lambda v: quoted(v, colour="blue", **{"x-y": "1"}),
    "no-destination": lambda v: quoted(v, destination=None),
}
# name -> (writer, statuses)
BAD = {
    "no-header": (lambda v: "", (401,)),
    "another-token": (lambda v: "Bearer x", (400, 401)),
    "other-scheme": (lambda v: quoted(v).replace("X-Matrix", "Basic", 1), (400, 401)),
    "empty": (lambda v: "X-Matrix ", (400, 401)),
    "no-origin": (lambda v: quoted(v, origin=None), (400, 401)),
    "no-key": (lambda v: quoted(v, key=None), (400, 401)),
    "no-sig": (lambda v: quoted(v, sig=None), (400, 401)),
    "other-destination": (lambda v: quoted(v, destination="other.example.org"), (401,)),
    "unknown-key-id": (lambda v: quoted(v, key="ed25519:nosuch"), (401,)),
    "signature-of-zeros": (lambda v: quoted(v, sig="A" * 86), (401,)),
    "signature-no-base64": (lambda v: quoted(v, sig="not base64!"), (400, 401)),
    "port-is-a-word": (lambda v: quoted(v, origin="localhost:http"), (400,)),
    "origin-is-no-name": (lambda v: quoted(v, origin="no name/at all"), (400,)),
    "origin-is-empty": (lambda v: quoted(v, origin=""), (400, 401)),
    "origin-is-ourselves": (lambda v: quoted(v, origin=v["destination"]), (400, 401, 403)),
    "unfinished-quote": (lambda v: quoted(v)[:-1], (400, 401)),
}


def _good(name: str, write: Any) -> None:
    async def run(rig: Rig) -> None:
        engine = await rig.engine()
        status, body = await attempt(rig.peer(1), engine, write)
        equal([status, body], [200, {"pdus": {}}], "the answer")
    run.__doc__ = f"A header with {name.replace('-', ' ')} is accepted (A1-A4)."
    run.__module__ = __name__
    case(f"auth-accepts-{name}")(run)


for _name, _writer in GOOD.items():
    _good(_name, _writer)


@case("auth-refuses-bad-headers", timeout=60)
async def refuses(rig: Rig) -> None:
    """Each bad header is refused with errcode and error, and nothing of it is taken."""
    engine = await rig.engine()
    peer = rig.peer(1)
    problems = []
    for name, (write, statuses) in BAD.items():
        status, body = await attempt(peer, engine, write)
        if status not in statuses or not (isinstance(body, dict) and body.get("errcode") and body.get("error")):
            problems.append(f"{name}: {status} {str(body)[:80]}")
    check(not problems, "; ".join(problems))
    status, _ = await attempt(peer, engine, quoted)
    equal(status, 200, "a good one afterwards")


@case("auth-signed-for-something-else")
async def something_else(rig: Rig) -> None:
    """A signature over another method, uri, content or destination, or with another key, is refused."""
    engine = await rig.engine()
    peer = rig.peer(1)
    content = {"origin": peer.name, "origin_server_ts": 1, "pdus": []}
    for what, signed in {
        "method": matrix.request_object("GET", URI + "x", peer.name, engine.name, content),
        "uri": matrix.request_object("PUT", URI + "elsewhere", peer.name, engine.name, content),
        "content": matrix.request_object("PUT", URI + "x", peer.name, engine.name, {**content, "origin_server_ts": 2}),
        "no content": matrix.request_object("PUT", URI + "x", peer.name, engine.name),
        "destination": matrix.request_object("PUT", URI + "x", peer.name, "other.example.org", content),
        "origin": matrix.request_object("PUT", URI + "x", "other.example.org", engine.name, content),
    }.items():
        status, body = await attempt(peer, engine, quoted, signed=signed)
        equal([status, body.get("errcode")], [401, "M_UNAUTHORIZED"], f"signed for another {what}")
    status, _ = await attempt(peer, engine, quoted, key=Key(peer.key.version))
    equal(status, 401, "signed with another key under the same id")


@case("auth-replay-on-another-uri")
async def replay(rig: Rig) -> None:
    """A captured header doesn't work for another transaction id."""
    engine = await rig.engine()
    peer = rig.peer(1)
    content = {"origin": peer.name, "origin_server_ts": 1, "pdus": []}
    header = matrix.x_matrix(peer.key, "PUT", URI + "one", peer.name, engine.name, content)
    equal((await peer.request("PUT", URI + "one", content, header=header))[0], 200, "the original")
    equal((await peer.request("PUT", URI + "two", content, header=header))[0], 401, "the replay")


@case("auth-body-origin")
async def body_origin(rig: Rig) -> None:
    """A transaction whose `origin` is another server than the one that signed is not attributed to the other (A8)."""
    engine = await rig.engine()
    peer, other = rig.peers(2)
    room = await rig.shared(engine, peer, other)
    stream = Collector(engine)
    edu = {"edu_type": "m.typing", "content": {"room_id": room.room_id, "user_id": other.user("bob"), "typing": True}}
    status, _ = await peer.send([], [edu], origin=other.name)
    check(status in (200, 400, 401, 403), f"the status is {status}")
    await stream.settle(0.7)
    equal(stream.of("edu"), [], "EDUs in the name of the other")


@case("auth-key-is-fetched-once")
async def fetched_once(rig: Rig) -> None:
    """Many requests at once from a server that is new to us fetch its key once; later ones not at all."""
    engine = await rig.engine()
    peer = rig.peer(1)
    answers = await asyncio.gather(*(peer.send() for _ in range(5)))
    check(all(s in (200, 429) for s, _ in answers) and answers[0][0] == 200, f"the answers are {answers}")
    equal((await peer.send())[0], 200, "a later one")
    equal(len(peer.asked("/key/v2/server")), 1, "key fetches")
    await engine.restart()
    equal((await peer.send())[0], 200, "after a restart")
    equal(len(peer.asked("/key/v2/server")), 1, "key fetches after a restart")


@case("auth-bad-signature-fetches-nothing")
async def no_storm(rig: Rig) -> None:
    """Bad signatures under a known key id make no key fetches; unknown key ids at most one a minute."""
    engine = await rig.engine()
    peer = rig.peer(1)
    equal((await peer.send())[0], 200, "a first transaction")
    count = len(peer.asked("/key/v2/"))
    for _ in range(10):
        status, _ = await attempt(peer, engine, lambda v: quoted(v, sig="A" * 86))
        equal(status, 401, "the status")
    equal(len(peer.asked("/key/v2/")), count, "key fetches for bad signatures")
    for number in range(10):
        status, _ = await attempt(peer, engine, lambda v, n=number: quoted(v, key=f"ed25519:no{n}"))
        equal(status, 401, "the status")
    check(len(peer.asked("/key/v2/")) - count <= 2, f"{len(peer.asked('/key/v2/')) - count} fetches for unknown ids")


@case("auth-rotated-key")
async def rotated(rig: Rig) -> None:
    """A server that comes with a new key is believed once its key document has it."""
    engine = await rig.engine()
    peer = rig.peer(1)
    equal((await peer.send())[0], 200, "with the old key")
    peer.key = Key("newer")
    equal((await peer.send())[0], 200, "with the new key")


@case("auth-key-document-is-checked", timeout=60)
async def document(rig: Rig) -> None:
    """A key document of another name, without a right self-signature, or past its time proves nothing (K7, K15)."""
    engine = await rig.engine()
    for number, (what, spoil) in enumerate({
        "another name": lambda p, d: p.key.sign_json(p.name, {**d, "server_name": "other.example.org"}),
        "a broken signature": lambda p, d: {**d, "valid_until_ts": d["valid_until_ts"] + 1},
        "no signature": lambda p, d: {**d, "signatures": {}},
        "a time long past": lambda p, d: p.key.sign_json(p.name, {**d, "valid_until_ts": 1_000_000, "signatures": {}}),
        "no keys": lambda p, d: p.key.sign_json(p.name, {**d, "verify_keys": {}, "signatures": {}}),
        "no object": lambda p, d: [],
    }.items(), 1):
        peer = rig.peer(number)
        document_ = spoil(peer, peer.key_response())
        peer.answer("/key/v2/", 200, document_)
        status, body = await peer.send()
        equal(status, 401, f"the status with {what} in the key document ({str(body)[:80]})")


@case("auth-dead-key-server-is-no-crash")
async def dead_key_server(rig: Rig) -> None:
    """A request in the name of a server that can't be reached is refused in time, others are served meanwhile."""
    engine = await rig.engine()
    dead, good = rig.peers(2)
    dead.down("blackhole")
    slow = asyncio.create_task(dead.send(timeout=25))
    await asyncio.sleep(0.3)
    equal((await good.send())[0], 200, "another server's request")
    status, body = await slow
    check(status in (401, 503) and body.get("errcode"), f"the answer is {status} {str(body)[:100]}")
    await steady(dead.contacts, 1, "contacts of the dead one", 1)
