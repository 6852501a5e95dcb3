"""Runs the engine under test (RANVIER_BIN) in a temporary folder and speaks its host and admin APIs."""
from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, Iterable

import aiohttp
from yarl import URL

from . import matrix
from .exchange import quote
from .matrix import Json, Key
from .network import Network
from .process import Done, EngineError, binary, die_with_parent, free_port, kill_group, render, run_command
from .tls import Authority

ENGINE_IP = "127.0.0.1"
READY_WITHIN = float(os.environ.get("RIG_READY_WITHIN", "20"))


class Engine:
    """One engine with one data folder; may be started, killed and started again."""

    def __init__(self, net: Network, authority: Authority, overrides: Json | None = None) -> None:
        self.net = net
        self.folder = Path(tempfile.mkdtemp(prefix="rig-"))
        self.data = self.folder / "d"
        self.fed_port, self.host_port = free_port(), free_port()
        self.name = f"{ENGINE_IP}:{self.fed_port}"
        self.key = Key("host")
        self.socket = self.data / "admin.sock"
        self.config_file = self.folder / "ranvier.toml"
        self.log_file = self.folder / "log"
        self.process: asyncio.subprocess.Process | None = None
        self.clients: list[aiohttp.ClientSession] = []
        self.own_key = True
        self.config = self._config(authority, overrides or {})
        net.engine_name = self.name

    def _config(self, authority: Authority, overrides: Json) -> Json:
        certificate = authority.certificate("engine", [ENGINE_IP])
        config: Json = {
            "server_name": self.name, "data_dir": str(self.data),
            "federation": {"listen": self.name, "tls_certificate": str(certificate),
                           "tls_private_key": str(authority.key_file), "verify_certificates": True,
                           "ca_file": str(authority.ca_file), "ip_deny": []},
            "host": {"listen": f"127.0.0.1:{self.host_port}"},
            "backoff": {"first": "1s", "factor": 2.0, "max": "1d", "jitter": 0.0},
            "delivery": {"join_update_delay": "1s", "request_timeout": "20s", "connect_timeout": "5s"},
        }
        for section, values in overrides.items():
            if isinstance(values, dict):
                config.setdefault(section, {}).update(values)
            else:
                config[section] = values
        for values in config.values():
            if isinstance(values, dict):
                for key in [k for k, v in values.items() if v is None]:
                    del values[key]
        return config

    # --- life ---
    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def write_config(self) -> None:
        self.config_file.write_text(render(self.config))

    async def start(self, wait: bool = True, env: dict[str, str] | None = None,
                    words: tuple[str, ...] = (), through: tuple[str, ...] = ()) -> None:
        """Starts and waits for /readyz. `through`: a command that ends by running the words behind it (prlimit)."""
        command = [*through, *binary(), "serve", "--config", str(self.config_file), *words]
        self.data.mkdir(exist_ok=True)
        key_file = self.data / "signing.key"
        if self.own_key and not key_file.exists():
            key_file.write_text(self.key.file_line())
            key_file.chmod(0o600)
        self.write_config()
        self.net.epoch += 1
        with open(self.log_file, "ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=die_with_parent, cwd=self.folder,
                env={**os.environ, **(env or {})})
        if wait:
            await self.ready()

    async def ready(self) -> None:
        """Waits for /readyz and takes the engine's published key, which the peers then verify with."""
        assert self.process
        end = time.monotonic() + READY_WITHIN
        while time.monotonic() < end:
            if self.process.returncode is not None:
                raise EngineError(f"the engine ended at start with {self.process.returncode}: {self.log_tail()}")
            status, _ = await self.net.http("GET", self.host_url + "/readyz", None, {}, 2.0)
            if status == 200:
                break
            await asyncio.sleep(0.1)
        else:
            raise EngineError(f"/readyz is not 200 within {READY_WITHIN:.0f} s: {self.log_tail()}")
        try:
            await self.net.keys_of(self.name)
        except ValueError as problem:
            raise EngineError(f"the federation listener serves no good key: {problem}") from problem

    async def _gone(self, within: float) -> bool:
        assert self.process
        try:
            await asyncio.wait_for(self.process.wait(), within)
            return True
        except asyncio.TimeoutError:
            return False

    async def kill9(self) -> None:
        if self.running and self.process:
            kill_group(self.process.pid)
            await self._gone(5)
        await self._close_clients()

    async def stop(self, within: float = 15.0) -> int:
        """SIGTERM; the exit status. Raises if it does not end."""
        if not self.running or not self.process:
            raise EngineError(f"the engine is not running any more: {self.log_tail()}")
        os.kill(self.process.pid, signal.SIGTERM)
        if not await self._gone(within):
            raise EngineError(f"the engine does not end within {within:.0f} s of SIGTERM")
        kill_group(self.process.pid)
        await self._close_clients()
        return self.process.returncode or 0

    async def restart(self, kill: bool = False) -> None:
        if kill:
            await self.kill9()
        else:
            await self.stop()
        await self.start()

    async def close(self, keep: bool = False) -> None:
        await self.kill9()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    async def _close_clients(self) -> None:
        for client in self.clients:
            await client.close()
        self.clients.clear()

    def log_tail(self) -> str:
        try:
            return " | ".join(self.log_file.read_text(errors="replace").splitlines()[-2:])[-300:] or "no log"
        except OSError:
            return "no log"

    # --- host API ---
    @property
    def host_url(self) -> str:
        return f"http://127.0.0.1:{self.host_port}"

    def token(self) -> str:
        try:
            return (self.data / "host_token").read_text().strip()
        except OSError as problem:
            raise AssertionError("there is no <data_dir>/host_token") from problem

    async def host_raw(self, method: str, path: str, data: bytes | None = None, *, token: str | None = None,
                       content_type: str = "application/json", timeout: float = 30.0) -> tuple[int, Any]:
        headers = {"Content-Type": content_type} if data is not None else {}
        given = self.token() if token is None else token
        if given:
            headers["Authorization"] = f"Bearer {given}"
        return await self.net.http(method, self.host_url + path, data, headers, timeout)

    async def host(self, method: str, path: str, body: Any = None, timeout: float = 30.0) -> tuple[int, Any]:
        data = None if body is None else matrix.dumps(body).encode()
        return await self.host_raw(method, "/_ranvier/v1" + path, data, timeout=timeout)

    async def feed_lines(self, lines: Iterable[str], timeout: float = 60.0) -> tuple[int, Any]:
        data = ("\n".join(lines) + "\n").encode()
        return await self.host_raw("POST", "/_ranvier/v1/feed", data, content_type="application/x-ndjson",
                                   timeout=timeout)

    async def feed(self, *records: Json) -> Json:
        """Feeds records; all must be accepted (or skipped, if they were fed before). The answer."""
        status, body = await self.feed_lines([matrix.dumps(r) for r in records])
        if status != 200 or not isinstance(body, dict):
            raise AssertionError(f"feed answered {status}: {str(body)[:200]}")
        if body.get("accepted", 0) + body.get("skipped", 0) != len(records) or body.get("rejected"):
            raise AssertionError(f"feed of {len(records)} records answered {str(body)[:300]}")
        return body

    async def stream(self, after: int | None = None, timeout_ms: int = 0, limit: int = 100) -> Json:
        """Items after a position (which acknowledges up to it); without one from the oldest that is kept."""
        start = "" if after is None else f"after={after}&"
        status, body = await self.host(
            "GET", f"/stream?{start}timeout_ms={timeout_ms}&limit={limit}", timeout=timeout_ms / 1000 + 20)
        if status != 200 or not isinstance(body, dict) or not isinstance(body.get("items"), list):
            raise AssertionError(f"stream answered {status}: {str(body)[:200]}")
        return body

    async def keys_query(self, *users: str, timeout_ms: int = 10_000) -> Json:
        status, body = await self.host("POST", "/keys/query", {
            "device_keys": {u: [] for u in users}, "timeout": timeout_ms}, timeout=timeout_ms / 1000 + 20)
        if status != 200 or not isinstance(body, dict) or not isinstance(body.get("device_keys"), dict):
            raise AssertionError(f"keys/query answered {status}: {str(body)[:200]}")
        return body

    async def keys_claim(self, user_id: str, device_id: str, timeout_ms: int = 10_000,
                         algorithm: str = "signed_curve25519") -> Json:
        status, body = await self.host("POST", "/keys/claim", {
            "one_time_keys": {user_id: {device_id: algorithm}}, "timeout": timeout_ms}, timeout=timeout_ms / 1000 + 20)
        if status != 200 or not isinstance(body, dict) or not isinstance(body.get("one_time_keys"), dict):
            raise AssertionError(f"keys/claim answered {status}: {str(body)[:200]}")
        return body

    # --- admin API ---
    async def admin(self, method: str, path: str, body: Any = None, prefix: str = "/_ranvier/admin/v1",
                    timeout: float = 15.0) -> tuple[int, Any]:
        client = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(self.socket), force_close=True))
        try:
            async with client.request(method, URL("http://admin" + prefix + path, encoded=True),
                                      data=None if body is None else matrix.dumps(body).encode(),
                                      headers={} if body is None else {"Content-Type": "application/json"},
                                      timeout=aiohttp.ClientTimeout(total=timeout)) as got:
                raw = await got.read()
                try:
                    return got.status, json.loads(raw)
                except ValueError:
                    return got.status, raw.decode(errors="replace")
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as problem:
            return 0, f"{type(problem).__name__}: {problem}"
        finally:
            await client.close()

    async def destination(self, name: str) -> Json:
        """The D object of one destination, with the parts that every test reads."""
        status, body = await self.admin("GET", f"/destinations/{quote(name)}")
        if status != 200 or not isinstance(body, dict) or not isinstance(body.get("gate"), dict):
            raise AssertionError(f"admin destinations/{name} answered {status}: {str(body)[:200]}")
        return body

    async def gate(self, name: str) -> Json:
        return (await self.destination(name))["gate"]

    # --- command line ---
    async def cli(self, *words: str, stdin: str = "", env: dict[str, str] | None = None,
                  timeout: float = 15.0, data_dir: bool = True) -> Done:
        extra = ["--data-dir", str(self.data)] if data_dir else []
        return await run_command([*binary(), *words, *extra], stdin=stdin, env=env, timeout=timeout, cwd=self.folder)
