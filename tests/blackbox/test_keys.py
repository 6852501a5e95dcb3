"""Keys that we publish, and unknown endpoints of the federation listener (PROTOCOL K1-K14, H3-H5, H11)."""
from __future__ import annotations

import asyncio
import json

import aiohttp

from rig import Engine, Rig, case, check, equal, matrix
from rig.matrix import Key


async def raw_get(rig: Rig, engine: Engine, path: str, method: str = "GET") -> tuple[int, bytes, str]:
    async with aiohttp.ClientSession() as client:
        async with client.request(method, f"https://{engine.name}{path}",
                                  ssl=rig.authority.client_context()) as got:
            return got.status, await got.read(), got.headers.get("Content-Type", "")


@case("keys-published")
async def published(rig: Rig) -> None:
    """/key/v2/server: canonical bytes, self-signed, valid for over an hour, old_verify_keys; without authentication."""
    engine = await rig.engine()
    status, raw, content_type = await raw_get(rig, engine, "/_matrix/key/v2/server")
    body = json.loads(raw)
    equal([status, content_type.partition(";")[0]], [200, "application/json"], "status and type")
    equal(raw, matrix.canonical(body), "the bytes")
    equal([body["server_name"], body["old_verify_keys"]], [engine.name, {}], "name and old_verify_keys")
    equal(body["verify_keys"], {engine.key.key_id: {"key": engine.key.public_text}}, "verify_keys")
    check(matrix.verify_json(engine.name, {engine.key.key_id: engine.key.public_text}, body), "the signature is wrong")
    check(3_600_000 < body["valid_until_ts"] - matrix.now_ms() < 8 * 86_400_000, "valid_until_ts")
    equal([list(body["signatures"]), list(body["signatures"][engine.name])], [[engine.name], [engine.key.key_id]],
          "the signatures")
    status, alias, _ = await raw_get(rig, engine, f"/_matrix/key/v2/server/{engine.key.key_id}")
    equal([status, json.loads(alias)["verify_keys"]], [200, body["verify_keys"]], "the alias with a key id (K14)")


@case("keys-old-and-further")
async def old_and_further(rig: Rig) -> None:
    """old_keys are published as old_verify_keys with expired_ts, also_keys among the current ones."""
    old, further = Key("old"), Key("further")
    engine = rig.make_engine(
        old_keys=[{"key_id": old.key_id, "key": old.public_text, "expired_ms": 1234}])
    engine.config["also_keys"] = [{"key_id": further.key_id, "key": further.public_text}]
    await engine.start()
    status, raw, _ = await raw_get(rig, engine, "/_matrix/key/v2/server")
    body = json.loads(raw)
    equal(body["old_verify_keys"], {old.key_id: {"key": old.public_text, "expired_ts": 1234}}, "old_verify_keys")
    equal(body["verify_keys"].get(further.key_id), {"key": further.public_text}, "the further key")
    check(matrix.verify_json(engine.name, {engine.key.key_id: engine.key.public_text}, body), "the signature is wrong")


@case("keys-made-at-first-start")
async def made(rig: Rig) -> None:
    """Without a signing key one is made (0600, Synapse's format) and kept; so are the tokens and the socket (0600)."""
    engine = rig.make_engine()
    engine.own_key = False
    await engine.start()
    key_file = engine.data / "signing.key"
    line = key_file.read_text()
    kind, version, seed = line.split()
    equal([kind, len(matrix.unb64(seed)), "=" in seed], ["ed25519", 32, False], "the key file")
    check(version.replace("_", "").isalnum(), f"the version is {version!r}")
    for name in ("signing.key", "host_token", "admin.sock"):
        mode = (engine.data / name).stat().st_mode & 0o777
        equal(oct(mode), "0o600", f"mode of {name}")
    check(len(engine.token()) >= 32, "the token is short")
    token = engine.token()
    await engine.restart()
    equal([key_file.read_text(), engine.token()], [line, token], "key and token after a restart")
    published_ = await rig.net.keys_of(engine.name)
    equal(published_, {f"ed25519:{version}": Key(version, matrix.unb64(seed)).public_text}, "the published key")


@case("keys-synapse-format")
async def synapse_format(rig: Rig) -> None:
    """A key file with a blank line at its end is read."""
    engine = rig.make_engine()
    engine.data.mkdir()
    (engine.data / "signing.key").write_text(engine.key.file_line() + "\n")
    engine.own_key = False
    await engine.start()
    equal(await rig.net.keys_of(engine.name), {engine.key.key_id: engine.key.public_text}, "the published key")


@case("federation-version")
async def version(rig: Rig) -> None:
    """/version needs no authentication and names the server (H11)."""
    engine = await rig.engine()
    status, raw, content_type = await raw_get(rig, engine, "/_matrix/federation/v1/version")
    body = json.loads(raw)
    equal([status, content_type.partition(";")[0]], [200, "application/json"], "status and type")
    check("ranvier" in body["server"]["name"].lower() and body["server"]["version"], f"it says {body}")


@case("federation-unknown-endpoints")
async def unknown(rig: Rig) -> None:
    """Unknown paths: 404 M_UNRECOGNIZED; known ones with a wrong method: 405; always JSON with a sentence (H3-H5)."""
    engine = await rig.engine()
    peer = rig.peer(1)
    rows = [("GET", "/_matrix/unknown", 404), ("GET", "/_matrix/federation/v1/no_such", 404),
            ("GET", "/_matrix/key/v2/no_such", 404), ("POST", "/_matrix/key/unknown", 404), ("GET", "/", 404),
            ("GET", "/_matrix/federation/v3/send/x", 404), ("GET", "/_matrix/client/versions", 404),
            ("PUT", "/_matrix/federation/v1/version", 405), ("POST", "/_matrix/federation/v1/version", 405),
            ("POST", "/_matrix/key/v2/server", 405), ("POST", "/_matrix/federation/v1/send/x", 405),
            ("GET", "/_matrix/federation/v1/send/x", 405), ("GET", "/_ranvier/v1/stream", 404)]
    for method, path, wanted in rows:
        status, raw, content_type = await raw_get(rig, engine, path, method)
        check(content_type.startswith("application/json"), f"{method} {path}: Content-Type is {content_type!r}")
        body = json.loads(raw)
        check(status == wanted or status == 401 and "/federation/" in path, f"{method} {path}: {status}, not {wanted}")
        check(body.get("errcode") and body.get("error"), f"{method} {path}: {body}")
        if status in (404, 405):
            equal(body["errcode"], "M_UNRECOGNIZED", f"errcode of {method} {path}")
    for method, path, wanted in rows:  # and signed
        if "/federation/" in path:
            status, body = await peer.request(method, path, None if method == "GET" else {})
            equal([status, body.get("errcode")], [wanted, "M_UNRECOGNIZED"], f"signed {method} {path}")


@case("federation-slow-clients-stop-nobody", timeout=60)
async def slow_clients(rig: Rig) -> None:
    """300 connections that send nothing, or a byte now and then, don't keep others from being served."""
    engine = await rig.engine()
    peer = rig.peer(1)
    context = rig.authority.client_context()
    kept = []
    for number in range(300):
        if number % 3 == 0:
            kept.append(await asyncio.open_connection("127.0.0.1", engine.fed_port))
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", engine.fed_port, ssl=context)
            writer.write(b"PUT /_matrix/federation/v1/send/x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n")
            kept.append((reader, writer))
    for _ in range(5):
        equal((await peer.send(timeout=5))[0], 200, "a transaction beside 300 slow clients")
    for _, writer in kept:
        writer.close()


@case("federation-http-oddities")
async def oddities(rig: Rig) -> None:
    """Garbage, huge headers, both length and chunked, and a missing Host end in a 4xx or a closed connection."""
    engine = await rig.engine()
    peer = rig.peer(1)
    context = rig.authority.client_context()
    heads = [b"\x00\x01\x02garbage\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"/x" * 20_000 + b" HTTP/1.1\r\n\r\n",
             b"GET / HTTP/1.1\r\n" + b"".join(b"H%d: x\r\n" % n for n in range(5000)) + b"\r\n",
             b"PUT /_matrix/federation/v1/send/x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
             b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
             b"PUT /_matrix/federation/v1/send/x HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"]
    for head in heads:
        reader, writer = await asyncio.open_connection("127.0.0.1", engine.fed_port, ssl=context)
        try:
            writer.write(head)
            await writer.drain()
            got = await asyncio.wait_for(reader.read(64), 15)
            check(not got or b" 4" in got[:12], f"{head[:30]!r} was answered {got!r}")
        except ConnectionError:
            pass
        finally:
            writer.close()
    equal((await peer.send())[0], 200, "a transaction afterwards")
