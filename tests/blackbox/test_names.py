"""Names, addresses, certificates: IP literals, explicit ports, static routes (PROTOCOL D1, D2, H7-H9)."""
from __future__ import annotations

import ssl
from typing import Any

from rig import Authority, Engine, HostRoom, Peer, Rig, case, check, equal, failing, has, user


async def fed(rig: Rig, engine: Engine, peer: Peer) -> list[dict[str, Any]]:
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    return records


@case("names-explicit-port")
async def explicit_port(rig: Rig) -> None:
    """`localhost:PORT`: that port, Host with the port, certificate for the name, no well-known (D2)."""
    engine = await rig.engine()
    peer = rig.net.named(f"localhost:{rig.net.port}", "127.0.0.1")
    records = await fed(rig, engine, peer)
    await has(peer, records, 8)
    equal(peer.asked("/.well-known"), [], "well-known requests")


@case("names-static-route")
async def static_route(rig: Rig) -> None:
    """A name of [federation.addresses] is dialled there; Host and certificate stay the name's, for keys too."""
    engine = rig.make_engine()
    engine.config["federation"]["addresses"] = {"remote.test": f"127.1.0.9:{rig.net.port}"}
    peer = rig.net.named("remote.test", "127.1.0.9")
    await engine.start()
    records = await fed(rig, engine, peer)
    await has(peer, records, 5)
    equal((await peer.send())[0], 200, "a transaction of it")


@case("names-no-such-name", timeout=60)
async def no_such_name(rig: Rig) -> None:
    """A name that doesn't exist: unreachable at stage resolve, with a sentence that names it; others are served."""
    engine = await rig.engine(backoff={"first": "1h"})
    good = rig.peer(1)
    room = HostRoom(engine, "@bob:no-such-name.invalid:8448", good.user("bob"), user(engine))
    records = room.messages(user(engine), 1)
    await engine.feed(*room.roster(), *records)
    await has(good, records, 5)
    gate = await failing(engine, _Named("no-such-name.invalid:8448"), 30)
    error = gate["last_error"]
    equal([error["class"], error["stage"]], ["unreachable", "resolve"], "class and stage")
    check("no-such-name.invalid" in error["message"], f"the message is {error['message']!r}")


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name


async def _tls_fails(rig: Rig, engine: Engine, peer: Peer, word: str) -> None:
    await fed(rig, engine, peer)
    gate = await failing(engine, peer)
    error = gate["last_error"]
    equal([error["class"], error["stage"]], ["unreachable", "tls"], f"class and stage ({error['message']})")
    check(word in error["message"].lower(), f"the message is {error['message']!r}")
    equal(len(peer.requests), 0, "requests that got through (H9)")


@case("tls-expired-certificate")
async def expired(rig: Rig) -> None:
    """An expired certificate: unreachable at stage tls, with the word; nothing is sent."""
    engine = await rig.engine(backoff={"first": "1h"})
    peer = rig.peer(1)
    peer.context = rig.authority.expired_context(peer.ip)
    await _tls_fails(rig, engine, peer, "expired")


@case("tls-certificate-of-another-name")
async def another_name(rig: Rig) -> None:
    """A certificate for another name is refused."""
    engine = await rig.engine(backoff={"first": "1h"})
    peer = rig.peer(1)
    peer.context = rig.authority.context_for_name("other.test")
    await _tls_fails(rig, engine, peer, "certificate")


@case("tls-unknown-authority")
async def unknown_authority(rig: Rig) -> None:
    """A certificate of an authority that we don't know is refused; with verify_certificates = false it is taken."""
    strange = Authority("a stranger")
    engine = await rig.engine(backoff={"first": "1h"})
    peer = rig.peer(1)
    peer.context = strange.context_for_ip(peer.ip)
    await _tls_fails(rig, engine, peer, "certificate")
    trusting = await rig.engine(federation={"verify_certificates": False})
    other = rig.peer(2)
    other.context = strange.context_for_ip(other.ip)
    records = await fed(rig, trusting, other)
    await has(other, records, 5)
    strange.close()


@case("tls-speaks-old-versions-only")
async def old_tls(rig: Rig) -> None:
    """A server that has nothing newer than TLS 1.1 is unreachable at stage tls ([federation] tls_minimum)."""
    engine = await rig.engine(backoff={"first": "1h"})
    peer = rig.peer(1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(rig.authority.certificate("old", [peer.ip]), rig.authority.key_file)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    peer.context = context
    await _tls_fails(rig, engine, peer, "")


@case("names-are-case-sensitive")
async def case_sensitive(rig: Rig) -> None:
    """Server names are compared as they are written (N2): one that differs by case is another destination."""
    engine = rig.make_engine()
    engine.config["federation"]["deny"] = ["*"]
    await engine.start()
    room = HostRoom(engine, "@bob:Remote.test", "@bob:remote.test", user(engine))
    await engine.feed(*room.roster())
    status, body = await engine.admin("GET", "/destinations")
    equal([status, sorted(d["destination"] for d in body["destinations"])], [200, ["Remote.test", "remote.test"]],
          "the destinations")


@case("names-odd-ones-in-a-roster")
async def odd_ones(rig: Rig) -> None:
    """Users of servers with IPv6 names, ports and long names are members like others; wrong names are rejected."""
    engine = rig.make_engine()
    engine.config["federation"]["deny"] = ["*"]
    await engine.start()
    good = ["[::1]", "[2001:db8::1]:8448", "1.2.3.4", "1.2.3.4:80", "a" * 230, "xn--bcher-kva.example", "a-b.c"]
    room = HostRoom(engine, *(f"@bob:{n}" for n in good), user(engine))
    await engine.feed(*room.roster())
    bad = ["a b", "a:port", "a:123456", "ü.example", "", "a/b", "[::1", "a:b:c"]
    lines = ['{"kind":"membership","room_id":"!r:x","user_id":"@bob:%s","membership":"join"}' % n for n in bad]
    status, body = await engine.feed_lines(lines)
    taken = set(bad) - {bad[r["line"] - 1] for r in body["rejected"]}
    equal([status, taken], [200, set()], "the wrong names that were taken")
