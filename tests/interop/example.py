"""docs/example_host.py beside the real thing: it joins Synapse's room through the engine and bob talks with it."""
from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from rig import Engine, until_async
from scenes import Stage
from synapse import User

HOST = Path(__file__).resolve().parents[2] / "docs" / "example_host.py"


async def conversation(stage: Stage, engine: Engine, bob: User, room_id: str) -> None:
    """It greets, and answers each of three messages, in order."""
    host = await asyncio.create_subprocess_exec(
        sys.executable, str(HOST), "--url", engine.host_url, "--data-dir", str(engine.data), "--name", engine.name,
        "--room", room_id, "--via", stage.synapse.name, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT)
    anna = f"@anna:{engine.name}"
    texts = ["Hello, I answer whoever speaks."]
    try:
        await stage.reads(bob, anna, texts)
        for word in ("one", "two", "three"):
            await bob.say(room_id, word)
            texts.append(f"You said: {word}")

            async def answered() -> bool:
                await bob.sync(300)
                return bob.read(anna) == texts
            await until_async(answered, 20, f"bob reads an answer to '{word}'")
    except AssertionError as problem:
        host.kill()
        assert host.stdout
        raise AssertionError(f"{problem}; the host said {(await host.stdout.read()).decode()[-400:]!r}") from problem
    finally:
        if host.returncode is None:
            host.kill()
        await host.wait()
    stage.shown("the example host of docs/ joined the room through us, and bob and it talked: three answers, in order")
