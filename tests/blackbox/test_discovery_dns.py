"""DNS that fails, is slow, or says that there is nothing (CASES B112, B113, B115)."""
from __future__ import annotations

import asyncio
import time
from typing import Any

from rig import Rig, case, check, equal, has, steady, until_async, user
from rig.dns import Dns
from rig.names import Names
from test_discovery import FEDERATION, OLD, resolve
from test_discovery_well_known import version


def _outage(kind: str) -> None:
    async def run(rig: Rig) -> None:
        names = await Names.of(rig)
        site = names.site("r.test", "m.test:443")
        peer = names.server("r.test", port=443, host="m.test:443", certificate="m.test")
        names.dns.a("m.test", peer.ip)
        fallback = rig.net.named("fallback", site.ip)
        fallback.context, fallback.host, fallback.rules = site.context, "r.test", site.rules
        rig.net.listen(site.ip, 8448)
        names.dns.mode = kind
        engine = await rig.engine(federation=names.config(), backoff={"first": "2s", "max": "4s"})
        room = await rig.shared(engine, peer)
        records = room.messages(user(engine), 1)
        await engine.feed(*records)

        async def failed() -> Any:
            return (await engine.gate("r.test"))["last_error"]
        error = await until_async(failed, 20, "a failure is shown")
        equal([error["class"], error["stage"]], ["unreachable", "resolve"], "class and stage")
        check(names.dns.at in error["message"], f"the message doesn't name the DNS server: {error['message']}")
        await steady(lambda: len(fallback.accepts) + len(peer.accepts), 4, "connections without an answer of DNS")
        names.dns.mode = "answer"
        took = await has(peer, records, 20)
        rig.notes.append(f"delivered {took:.1f} s after the outage")
        check(8448 not in fallback.ports, "r.test:8448 was dialled")
    run.__doc__ = f"While DNS says {kind} nothing is guessed and nothing remembered; afterwards the delegation is used."
    run.__module__ = __name__
    case(f"B112_dns_outage_{kind}", timeout=60)(run)


for _kind in ("servfail", "refused", "silent"):
    _outage(_kind)


@case("B113_known_ports_need_no_srv")
async def known_ports(rig: Rig) -> None:
    """300 events: no SRV question for a server whose port is known; for one without SRV records one for each of both
    names; questions about addresses follow their time to live."""
    names = await Names.of(rig)
    names.dns.negative_ttl = 300
    names.site("port.test", "m.test:8448")
    one = names.server("port.test", host="m.test:8448", certificate="m.test")
    names.dns.a("m.test", one.ip, ttl=300)
    two = names.server("plain.test")
    names.dns.a("plain.test", two.ip, ttl=300)
    engine = await rig.engine(federation=names.config())
    room = await rig.shared(engine, one, two)
    for _ in range(30):
        records = room.messages(user(engine), 10)
        await engine.feed(*records)
        await has(one, records, 10)
        await has(two, records, 10)
    check(len(one.transactions) >= 20, f"only {len(one.transactions)} transactions")
    equal(names.dns.about("_tcp.port.test") + names.dns.about("_tcp.m.test"), [], "SRV questions for a known port")
    equal([names.dns.count(FEDERATION + "plain.test"), names.dns.count(OLD + "plain.test")], [1, 1], "SRV questions")
    for name in ("m.test", "plain.test"):
        equal(names.dns.count(name, "A"), 1, f"address questions about {name}")


@case("B113_negative_ttl", timeout=90)
async def negative_ttl(rig: Rig) -> None:
    """That there is no SRV record is believed as long as the zone says: 35 s here, not the usual five minutes."""
    names = await Names.of(rig)
    names.dns.negative_ttl = 35
    names.dns.a("r.test", names.bind(8449))
    names.site("d.test", "r.test")
    engine = await rig.engine(federation=names.config())
    begun = time.monotonic()
    while names.dns.count(FEDERATION + "r.test") < 2 and time.monotonic() - begun < 50:
        await resolve(engine, "d.test")
        await asyncio.sleep(0.5)
    times = [q.at for q in names.dns.asked if q.name == FEDERATION + "r.test"]
    equal(len(times), 2, "SRV questions")
    check(34 <= times[1] - times[0] <= 38, f"asked again after {times[1] - times[0]:.1f} s")


@case("B115_the_next_server_answers", timeout=60)
async def next_server(rig: Rig) -> None:
    """A server that can't be used (a zone in its address) and one that is silent cost a lookup 3 s at most; the
    silent one is set aside and not asked again; what refuses is passed over at once."""
    names = await Names.of(rig)
    silent, refusing = await Dns().start(), await Dns().start()
    rig.closers += [silent.close, refusing.close]
    silent.mode, refusing.mode = "silent", "refused"
    peers = []
    for n in range(4):
        peers.append(names.server(f"r{n}.test:8443", port=8443))
        names.dns.a(f"r{n}.test", peers[-1].ip)
    engine = await rig.engine(federation=names.config(
        dns_servers=["fe80::1%eth0", silent.at, refusing.at, names.dns.at]))
    begun = time.monotonic()
    equal(await version(engine, "r0.test:8443"), 200, "the first answer")
    first = time.monotonic() - begun
    check(first <= 3, f"the first lookup took {first:.1f} s")
    asked = len(silent.asked)
    for n in range(1, 4):
        begun = time.monotonic()
        equal(await version(engine, f"r{n}.test:8443"), 200, f"answer {n}")
        took = time.monotonic() - begun
        check(took <= 0.5, f"a later lookup took {took:.1f} s")
    equal(len(silent.asked), asked, "questions to the silent server")
    rig.notes.append(f"first {first:.1f} s")
    names.dns.mode = "servfail"
    silent.mode = "answer"
    silent.a("back.test", peers[0].ip)
    way = await resolve(engine, "back.test:8443")
    check(way["ok"], f"one that was set aside isn't asked when the others fail: {way['steps']}")


@case("B115_only_a_bad_server")
async def only_bad(rig: Rig) -> None:
    """With none but a server that can't be used: stage resolve, and the message names it."""
    names = await Names.of(rig)
    peer = names.server("r.test:8443", port=8443)
    engine = await rig.engine(federation={"dns_servers": ["fe80::1%eth0"]})
    room = await rig.shared(engine, peer)
    await engine.feed(*room.messages(user(engine), 1))

    async def failed() -> Any:
        return (await engine.gate(peer.name))["last_error"]
    error = await until_async(failed, 10, "a failure is shown")
    equal(error["stage"], "resolve", "stage")
    check("fe80::1%eth0" in error["message"], f"the message is {error['message']}")


@case("discovery-old-answers-serve", timeout=90)
async def old_answers(rig: Rig) -> None:
    """An address whose time is over serves on while DNS fails."""
    names = await Names.of(rig)
    peer = names.server("r.test:8443", port=8443)
    names.dns.a("r.test", peer.ip, ttl=1)
    engine = await rig.engine(federation=names.config())
    equal(await version(engine, peer.name), 200, "the first answer")
    names.dns.mode = "servfail"
    await asyncio.sleep(31)  # the least that an answer is kept
    equal(await version(engine, peer.name), 200, "the answer while DNS fails")
    check(names.dns.count("r.test", "A") >= 2, "DNS wasn't asked again")
    way = await resolve(engine, peer.name)
    check("older answer" in str(way["steps"]), f"the steps don't say so: {way['steps']}")


@case("discovery-name-unknown")
async def unknown(rig: Rig) -> None:
    """A name that isn't there is unreachable at stage resolve, with a sentence that says it."""
    names = await Names.of(rig)
    engine = await rig.engine(federation=names.config())
    for name in ("gone.test", "gone.test:8448"):
        status, body = await engine.host("POST", "/requests", {
            "destination": name, "method": "GET", "uri": "/_matrix/federation/v1/version"})
        check(status in (502, 504) and "no name gone.test" in str(body), f"{name}: {status} {str(body)[:160]}")
