"""The status page at the admin listener (API 6): its facts, without JavaScript and live, in Debian's Chromium."""
from __future__ import annotations

import asyncio
import base64
import html.parser
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
from rig import Engine, Rig, binary, case, check, equal, failing, free_port, quote, until_async, user
from rig.process import die_with_parent, kill_group
from test_admin import good_and_dead

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
# Without the last ones Chromium asks for Google's hosts at each start.
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--window-size=1280,1400"]


def pictures() -> Path:
    """Where screenshots are kept: beside the binary, in the build folder."""
    folder = Path(binary()[-1]).resolve().parent / "screenshots"
    folder.mkdir(exist_ok=True)
    return folder


async def on_tcp(rig: Rig) -> tuple[Engine, Any, Any, str]:
    """An engine with an open and a closed destination, its page by TCP, and what a browser would send."""
    port = free_port()
    engine = rig.make_engine(backoff={"first": "1h"}, admin={"listen": f"127.0.0.1:{port}"})
    await engine.start()
    return engine, None, None, f"http://127.0.0.1:{port}"


class Reading(html.parser.HTMLParser):
    """Elements that aren't closed, texts, and whatever leads elsewhere."""
    VOID = {"meta", "link", "img", "br", "hr", "input"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.problems: list[str] = []
        self.leads: list[str] = []
        self.words = ""
        self.feed(text)
        self.problems += [f"<{tag}> isn't closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.leads += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "srcset", "action")]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words += data + " "


async def page_text(engine: Engine) -> str:
    status, body = await engine.admin("GET", "/", prefix="")
    equal(status, 200, "the page's status")
    return body if isinstance(body, str) else body.decode()


@case("page-facts")
async def facts(rig: Rig) -> None:
    """The page has the facts of status, ls, shape, the lists; it is sound HTML and needs nothing from elsewhere."""
    engine, good, dead, _ = await good_and_dead(rig)
    text = await page_text(engine)
    read = Reading(text)
    equal(read.problems, [], "problems of the HTML")
    equal(read.leads, [], "what leads elsewhere")
    check("http://" not in text and "https://" not in text and "@import" not in text, "an address of elsewhere")
    for part in (engine.name, "ready", dead.name, "closed", "unreachable", "What waits, by age", "Partial joins",
                 "Stale device lists", "1 destination"):
        check(part in read.words, f"{part!r} isn't on the page")
    check("prefers-color-scheme: dark" in text and "<noscript>" in text, "dark, or without JavaScript")
    odd = "<script>alert(1)</script> & \"co\""
    await engine.admin("POST", f"/destinations/{quote(good.name)}/hold", {"reason": odd})
    read = Reading(await page_text(engine))
    equal(read.problems, [], "problems of the HTML with odd words in it")
    check(good.name in read.words and "held" in read.words, "the held one isn't there")


@case("page-wants-the-token")
async def token(rig: Rig) -> None:
    """On TCP the page asks for the token, which a browser gives as a password; it is no way to change anything."""
    engine, _, _, url = await on_tcp(rig)
    secret = (engine.data / "admin_token").read_text().strip()
    basic = {"Authorization": "Basic " + base64.b64encode(f"me:{secret}".encode()).decode()}
    wrong = {"Authorization": "Basic " + base64.b64encode(b"me:wrong").decode()}
    async with aiohttp.ClientSession() as session:
        for headers, status in (({}, 401), (wrong, 401), (basic, 200), ({"Authorization": f"Bearer {secret}"}, 200)):
            async with session.get(url + "/", headers=headers) as answer:
                equal(answer.status, status, f"the status with {list(headers)}")
                if status == 401:
                    check("Basic" in answer.headers.get("WWW-Authenticate", ""), "a browser wouldn't ask")
                else:
                    check("default-src 'none'" in answer.headers["Content-Security-Policy"], "what the page may do")
        async with session.post(url + "/_ranvier/admin/v1/destinations/x.test/wake", headers=basic, json={}) as answer:
            equal(answer.status, 401, "a change with the browser's password")
        async with session.get(url + "/healthz") as answer:
            equal(answer.status, 200, "health needs no token")


@case("page-live-stream")
async def stream(rig: Rig) -> None:
    """The stream gives the inside at once, and again when something has changed."""
    engine, _, _, url = await on_tcp(rig)
    headers = {"Authorization": "Bearer " + (engine.data / "admin_token").read_text().strip()}
    peer = rig.peer(1)
    live = url + "/_ranvier/admin/v1/page"
    async with aiohttp.ClientSession() as session, session.get(live, headers=headers) as news:
        async def until_it_says(word: str) -> None:
            text = ""
            while word not in text:
                text += (await news.content.readline()).decode()
        await asyncio.wait_for(until_it_says("event: page"), 5)
        await rig.shared(engine, peer)
        await engine.admin("POST", f"/destinations/{quote(peer.name)}/hold", {"reason": "x"})
        await asyncio.wait_for(until_it_says(peer.name), 8)
    equal(await engine.stop(), 0, "the engine ends")


class Browser:
    """Chromium by its driver's HTTP interface."""

    def __init__(self) -> None:
        self.port, self.folder = free_port(), tempfile.mkdtemp(prefix="chromium-")

    async def __aenter__(self) -> "Browser":
        self.process = await asyncio.create_subprocess_exec(
            str(DRIVER), f"--port={self.port}", stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True, preexec_fn=die_with_parent, env={**os.environ, "HOME": self.folder})
        self.http = aiohttp.ClientSession(f"http://127.0.0.1:{self.port}")

        async def answers() -> bool:
            try:
                return bool((await self.call("GET", "/status"))["ready"])
            except aiohttp.ClientError:
                return False
        await until_async(answers, 20, "the driver answers")
        options = {"binary": CHROMIUM, "args": [*ARGUMENTS, f"--user-data-dir={self.folder}/data"]}
        made = await self.call("POST", "/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})
        self.session = f"/session/{made['sessionId']}"
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if hasattr(self, "session"):
                await self.call("DELETE", self.session)
        finally:
            await self.http.close()
            kill_group(self.process.pid)
            await self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        async with self.http.request(method, path, json=body, timeout=aiohttp.ClientTimeout(40)) as answer:
            value = (await answer.json())["value"]
            check(answer.status == 200, f"{method} {path}: {value}")
            return value

    async def run(self, script: str) -> Any:
        return await self.call("POST", self.session + "/execute/sync", {"script": script, "args": []})

    async def dark(self, on: bool) -> None:
        await self.call("POST", self.session + "/goog/cdp/execute", {
            "cmd": "Emulation.setEmulatedMedia",
            "params": {"features": [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]}})

    async def picture(self, name: str) -> None:
        data = base64.b64decode(await self.call("GET", self.session + "/screenshot"))
        check(data.startswith(b"\x89PNG") and len(data) > 10_000, f"the picture {name} has {len(data)} bytes")
        (pictures() / f"{name}.png").write_bytes(data)


@case("page-in-chromium", timeout=120)
async def in_chromium(rig: Rig) -> None:
    """Chromium shows the page without complaint, dark and light; what changes comes by itself; pictures are kept."""
    if not CHROMIUM or not DRIVER:
        print("SKIPPED: page-in-chromium: install Debian's chromium and chromium-driver; not tested", flush=True)
        return
    engine, _, _, url = await on_tcp(rig)
    secret = (engine.data / "admin_token").read_text().strip()
    peers = rig.peers(3)
    peers[1].down()
    room = await rig.shared(engine, *peers)
    await engine.feed(*room.messages(user(engine), 3))
    await failing(engine, peers[1])
    async with Browser() as browser:
        await browser.call("POST", browser.session + "/url", {"url": url.replace("//", f"//me:{secret}@") + "/"})

        async def live() -> bool:
            return await browser.run("return document.querySelector('#live').textContent") == "live"
        await until_async(live, 15, "the page says that it is live")
        words = await browser.run("return document.body.innerText")
        check(peers[1].name in words and "closed" in words, f"the page says {words[:300]}")
        await engine.admin("POST", f"/destinations/{quote(peers[2].name)}/hold", {"reason": "they move house"})

        async def held() -> bool:
            return peers[2].name in await browser.run("return document.querySelector('#closed').innerText")
        await until_async(held, 10, "the held one comes by itself")
        grounds = []
        for name, on in (("light", False), ("dark", True)):
            await browser.dark(on)
            grounds.append(await browser.run("return getComputedStyle(document.body).backgroundColor"))
            await browser.picture(f"status-page-{name}")
        check(grounds[0] != grounds[1], f"dark is as light: {grounds}")
        wide = await browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
        check(wide, "the page is wider than the window")
        logs = await browser.call("POST", browser.session + "/se/log", {"type": "browser"})
        severe = [one["message"] for one in logs if one["level"] == "SEVERE"]
        equal([one for one in severe if "/favicon.ico" not in one], [], "what the browser complains of")
