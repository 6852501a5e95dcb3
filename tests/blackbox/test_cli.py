"""The command line: exit codes, output, selectors (API 6)."""
from __future__ import annotations

import asyncio
import json

from rig import (Done, Engine, HostRoom, Rig, binary, case, check, equal, free_port, has, matrix, run_command,
                 until_async, user)
from rig.process import die_with_parent, kill_group
from test_admin import good_and_dead

OK, NO, USAGE, UNREACHABLE, CONFIG = 0, 1, 64, 69, 78


async def ran(engine: Engine, *words: str, code: int = OK, **kw: object) -> Done:
    """Runs a verb and checks its exit code; standard output must be free of colour."""
    done = await engine.cli(*words, **kw)  # type: ignore[arg-type]
    check(done.code == code, f"{' '.join(words)} ended with {done.code}, not {code}: {(done.err or done.out)[:160]}")
    check("\x1b[" not in done.out + done.err, f"{' '.join(words)} writes colour to a pipe")
    return done


@case("cli-version")
async def version(rig: Rig) -> None:
    """`version` prints name and version to standard output, without an engine."""
    for words in (["version"], ["--version"]):
        done = await run_command([*binary(), *words])
        equal(done.code, OK, f"the exit code of {words}")
        check("ranvier" in done.out.lower() and any(c.isdigit() for c in done.out), f"it prints {done.out[:60]!r}")
        equal(done.err, "", "standard error")


@case("cli-usage")
async def usage(rig: Rig) -> None:
    """No verb, an unknown verb, an unknown option, a missing argument: 64 with words on standard error; --help: 0."""
    for words in ([], ["no-such-verb"], ["status", "--no-such-option"], ["show"], ["hold", "x.test"],
                  ["status", "-o", "yaml"], ["ls", "--limit", "many"]):
        done = await run_command([*binary(), *words])
        equal(done.code, USAGE, f"the exit code of {words}")
        check(done.err.strip() and not done.out.strip(), f"{words}: words belong on standard error")
    for words in (["--help"], ["status", "--help"], ["serve", "--help"]):
        done = await run_command([*binary(), *words])
        check(done.code == OK and done.out.strip(), f"{words} ended with {done.code}")


@case("cli-engine-not-reachable")
async def unreachable(rig: Rig) -> None:
    """Without an engine the verbs that ask one end with 69 and say which socket they tried."""
    engine = rig.make_engine()
    for words in (["status"], ["ls"], ["show", "x.test"], ["actors"], ["wake", "x.test"]):
        done = await ran(engine, *words, code=UNREACHABLE)
        check(str(engine.data) in done.err, f"{words} says {done.err[:120]!r}")
        equal(done.out, "", "standard output")


@case("cli-status")
async def status(rig: Rig) -> None:
    """`status` names the server and counts destinations and what waits; with -o json it is JSON."""
    engine, good, dead, _ = await good_and_dead(rig)
    done = await ran(engine, "status")
    check(engine.name in done.out and "closed" in done.out and "3 pdus" in done.out, f"it prints {done.out[:200]!r}")
    check(isinstance((await ran(engine, "status", "-o", "json")).json(), dict), "-o json gives no object")
    check(isinstance((await ran(engine, "-o", "json", "status")).json(), dict), "options may stand before the verb")


@case("cli-by-socket-and-url")
async def ways(rig: Rig) -> None:
    """The engine is found by --data-dir, by --socket, and before or after the verb."""
    engine, good, dead, _ = await good_and_dead(rig)
    for words in (["status", "--socket", str(engine.socket)], ["--socket", str(engine.socket), "status"],
                  ["--data-dir", str(engine.data), "status"]):
        equal((await ran(engine, *words, data_dir=False)).code, OK, str(words))


@case("cli-show")
async def show(rig: Rig) -> None:
    """`show NAME -o json` is the destination object; as words it has state, reason and what waits; unknown name: 1."""
    engine, good, dead, _ = await good_and_dead(rig)
    body = (await ran(engine, "show", dead.name, "-o", "json")).json()
    equal([body["destination"], body["gate"]["state"], body["pending"]["pdus"]], [dead.name, "closed", 3], "the object")
    done = await ran(engine, "show", dead.name)
    check(dead.name in done.out and "closed" in done.out and "unreachable" in done.out, f"it prints {done.out!r}")
    done = await ran(engine, "show", "none.test", code=NO)
    check("none.test" in done.err and not done.out.strip(), "nothing on standard error, or output")


@case("cli-ls")
async def ls(rig: Rig) -> None:
    """`ls` lists, selects by name, glob, state and error class, and writes the formats it says."""
    engine, good, dead, _ = await good_and_dead(rig)

    async def names(*words: str) -> set[str]:
        lines = (await ran(engine, "ls", *words, "-o", "jsonl")).out.splitlines()
        return {json.loads(line)["destination"] for line in lines}
    equal(await names(), {good.name, dead.name}, "all")
    equal(await names(good.name), {good.name}, "by name")
    equal(await names("127.1.0.*"), {good.name, dead.name}, "by glob")
    equal(await names("*.example.org"), set(), "by a glob that fits none")
    equal(await names("--state", "closed"), {dead.name}, "by state")
    equal(await names("--error", "unreachable"), {dead.name}, "by error class")
    table = (await ran(engine, "ls")).out
    check("DESTINATION" in table and "STATE" in table and dead.name in table, f"the table is {table!r}")
    bare = (await ran(engine, "ls", "--no-headers")).out.splitlines()
    check(len(bare) == 2 and "DESTINATION" not in bare[0], f"without headers: {bare}")
    body = (await ran(engine, "ls", "-o", "json")).json()
    rows = body if isinstance(body, list) else body["destinations"]
    equal({r["destination"] for r in rows}, {good.name, dead.name}, "-o json")
    equal(len((await ran(engine, "ls", "--no-headers", "--limit", "1")).out.splitlines()), 1, "--limit 1")
    first = (await ran(engine, "ls", "--limit", "1", "-o", "json")).json()
    equal([len(first["destinations"]), first["total"]], [1, 2], "one of two")
    equal((await ran(engine, "ls", "--limit", "1", "--state", "closed", "-o", "json")).json()["total"], 1, "one of one")
    done = await ran(engine, "ls", "-", "-o", "jsonl", stdin=f"{dead.name}\n")
    equal([json.loads(line)["destination"] for line in done.out.splitlines()], [dead.name], "names from standard input")


@case("cli-actors")
async def actors(rig: Rig) -> None:
    """`actors` lists them; -o json is the API's answer."""
    engine, good, dead, _ = await good_and_dead(rig)
    table = (await ran(engine, "actors")).out
    check("ledger" in table and "supervisor" in table and dead.name in table, f"it prints {table[:200]!r}")
    body = (await ran(engine, "actors", "-o", "json")).json()
    rows = body if isinstance(body, list) else body["actors"]
    check({"ledger", "egress", "destination"} <= {r["kind"] for r in rows}, "kinds are missing")
    await ran(engine, "actors", "--sort", "mailbox")


@case("cli-act-on-selectors")
async def act(rig: Rig) -> None:
    """hold, release, wake, reset on a glob act on each; on a name nobody knows: 1; --dry-run does nothing."""
    engine, good, dead, _ = await good_and_dead(rig)
    await ran(engine, "hold", "127.1.0.*", "--reason", "all of them")
    for peer in (good, dead):
        equal((await engine.gate(peer.name))["state"], "held", "the gate")
    await ran(engine, "release", "--state", "held")
    equal([(await engine.gate(p.name))["state"] for p in (good, dead)], ["open", "closed"], "after the release")
    dead.up()
    await ran(engine, "wake", "--state", "closed")

    async def opened() -> bool:
        return (await engine.gate(dead.name))["state"] == "open"
    await until_async(opened, 5, "the woken one is open")
    for verb in ("wake", "reset", "release"):
        await ran(engine, verb, "none.test", code=NO)


@case("cli-check-config")
async def check_config(rig: Rig) -> None:
    """check-config accepts a good file and refuses a bad one with file and line; it makes nothing."""
    engine = rig.make_engine()
    engine.write_config()
    done = await run_command([*binary(), "check-config", "--config", str(engine.config_file)], cwd=engine.folder)
    equal(done.code, OK, f"the exit code ({done.err[:120]})")
    check(not engine.data.exists() or not list(engine.data.iterdir()), "it made files in the data folder")
    engine.config_file.write_text('server_name = "x.test"\n\n[backoff]\nfactor = "two"\n')
    done = await run_command([*binary(), "check-config", "--config", str(engine.config_file)], cwd=engine.folder)
    equal(done.code, CONFIG, "the exit code for a mistake")
    check("ranvier.toml" in done.err and "4" in done.err and "factor" in done.err, f"it says {done.err[:200]!r}")


@case("cli-generate-key")
async def generate_key(rig: Rig) -> None:
    """`generate-key` writes a key in Synapse's format to standard output; two are different."""
    lines = []
    for _ in range(2):
        done = await run_command([*binary(), "generate-key"])
        equal(done.code, OK, "the exit code")
        kind, version_, seed = done.out.strip().split()
        equal([kind, len(matrix.unb64(seed))], ["ed25519", 32], "the line")
        check(version_.replace("_", "").isalnum(), f"the version is {version_!r}")
        lines.append(done.out)
    check(lines[0] != lines[1], "both are the same")


@case("cli-sink", timeout=60)
async def sink(rig: Rig) -> None:
    """`sink` is a server that the engine delivers to; it prints what it gets as JSON lines, and fails as told."""
    port = free_port("127.0.2.1")
    name = f"127.0.2.1:{port}"
    engine = await rig.engine(federation={"verify_certificates": False}, backoff={"first": "300ms"})
    process = await asyncio.create_subprocess_exec(
        *binary(), "sink", "--name", name, "--listen", name, "--fail", "503:2", stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_parent)
    try:
        room = HostRoom(engine, f"@bob:{name}", user(engine))
        await asyncio.sleep(0.5)
        records = room.messages(user(engine), 2)
        await engine.feed(*room.roster(), *records)
        text = b""

        async def gather() -> None:
            nonlocal text
            assert process.stdout
            while not all(r["event_id"].encode() in text or r["event"]["content"]["body"].encode() in text
                          for r in records):
                text += await process.stdout.readline()
        await asyncio.wait_for(gather(), 15)

        async def settled() -> bool:  # the sink tells of an event before it answers
            return (await engine.gate(name))["consecutive_failures"] == 0
        await until_async(settled, 5, "no failures after the two scripted ones")
        for line in text.decode().splitlines():
            check(isinstance(json.loads(line), dict), f"{line[:80]!r} is no JSON object")
    finally:
        kill_group(process.pid)
        await process.wait()


@case("cli-words-and-data")
async def words(rig: Rig) -> None:
    """NO_COLOR and pipes: no colour; an empty list is no fault and prints no data."""
    engine = await rig.engine()
    done = await ran(engine, "ls", "-o", "jsonl", env={"NO_COLOR": "1"})
    equal(done.out, "", "standard output of an empty list")
    done = await ran(engine, "ls", "-o", "json")
    check(done.json() in ([], {"destinations": [], "total": 0}) or not done.json().get("destinations"), done.out)
    peer = rig.peer(1)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await has(peer, records, 5)
    equal(len((await ran(engine, "ls", "-o", "jsonl")).out.splitlines()), 1, "lines")
