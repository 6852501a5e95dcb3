"""What the verbs write as JSON is what docs/cli-json.yaml says; the command line is quick and never hangs."""
from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from rig import Rig, binary, case, check, equal, run_command, user
from test_admin import good_and_dead
from test_cli import UNREACHABLE, ran

sys.path.append(str(Path(__file__).resolve().parents[1] / "crosscheck"))
from openapi import ROOT, Spec  # noqa: E402

SPEC = Spec()
VERBS: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "cli-json.yaml").read_text())

# test_probe.py, test_drop.py, test_drain.py, test_subjects.py and test_engine_verbs.py hold these against their schemas
ELSEWHERE = {"resolve", "probe", "drop", "restart-actor", "drain", "partial-joins", "partial-join", "quarantine",
             "quarantine-change", "holds", "actor", "log-level", "db-check", "db-backup", "wait"}


def schema(verb: str) -> Any:
    """A verb's own schema, or that of the route whose answer it shows; of a list only its rows and their number."""
    given = VERBS[verb]
    if "route" not in given:
        return given
    whole = SPEC.answer_schema(given.get("method", "GET"), given["route"], 200)
    if "list" not in given:
        return whole
    name = given["list"]
    return {"type": "object", "required": [name, "total"],
            "properties": {name: whole["properties"][name], "total": {"type": "integer"}}}


@case("cli-json")
async def as_json(rig: Rig) -> None:
    """Each verb's -o json is as documented; of lists -o jsonl has the same rows."""
    engine, good, dead, room = await good_and_dead(rig)
    await ran(engine, "hold", good.name, "--reason", "look")
    calls = {"status": [], "ls": [], "show": [dead.name], "actors": [], "stale-users": [], "why": [dead.name],
             "shape": [], "queue": [dead.name], "rooms": [dead.name], "attempts": [dead.name], "audit": [],
             "config": ["show"]}
    for verb, words in calls.items():
        body = (await ran(engine, verb, *words, "-o", "json")).json()
        wrong = SPEC.check(body, schema(verb))
        check(not wrong, f"{verb} isn't as documented: {wrong}")
        lists = [name for name, value in body.items() if isinstance(value, list)]
        if verb in ("ls", "queue", "rooms", "attempts", "audit"):
            rows = [json.loads(line) for line in (await ran(engine, verb, *words, "-o", "jsonl")).out.splitlines()]
            equal(len(rows), len(body[lists[0]]), f"lines of {verb} -o jsonl")
    for subject in (user(engine), dead.user("bob"), room.room_id, good.event_ids()[-1]):
        body = (await ran(engine, "why", subject, "-o", "json")).json()
        check(not SPEC.check(body, schema("why")), f"why {subject}: {SPEC.check(body, schema('why'))}")
    body = (await ran(engine, "release", good.name, "-o", "json")).json()
    check(not SPEC.check(body, schema("act")), f"release: {body}")
    for line in (await ran(engine, "events", "-o", "jsonl")).out.splitlines():
        wrong = SPEC.check(json.loads(line), schema("events"))
        check(not wrong, f"{line}: {wrong}")
    done = await run_command([*binary(), "version", "-o", "json"])
    check(not SPEC.check(json.loads(done.out), schema("version")), done.out)
    equal(set(VERBS) - set(calls) - {"act", "events", "version"} - ELSEWHERE, set(), "verbs that nobody looked at")


@case("cli-quick")
async def quick(rig: Rig) -> None:
    """On an idle engine each verb answers within 50 ms of processor time and 250 ms of a loaded machine's time."""
    engine, good, dead, _ = await good_and_dead(rig)
    for words in (["status"], ["ls"], ["show", dead.name], ["why", dead.name], ["shape"], ["queue", dead.name]):
        best_wall, best_cpu = 99.0, 99.0
        for _ in range(5):
            before, began = os.times(), time.monotonic()
            await ran(engine, *words)
            after = os.times()
            best_wall = min(best_wall, time.monotonic() - began)
            best_cpu = min(best_cpu, after.children_user + after.children_system - before.children_user
                           - before.children_system)
        check(best_wall < 0.25, f"{words} took {best_wall * 1000:.0f} ms")
        check(best_cpu <= 0.05, f"{words} took {best_cpu * 1000:.0f} ms of processor time")


@case("cli-never-hangs", timeout=60)
async def never_hangs(rig: Rig) -> None:
    """An engine that doesn't answer is said within 2 s and a bit, with 69; so is one whose socket is a file."""
    engine, good, dead, _ = await good_and_dead(rig)
    assert engine.process
    os.kill(engine.process.pid, signal.SIGSTOP)
    try:
        for words in (["status"], ["why", dead.name], ["ls"], ["wake", dead.name], ["shape"]):
            began = time.monotonic()
            done = await ran(engine, *words, code=UNREACHABLE)
            took = time.monotonic() - began
            check(took < 2.4, f"{words} took {took:.1f} s")
            check(str(engine.socket) in done.err and not done.out, f"{words} says {done.err!r}")
    finally:
        os.kill(engine.process.pid, signal.SIGCONT)
    await asyncio.sleep(0)
    await engine.kill9()
    began = time.monotonic()
    await ran(engine, "status", code=UNREACHABLE)
    check(time.monotonic() - began < 2, "a dead engine is said at once")
