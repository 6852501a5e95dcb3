"""Configuration and start: mistakes are named, identity is guarded, one engine a folder (API 2)."""
from __future__ import annotations

import asyncio
import sqlite3

from rig import Done, Engine, Rig, binary, case, check, equal, has, run_command, user
from rig.matrix import Key

CONFIG = 78


async def start_fails(engine: Engine, *words: str, env: dict[str, str] | None = None) -> Done:
    """`serve` with the engine's configuration file, which must end by itself with 78 and words on standard error."""
    done = await run_command([*binary(), "serve", "--config", str(engine.config_file), *words], env=env,
                             cwd=engine.folder, timeout=15)
    equal(done.code, CONFIG, f"the exit code ({(done.err or done.out)[-200:]})")
    check(done.err.strip(), "no word on standard error")
    return done


@case("config-mistakes", timeout=90)
async def mistakes(rig: Rig) -> None:
    """Unknown keys and sections, wrong types and unusable values: 78, with the key and the line."""
    base = 'server_name = "x.test"\n'
    rows = [("unknown = 1", "unknown"), ("[nothing]\na = 1", "nothing"), ("[federation]\nlisten = 8448", "listen"),
            ('[federation]\nlisten = "nowhere"', "listen"), ('[backoff]\nfirst = "soon"', "first"),
            ("[backoff]\nfactor = 0.5", "factor"), ("[backoff]\njitter = 2.0", "jitter"),
            ("[limits]\ntransaction_pdus = 0", "transaction_pdus"), ("[limits]\ntransaction_pdus = 51", "pdus"),
            ("[limits]\ntransaction_edus = 101", "edus"), ('[log]\nlevel = "loud"', "level"),
            ('[federation]\nip_deny = ["10.0.0.0/99"]', "ip_deny"), ('[federation]\ndeny = "x"', "deny"),
            ('[federation.addresses]\n"a.test" = "nowhere"', "a.test"), ('[host]\nconsumers = []', "consumers"),
            ('[federation]\ntls_certificate = "/nonexistent.pem"', "tls"), ("[delivery]\nmax_in_flight = 0", "max_in"),
            ("server_name", "")]
    for text, word in rows:
        engine = rig.make_engine()
        engine.config_file.write_text(base + text + "\n")
        done = await run_command([*binary(), "check-config", "--config", str(engine.config_file)], cwd=engine.folder)
        check(done.code == CONFIG, f"{text!r}: {done.code} {done.err[:100]}")
        check(word in done.err and "ranvier.toml" in done.err, f"{text!r} says {done.err[:200]!r}")
    for name in ("", "bad name", "x.test:port", "x.test:99999", "@a:b"):
        engine = rig.make_engine(server_name=name)
        engine.write_config()
        done = await run_command([*binary(), "check-config", "--config", str(engine.config_file)], cwd=engine.folder)
        check(done.code == CONFIG and "server_name" in done.err, f"{name!r}: {done.code} {done.err[:100]}")


@case("config-no-server-name")
async def no_name(rig: Rig) -> None:
    """`serve` without a server name, or with a file that isn't there, ends with 78."""
    engine = rig.make_engine()
    del engine.config["server_name"]
    engine.write_config()
    done = await start_fails(engine)
    check("server_name" in done.err, f"it says {done.err[-200:]!r}")
    done = await run_command([*binary(), "serve", "--config", "/nonexistent/x.toml"], cwd=engine.folder)
    check(done.code in (64, CONFIG) and "/nonexistent/x.toml" in done.err, f"{done.code}: {done.err[:100]}")


@case("config-environment")
async def environment(rig: Rig) -> None:
    """RANVIER_SECTION_KEY beats the file; arrays are JSON; mistakes there are named too."""
    engine = rig.make_engine()
    peer = rig.peer(1)
    engine.config["federation"]["ip_deny"] = ["127.0.0.0/8"]
    await engine.start(env={"RANVIER_FEDERATION_IP_DENY": "[]", "RANVIER_LIMITS_TRANSACTION_PDUS": "5"})
    hold = peer.hold("/send/", times=1)
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    while not hold.arrived:
        await asyncio.sleep(0.05)
    more = room.messages(user(engine), 12)
    await engine.feed(*more)
    hold.release()
    await has(peer, records + more, 6)
    check(max(len(t.pdus) for t in peer.transactions) == 5, "RANVIER_LIMITS_TRANSACTION_PDUS had no effect")
    await engine.stop()
    for env, word in (({"RANVIER_BACKOFF_FACTOR": "two"}, "RANVIER_BACKOFF_FACTOR"),
                      ({"RANVIER_FEDERATION_DENY": "x"}, "RANVIER_FEDERATION_DENY")):
        done = await start_fails(engine, env=env)
        check(word in done.err, f"{env}: it says {done.err[-200:]!r}")


@case("config-identity-is-guarded", timeout=90)
async def identity(rig: Rig) -> None:
    """Another server name or key than the database was made with: refused with 78, unless told to accept it."""
    engine = await rig.engine()
    await engine.stop()
    other = Key("another")
    (engine.data / "signing.key").write_text(other.file_line())
    done = await start_fails(engine)
    check("key" in done.err and "--accept-new-identity" in done.err, f"it says {done.err[-300:]!r}")
    (engine.data / "signing.key").write_text(engine.key.file_line())
    name = engine.config["server_name"]
    engine.config["server_name"] = "other.example.org"
    engine.write_config()
    done = await start_fails(engine)
    check("other.example.org" in done.err and name in done.err, f"it says {done.err[-300:]!r}")
    engine.config["server_name"] = name
    await engine.start()
    await engine.stop()
    (engine.data / "signing.key").write_text(other.file_line())
    engine.own_key = False
    rig.net.engine_keys.clear()
    await engine.start(words=("--accept-new-identity",))
    equal(await rig.net.keys_of(engine.name), {other.key_id: other.public_text}, "the published key")
    await engine.restart()


@case("config-one-engine-a-folder")
async def one_engine(rig: Rig) -> None:
    """A second engine on the same data folder ends with 78 and disturbs the first in nothing."""
    engine = await rig.engine()
    peer = rig.peer(1)
    done = await start_fails(engine)
    check(str(engine.data) in done.err, f"it says {done.err[-200:]!r}")
    room = await rig.shared(engine, peer)
    records = room.messages(user(engine), 1)
    await engine.feed(*records)
    await has(peer, records, 5)


@case("config-bad-key-file")
async def bad_key(rig: Rig) -> None:
    """A signing key that is none: 78, with the path; no database is made."""
    for text in ("", "rsa 1 abc\n", "ed25519 1 tooshort\n", "ed25519 bad!version " + "A" * 43 + "\n"):
        engine = rig.make_engine()
        engine.data.mkdir()
        engine.own_key = False
        (engine.data / "signing.key").write_text(text)
        engine.write_config()
        done = await start_fails(engine)
        check("signing.key" in done.err, f"{text!r}: it says {done.err[-200:]!r}")
        check((engine.data / "signing.key").read_text() == text, "the file was changed")


@case("config-newer-database")
async def newer_database(rig: Rig) -> None:
    """A database that a newer version made is left alone: 78."""
    engine = await rig.engine()
    await engine.stop()
    files = [p for p in engine.data.iterdir() if p.read_bytes()[:15] == b"SQLite format 3"]
    equal(len(files), 1, f"databases in {sorted(p.name for p in engine.data.iterdir())}")
    with sqlite3.connect(files[0]) as database:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        check(version > 0, "PRAGMA user_version is not used")
        database.execute(f"PRAGMA user_version = {version + 1000}")
    database.close()
    done = await start_fails(engine)
    check("newer" in done.err, f"it says {done.err[-200:]!r}")


@case("config-port-in-use")
async def port_in_use(rig: Rig) -> None:
    """A port that is taken: the engine ends with a sentence that names the address."""
    engine = await rig.engine()
    other = rig.make_engine()
    other.config["host"]["listen"] = engine.config["host"]["listen"]
    other.write_config()
    done = await run_command([*binary(), "serve", "--config", str(other.config_file)], cwd=other.folder)
    check(done.code != 0 and engine.config["host"]["listen"] in done.err, f"{done.code}: {done.err[-200:]!r}")


@case("config-plain-federation-listener")
async def plain(rig: Rig) -> None:
    """Without a certificate the federation listener speaks plain HTTP, for a reverse proxy."""
    engine = rig.make_engine()
    for key in ("tls_certificate", "tls_private_key"):
        del engine.config["federation"][key]
    rig.net.bases[engine.name] = f"http://{engine.name}"
    await engine.start()
    status, body = await rig.peer(1).send()
    equal([status, body], [200, {"pdus": {}}], "a transaction over plain HTTP")
