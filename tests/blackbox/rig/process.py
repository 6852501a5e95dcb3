"""Starting programs: the engine's command, ports, configuration as TOML, commands that end."""
from __future__ import annotations

import asyncio
import ctypes
import itertools
import json
import os
import random
import shlex
import shutil
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .matrix import Json


class EngineError(Exception):
    """The engine did not do what every test needs (start, answer, stop)."""


def binary() -> list[str]:
    """The command of the engine, or EngineError."""
    words = shlex.split(os.environ.get("RANVIER_BIN", ""))
    if not words:
        raise EngineError("no engine binary: RANVIER_BIN is not set")
    if not (shutil.which(words[0]) or os.access(words[0], os.X_OK)):
        raise EngineError(f"no engine binary: {words[0]} can't be run")
    return words


# Below the kernel's range for outgoing connections (from 32768), so that nobody's source port is in the way; each
# process begins somewhere else.
_ports = itertools.count(random.Random(os.getpid()).randrange(20000, 30000))


def free_port(ip: str = "127.0.0.1") -> int:
    for _ in range(2000):
        port = 20000 + next(_ports) % 12000
        with socket.socket() as probe:
            try:
                probe.bind((ip, port))
                return port
            except OSError:
                continue
    raise EngineError("no free port between 20000 and 32000")


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    return json.dumps(value)


def render(config: Json) -> str:
    """TOML text of nested dictionaries: plain keys first, then one table after the other."""
    lines: list[str] = []

    def table(path: str, values: Json) -> None:
        if path:
            lines.append(f"\n[{path}]")
        lines.extend(f"{json.dumps(k) if not k.isidentifier() else k} = {toml(v)}"
                     for k, v in values.items() if not isinstance(v, dict))
        for key, inner in values.items():
            if isinstance(inner, dict):
                table(f"{path}.{key}" if path else key, inner)
    table("", config)
    return "\n".join(lines) + "\n"


def die_with_parent() -> None:
    """In the child: SIGKILL when the rig is gone (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@dataclass
class Done:
    """A finished command."""
    code: int
    out: str
    err: str

    def json(self) -> Any:
        try:
            return json.loads(self.out)
        except ValueError as problem:
            raise AssertionError(f"standard output is no JSON: {self.out[:120]!r}") from problem


async def run_command(words: list[str], *, stdin: str = "", env: dict[str, str] | None = None,
                      timeout: float = 15.0, cwd: Path | None = None) -> Done:
    """Runs to the end or kills at the timeout (then code is -9)."""
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        start_new_session=True, preexec_fn=die_with_parent, cwd=cwd, env={**os.environ, **(env or {})})
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), timeout)
        return Done(process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))
    except asyncio.TimeoutError:
        return Done(-9, "", f"still running after {timeout:.0f} s")
    finally:
        kill_group(process.pid)


def kill_group(pid: int) -> None:
    """Ends a process group that this file started (each is a session of its own)."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
