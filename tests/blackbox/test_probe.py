"""`probe` and `resolve`: a server as seen from here, stage by stage (API 5 and 6)."""
from __future__ import annotations

from typing import Any

from rig import Rig, Peer, case, check, equal, matrix, quote
from rig.fixture import Engine
from test_cli import NO, OK, USAGE, ran
from test_cli_json import SPEC, schema
from test_gate import start

STAGES = ["well_known", "dns", "tls", "keys", "version"]


async def probed(engine: Engine, name: str) -> Any:
    status, body = await engine.admin("POST", f"/destinations/{quote(name)}/probe", {})
    equal(status, 200, f"probe of {name} ({str(body)[:200]})")
    wrong = SPEC.check(body, SPEC.answer_schema("POST", "/_ranvier/admin/v1/destinations/{name}/probe", 200))
    check(not wrong, f"the answer isn't as documented: {wrong}")
    equal([s["stage"] for s in body["stages"]], STAGES, "the stages")
    return body


async def fails_at(engine: Engine, name: str, stage: str, *words: str) -> Any:
    """The probe fails there, the stages after it aren't reached, and the command line says so."""
    body = await probed(engine, name)
    equal([body["ok"], body["failed_at"]], [False, stage], f"the verdict on {name}: {body['stages']}")
    at = STAGES.index(stage)
    equal([s["ok"] for s in body["stages"][at:]], [False] + [None] * (len(STAGES) - at - 1), "the stages from there on")
    done = await ran(engine, "probe", name, code=NO)
    check(f"FAILS at {stage}" in done.out, f"it prints {done.out!r}")
    for word in words:
        check(word in body["stages"][at]["says"] and word in " ".join(done.out.split()), f"{word!r} is missing: {body}")
    return body


@case("probe-well")
async def well(rig: Rig) -> None:
    """A server that is well: all stages, its certificate's dates and names, keys, version; nothing changes."""
    engine, peer, _ = await start(rig)
    await engine.admin("POST", f"/destinations/{quote(peer.name)}/hold", {"reason": "look only"})
    body = await probed(engine, peer.name)
    equal([body["ok"], body["failed_at"]], [True, None], f"the verdict: {body['stages']}")
    seen = body["addresses"][0]
    equal([seen["connected"], seen["trusted"], seen["problem"]], [True, True, None], "the address")
    check(peer.name.split(":")[0] in seen["certificate"]["names"], f"the names {seen['certificate']['names']}")
    check(seen["certificate"]["not_before_ms"] < matrix.now_ms() < seen["certificate"]["not_after_ms"], "the dates")
    check(body["server"]["keys"] == [peer.key.key_id] and body["server"]["name"], f"the server is {body['server']}")
    done = await ran(engine, "probe", peer.name)
    check("is well" in done.out and peer.key.key_id in done.out and "certificate for" in done.out, f"{done.out!r}")
    as_json = (await ran(engine, "probe", peer.name, "-o", "json")).json()
    check(not SPEC.check(as_json, schema("probe")), f"-o json: {SPEC.check(as_json, schema('probe'))}")
    equal((await engine.gate(peer.name))["state"], "held", "the gate")
    equal([a["verb"] for a in (await engine.admin("GET", "/audit"))[1]["audit"]], ["hold"], "the audit log")


@case("probe-fails", timeout=60)
async def fails(rig: Rig) -> None:
    """Each stage that can fail does: the probe says which one and why, and ends with 1."""
    engine, peer, _ = await start(rig)
    rule = peer.answer("/federation/v1/version", 404, {"errcode": "M_UNRECOGNIZED", "error": "no"})
    await fails_at(engine, peer.name, "version", "it was answered 404")
    peer.forget(rule)
    rule = peer.answer("/key/v2/server", 200, {**peer.key_response(), "valid_until_ts": 1 << 50})
    await fails_at(engine, peer.name, "keys", "is wrong")
    peer.forget(rule)
    peer.context = rig.net.authority.expired_context(peer.name.split(":")[0])
    body = await fails_at(engine, peer.name, "tls", "certificate has expired", "it ended on 2")
    check(body["addresses"][0]["certificate"]["not_after_ms"] < matrix.now_ms(), f"its date: {body['addresses']}")
    peer.context = None
    peer.down("garbage")
    await fails_at(engine, peer.name, "tls", "no TLS with")
    peer.up()
    await fails_at(engine, "127.1.9.9:1", "tls", "connecting to 127.1.9.9:1 failed: Connection refused")
    await fails_at(engine, "no-such-name.invalid", "dns", "no-such-name.invalid")
    equal((await ran(engine, "probe", peer.name)).code, OK, "when all is well again")


@case("probe-of-whom-we-must-not-contact")
async def must_not(rig: Rig) -> None:
    """A denied server, and an address of ip_deny, aren't contacted; a name that is none is wrong usage."""
    engine = rig.make_engine()
    denied, inside = rig.peers(2)
    engine.config["federation"].update(deny=[denied.name], ip_deny=[inside.name.split(":")[0] + "/32"])
    await engine.start()
    status, body = await engine.admin("POST", f"/destinations/{quote(denied.name)}/probe", {})
    equal([status, body["errcode"]], [403, "M_FORBIDDEN"], "the denied one")
    check(denied.name in (await ran(engine, "probe", denied.name, code=NO)).err, "the sentence")
    await fails_at(engine, inside.name, "dns", "ip_deny")
    equal([denied.contacts(), inside.contacts()], [0, 0], "contacts")
    await ran(engine, "probe", "no name", code=USAGE)


@case("resolve-verb")
async def resolve(rig: Rig) -> None:
    """`resolve` shows every step; --no-cache looks anew; a name that isn't found: 1."""
    engine, peer, _ = await start(rig)
    done = await ran(engine, "resolve", peer.name)
    check("is found" in done.out and f"dial {peer.name}" in done.out, f"it prints {done.out!r}")
    body = (await ran(engine, "resolve", peer.name, "--no-cache", "-o", "json")).json()
    check(body["ok"] and not SPEC.check(body, schema("resolve")), f"-o json: {body}")
    done = await ran(engine, "resolve", "no-such-name.invalid", code=NO)
    check("NOT found" in done.out and "no-such-name.invalid" in done.out, f"it prints {done.out!r}")
