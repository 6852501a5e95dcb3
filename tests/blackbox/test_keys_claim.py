"""keys/claim of the host and of other servers (DESIGN 7, PROTOCOL Q4 to Q7)."""
from __future__ import annotations

import asyncio

from rig import (Engine, Peer, Rig, case, check, device, device_gone, equal, matrix, meet, unreached, until,
                 user)
from rig.lists import scene
from rig.matrix import Json

ALG = "signed_curve25519"


def key(who: str, name: str) -> Json:
    return matrix.one_time_key(who, "A1", name)


def keys(who: str, *names: str, **fallback: Json) -> Json:
    record: Json = {"kind": "one_time_keys", "user_id": who, "device_id": "A1"}
    if names:
        record["one_time_keys"] = {f"{ALG}:{n}": key(who, n) for n in names}
    if fallback:
        record["fallback_keys"] = {f"{ALG}:{n}": k for n, k in fallback.items()}
    return record


async def peer_claims(peer: Peer, who: str) -> Json:
    status, body = await peer.keys_claim({who: {"A1": ALG}})
    equal(status, 200, "the status of the peer's claim")
    return body["one_time_keys"].get(who, {}).get("A1", {})


async def host_claims(engine: Engine, who: str) -> Json:
    return (await engine.keys_claim(who, "A1"))["one_time_keys"].get(who, {}).get("A1", {})


@case("Complement_claim_remote_one_time_key")
async def served_once(rig: Rig) -> None:
    """Complement, SyTest 05: another server gets the exact key, and the second claim leaves the user out; the host
    shares the pool."""
    engine = await rig.engine()
    alice, peer = user(engine), rig.peer(1)
    await engine.feed(keys(alice, "AA", "BB"))
    equal(await peer_claims(peer, alice), {f"{ALG}:AA": key(alice, "AA")}, "the first key")
    equal(await host_claims(engine, alice), {f"{ALG}:BB": key(alice, "BB")}, "the host's key")
    status, body = await peer.keys_claim({alice: {"A1": ALG, "none": ALG}, user(engine, "x"): {"A": ALG}})
    equal([status, body["one_time_keys"].get(alice, {})], [200, {}], "a claim when none is left")
    equal(body["one_time_keys"].get(user(engine, "x"), {}), {}, "an unknown user's")
    equal((await peer.request("POST", "/_matrix/federation/v1/user/keys/claim", {"one_time_keys": {}}, header=""))[0],
          401, "the status without a signature")


@case("Complement_TestKeyClaimOrdering")
async def order(rig: Rig) -> None:
    """Complement TestKeyClaimOrdering (MSC4225): claims come in upload order, also over federation; then the fallback
    key, again and again."""
    engine = await rig.engine()
    alice, peer = user(engine), rig.peer(1)
    fallback = {**key(alice, "FF"), "fallback": True}
    await engine.feed(keys(alice, "Z1"), keys(alice, "A2", FF=fallback), keys(alice, "M3"))
    for name in ("Z1", "A2", "M3"):
        got = await (peer_claims(peer, alice) if name == "A2" else host_claims(engine, alice))
        equal(got, {f"{ALG}:{name}": key(alice, name)}, f"the claim of {name}")
    where = "/one_time_keys/counts?user_id=" + alice.replace("@", "%40") + "&device_id=A1"
    equal((await engine.host("GET", where))[1]["unused_fallback_key_types"], [ALG], "unused fallback keys before")
    for _ in range(3):
        equal(await peer_claims(peer, alice), {f"{ALG}:FF": fallback}, "the fallback key")
    _, body = await engine.host("GET", where)
    equal([body["counts"].get(ALG, 0), body["unused_fallback_key_types"]], [0, []], "what is left")


@case("B79_handed_out_once_ever")
async def once_ever(rig: Rig) -> None:
    """A repeated upload of a key that was handed out is taken and forgotten, over a crash too; the same id with other
    bytes is refused; when none is left the host is told so."""
    engine = await rig.engine()
    alice, peer, stream = user(engine), rig.peer(1), rig.collector(engine)
    await engine.feed(keys(alice, "AAA", "BBB"))
    equal(set(await peer_claims(peer, alice)), {f"{ALG}:AAA"}, "the first key")
    await engine.restart(kill=True)
    await engine.feed(keys(alice, "AAA"))
    status, body = await engine.feed_lines([matrix.dumps({**keys(alice), "one_time_keys": {
        f"{ALG}:AAA": key(alice, "other")}})])
    equal([status, len(body["rejected"])], [200, 1], "the answer to other bytes under the same id")
    equal(set(await peer_claims(peer, alice)), {f"{ALG}:BBB"}, "the second key")
    equal(await peer_claims(peer, alice), {}, "the third claim")
    item = await stream.until(lambda i: i["kind"] == "one_time_keys_low" and i["counts"].get(ALG) == 0, 5,
                              "one_time_keys_low with 0 left")
    equal([item["user_id"], item["device_id"]], [alice, "A1"], "whose keys are low")


@case("claim-not-again-from-a-device-made-anew")
async def device_anew(rig: Rig) -> None:
    """A key that was handed out isn't given again when its device is deleted, made anew and brings it again."""
    engine = await rig.engine()
    alice, peer = user(engine), rig.peer(1)
    await engine.feed(device(alice, "A1"), keys(alice, "AAA"))
    equal(set(await peer_claims(peer, alice)), {f"{ALG}:AAA"}, "the first claim")
    await engine.feed(device_gone(alice, "A1"), device(alice, "A1"), keys(alice, "AAA"))
    equal(await peer_claims(peer, alice), {}, "the claim from the device made anew")
    await engine.feed(keys(alice, "BBB"))
    equal(set(await peer_claims(peer, alice)), {f"{ALG}:BBB"}, "a key that nobody had")


@case("claim-fallback-keys-by-algorithm")
async def fallback_by_algorithm(rig: Rig) -> None:
    """A fallback key of another algorithm and an empty object leave the first in place; null removes it."""
    engine = await rig.engine()
    alice, peer = user(engine), rig.peer(1)
    record = keys(alice)
    await engine.feed({**record, "fallback_keys": {f"{ALG}:F": {**key(alice, "F"), "fallback": True}}})
    await engine.feed({**record, "fallback_keys": {"other:G": {**key(alice, "G"), "fallback": True}}})
    await engine.feed({**record, "fallback_keys": {}})
    equal(set(await peer_claims(peer, alice)), {f"{ALG}:F"}, "the claim after another algorithm's key and {}")
    await engine.feed({**record, "fallback_keys": None})
    equal(await peer_claims(peer, alice), {}, "the claim after null")


@case("B79_fifty_at_once")
async def fifty(rig: Rig) -> None:
    """50 claims at once against 50 keys, from peers and host: 50 different keys."""
    engine = await rig.engine()
    alice, peers = user(engine), rig.peers(3)
    await meet(*peers)
    await engine.feed(keys(alice, *(f"K{i:02}" for i in range(50))))
    got = await asyncio.gather(*(
        host_claims(engine, alice) if i % 4 == 3 else peer_claims(peers[i % 4], alice) for i in range(50)))
    ids = [k for one in got for k in one]
    equal([len(ids), len(set(ids))], [50, 50], "keys and different keys")
    equal(await host_claims(engine, alice), {}, "the next claim")


@case("claims-64-for-32-over-a-kill", timeout=60)
async def over_a_kill(rig: Rig) -> None:
    """64 claims at once for 32 keys, a kill -9 in their midst, and the claims that got no answer once more: no key is
    given twice, and every key that nobody got by an answer that was lost is given."""
    engine = await rig.engine()
    alice, peers = user(engine), rig.peers(4)
    await meet(*peers)
    await engine.feed(keys(alice, *(f"K{i:02}" for i in range(32))))
    given: list[str] = []
    lost = 0

    async def claim(number: int) -> None:
        nonlocal lost
        try:
            got = await (host_claims(engine, alice) if number % 5 == 4 else peer_claims(peers[number % 4], alice))
        except Exception:  # no answer: the kill came first
            lost += 1
            return
        given.extend(got)

    calls = [asyncio.create_task(claim(i)) for i in range(64)]
    await until(lambda: len(given) >= 6, 10, "some claims are answered")
    await engine.restart(kill=True)
    await asyncio.gather(*calls)
    before = len(given)
    for i in range(64):
        await claim(i)
    equal(len(given), len(set(given)), "keys given, and different ones")
    check(len(given) <= 32, f"{len(given)} keys were given of 32")
    check(len(given) + lost >= 32, f"{len(given)} keys were given, {lost} answers lost: a key was lost without one")
    check(before >= 6, "nothing was claimed before the kill")
    equal(await host_claims(engine, alice), {}, "one claim more")


@case("claim-remote-answers")
async def remote_answers(rig: Rig) -> None:
    """Of another server's answer only what was asked for is passed on, one key a device; failures name servers."""
    s = await scene(rig, cached=False)
    other = rig.peer(2)
    s.peer.answer("/keys/claim", 200, {"one_time_keys": {
        s.bob: {"B1": {f"{ALG}:1": {"key": "k"}, f"{ALG}:2": {"key": "k"}}, "B2": {f"{ALG}:3": {"key": "k"}},
                "B3": {"other:4": {"key": "k"}}},
        other.user("bob"): {"X": {f"{ALG}:5": {"key": "k"}}}}})
    other.answer("/keys/claim", 503)
    status, body = await s.engine.host("POST", "/keys/claim", {"one_time_keys": {
        s.bob: {"B1": ALG, "B3": ALG}, other.user("bob"): {"X": ALG}}})
    equal(status, 200, "the status")
    equal(body["one_time_keys"], {s.bob: {"B1": {f"{ALG}:1": {"key": "k"}}}}, "the keys")
    equal(set(body["failures"]), {other.name}, "failures")
    equal(s.peer.asked("/keys/claim")[0].json, {"one_time_keys": {s.bob: {"B1": ALG, "B3": ALG}}}, "what was asked")


@case("claim-never-repeated")
async def never_repeated(rig: Rig) -> None:
    """Q7: a claim whose answer is lost isn't sent again, whatever the connection does; it is a failure in time."""
    s = await scene(rig)
    s.peer.drop("/keys/claim", process=True)
    body = await s.engine.keys_claim(s.bob, "B1", 3000)
    equal(set(body["failures"]), {s.peer.name}, "failures when the answer is lost")
    await asyncio.sleep(1.0)
    equal(len(s.peer.asked("/keys/claim")), 1, "claims at the peer")


@case("claim-may-probe")
async def may_probe(rig: Rig) -> None:
    """A user's claim may be the probe of a closed gate, once in 30 s; a query never is."""
    s = await scene(rig, backoff={"first": "1h"})
    s.book.one_time["B1"] = {f"{ALG}:AA": matrix.one_time_key(s.bob, "B1", "AA")}
    stranger = s.peer.user("stranger")
    s.peer.down()
    await s.query(stranger, timeout_ms=3000)
    await unreached(s.engine, s.peer)
    s.peer.up()
    count = s.peer.contacts()
    equal(set((await s.query(stranger, timeout_ms=3000))["failures"]), {s.peer.name}, "failures of a query")
    equal(s.peer.contacts(), count, "contacts by a query")
    equal((await s.engine.keys_claim(s.bob, "B1"))["one_time_keys"],
          {s.bob: {"B1": {f"{ALG}:AA": matrix.one_time_key(s.bob, "B1", "AA")}}}, "the claim")
    await until(lambda: s.peer.contacts() > count, 1, "the claim's contact")
    check((await s.query(stranger))["failures"] == {}, "the gate isn't open after the claim")


@case("claim-in-haste-proves-nothing", timeout=60)
async def haste(rig: Rig) -> None:
    """A client that won't wait says nothing of the server: claims, queries and requests that end by their own short
    timeout fail alone, and no lane closes."""
    s = await scene(rig, backoff={"first": "1h", "max": "1d"})
    zed = s.peer.user("zed")  # shares no room, so each query goes to the server
    s.peer.slow(lambda r: "/user/keys/" in r.path or "/version" in r.path, 1)
    for timeout in (0, 1, 300):
        claimed = await s.engine.keys_claim(s.bob, "B1", timeout_ms=timeout)
        check(s.peer.name in claimed["failures"], f"a claim within {timeout} ms: {claimed}")
        status, body = await s.engine.host("POST", "/keys/query", {"device_keys": {zed: []}, "timeout": timeout})
        check(status == 200 and s.peer.name in body["failures"], f"a query within {timeout} ms: {status} {body}")
    status, _ = await s.engine.host("POST", "/requests", {
        "destination": s.peer.name, "method": "GET", "uri": "/_matrix/federation/v1/version", "timeout_ms": 300})
    check(status in (502, 504), f"a request within 300 ms: {status}")
    gate = await s.engine.gate(s.peer.name)
    equal([gate["state"], set(gate["lanes"].values())], ["open", {"open"}], f"the gate ({gate['last_error']})")
    status, body = await s.engine.host("POST", "/keys/query", {"device_keys": {zed: []}, "timeout": 4000})
    equal([status, body["failures"]], [200, {}], "who waits long enough")
