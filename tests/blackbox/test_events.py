"""What happens, live: events, trace, stat, top, config (API 5, 6)."""
from __future__ import annotations

import asyncio
import json
from typing import Any

from rig import Engine, Rig, binary, case, check, equal, has, quote, until_async, user
from rig.process import die_with_parent, kill_group
from test_admin import good_and_dead
from test_cli import NO, UNREACHABLE, USAGE, ran


class Running:
    """A verb that goes on; its lines as they come."""

    def __init__(self, engine: Engine, *words: str) -> None:
        self.engine, self.words, self.lines = engine, words, []
        self.process: Any = None

    async def __aenter__(self) -> "Running":
        self.process = await asyncio.create_subprocess_exec(
            *binary(), *self.words, "--data-dir", str(self.engine.data), stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True, preexec_fn=die_with_parent)
        self.task = asyncio.create_task(self._read())
        return self

    async def _read(self) -> None:
        while line := await self.process.stdout.readline():
            self.lines.append(line.decode().rstrip("\n"))

    async def __aexit__(self, *_: object) -> None:
        kill_group(self.process.pid)
        await self.process.wait()
        self.task.cancel()

    async def ended(self, within: float) -> int:
        return await asyncio.wait_for(self.process.wait(), within)


@case("events-kept")
async def kept(rig: Rig) -> None:
    """`events` shows what happened lately and ends; as JSON each has a slug, a moment, and fields."""
    engine, good, dead, _ = await good_and_dead(rig)
    words = (await ran(engine, "events")).out
    check("ready" in words and "destination_closed" in words and dead.name in words, words)
    all_ = [json.loads(line) for line in (await ran(engine, "events", "-o", "jsonl")).out.splitlines()]
    check(all(e["number"] and e["at_ms"] and e["level"] and e["event"] for e in all_), f"members lack: {all_[:1]}")
    closed = [e for e in all_ if e["event"] == "destination_closed"]
    equal([(e["destination"], e["class"]) for e in closed], [(dead.name, "unreachable")], "the closing")
    equal(len((await ran(engine, "events", "--last", "1")).out.splitlines()), 1, "--last 1")
    for query in ("last=x", "follow=maybe", "after=-1"):
        equal((await engine.admin("GET", "/events?" + query))[0], 400, query)


@case("events-follow")
async def follow(rig: Rig) -> None:
    """`events -f` goes on, shows each thing within a second, and ends when the engine does, saying so."""
    engine, good, dead, _ = await good_and_dead(rig)
    async with Running(engine, "events", "-f", "-o", "jsonl") as running:
        await ran(engine, "hold", good.name, "--reason", "look at it")

        async def told() -> bool:
            return any(e["event"] == "operator" and e["reason"] == "look at it"
                       for e in map(json.loads, running.lines))
        await until_async(told, 3, "the hold is told")
        await engine.stop()
        code = await running.ended(5)
        check(code in (0, UNREACHABLE), f"the exit code is {code}")


@case("trace-one")
async def trace(rig: Rig) -> None:
    """`trace NAME` tells what is owed to it, each request and how it ended, and nothing of others."""
    engine, good, dead, room = await good_and_dead(rig)
    async with Running(engine, "trace", good.name, "-o", "jsonl") as running:
        await asyncio.sleep(0.5)
        records = room.messages(user(engine), 2)
        await engine.feed(*records)
        await has(good, records, 5)

        async def told() -> bool:
            return any(json.loads(line)["event"] == "request_ended" for line in running.lines)
        await until_async(told, 3, "the request's end is told")
        all_ = [json.loads(line) for line in running.lines]
        equal({e["destination"] for e in all_}, {good.name}, "whom it tells of")
        check({"entry", "request_begins", "request_ended"} <= {e["event"] for e in all_}, f"it told {all_}")
        ended = [e for e in all_ if e["event"] == "request_ended"][0]
        equal([ended["request"], ended["outcome"], ended["status"]], ["PUT /send", "ok", "200"], "its end")
    await ran(engine, "trace", "none.test", code=NO)
    equal((await engine.admin("GET", "/trace?destination=no%20name"))[0], 400, "a name that is none")


@case("streams-are-bounded")
async def bounded(rig: Rig) -> None:
    """Eight readers of events leave the admin API quick; a ninth is refused; after they go, it is served."""
    engine = await rig.engine()
    runs = [Running(engine, "events", "-f", "-o", "jsonl") for _ in range(8)]
    for one in runs:
        await one.__aenter__()

    async def all_read() -> bool:
        return all(one.lines for one in runs)
    try:
        await until_async(all_read, 5, "all eight read")
        await ran(engine, "events", code=UNREACHABLE)
        await ran(engine, "status")
    finally:
        for one in runs:
            await one.__aexit__()

    async def served() -> bool:
        return (await engine.cli("events")).code == 0
    await until_async(served, 5, "it is served again")
    equal(await engine.stop(), 0, "the engine ends")


@case("stat-top-watch")
async def meters(rig: Rig) -> None:
    """`stat` and `top` show numbers, `ls --watch` shows the list again and again; all end when told."""
    engine, good, dead, _ = await good_and_dead(rig)
    lines = (await ran(engine, "stat", "0.2", "--count", "3")).out.splitlines()
    equal(len(lines), 4, "a title and three lines")
    equal(len(lines[0].split()), 11, "titles")
    equal(lines[1].split()[:4], ["1", "1", "0", "3"], "open, closed, held, pdus")
    words = (await ran(engine, "top")).out
    check(words.startswith("ranvier ") and words.index(dead.name) < words.index(good.name), f"top: {words}")
    async with Running(engine, "ls", "--watch", "0.2", "--no-headers") as running:
        async def again() -> bool:
            return len(running.lines) >= 6
        await until_async(again, 5, "three pictures of two lines")
    await ran(engine, "ls", "--watch=soon", code=USAGE)


@case("config-show")
async def config(rig: Rig) -> None:
    """`config show` has every key as the file would have it; --origin says where each was given; no secret is in it."""
    engine = await rig.engine(backoff={"first": "3s"})
    await engine.stop()
    await engine.start(env={"RANVIER_LOG_LEVEL": "debug"})
    words = (await ran(engine, "config", "show")).out
    check('server_name = "' + engine.name + '"' in words and "[backoff]" in words and 'first = "3s"' in words, words)
    check("#" not in words, "origins that nobody asked for")
    words = (await ran(engine, "config", "show", "--origin")).out
    line = [n for n, t in enumerate(engine.config_file.read_text().splitlines(), 1) if t.startswith("first")][0]
    check(f"# {engine.config_file}:{line}" in words and "# RANVIER_LOG_LEVEL" in words and "# default" in words, words)
    body = (await ran(engine, "config", "show", "-o", "json")).json()
    equal({c["key"]: c["value"] for c in body["config"]}["backoff.first"], '"3s"', "-o json")
    seed = (engine.data / "signing.key").read_text().split()[2]
    check(seed not in json.dumps(body) and engine.token() not in json.dumps(body), "a secret is shown")
    copy = engine.folder / "copy.toml"
    copy.write_text(words)
    done = await engine.cli("check-config", "--config", str(copy), data_dir=False)
    equal(done.code, 0, f"what it shows is a configuration ({done.err[:200]})")
