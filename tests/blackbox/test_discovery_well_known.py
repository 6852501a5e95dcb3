"""What is believed of .well-known files, for how long, and at what cost (PROTOCOL D3 to D5, D17, D18; CASES B43, B109,
B110)."""
from __future__ import annotations

import asyncio
import time
from typing import Any

from rig import Engine, Peer, Rig, case, check, equal, failing, has, until, until_async, user
from rig.exchange import Answer
from rig.names import Names, looked
from test_discovery import resolve


async def version(engine: Engine, name: str, timeout_ms: int = 20_000) -> Any:
    """One request to the server; its status, or the host API's."""
    status, body = await engine.host("POST", "/requests", {
        "destination": name, "method": "GET", "uri": "/_matrix/federation/v1/version", "timeout_ms": timeout_ms},
        timeout=timeout_ms / 1000 + 60)
    return body.get("status") if status == 200 else status


# --- what is a file ---
FILES: list[tuple[str, dict[str, Any]]] = [
    ("404", {"status": 404, "raw": b"{}"}), ("500", {"status": 500, "raw": b"{}"}),
    ("201", {"status": 201, "raw": b'{"m.server": "wrong.test:1"}'}),
    ("no-json", {"raw": b"m.server=wrong.test"}), ("html", {"raw": b"<html></html>"}),
    ("no-object", {"raw": b'["wrong.test:1"]'}), ("no-server", {"raw": b'{"m.homeserver": "wrong.test"}'}),
    ("number", {"raw": b'{"m.server": 7}'}), ("no-name", {"raw": b'{"m.server": "https://wrong.test"}'}),
    ("port-0", {"raw": b'{"m.server": "wrong.test:0"}'}), ("huge", {"raw": b'{"m.server": "' + b"w" * 60_000 + b'"}'}),
]


@case("discovery-D5-what-is-no-file", timeout=60)
async def no_file(rig: Rig) -> None:
    """D4, D5: what isn't a valid file never fails discovery: SRV and the name itself are used."""
    names = await Names.of(rig)
    peers = []
    for label, answer in FILES:
        site = names.site(f"{label}.test")
        site.answer("/.well-known/", **answer)
        peers.append(names.server(f"{label}.test", ip=site.ip))
        peers[-1].answer("/.well-known/", **answer)
        peers[-1].context = site.context
    engine = await rig.engine(federation=names.config())
    for (label, _), peer in zip(FILES, peers):
        equal(await version(engine, f"{label}.test"), 200, f"the answer of {label}.test")
        equal(peer.ports, [443, 8448], f"the ports of {label}.test")
    check(not names.dns.about("wrong"), "a name of an invalid file was looked up")


@case("discovery-D4-any-content-type")
async def content_type(rig: Rig) -> None:
    """D4: a file is JSON whatever its Content-Type."""
    names = await Names.of(rig)
    site = names.site("r.test")
    site.answer("/.well-known/", raw=b' {"m.server": "m.test:443", "other": [1]} ', content_type="text/html")
    names.dns.a("m.test", "127.0.1.1")
    engine = await rig.engine(federation=names.config())
    equal((await resolve(engine, "r.test"))["host"], "m.test:443", "Host")


@case("discovery-D3-redirects", timeout=60)
async def redirects(rig: Rig) -> None:
    """D3: redirects of every kind are followed, relative ones and ones to other hosts and ports too, at most five;
    not in circles, not to http, and not where the certificate is another's."""
    names = await Names.of(rig)
    names.dns.a("m.test", "127.0.1.1")
    end = names.site("end.test")
    end.answer("/the/file", 200, {"m.server": "m.test:443"})

    def to(host: str, location: str, status: int = 302, path: str = "/.well-known/") -> Peer:
        site = names.site(host)
        site.answer(path, status, headers={"Location": location})
        return site
    for status in (301, 302, 303, 307, 308):
        to(f"k{status}.test", "https://end.test/the/file", status)
    own = to("relative.test", "/elsewhere")
    own.answer("/elsewhere", 200, {"m.server": "m.test:443"})
    port = to("port.test", "https://other.test:4443/the/file?x=1")
    other = names.server("other.test:4443", port=4443)
    names.dns.a("other.test", other.ip)
    other.answer("/the/file?x=1", 200, {"m.server": "m.test:443"})
    long = names.site("long.test")
    for n in range(9):
        long.answer(f"/hop{n}", 302, headers={"Location": f"/hop{n + 1}"})
    long.answer("/.well-known/", 302, headers={"Location": "/hop0"})
    circle = to("circle.test", "/.well-known/matrix/server")
    plain = to("plain.test", "http://end.test/the/file")
    thief = names.site("thief.test")
    thief.answer("/the/file", 200, {"m.server": "m.test:443"})
    names.dns.a("stolen.test", thief.ip)
    to("robbed.test", "https://stolen.test/the/file")
    engine = await rig.engine(federation=names.config())
    followed = [f"k{s}.test" for s in (301, 302, 303, 307, 308)] + ["relative.test", "port.test"]
    for name in followed:
        equal((await resolve(engine, name))["host"], "m.test:443", f"Host of {name}")
    for name in ("long.test", "circle.test", "plain.test", "robbed.test"):
        equal((await resolve(engine, name))["host"], name, f"Host of {name}")
    equal(len(long.requests), 6, "requests on the long way")
    equal(len(circle.requests), 1, "requests in the circle")
    equal([len(plain.requests), len(thief.requests), len(port.requests)], [1, 0, 1], "requests elsewhere")


@case("discovery-D5-sites-that-fail", timeout=60)
async def sites_fail(rig: Rig) -> None:
    """D5: a site that refuses, resets, speaks no TLS or has a bad certificate is the same as no file."""
    names = await Names.of(rig)
    peers = []
    for kind in ("refuses", "rst", "garbage", "expired"):
        host = f"{kind}.test"
        site = names.site(host, "wrong.test:1", expired=kind == "expired") if kind != "refuses" else None
        ip = site.ip if site else names.bind(8448)
        if not site:
            names.dns.a(host, ip)
        elif kind != "expired":
            site.down(kind)
        names.dns.srv(f"_matrix-fed._tcp.{host}", f"h-{host}", 8449)
        peers.append(names.server(host, port=8449))
        names.dns.a(f"h-{host}", peers[-1].ip)
    engine = await rig.engine(federation=names.config(), delivery={"connect_timeout": "2s"})
    for peer in peers:
        equal(await version(engine, peer.name), 200, f"the answer of {peer.name}")
    check(not names.dns.about("wrong"), "a file behind a bad certificate was believed")


# --- for how long ---
@case("B110_expiry", timeout=150, weight=2)
async def expiry(rig: Rig) -> None:
    """D17, D18: max-age is honoured from a minute upwards; no header is a day; no file is asked for again after a
    minute, then two; an Expires that is past is a minute."""
    names = await Names.of(rig)
    rows = {"zero": {"Cache_Control": "max-age=0"}, "store": {"Cache_Control": "no-store"},
            "short": {"Cache_Control": "public, max-age=80"}, "long": {"Cache_Control": "max-age=1000000000"},
            "none": {}, "past": {"Expires": "Thu, 01 Jan 1970 00:00:00 GMT"}}
    sites = {label: names.site(f"{label}.test") for label in [*rows, "missing"]}
    for label, headers in rows.items():
        names.delegate(sites[label], "127.0.1.1", **headers)
    engine = await rig.engine(federation=names.config())
    wanted = {"zero": [60], "store": [60], "past": [60], "short": [80], "long": [], "none": [], "missing": [60]}
    begun = time.monotonic()
    while time.monotonic() - begun < 95:
        for label in sites:
            await resolve(engine, f"{label}.test")
        await asyncio.sleep(0.5)
    for label, site in sites.items():
        times = [r.at for r in site.asked("/.well-known/")]
        gaps = [round(b - a, 1) for a, b in zip(times, times[1:])]
        rig.notes.append(f"{label} {gaps}")
        equal(len(gaps), len(wanted[label]), f"further looks at {label}")
        for gap, want in zip(gaps, wanted[label]):
            check(want * 0.98 <= gap <= want * 1.05 + 1, f"{label} was looked at again after {gap} s, not {want} s")


@case("B110_restart_keeps_the_expiry", timeout=150)
async def restart(rig: Rig) -> None:
    """A restart, and kill -9 some seconds after it was learnt, forget nothing of it and extend nothing."""
    names = await Names.of(rig)
    site = names.site("r.test")
    names.delegate(site, "127.0.1.1", Cache_Control="max-age=70")
    missing = names.site("missing.test")
    engine = await rig.engine(federation=names.config())
    for name in ("r.test", "missing.test"):
        await resolve(engine, name)
    learnt = site.requests[0].at
    await engine.restart()
    equal((await resolve(engine, "r.test"))["host"], "127.0.1.1", "Host after a restart")
    await resolve(engine, "missing.test")
    equal([looked(site), looked(missing)], [1, 1], "looks after a restart")
    await asyncio.sleep(13)
    await engine.restart(kill=True)
    equal((await resolve(engine, "r.test"))["host"], "127.0.1.1", "Host after kill -9")
    equal(looked(site), 1, "looks after kill -9")

    async def again() -> bool:
        await resolve(engine, "r.test")
        return looked(site) > 1
    await until_async(again, 80, "the file is looked at again")
    gap = site.requests[1].at - learnt
    check(68 <= gap <= 75, f"the file was looked at again after {gap:.1f} s, not 70 s")


# --- wrong ways ---
async def wrong_way(rig: Rig) -> tuple[Names, Engine, Peer, Peer, list]:
    """r.test is delegated to a server that refuses, for a day; an event waits for it."""
    names = await Names.of(rig)
    site = names.site("r.test")
    names.delegate(site, "old.test:8449", Cache_Control="max-age=86400")
    names.dns.a("old.test", names.bind(8450))
    peer = names.server("r.test", port=443, host="new.test:443", certificate="new.test")
    names.dns.a("new.test", peer.ip)
    engine = await rig.engine(federation=names.config(), backoff={"first": "1s", "factor": 1.0})
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    return names, engine, site, peer, records


@case("B109_a_wrong_way_is_looked_up_anew", timeout=60)
async def looked_up_anew(rig: Rig) -> None:
    """A delegation whose server can't be connected to is looked up anew by itself, once in five minutes; delivery
    follows without any hand's work."""
    names, engine, site, peer, records = await wrong_way(rig)
    await failing(engine, peer)
    site.rules.clear()
    names.delegate(site, "new.test:443", Cache_Control="max-age=86400")
    took = await has(peer, records, 15)
    rig.notes.append(f"after {took:.1f} s")
    equal(looked(site), 2, "looks at the file")


@case("B109_an_operator_may_look_again", timeout=60)
async def operator(rig: Rig) -> None:
    """While it stays wrong it isn't looked at all the time; an operator's look by name clears what is known, and the
    next try, at a wake, goes the right way."""
    names, engine, site, peer, records = await wrong_way(rig)

    async def failures() -> bool:
        return (await engine.gate("r.test"))["consecutive_failures"] >= 5
    await until_async(failures, 30, "five failures")
    equal(looked(site), 2, "looks at the file during five failures")
    site.rules.clear()
    names.delegate(site, "new.test:443")
    equal((await resolve(engine, "r.test", fresh=True))["host"], "new.test:443", "Host after a fresh look")
    status, _ = await engine.admin("POST", "/destinations/r.test/wake")
    equal(status, 200, "wake")
    await has(peer, records, 5)


# --- what it costs ---
@case("B43_one_look_for_all", timeout=120)
async def one_look(rig: Rig) -> None:
    """A site that drips a byte now and then: 300 events and 20 requests wait for one look at the file, which ends in
    time; its outcome is everybody's."""
    names = await Names.of(rig)
    ip = names.bind(8448)
    begun: list[float] = []
    ended: list[float] = []

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.append(time.monotonic())
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n")
            gone = asyncio.create_task(reader.read(1))
            while not gone.done():
                writer.write(b" ")
                await asyncio.wait([gone], timeout=3)
            gone.exception()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        ended.append(time.monotonic())
        writer.close()
    server = await asyncio.start_server(drip, ip, 443, ssl=rig.authority.server_context(["r.test"]))
    rig.closers.append(server.close)
    names.dns.a("r.test", ip)
    peer = names.server("r.test", ip=ip, port=8449)  # and at 8448, as `bind` made it
    engine = await rig.engine(federation=names.config())
    room = await rig.shared(engine, peer)
    requests = [asyncio.create_task(version(engine, "r.test", 60_000)) for _ in range(20)]
    records = []
    for _ in range(30):
        records += room.messages(user(engine), 10)
        await engine.feed(*records[-10:])
        await asyncio.sleep(0.1)
    await has(peer, records, 50)
    took = max(at for at, _, _ in peer.pdus) - begun[0]
    rig.notes.append(f"delivered after {took:.1f} s")
    equal(set(await asyncio.gather(*requests)), {200}, "answers")
    equal(len(begun), 1, "connections to the site")
    check(29 <= took <= 45, f"delivery took {took:.1f} s")
    check(ended and 29 <= ended[0] - begun[0] <= 36, "the look wasn't ended after 30 s")
    equal(names.dns.count("_matrix-fed._tcp.r.test"), 1, "SRV questions for all of them")


@case("B43_endless_file")
async def endless(rig: Rig) -> None:
    """A file without an end is cut off; the server is reached all the same."""
    names = await Names.of(rig)
    site = names.site("r.test")
    sent = 0

    async def act(_: Any, __: Any) -> Answer:
        nonlocal sent
        sent += 1
        return Answer(200, raw=b" " * 5_000_000)
    site.rule("/.well-known/", act)
    peer = names.server("r.test", ip=site.ip)
    peer.rule("/.well-known/", act)
    engine = await rig.engine(federation=names.config())
    equal(await version(engine, "r.test"), 200, "the server's answer")
    equal(sent, 1, "looks at the file")


@case("discovery-single-flight")
async def single_flight(rig: Rig) -> None:
    """Equal lookups at the same time are one, all the way down (B113)."""
    names = await Names.of(rig)
    names.dns.delay = 0.3
    site = names.site("r.test", "m.test")
    peer = names.server("r.test", host="m.test", certificate="m.test")
    names.dns.a("m.test", peer.ip)
    engine = await rig.engine(federation=names.config())
    answers = await asyncio.gather(*(version(engine, "r.test") for _ in range(50)))
    equal(set(answers), {200}, "answers")
    equal(looked(site), 1, "looks at the file")
    for kind, name in (("A", "r.test"), ("A", "m.test"), ("SRV", "_matrix-fed._tcp.m.test")):
        equal(names.dns.count(name, kind), 1, f"{kind} questions about {name}")
    await until(lambda: len(peer.requests) >= 1, 1, "requests")
