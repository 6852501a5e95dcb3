"""`report`: what those who help need, without a secret in it (API 6)."""
from __future__ import annotations

import json
import stat

from rig import Rig, case, check, equal, failing, free_port, quote, user
from test_cli import NO, UNREACHABLE, USAGE, ran

PARTS = {"made_ms", "made_by", "stats", "config", "actors", "closed_destinations", "held_destinations",
         "partial_joins", "stale_users", "quarantine", "shape", "audit", "log"}


@case("report", timeout=60)
async def report(rig: Rig) -> None:
    """All parts, with what happened; no token, seed or private key of the engine; an old file isn't touched."""
    engine = rig.make_engine()
    engine.config["admin"] = {"listen": f"127.0.0.1:{free_port()}"}
    await engine.start()
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    peer.down()
    await engine.feed(*room.messages(user(engine), 3))
    await failing(engine, peer)
    # Where a secret could slip in: words of an operator that hold one, by mistake.
    tokens = [(engine.data / name).read_text().strip() for name in ("host_token", "admin_token")]
    await engine.admin("POST", f"/destinations/{quote(peer.name)}/hold",
                       {"reason": f"see http://ada:hunter2secret@wiki.test/ and {tokens[0]}"})
    file = engine.folder / "report.json"
    done = await ran(engine, "report", str(file))
    check(str(file) in done.err and not done.out, f"it says {done.err!r}")
    equal(stat.S_IMODE(file.stat().st_mode), 0o600, "its mode")
    text = file.read_text()
    body = json.loads(text)
    equal(set(body), PARTS, "the parts")
    equal([d["destination"] for d in body["held_destinations"]["destinations"]], [peer.name], "held destinations")
    check(body["stats"]["waiting"]["pdus"] == 3 and body["actors"]["actors"], "stats or actors are empty")
    check(any(e.get("event") == "destination_closed" for e in body["log"]), f"the log is {body['log'][:3]}")
    check(any(a["verb"] == "hold" for a in body["audit"]["audit"]), "the audit log")
    check(any(k["key"] == "server_name" and engine.name in k["value"] for k in body["config"]["config"]), "config")
    secrets = [*tokens, "hunter2secret"]
    for path in [*engine.data.iterdir(), *engine.folder.iterdir()]:
        if path.suffix in (".key", ".pem") and path.is_file():
            secrets += [w for line in path.read_text().splitlines() for w in line.split()
                        if len(w) >= 40 and "CERTIFICATE" not in w]
    check(len(secrets) > 3, "the test knows of no key")
    for secret in secrets:
        check(secret not in text, f"a secret is in it: {secret[:6]}...")
    before = file.read_bytes()
    done = await ran(engine, "report", str(file), code=NO)
    check("exists already" in done.err and file.read_bytes() == before, f"it says {done.err!r}")
    done = await ran(engine, "report", "/nonexistent/report.json", code=NO)
    check("can't be made" in done.err, f"it says {done.err!r}")
    await ran(engine, "report", code=USAGE)


@case("report-without-an-engine")
async def without(rig: Rig) -> None:
    """Without an engine: 69, and no empty file is left."""
    engine = rig.make_engine()
    engine.folder.mkdir(exist_ok=True)
    file = engine.folder / "report.json"
    await ran(engine, "report", str(file), code=UNREACHABLE)
    check(not file.exists(), "a file is left")
