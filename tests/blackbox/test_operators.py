"""What an operator can do to a destination: hold, release, wake, reset; allow and deny lists (API 5; DESIGN 5)."""
from __future__ import annotations

import asyncio

from rig import Engine, Peer, Rig, case, check, equal, failing, has, matrix, meet, quote, steady, to_device, user
from test_gate import start


async def act(engine: Engine, peer: Peer, verb: str, body: dict | None = None) -> dict:
    status, answer = await engine.admin("POST", f"/destinations/{quote(peer.name)}/{verb}", body or {})
    check(status in (200, 202, 204), f"{verb} answered {status}: {str(answer)[:120]}")
    return answer


@case("operator-hold", timeout=60)
async def hold(rig: Rig) -> None:
    """A hold stops every request, shows its reason, survives kill -9; release delivers what waited, in order."""
    engine, peer, room = await start(rig)
    first = room.messages(user(engine), 1)
    await engine.feed(*first)
    await has(peer, first, 5)
    await act(engine, peer, "hold", {"reason": "planned work"})
    count = peer.contacts()
    records = room.messages(user(engine), 3)
    await engine.feed(*records, to_device(user(engine), "h1", {peer.user("bob"): {"D": {}}}))
    for again in (False, True):
        d = await engine.destination(peer.name)
        equal([d["gate"]["state"], d["hold"]["reason"], d["hold"]["until_ms"]], ["held", "planned work", None], "hold")
        equal([d["pending"]["pdus"], d["pending"]["to_device"]], [3, 1], "what waits")
        await steady(lambda: peer.contacts() - count, 1, "contacts while held")
        if not again:
            await engine.restart(kill=True)
    await act(engine, peer, "release")
    await has(peer, records, 5)
    equal(peer.event_ids(), [r["event_id"] for r in first + records], "the order")
    equal((await engine.destination(peer.name)).get("hold"), None, "hold after release")


@case("operator-hold-for-a-time")
async def hold_for(rig: Rig) -> None:
    """A hold with for_ms ends by itself; until_ms says when."""
    engine, peer, room = await start(rig)
    await act(engine, peer, "hold", {"reason": "short", "for_ms": 2500})
    d = await engine.destination(peer.name)
    check(abs(d["hold"]["until_ms"] - matrix.now_ms() - 2500) < 1500, f"until_ms is {d['hold']['until_ms']}")
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await steady(peer.contacts, 1, "contacts while held")
    await has(peer, records, 6)


@case("operator-hold-before-the-first-contact")
async def hold_early(rig: Rig) -> None:
    """A server that only a roster names may be held before its first contact; bad bodies are refused by name."""
    engine = await rig.engine()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    await act(engine, peer, "hold", {"reason": "not yet"})
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await steady(peer.contacts, 1.5, "contacts while held")
    for body in ({}, {"reason": 7}, {"reason": "x", "for_ms": "soon"}, {"reason": "x", "for_ms": -5}):
        status, answer = await engine.admin("POST", f"/destinations/{quote(peer.name)}/hold", body)
        check(status == 400 and answer.get("errcode") and answer.get("error"), f"{body} answered {status}: {answer}")
    await act(engine, peer, "release")
    await has(peer, records, 5)


@case("B118_wake_tries_now")
async def wake(rig: Rig) -> None:
    """`wake` tries within seconds and shows the outcome; of a bad peer the streak is not reset; unknown name: 404."""
    engine = await rig.engine(backoff={"first": "1h"})
    good, bad = rig.peers(2)
    room = await rig.shared(engine, good, bad)
    for peer in (good, bad):
        peer.down()
    records = room.messages(user(engine), 2)
    await engine.feed(*records)
    for peer in (good, bad):
        await failing(engine, peer)
    before = await engine.gate(bad.name)
    count = bad.contacts()
    good.up()
    await act(engine, good, "wake")
    await has(good, records, 5)
    equal(bad.contacts(), count, "contacts of the other")
    await act(engine, bad, "wake")
    await asyncio.sleep(1)
    after = await engine.gate(bad.name)
    check(bad.contacts() > count, "the bad one was not tried")
    equal(after["consecutive_failures"], before["consecutive_failures"] + 1, "the streak of the bad one")
    status, answer = await engine.admin("POST", "/destinations/never.example.org/wake", {})
    equal([status, answer.get("errcode")], [404, "M_NOT_FOUND"], "wake of an unknown name")


@case("operator-reset")
async def reset(rig: Rig) -> None:
    """`reset` forgets the failure history; what waits is tried from the first wait on."""
    engine, peer, room = await start(rig, backoff={"first": "200ms", "factor": 10.0, "max": "1h"})
    peer.down()
    await engine.feed(*room.messages(user(engine), 1))
    for _ in range(100):
        gate = await engine.gate(peer.name)
        if gate["consecutive_failures"] >= 3:
            break
        await asyncio.sleep(0.1)
    check(gate["interval_ms"] >= 20_000, f"the third wait is {gate['interval_ms']} ms")
    peer.up()
    await act(engine, peer, "reset")
    await has(peer, [], 1)
    for _ in range(50):
        if peer.pdus:
            break
        await asyncio.sleep(0.1)
    check(peer.pdus, "nothing was delivered within 5 s of a reset")
    gate = await engine.gate(peer.name)
    equal([gate["state"], gate["consecutive_failures"], gate["failing_since_ms"]], ["open", 0, None], "the gate")


@case("B29_denied_servers_are_never_contacted", timeout=60)
async def denied(rig: Rig) -> None:
    """A denied server is shown as denied and not contacted on any path; once allowed, it gets what it missed."""
    engine = rig.make_engine()
    good, bad = rig.peers(2)
    engine.config["federation"]["deny"] = [bad.name]
    await engine.start()
    room = await rig.shared(engine, good, bad)
    records = room.messages(user(engine), 3)
    await engine.feed(*records, to_device(user(engine), "d1", {bad.user("bob"): {"D": {}}}))
    await has(good, records, 5)
    equal((await engine.gate(bad.name))["state"], "denied", "the gate")
    status, _ = await engine.admin("POST", f"/destinations/{quote(bad.name)}/wake", {})
    check(status in (200, 202, 204, 403, 409), f"wake of a denied server answered {status}")
    await engine.restart(kill=True)
    await steady(bad.contacts, 1.5, "contacts of a denied server")
    status, answer = await bad.send()
    equal([status, answer.get("errcode")], [403, "M_FORBIDDEN"], "our answer to a denied server")
    engine.config["federation"]["deny"] = []
    await engine.restart()
    await has(bad, records, 10)
    equal([e["message_id"] for e in bad.edus_of("m.direct_to_device")], ["d1"], "to-device messages")


@case("operator-allow-list")
async def allowed(rig: Rig) -> None:
    """With an allow list only its servers (globs) are contacted."""
    engine = rig.make_engine()
    good, bad = rig.peer(1), rig.peer(257)  # 127.1.0.1 and 127.1.1.1
    engine.config["federation"]["allow"] = ["127.1.0.*"]
    await engine.start()
    room = await rig.shared(engine, good, bad)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await has(good, records, 5)
    await steady(bad.contacts, 1, "contacts of a server that is not on the list")
    equal((await engine.gate(bad.name))["state"], "denied", "its gate")


@case("operator-ip-deny")
async def ip_deny(rig: Rig) -> None:
    """An address of [federation] ip_deny is never contacted, also as a server's literal name; a static route may."""
    engine = rig.make_engine()
    inside, routed = rig.peer(1), rig.net.named("routed.test", "127.1.0.2")
    engine.config["federation"]["ip_deny"] = ["127.0.0.0/8"]
    engine.config["federation"]["addresses"] = {"routed.test": f"127.1.0.2:{rig.net.port}"}
    await engine.start()
    room = await rig.shared(engine, inside, routed)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await has(routed, records, 5)
    gate = await failing(engine, inside)
    equal([gate["last_error"]["class"], inside.contacts()], ["unreachable", 0], "class, and contacts")
    check("ip_deny" in gate["last_error"]["message"], f"the message is {gate['last_error']['message']!r}")


@case("operator-holds-list-in-cli")
async def holds(rig: Rig) -> None:
    """`hold`, `release`, `wake`, `reset` as verbs do what the calls do."""
    engine, peer, room = await start(rig)
    done = await engine.cli("hold", peer.name, "--reason", "by hand", "--for", "2h")
    equal(done.code, 0, f"hold ({done.err[:100]})")
    d = await engine.destination(peer.name)
    equal(d["hold"]["reason"], "by hand", "the reason")
    check(abs(d["hold"]["until_ms"] - matrix.now_ms() - 7_200_000) < 10_000, "until_ms")
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await steady(peer.contacts, 1, "contacts while held")
    equal((await engine.cli("release", peer.name)).code, 0, "release")
    await has(peer, records, 5)
    for verb in ("wake", "reset"):
        equal((await engine.cli(verb, peer.name)).code, 0, verb)
    await meet(peer)


@case("operator-audit")
async def audit(rig: Rig) -> None:
    """Every change is written down: who, what, why and its outcome, newest first, over a restart. Questions are not."""
    engine, peer, room = await start(rig)
    await act(engine, peer, "hold", {"reason": "they move house"})
    await engine.admin("POST", "/destinations/none.test/release", {})
    await engine.admin("GET", "/stats")
    done = await engine.cli("release", peer.name, env={"SUDO_USER": "ada"})
    equal(done.code, 0, "release by the command line")
    await engine.restart(kill=True)
    status, body = await engine.admin("GET", "/audit?limit=2")
    equal([status, body["total"], body["next"]], [200, 3, "2"], "the first page")
    equal([(a["verb"], a["subject"], a["who"], a["outcome"]) for a in body["audit"]][0],
          ("release", peer.name, "ada", "done"), "the newest")
    check(body["audit"][1]["outcome"].startswith("refused: "), f"of an unknown name: {body['audit'][1]}")
    status, body = await engine.admin("GET", "/audit?from=2")
    equal([(a["verb"], a["subject"], a["reason"]) for a in body["audit"]],
          [("hold", peer.name, "they move house")], "the second page")
    equal((await engine.admin("GET", "/audit?limit=no"))[0], 400, "a limit that is no number")
