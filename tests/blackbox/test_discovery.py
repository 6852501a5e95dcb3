"""Discovery over the real engine: whom it dials, as whom, whose certificate (PROTOCOL D1 to D16, D19; CASES B116)."""
from __future__ import annotations

from typing import Any, Callable

from rig import Engine, Peer, Rig, case, check, equal, has, quote, until_async, user
from rig.names import Names, looked

FEDERATION = "_matrix-fed._tcp."
OLD = "_matrix._tcp."


async def deliver(rig: Rig, names: Names, peer: Peer, **overrides: Any) -> Engine:
    """One event to the peer, by whatever way its name leads; its X-Matrix names are checked by the rig (D19)."""
    engine = await rig.engine(federation=names.config(**overrides.pop("federation", {})), **overrides)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await has(peer, records, 10)
    return engine


async def refused(rig: Rig, names: Names, peer: Peer, **overrides: Any) -> dict:
    """One event that can't be delivered; the last error of its gate."""
    engine = await rig.engine(federation=names.config(**overrides.pop("federation", {})), **overrides)
    room = await rig.shared(engine, peer)
    await engine.feed(*room.messages(user(engine), 1))

    async def failed() -> Any:
        return (await engine.gate(peer.name))["last_error"]
    error = await until_async(failed, 15, "a failure is shown")
    equal(len(peer.transactions), 0, "transactions at the peer")
    return error


async def resolve(engine: Engine, name: str, fresh: bool = False) -> dict:
    path = f"/destinations/{quote(name)}/resolve" + ("?no_cache=true" if fresh else "")
    status, body = await engine.admin("GET", path, timeout=45)
    equal(status, 200, f"resolve {name} ({str(body)[:100]})")
    return body


def reached(peer: Peer, port: int, sni: str | None) -> None:
    equal(set(peer.ports), {port}, "the port that was dialled")
    equal(set(peer.sni), {sni}, "SNI")


# --- whom it dials: (id, what is set up, port, SNI, what DNS may be asked about) ---
Row = Callable[[Names], tuple[Peer, int, "str | None"]]


def ip_literal(names: Names) -> tuple[Peer, int, str | None]:
    """D1, B116 row 1: an IP address without a port is dialled at 8448, with no SNI, Host as it is."""
    ip = names.bind(8448)
    peer = names.rig.net.named(ip, ip)
    peer.context = names.rig.authority.server_context((), [ip], hear=peer.sni.append)
    return peer, 8448, None


def ip_literal_with_port(names: Names) -> tuple[Peer, int, str | None]:
    """D1: with a port, that is in the Host header too."""
    ip = names.bind(8123)
    peer = names.rig.net.named(f"{ip}:8123", ip)
    peer.context = names.rig.authority.server_context((), [ip], hear=peer.sni.append)
    return peer, 8123, None


def explicit_port(names: Names) -> tuple[Peer, int, str | None]:
    """D2, B116 row 2: a name with a port needs addresses only; Host has the port, SNI hasn't."""
    peer = names.server("r.test:1234", port=1234)
    names.dns.a("r.test", peer.ip)
    return peer, 1234, "r.test"


def delegated_with_port(names: Names) -> tuple[Peer, int, str | None]:
    """D7, B116 row 3: .well-known with a port: that name and port; no SRV."""
    names.site("r.test", "m.test:443")
    peer = names.server("r.test", port=443, host="m.test:443", certificate="m.test")
    names.dns.a("m.test", peer.ip)
    names.dns.srv(FEDERATION + "m.test", "wrong.test", 1)
    return peer, 443, "m.test"


def delegated_with_srv(names: Names) -> tuple[Peer, int, str | None]:
    """D8, B116 row 4: .well-known without a port and SRV: the target is dialled; Host and SNI stay the delegated
    name."""
    names.site("r.test", "m.test")
    peer = names.server("r.test", port=8443, host="m.test", certificate="m.test")
    names.dns.srv(FEDERATION + "m.test", "h.test", 8443)
    names.dns.a("h.test", peer.ip)
    names.dns.srv(OLD + "m.test", "wrong.test", 1)
    return peer, 8443, "m.test"


def delegated_with_old_srv(names: Names) -> tuple[Peer, int, str | None]:
    """D9: the deprecated service name counts if the other has no record."""
    names.site("r.test", "m.test")
    peer = names.server("r.test", port=8443, host="m.test", certificate="m.test")
    names.dns.srv(OLD + "m.test", "h.test", 8443)
    names.dns.a("h.test", peer.ip)
    return peer, 8443, "m.test"


def delegated_plain(names: Names) -> tuple[Peer, int, str | None]:
    """D10, D11: .well-known, no SRV: the delegated name at 8448; its own .well-known file isn't looked at."""
    names.site("r.test", "m.test")
    peer = names.server("r.test", host="m.test", certificate="m.test")
    names.dns.a("m.test", peer.ip)
    names.rig.net.listen(peer.ip, 443)
    peer.answer("/.well-known/", 200, {"m.server": "wrong.test:1"})
    return peer, 8448, "m.test"


def delegated_ip(names: Names) -> tuple[Peer, int, str | None]:
    """D6: delegation to an IP address: dialled at 8448, certificate for it, no SNI, Host is the address."""
    ip = names.bind(8448)
    names.site("r.test", ip)
    peer = names.rig.net.named("r.test", ip)
    peer.host = ip
    peer.context = names.rig.authority.server_context((), [ip], hear=peer.sni.append)
    return peer, 8448, None


def delegated_ip_with_port(names: Names) -> tuple[Peer, int, str | None]:
    """D6 with a port."""
    ip = names.bind(8444)
    names.site("r.test", f"{ip}:8444")
    peer = names.rig.net.named("r.test", ip)
    peer.host = f"{ip}:8444"
    peer.context = names.rig.authority.server_context((), [ip], hear=peer.sni.append)
    return peer, 8444, None


def srv_alone(names: Names) -> tuple[Peer, int, str | None]:
    """D12, B116 row 5: no .well-known, SRV: the target is dialled; Host and SNI stay the server's name."""
    names.site("r.test")
    peer = names.server("r.test", port=443)
    names.dns.srv(FEDERATION + "r.test", "h.test", 443)
    names.dns.a("h.test", peer.ip)
    return peer, 443, "r.test"


def old_srv_alone(names: Names) -> tuple[Peer, int, str | None]:
    """D13: the deprecated service name, no .well-known."""
    peer = names.server("r.test", port=8446)
    names.dns.srv(OLD + "r.test", "h.test", 8446)
    names.dns.a("h.test", peer.ip)
    return peer, 8446, "r.test"


def nothing_at_all(names: Names) -> tuple[Peer, int, str | None]:
    """D14, D5, B116 row 6: neither .well-known (the connection is refused) nor SRV: the name at 8448."""
    peer = names.server("r.test")
    names.dns.a("r.test", peer.ip)
    return peer, 8448, "r.test"


def alias(names: Names) -> tuple[Peer, int, str | None]:
    """D14: a CNAME is followed for the address; names and certificate stay the server's."""
    peer = names.server("r.test")
    names.dns.cname("r.test", "box.hosting.test")
    names.dns.a("box.hosting.test", peer.ip)
    return peer, 8448, "r.test"


def long_answer(names: Names) -> tuple[Peer, int, str | None]:
    """DNS: an answer that is too long for UDP is fetched by TCP."""
    peer = names.server("r.test:1234", port=1234)
    names.dns.a("r.test", peer.ip)
    names.dns.modes["r.test"] = "truncate"
    return peer, 1234, "r.test"


def _register(case_id: str, row: Row) -> None:
    async def run(rig: Rig) -> None:
        names = await Names.of(rig)
        peer, port, sni = row(names)
        await deliver(rig, names, peer)
        reached(peer, port, sni)
        check(not names.dns.about("wrong.test"), "a name that doesn't count was looked up")
        if row in (ip_literal, ip_literal_with_port):
            equal(names.dns.asked, [], "questions to DNS")
        if row in (explicit_port, delegated_with_port):
            equal([q for q in names.dns.about("_tcp")], [], "SRV questions (B113)")
        if row is long_answer:
            check(any(q.tcp for q in names.dns.asked), "no question came by TCP")
    run.__doc__ = row.__doc__
    run.__module__ = __name__
    case(case_id)(run)


for _id, _row in [("B116_1_ip_literal", ip_literal), ("B116_1_ip_literal_with_port", ip_literal_with_port),
                  ("B116_2_explicit_port", explicit_port), ("B116_3_delegated_with_port", delegated_with_port),
                  ("B116_4_delegated_with_srv", delegated_with_srv), ("B116_5_srv_alone", srv_alone),
                  ("B116_6_nothing_at_all", nothing_at_all), ("discovery-D6-delegated-ip", delegated_ip),
                  ("discovery-D6-delegated-ip-with-port", delegated_ip_with_port),
                  ("discovery-D9-delegated-with-old-srv", delegated_with_old_srv),
                  ("discovery-D10-delegated-plain", delegated_plain), ("discovery-D13-old-srv-alone", old_srv_alone),
                  ("discovery-D14-alias", alias), ("discovery-dns-over-tcp", long_answer)]:
    _register(_id, _row)


@case("discovery-D1-ipv6-literal")
async def ipv6(rig: Rig) -> None:
    """D1: an IPv6 address in brackets: no DNS, no SNI, a certificate for it; and an AAAA record is dialled too."""
    names = await Names.of(rig)
    port = 20000 + hash(names.dns.port) % 9000
    rig.net.listen("::1", port)
    peer = rig.net.named(f"[::1]:{port}", "::1")
    peer.context = rig.authority.server_context(["six.test"], ["::1"], hear=peer.sni.append)
    engine = await deliver(rig, names, peer)
    reached(peer, port, None)
    equal(names.dns.asked, [], "questions to DNS")
    names.dns.a("six.test", "::1")
    peer.host = f"six.test:{port}"
    status, body = await engine.host("POST", "/requests", {
        "destination": f"six.test:{port}", "method": "GET", "uri": "/_matrix/federation/v1/version"})
    equal([status, body.get("status")], [200, 200], f"the answer over AAAA ({str(body)[:100]})")
    equal(peer.sni[-1], "six.test", "SNI")


# --- whose certificate ---
@case("discovery-D12-certificate-of-the-target")
async def target_certificate(rig: Rig) -> None:
    """D12, H9: a certificate for the SRV target, not for the server's name, is refused; nothing was sent."""
    names = await Names.of(rig)
    peer = names.server("r.test", port=8443, certificate="h.test")
    names.dns.srv(FEDERATION + "r.test", "h.test", 8443)
    names.dns.a("h.test", peer.ip)
    error = await refused(rig, names, peer)
    equal([error["class"], error["stage"]], ["unreachable", "tls"], "class and stage")
    equal(peer.requests, [], "requests that came")


@case("discovery-D8-certificate-of-the-server")
async def old_certificate(rig: Rig) -> None:
    """D8: where a name is delegated, a certificate for the undelegated one is refused."""
    names = await Names.of(rig)
    names.site("r.test", "m.test:8443")
    peer = names.server("r.test", port=8443, host="m.test:8443", certificate="r.test")
    names.dns.a("m.test", peer.ip)
    error = await refused(rig, names, peer)
    equal([error["class"], error["stage"]], ["unreachable", "tls"], "class and stage")
    check("m.test" in error["message"], f"the message doesn't name m.test: {error['message']}")


@case("discovery-expired-certificate")
async def expired(rig: Rig) -> None:
    """H7: an expired certificate is refused with a sentence that says so."""
    names = await Names.of(rig)
    peer = names.server("r.test:8443", port=8443, expired=True)
    names.dns.a("r.test", peer.ip)
    error = await refused(rig, names, peer)
    equal(error["stage"], "tls", "stage")
    check("expired" in error["message"], f"the message is {error['message']}")


# --- SRV: order and chance (RFC 2782) ---
@case("discovery-D16-priorities")
async def priorities(rig: Rig) -> None:
    """D16: the target of the lowest priority is dialled, one that refuses is followed by the next; no third is
    needed."""
    names = await Names.of(rig)
    names.dns.srv(FEDERATION + "r.test", "third.test", 8443, priority=30)
    names.dns.srv(FEDERATION + "r.test", "second.test", 8443, priority=20)
    names.dns.srv(FEDERATION + "r.test", "first.test", 8443, priority=10)
    peer = names.server("r.test", port=8443)
    third = rig.net.named("third", names.bind(8443))
    names.dns.a("first.test", names.bind(8444))  # nobody listens at 8443 there
    names.dns.a("second.test", peer.ip)
    names.dns.a("third.test", third.ip)
    engine = await deliver(rig, names, peer)
    equal(third.accepts, [], "connections to the third")
    gate = await engine.gate("r.test")
    equal(gate["consecutive_failures"], 0, "failures")


@case("discovery-D16-weights", timeout=60)
async def weights(rig: Rig) -> None:
    """D16: of one priority, three quarters of all choices go to weight 75, one to 25; weight 0 is rare, but there."""
    names = await Names.of(rig)
    for weight, ip in ((75, "127.0.1.75"), (25, "127.0.1.25"), (0, "127.0.1.1")):
        names.dns.srv(FEDERATION + "r.test", f"w{weight}.test", 8443, weight=weight)
        names.dns.a(f"w{weight}.test", ip)
    names.dns.a("r.test", "127.0.1.2")
    engine = await rig.engine(federation=names.config())
    first: dict[str, int] = {}
    for _ in range(300):
        way = await resolve(engine, "r.test")
        equal(len(way["addresses"]), 3, "addresses")
        first[way["addresses"][0]] = first.get(way["addresses"][0], 0) + 1
    rig.notes.append(str(first))
    check(185 <= first.get("127.0.1.75:8443", 0) <= 262, f"weight 75 came first {first.get('127.0.1.75:8443')} times")
    check(38 <= first.get("127.0.1.25:8443", 0) <= 112, f"weight 25 came first {first.get('127.0.1.25:8443')} times")
    equal(names.dns.count(FEDERATION + "r.test"), 1, "SRV questions for 300 choices")


@case("discovery-D16-no-service")
async def no_service(rig: Rig) -> None:
    """D16: the target "." says that there is no service: a failure at stage resolve, and nobody is dialled."""
    names = await Names.of(rig)
    peer = names.server("r.test")
    names.dns.a("r.test", peer.ip)
    names.dns.srv(FEDERATION + "r.test", ".", 8448)
    error = await refused(rig, names, peer)
    equal([error["class"], error["stage"]], ["unreachable", "resolve"], "class and stage")
    equal(peer.accepts, [], "connections")


# --- what mustn't be contacted ---
@case("discovery-ip-deny-each-address")
async def deny_each(rig: Rig) -> None:
    """SSRF: of a name's addresses those in ip_deny are left out; if all are, nobody is dialled, and the reason is
    shown."""
    names = await Names.of(rig)
    peer = names.server("r.test:8443", port=8443)
    bad = rig.net.named("bad", names.bind(8443, net=224))
    names.dns.a("r.test", bad.ip, peer.ip)
    engine = await deliver(rig, names, peer, federation={"ip_deny": ["127.224.0.0/12"]})
    names.dns.a("all.test", bad.ip)
    names.dns.srv(FEDERATION + "srv.test", "all.test", 8443)
    literal = f"{bad.ip}:8443"
    for name in ("all.test:8443", "srv.test", literal):
        status, body = await engine.host("POST", "/requests", {
            "destination": name, "method": "GET", "uri": "/_matrix/federation/v1/version"})
        check(status in (502, 504), f"{name}: {status} {str(body)[:100]}")
        check("ip_deny" in str(body), f"{name}: the reason is {str(body)[:200]}")
        check((await resolve(engine, name))["denied"], f"{name} isn't shown as denied")
    equal(bad.accepts, [], "connections to denied addresses")


@case("discovery-ip-deny-redirects")
async def deny_redirects(rig: Rig) -> None:
    """SSRF: .well-known isn't asked of denied addresses, neither at first nor after a redirect; and what the file names
    is judged too."""
    names = await Names.of(rig)
    bad = names.site("bad.test", "wrong.test:1", net=224)
    for name, ip in (("one.test", bad.ip),):
        names.dns.a(name, ip)
    two = names.site("two.test")
    two.answer("/.well-known/", 302, headers={"Location": "https://bad.test/file"})
    three = names.site("three.test")
    three.answer("/.well-known/", 301, headers={"Location": f"https://{bad.ip}/file"})
    names.site("four.test", "bad.test:443")
    engine = await rig.engine(federation=names.config(ip_deny=["127.224.0.0/12"]))
    for name in ("one.test", "two.test", "three.test", "four.test"):
        way = await resolve(engine, name)
        check("wrong.test" not in str(way), f"{name} believed the denied file: {way['steps']}")
        equal(way["denied"], name in ("one.test", "four.test"), f"denied of {name}")
    equal(bad.accepts, [], "connections to denied addresses")
    equal([looked(two), looked(three)], [1, 1], "looks at the allowed files")


@case("discovery-ip-deny-not-for-static-routes")
async def deny_static(rig: Rig) -> None:
    """[federation.addresses] comes before discovery, and ip_deny doesn't apply to it; names stay the server's."""
    names = await Names.of(rig)
    peer = names.server("static.test", port=8447, net=224)
    await deliver(rig, names, peer, federation={"ip_deny": ["127.0.0.0/8"],
                                                "addresses": {"static.test": f"{peer.ip}:8447"}})
    reached(peer, 8447, "static.test")
    equal(names.dns.asked, [], "questions to DNS")


@case("B29_lists_before_discovery")
async def lists(rig: Rig) -> None:
    """Servers that allow and deny lists exclude aren't even looked up."""
    names = await Names.of(rig)
    good = names.server("good.test:8443", port=8443)
    names.dns.a("good.test", good.ip)
    engine = await rig.engine(federation=names.config(deny=["evil.test*"], allow=["*.test", "*.test:*"]))
    for name in ("evil.test", "evil.test:8443", "other.example"):
        status, _ = await engine.host("POST", "/requests", {
            "destination": name, "method": "GET", "uri": "/_matrix/federation/v1/version"})
        check(status != 200, f"a request to {name} was answered {status}")
    status, body = await engine.host("POST", "/requests", {
        "destination": good.name, "method": "GET", "uri": "/_matrix/federation/v1/version"})
    equal([status, body.get("status")], [200, 200], "a request to one that is allowed")
    check(not names.dns.about("evil") and not names.dns.about("other"), "an excluded name was looked up")


# --- what can be seen ---
@case("discovery-resolve-shows-each-step")
async def steps(rig: Rig) -> None:
    """GET .../resolve names each step; a name that isn't there says so; one that is no name is refused."""
    names = await Names.of(rig)
    names.site("r.test", "m.test")
    names.dns.srv(FEDERATION + "m.test", "h.test", 8443)
    names.dns.a("h.test", "127.0.1.1")
    engine = await rig.engine(federation=names.config())
    way = await resolve(engine, "r.test")
    equal([way["ok"], way["addresses"], way["host"], way["tls_name"]], [True, ["127.0.1.1:8443"], "m.test", "m.test"],
          "the route")
    for word in ("/.well-known/matrix/server", "delegated to m.test", "SRV _matrix-fed._tcp.m.test", "h.test:8443"):
        check(word in "\n".join(way["steps"]), f"no step names {word}: {way['steps']}")
    gone = await resolve(engine, "gone.test")
    check(not gone["ok"] and "no name gone.test" in gone["problem"], f"a missing name: {gone}")
    for path in ("/destinations/no%20name/resolve", "/destinations/r.test/resolve?no_cache=maybe"):
        status, _ = await engine.admin("GET", path)
        equal(status, 400, path)
