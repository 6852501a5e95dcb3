"""A real Synapse on loopback: installed from PyPI under the build folder, with its own name, keys and SQLite."""
from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from rig import Authority, Json, Network, free_port, matrix, quote
from rig.process import die_with_parent

# Otherwise a /sync gives the newest ten events of a room and leaves out what came before them.
WHOLE_TIMELINE = matrix.dumps({"room": {"timeline": {"limit": 500}}})
HIGH = {"per_second": 10_000, "burst_count": 10_000}


class Unavailable(Exception):
    """Synapse can't be installed here."""


def install(folder: Path) -> Path:
    """The virtual environment's Python, with Synapse in it; made when it is not there yet (about a minute)."""
    python = folder / "venv" / "bin" / "python"
    done = folder / "venv" / "installed"
    if done.exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    print("installing Synapse from PyPI into a virtual environment ...", flush=True)
    for words in (["/usr/bin/python3", "-m", "venv", str(folder / "venv")],
                  [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--prefer-binary",
                   "matrix-synapse"]):
        made = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
        if made.returncode:
            raise Unavailable((made.stderr or made.stdout).strip().splitlines()[-1:] or words)
    done.touch()
    return python


class Synapse:
    """One homeserver named 127.0.3.NUMBER:PORT. `start` and `stop` may alternate; its data stays until `close`."""

    def __init__(self, python: Path, folder: Path, authority: Authority, net: Network, number: int = 1) -> None:
        self.python, self.folder, self.net, self.authority = python, folder, net, authority
        self.ip = f"127.0.3.{number}"
        self.port = free_port(self.ip)
        self.name = f"{self.ip}:{self.port}"
        self.process: asyncio.subprocess.Process | None = None
        folder.mkdir(parents=True, exist_ok=True)
        certificate = authority.certificate(f"synapse{number}", [self.ip])
        self.config = folder / "homeserver.json"  # JSON is YAML
        self.config.write_text(matrix.dumps(self._settings(authority, certificate)))
        key = matrix.Key("syn", hashlib.sha256(self.name.encode()).digest())
        (folder / "signing.key").write_text(key.file_line())

    def _settings(self, authority: Authority, certificate: Path) -> Json:
        listener = {"port": self.port, "bind_addresses": [self.ip], "type": "http", "tls": True,
                    "resources": [{"names": ["client", "federation"]}]}
        return {
            "server_name": self.name, "report_stats": False, "pid_file": str(self.folder / "pid"),
            "listeners": [listener], "tls_certificate_path": str(certificate),
            "tls_private_key_path": str(authority.key_file), "federation_custom_ca_list": [str(authority.ca_file)],
            "database": {"name": "sqlite3", "args": {"database": str(self.folder / "homeserver.db")}},
            "media_store_path": str(self.folder / "media"), "signing_key_path": str(self.folder / "signing.key"),
            "log_config": self._log_config(), "trusted_key_servers": [], "suppress_key_server_warning": True,
            "ip_range_blacklist": [], "federation_ip_range_blacklist": [], "presence": {"enabled": False},
            "allow_device_name_lookup_over_federation": True,
            "enable_registration": True, "enable_registration_without_verification": True,
            "macaroon_secret_key": "interop", "form_secret": "interop",
            "rc_message": HIGH, "rc_registration": HIGH, "rc_admin_redaction": HIGH,
            "rc_login": {"address": HIGH, "account": HIGH, "failed_attempts": HIGH},
            "rc_joins": {"local": HIGH, "remote": HIGH}, "rc_joins_per_room": HIGH,
            "rc_invites": {"per_room": HIGH, "per_user": HIGH, "per_issuer": HIGH},
            "rc_federation": {"window_size": 1000, "sleep_limit": 100_000, "sleep_delay": 1, "reject_limit": 100_000,
                              "concurrent": 100},
        }

    def _log_config(self) -> str:
        path = self.folder / "log.json"
        path.write_text(matrix.dumps({
            "version": 1, "formatters": {"f": {"format": "%(asctime)s %(name)s %(levelname)s %(message)s"}},
            "handlers": {"file": {"class": "logging.FileHandler", "formatter": "f",
                                  "filename": str(self.folder / "homeserver.log")}},
            "root": {"level": "INFO", "handlers": ["file"]}}))
        return str(path)

    def another(self) -> "Synapse":
        """A second one, beside it."""
        folder = self.folder.with_name(self.folder.name + "2")
        shutil.rmtree(folder, ignore_errors=True)
        return Synapse(self.python, folder, self.authority, self.net, 2)

    # --- life ---
    async def start(self, within: float = 60.0) -> None:
        with open(self.folder / "stderr", "ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                str(self.python), "-m", "synapse.app.homeserver", "-c", str(self.config), stdout=log, stderr=log,
                start_new_session=True, preexec_fn=die_with_parent, cwd=self.folder,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        for _ in range(int(within / 0.2)):
            if self.process.returncode is not None:
                break
            status, _ = await self.net.http("GET", f"https://{self.name}/_matrix/client/versions", None, {}, 2.0)
            if status == 200:
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"Synapse doesn't start: {(self.folder / 'stderr').read_text()[-400:]}")

    async def stop(self) -> None:
        if self.process and self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.wait()

    # --- client API ---
    async def client(self, method: str, path: str, body: Any = None, token: str = "", timeout: float = 30.0) -> Any:
        """An answer of the client-server API; anything but 200 fails."""
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else matrix.dumps(body).encode()
        status, answer = await self.net.http(method, f"https://{self.name}/_matrix/client/v3{path}", data, headers,
                                             timeout)
        if status != 200:
            raise AssertionError(f"Synapse answered {method} {path} with {status}: {str(answer)[:300]}")
        return answer

    async def register(self, local: str) -> "User":
        made = await self.client("POST", "/register", {
            "username": local, "password": "interop", "auth": {"type": "m.login.dummy"}, "device_id": "SYN1"})
        return User(self, made["user_id"], made["access_token"], made["device_id"])


class User:
    """A user of Synapse with one device; `sync` gathers what it is told."""

    def __init__(self, synapse: Synapse, user_id: str, token: str, device_id: str) -> None:
        self.synapse, self.user_id, self.token, self.device_id = synapse, user_id, token, device_id
        self.since = ""
        self.to_device: list[Json] = []
        self.events: list[Json] = []
        self.changed: list[str] = []  # device_lists.changed
        self._txn = 0

    async def call(self, method: str, path: str, body: Any = None, timeout: float = 30.0) -> Any:
        return await self.synapse.client(method, path, body, self.token, timeout)

    async def create_room(self, version: str) -> str:
        made = await self.call("POST", "/createRoom", {"preset": "public_chat", "name": "interop",
                                                       "room_version": version})
        return made["room_id"]

    async def say(self, room_id: str, text: str) -> str:
        self._txn += 1
        made = await self.call("PUT", f"/rooms/{quote(room_id)}/send/m.room.message/t{self._txn}",
                               {"msgtype": "m.text", "body": text})
        return made["event_id"]

    async def send_to_device(self, kind: str, user_id: str, device_id: str, content: Json) -> None:
        self._txn += 1
        await self.call("PUT", f"/sendToDevice/{kind}/t{self._txn}", {"messages": {user_id: {device_id: content}}})

    async def sync(self, timeout_ms: int = 0) -> None:
        since = f"&since={quote(self.since)}" if self.since else ""
        got = await self.call("GET", f"/sync?timeout={timeout_ms}&filter={quote(WHOLE_TIMELINE)}{since}",
                              timeout=timeout_ms / 1000 + 20)
        self.since = got["next_batch"]
        self.to_device += got.get("to_device", {}).get("events", [])
        self.changed += got.get("device_lists", {}).get("changed", [])
        for room in got.get("rooms", {}).get("join", {}).values():
            timeline = room.get("timeline", {})
            self.events += room.get("state", {}).get("events", []) + timeline.get("events", [])

    def read(self, sender: str) -> list[str]:
        """The texts that this user has read of one sender, in order."""
        return [e["content"].get("body", "") for e in self.events
                if e["type"] == "m.room.message" and e["sender"] == sender]


