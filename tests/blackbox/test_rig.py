"""The rig itself, without an engine: what it must be able to tell apart."""
from __future__ import annotations

import ssl

import aiohttp

from rig import Rig, case, check, equal, matrix


@case("rig-peers-talk")
async def peers_talk(rig: Rig) -> None:
    """A signed transaction of one scripted peer is verified and taken by another, with real certificates."""
    one, two = rig.peers(2)
    event = one.event("!r:x", one.user("bob"), "m.room.message", {"body": "hi"})
    body = {"origin": one.name, "origin_server_ts": 1, "pdus": [event], "edus": []}
    status, answer = await one.request("PUT", "/_matrix/federation/v1/send/t1", body, to=two.name)
    equal([status, answer], [200, {"pdus": {matrix.event_id(event): {}}}], "the answer")
    equal(two.event_ids(), [matrix.event_id(event)], "what it took")


@case("rig-sees-breaches", tolerate=("X-Matrix", "other bytes", "51 PDUs"))
async def sees_breaches(rig: Rig) -> None:
    """A wrong signature, an id with other bytes and a transaction that is too big are seen."""
    rig.net.tolerated.clear()
    one, two = rig.peers(2)

    def body(count: int, stamp: int) -> dict:
        events = [one.event("!r:x", one.user("bob"), "m.x", {"n": n}) for n in range(count)]
        return {"origin": one.name, "origin_server_ts": stamp, "pdus": events, "edus": []}
    uri = "/_matrix/federation/v1/send/t1"
    await one.request("PUT", uri, body(1, 1), to=two.name, header=matrix.x_matrix(one.key, "PUT", uri, one.name,
                                                                                  two.name, body(1, 2)))
    check(any("signature is wrong" in v for v in rig.net.violations), "a wrong signature is not seen")
    await one.request("PUT", uri, body(51, 3), to=two.name)
    await one.request("PUT", uri, body(1, 4), to=two.name)
    check(any("51 PDUs" in v for v in rig.net.violations), "51 PDUs are not seen")
    check(any("other bytes" in v for v in rig.net.violations), "other bytes under an id are not seen")
    rig.net.violations.clear()


@case("rig-certificates-count")
async def certificates_count(rig: Rig) -> None:
    """A client that doesn't trust the rig's authority gets no further than the handshake."""
    peer = rig.peer(1)
    try:
        async with aiohttp.ClientSession() as client:
            async with client.get(f"https://{peer.name}/_matrix/key/v2/server", ssl=ssl.create_default_context()):
                check(False, "the certificate was trusted")
    except aiohttp.ClientConnectorCertificateError:
        pass
    equal(len(peer.requests), 0, "requests")
