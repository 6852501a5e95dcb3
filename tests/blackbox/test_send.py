"""Sending: transactions, order, caps, retries (DESIGN 4 and 6; PROTOCOL T1-T8, X3-X7)."""
from __future__ import annotations

import asyncio

from rig import (Peer, Rig, case, check, equal, has, ids_of, in_order, matrix, pdu, steady, to_device, until, user)


@case("send-basic")
async def basic(rig: Rig) -> None:
    """A fed PDU reaches each remote server of the room, unchanged."""
    engine = await rig.engine()
    one, two = rig.peers(2)
    room = await rig.shared(engine, one, two)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    for peer in (one, two):
        await has(peer, records, 5)
        equal(peer.pdus[0][2], records[0]["event"], "the PDU as received")


@case("send-header")
async def header(rig: Rig) -> None:
    """X-Matrix has four quoted values, one space after the scheme, nothing that old peers stumble over (X3-X7)."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: peer.pdus, 5, "delivery")
    sent = peer.asked("/send/")[0].headers
    given = matrix.parse_x_matrix(sent["authorization"])
    equal(sorted(given), ["destination", "key", "origin", "sig"], "the parameters")
    equal([given["origin"], given["destination"], given["key"]], [engine.name, peer.name, engine.key.key_id], "values")
    check(all(f'{name}="' in sent["authorization"] for name in given), "a value is not quoted")
    check("\\" not in sent["authorization"] and ", " not in sent["authorization"], "backslash or blank round a comma")
    equal(sent["content-type"].partition(";")[0], "application/json", "Content-Type (H2)")
    check("expect" not in sent, "an Expect header makes bodies over 1 MB wait")


@case("send-body")
async def body(rig: Rig) -> None:
    """A transaction has origin, a plausible origin_server_ts, pdus, and is canonical JSON; its id needs no quoting."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: peer.pdus, 5, "delivery")
    request = peer.asked("/send/")[0]
    equal(request.raw, matrix.canonical(request.json), "the bytes")
    equal(request.json["origin"], engine.name, "origin")
    check(abs(request.json["origin_server_ts"] - matrix.now_ms()) < 60_000, "origin_server_ts is far off")
    check(request.parts[-1].replace("-", "").replace("_", "").isalnum(), f"the id is {request.parts[-1]!r}")


@case("send-order-many-feeds")
async def order(rig: Rig) -> None:
    """A room's events arrive in the order of the feed, however the feed was cut into calls."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 120)
    for n in range(0, 120, 7):
        await engine.feed(*records[n:n + 7])
    await has(peer, records, 15)
    equal(peer.event_ids(), ids_of(records), "the order, each once")


@case("send-order-slow-peer")
async def order_slow(rig: Rig) -> None:
    """The same with a peer that takes 200 ms for each transaction: one in flight, nothing lost between windows."""
    engine = await rig.engine()
    peer = rig.peer(1)
    peer.slow("/send/", 0.2)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 300)
    for n in range(0, 300, 25):
        await engine.feed(*records[n:n + 25])
        await asyncio.sleep(0.05)
    await has(peer, records, 20)
    equal(peer.event_ids(), ids_of(records), "the order, each once")


async def behind(rig: Rig, *extra: dict, **overrides: object) -> tuple:
    """An engine whose peer holds a first transaction while the rest is fed; (engine, peer, room, hold)."""
    engine = await rig.engine(**overrides)
    peer = rig.peer(1)
    hold = peer.hold("/send/", times=1)
    room = await rig.shared(engine, peer)
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: hold.arrived, 5, "the first transaction")
    return engine, peer, room, hold


@case("send-cap-50-pdus")
async def cap_pdus(rig: Rig) -> None:
    """With 120 PDUs waiting, transactions of at most 50, filled, in order (T2)."""
    engine, peer, room, hold = await behind(rig)
    records = room.messages(user(engine), 120)
    await engine.feed(*records)
    await asyncio.sleep(0.5)
    hold.release()
    await has(peer, records, 10)
    equal(peer.event_ids()[1:], ids_of(records), "the order")
    equal([len(t.pdus) for t in peer.transactions], [1, 50, 50, 20], "PDUs in each transaction")


@case("send-cap-100-edus")
async def cap_edus(rig: Rig) -> None:
    """With 230 to-device messages waiting, transactions of at most 100 EDUs; all arrive once, in order."""
    engine, peer, room, hold = await behind(rig)
    await engine.feed(*(to_device(user(engine), f"m{n}", {peer.user("bob"): {"D": {"n": n}}}) for n in range(230)))
    await asyncio.sleep(0.5)
    hold.release()
    await until(lambda: len(peer.edus_of("m.direct_to_device")) >= 230, 10, "230 to-device messages")
    equal([e["message_id"] for e in peer.edus_of("m.direct_to_device")], [f"m{n}" for n in range(230)], "the order")
    equal([len(t.edus) for t in peer.transactions], [0, 100, 100, 30], "EDUs in each transaction")


@case("B88_exactly_full_transactions", timeout=90)
async def exactly_full(rig: Rig) -> None:
    """Full is a normal state: 50 PDUs with 0, 99, 100 and 101 EDUs arrive whole, the to-device ones not late."""
    engine = await rig.engine()
    room = None
    for number, count in enumerate((0, 99, 100, 101), 1):
        peer = rig.peer(number)
        hold = peer.hold("/send/", times=1)
        room = await rig.shared(engine, peer)
        await engine.feed(*room.messages(user(engine), 1))
        await until(lambda: hold.arrived, 5, "the first transaction")
        records = room.messages(user(engine), 50)
        await engine.feed(*records, *(to_device(user(engine), f"m{number}.{n}", {peer.user("bob"): {"D": {"n": n}}})
                                      for n in range(count)))
        await asyncio.sleep(0.3)
        hold.release()
        await has(peer, records, 10)
        await until(lambda: len(peer.edus_of("m.direct_to_device")) == count, 5, f"{count} EDUs")
        check(len(peer.transactions) <= 3, f"{len(peer.transactions)} transactions for 1 + 50 PDUs and {count} EDUs")
        equal([e["message_id"] for e in peer.edus_of("m.direct_to_device")],
              [f"m{number}.{n}" for n in range(count)], "the to-device messages")
        equal((await engine.gate(peer.name))["last_error"], None, "last_error")


@case("send-byte-budget")
async def byte_budget(rig: Rig) -> None:
    """60 events of 50 kB go out in transactions of about 1 MiB at most, in order."""
    engine, peer, room, hold = await behind(rig)
    records = [pdu(room.event(user(engine), content={"body": "x" * 50_000})) for _ in range(60)]
    await engine.feed(*records)
    hold.release()
    await has(peer, records, 20)
    equal(peer.event_ids()[1:], ids_of(records), "the order")
    biggest = max(len(t.raw) for t in peer.transactions)
    check(biggest <= 1_048_576, f"the biggest transaction has {biggest} bytes")


@case("B107_retry_has_the_same_bytes")
async def same_bytes(rig: Rig) -> None:
    """After 503 a retry has the same id and bytes; what was fed meanwhile comes in the next transaction (T3, T4)."""
    engine = await rig.engine(backoff={"first": "300ms"})
    peer = rig.peer(1)
    peer.answer("/send/", 503, times=2)
    room = await rig.shared(engine, peer)
    first, second = room.messages(user(engine), 2)
    await engine.feed(first)
    await until(lambda: peer.transactions, 5, "the first attempt")
    await engine.feed(second)
    await has(peer, [first, second], 10)
    one, two, three, *_ = peer.transactions
    check(one.txn_id == two.txn_id == three.txn_id, "the id changed")
    check(one.raw == two.raw == three.raw, "the bytes changed")
    check(peer.transactions[3].txn_id != one.txn_id, "the next transaction has the old id")
    equal(peer.event_ids(), ids_of([first, second]), "each once, in order")


@case("send-answer-lost")
async def answer_lost(rig: Rig) -> None:
    """The peer took a transaction, its answer was lost: the same transaction comes again, so nothing is doubled."""
    engine = await rig.engine(backoff={"first": "300ms"})
    peer = rig.peer(1)
    peer.drop("/send/", times=2, process=True)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 3)
    await engine.feed(*records)
    await until(lambda: any(t.status == 200 for t in peer.transactions), 10, "a transaction that is answered")
    more = room.messages(user(engine), 1)
    await engine.feed(*more)
    await has(peer, records + more, 10)
    equal(peer.event_ids(), ids_of(records + more), "each once, in order")


@case("send-answer-lost-over-timeout")
async def answer_timeout(rig: Rig) -> None:
    """A peer that answers after our timeout gets the same bytes again (B107, sender's side)."""
    engine = await rig.engine(backoff={"first": "300ms"}, delivery={"request_timeout": "1s"})
    peer = rig.peer(1)
    peer.slow("/send/", 2.5, times=1)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 2)
    await engine.feed(records[0])
    await until(lambda: peer.transactions, 5, "the first attempt")
    await engine.feed(records[1])
    # The rig takes what we gave up after its pause; a second request on a new connection is no second in flight.
    await has(peer, records, 15)
    equal(len({t.raw for t in peer.transactions if t.txn_id == peer.transactions[0].txn_id}), 1, "bodies of the first")


@case("send-success-shapes")
async def success_shapes(rig: Rig) -> None:
    """Any 200 but an HTML page is a success, whatever its body: {}, nothing, no pdus, a list, no JSON (T6)."""
    engine = await rig.engine()
    bodies = (b"{}", b"", b'{"pdus":7}', b"[]", b"ok")
    peers = rig.peers(len(bodies))
    for peer, raw in zip(peers, bodies):
        peer.answer("/send/", 200, raw=raw)
        room = await rig.shared(engine, peer)
        await engine.feed(*room.messages(user(engine), 2))
    for peer, raw in zip(peers, bodies):
        await until(lambda: peer.transactions, 5, "a transaction")
        await steady(lambda: len(peer.transactions), 0.5, f"repeats after a 200 with {raw!r}", 1)
        gate = await engine.gate(peer.name)
        equal([gate["state"], gate["consecutive_failures"]], ["open", 0], f"the gate after a 200 with {raw!r}")


@case("send-per-pdu-error-is-final")
async def pdu_error(rig: Rig) -> None:
    """An `error` for a PDU in a 200 is a verdict, not a reason to send again; what follows goes on (T5, B08)."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    first, second = room.messages(user(engine), 2)
    peer.answer("/send/", 200, {"pdus": {first["event_id"]: {"error": "no"}}}, times=1)
    await engine.feed(first)
    await until(lambda: peer.transactions, 5, "the first transaction")
    await engine.feed(second)
    await has(peer, [second], 5)
    await asyncio.sleep(1)
    equal([i for t in peer.transactions for i in t.event_ids], ids_of([first, second]), "what was offered")


@case("send-idle-connection-closed")
async def idle_closed(rig: Rig) -> None:
    """A pooled connection that the peer closed while idle is no failure: the next event goes out on a new one."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    for _ in range(3):
        records = room.messages(user(engine), 1)
        await engine.feed(*records)
        await has(peer, records, 5)
        peer.down("rst")
        peer.up()
        await asyncio.sleep(0.1)
    gate = await engine.gate(peer.name)
    equal([gate["state"], gate["consecutive_failures"], gate["last_error"]], ["open", 0, None], "the gate")


@case("send-connections-are-kept")
async def kept(rig: Rig) -> None:
    """Twenty transactions in a row to one peer don't make twenty TLS handshakes."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    for _ in range(20):
        records = room.messages(user(engine), 1)
        await engine.feed(*records)
        await has(peer, records, 5)
    check(len(peer.accepts) <= 3, f"{len(peer.accepts)} connections for 20 transactions")


@case("send-ids-differ-over-restart")
async def ids_over_restart(rig: Rig) -> None:
    """No transaction id comes twice with other content, also not after a kill -9 (T4)."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    for _ in range(4):
        records = room.messages(user(engine), 1)
        await engine.feed(*records)
        await has(peer, records, 5)
        await engine.restart(kill=True)
    bodies: dict[str, set[bytes]] = {}
    for txn in peer.transactions:
        bodies.setdefault(txn.txn_id, set()).add(txn.raw)
    check(all(len(b) == 1 for b in bodies.values()), "an id was used for two contents")


@case("send-unusual-content")
async def unusual(rig: Rig) -> None:
    """Content with every kind of value arrives as it was fed, so that its signature still verifies (B101, B103)."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    content = {"zero": "a\u0000b", "esc": "\b\f\n\r\t\"\\/\u007f\u2028", "日本": "語", "\U0001f600": 1, "\uff61": 2,
               "big": 2**53 - 1, "small": -(2**53 - 1), "none": None, "yes": True, "list": [[], {}, [1, {"a": 0}]],
               "": "empty key", "deep": {"a": {"b": {"c": {"d": []}}}}}
    record = pdu(room.event(user(engine), content=content))
    await engine.feed(record)
    await has(peer, [record], 5)
    got = peer.pdus[0][2]
    equal(got, record["event"], "the event")
    check(matrix.event_signed_by(got, engine.name, {engine.key.key_id: engine.key.public_text}), "the signature broke")


@case("send-redirect-not-followed")
async def redirect(rig: Rig) -> None:
    """A redirect of /send is no success and leads nowhere."""
    engine = await rig.engine(backoff={"first": "1h"})
    one, two = rig.peers(2)
    one.answer("/send/", 307, {}, headers={"Location": f"https://{two.name}/_matrix/federation/v1/send/x"})
    room = await rig.shared(engine, one)
    await engine.feed(*room.messages(user(engine), 1))
    await until(lambda: one.transactions, 5, "the first attempt")
    await steady(two.contacts, 1, "contacts of the server that the redirect names")
    equal((await engine.gate(one.name))["last_error"]["class"], "refused", "the class")


@case("send-many-rooms-one-server")
async def many_rooms(rig: Rig) -> None:
    """Events of 40 rooms that share one server are gathered, not sent one by one; each room's order holds."""
    engine, peer, first, hold = await behind(rig)
    rooms = [await rig.shared(engine, peer) for _ in range(40)]
    records = [r.messages(user(engine), 3) for r in rooms]
    await engine.feed(*(records[n][k] for k in range(3) for n in range(40)))
    hold.release()
    for one in records:
        await has(peer, one, 10)
        in_order(ids_of(one), peer.event_ids(), "a room")
    check(len(peer.transactions) <= 6, f"{len(peer.transactions)} transactions for 121 PDUs")


@case("B07_slow_peers_delay_nobody", timeout=60, weight=3)
async def slow_peers(rig: Rig) -> None:
    """190 of 200 servers of a room hang: the ten others have the event within seconds, and so has another room."""
    engine = await rig.engine(delivery={"max_in_flight": 64})
    peers = rig.peers(200)
    for peer in peers[:190]:
        peer.hold("/send/")
    room = await rig.shared(engine, *peers)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    for peer in peers[190:]:
        await has(peer, records, 10)
    other = await rig.shared(engine, peers[190])
    more = other.messages(user(engine), 1)
    await engine.feed(*more)
    await has(peers[190], more, 6)
    in_flight = sum(r.alive for p in peers for r in p.requests)
    check(in_flight <= 64, f"{in_flight} requests in flight at once")


@case("send-200-dead-delay-nobody", timeout=60, weight=3)
async def dead_peers(rig: Rig) -> None:
    """200 dead servers in the room delay the one that lives by nothing that a person would see."""
    engine = await rig.engine()
    peers = rig.peers(201)
    for number, peer in enumerate(peers[:200]):
        peer.down(("rst", "close", "garbage", "blackhole")[number % 4])
    room = await rig.shared(engine, *peers)
    for _ in range(3):
        records = room.messages(user(engine), 1)
        await engine.feed(*records)
        await has(peers[200], records, 4)


@case("B01_load_delays_but_never_ends", timeout=90)
async def load(rig: Rig) -> None:
    """300 events at some 30/s to a peer that needs 400 ms each time: no pause of 3 s while something waits."""
    engine = await rig.engine()
    peer = rig.peer(1)
    peer.slow("/send/", 0.4)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 300)
    for record in records:
        await engine.feed(record)
        await asyncio.sleep(0.02)
    await has(peer, records, 20)
    equal(peer.event_ids(), ids_of(records), "each once, in order")
    times = [t.at for t in peer.transactions]
    longest = max(b - a for a, b in zip(times, times[1:]))
    check(longest < 3, f"{longest:.1f} s passed between two transactions")


async def _quiet(peer: Peer, seconds: float) -> None:
    await steady(peer.contacts, seconds, "contacts without anything to send")


@case("send-idle-is-silent")
async def idle(rig: Rig) -> None:
    """A destination that has everything is left alone."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await has(peer, records, 5)
    await asyncio.sleep(1)
    await _quiet(peer, 3)
