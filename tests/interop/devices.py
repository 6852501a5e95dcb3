"""Device lists and keys, both ways, with a real Synapse: logins, renames, deletions, cross-signing, claims, outages."""
from __future__ import annotations

from typing import Any, Callable

from outages import Play
from rig import Json, cross_signing, device, device_gone, matrix, until_async
from synapse import User

PASSWORD = "interop"


class Login:
    """One device of a Synapse user, with keys of its own."""

    def __init__(self, user: User, device_id: str, token: str) -> None:
        self.user, self.device_id, self.token = user, device_id, token

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        return await self.user.synapse.client(method, path, body, self.token)

    async def upload(self, *one_time: str) -> None:
        body: Json = {"device_keys": matrix.device_keys(self.user.user_id, self.device_id)}
        if one_time:
            body["one_time_keys"] = {f"signed_curve25519:{name}": matrix.one_time_key(
                self.user.user_id, self.device_id, name) for name in one_time}
        await self.call("POST", "/keys/upload", body)

    async def confirmed(self, method: str, path: str, body: Json) -> None:
        """A call that Synapse wants confirmed by the password."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        synapse = self.user.synapse
        url = f"https://{synapse.name}/_matrix/client/v3{path}"
        status, answer = await synapse.net.http(method, url, matrix.dumps(body).encode(), headers, 30.0)
        if status == 401 and isinstance(answer, dict) and "session" in answer:
            auth = {"type": "m.login.password", "session": answer["session"], "password": PASSWORD,
                    "identifier": {"type": "m.id.user", "user": self.user.user_id}}
            status, answer = await synapse.net.http(method, url, matrix.dumps({**body, "auth": auth}).encode(),
                                                    headers, 30.0)
        if status != 200:
            raise AssertionError(f"Synapse answered {method} {path} with {status}: {str(answer)[:300]}")


async def login(user: User, device_id: str, name: str) -> Login:
    made = await user.synapse.client("POST", "/login", {
        "type": "m.login.password", "identifier": {"type": "m.id.user", "user": user.user_id},
        "password": PASSWORD, "device_id": device_id, "initial_device_display_name": name})
    return Login(user, device_id, made["access_token"])


async def _ours_become(play: Play, wanted: Callable[[Json], bool], what: str, within: float = 20) -> None:
    """What Synapse answers bob's client of alice's keys."""
    alice = play.host.user_id

    async def there() -> bool:
        answer = await play.bob.call("POST", "/keys/query", {"device_keys": {alice: []}})
        return wanted({"devices": answer["device_keys"].get(alice, {}), "failures": answer.get("failures", {}),
                       "master": answer.get("master_keys", {}).get(alice)})
    await until_async(there, within, what)


async def _told_of_us(play: Play, within: float = 20) -> None:
    """Bob's client is told that alice's devices changed."""
    async def there() -> bool:
        await play.bob.sync(500)
        return play.host.user_id in play.bob.changed
    await until_async(there, within, "bob's /sync says that alice's devices changed")


async def _theirs_become(play: Play, wanted: Callable[[Json], bool], what: str, within: float = 20) -> None:
    """What our keys/query answers of bob, with nothing in failures."""
    bob = play.bob.user_id

    async def there() -> bool:
        answer = await play.engine.keys_query(bob)
        return not answer.get("failures") and wanted({"devices": answer["device_keys"].get(bob, {}),
                                                      "master": answer.get("master_keys", {}).get(bob)})
    await until_async(there, within, what)


def name_of(keys: Json) -> Any:
    return keys.get("unsigned", {}).get("device_display_name")


async def ours_to_synapse(play: Play) -> None:
    alice, feed = play.host.user_id, play.engine.feed
    await play.bob.sync()
    play.bob.changed.clear()
    await feed(device(alice, "OURS1", name="first"))
    await _told_of_us(play)
    await _ours_become(play, lambda k: name_of(k["devices"].get("OURS1", {})) == "first", "Synapse knows OURS1")
    await feed(device(alice, "OURS2", name="second"))
    await _ours_become(play, lambda k: set(k["devices"]) == {"OURS1", "OURS2"}, "Synapse knows both devices")
    await feed({"kind": "device", "user_id": alice, "device_id": "OURS1", "display_name": "renamed"})
    await _ours_become(play, lambda k: name_of(k["devices"].get("OURS1", {})) == "renamed", "Synapse knows the name")
    await feed(device_gone(alice, "OURS2"), cross_signing(alice))
    await _ours_become(play, lambda k: set(k["devices"]) == {"OURS1"} and bool(k["master"]),
                       "Synapse knows the deletion and the master key")
    play.stage.shown("a login, a rename, a deletion and cross-signing keys of ours arrive in Synapse's /keys/query")


async def synapse_to_ours(play: Play) -> Login:
    bob = play.bob
    first = Login(bob, bob.device_id, bob.token)
    await first.upload()
    await _theirs_become(play, lambda k: set(k["devices"]) == {"SYN1"}, "we know SYN1")
    await play.stream.settle(1.0)
    before = play.stream.changed(bob.user_id)
    second = await login(bob, "SYN2", "second")
    await second.upload("AAAA", "AAAB")
    await _theirs_become(play, lambda k: set(k["devices"]) == {"SYN1", "SYN2"}, "we know SYN2")
    await play.stream.settle(1.0)
    if play.stream.changed(bob.user_id) <= before:
        raise AssertionError("the stream did not say that bob changed")
    await second.call("PUT", "/devices/SYN2", {"display_name": "renamed"})
    await _theirs_become(play, lambda k: name_of(k["devices"].get("SYN2", {})) == "renamed", "we know the new name")
    keys = matrix.cross_signing_keys(bob.user_id)
    await first.confirmed("POST", "/keys/device_signing/upload", keys)
    await _theirs_become(play, lambda k: bool(k["master"]), "we know bob's master key")
    third = await login(bob, "SYN3", "third")
    await third.upload()
    await _theirs_become(play, lambda k: "SYN3" in k["devices"], "we know SYN3")
    await third.call("POST", "/logout", {})
    await _theirs_become(play, lambda k: set(k["devices"]) == {"SYN1", "SYN2"}, "we know that SYN3 is gone")
    play.stage.shown("a login, a rename, cross-signing keys and a logout at Synapse arrive in our stream and answers")
    return second


async def claims(play: Play, theirs: Login) -> None:
    alice, bob = play.host.user_id, play.bob.user_id
    taken = [set((await play.engine.keys_claim(bob, theirs.device_id))["one_time_keys"][bob][theirs.device_id])
             for _ in range(2)]
    if taken[0] == taken[1] or not taken[0]:
        raise AssertionError(f"claims at Synapse gave {taken}")
    await play.engine.feed({"kind": "one_time_keys", "user_id": alice, "device_id": "OURS1", "one_time_keys": {
        f"signed_curve25519:{n}": matrix.one_time_key(alice, "OURS1", n) for n in ("AA", "AB")}})
    got = []
    for _ in range(3):
        answer = await play.bob.call("POST", "/keys/claim",
                                     {"one_time_keys": {alice: {"OURS1": "signed_curve25519"}}})
        got += list(answer["one_time_keys"].get(alice, {}).get("OURS1", {}))
    if got != ["signed_curve25519:AA", "signed_curve25519:AB"]:
        raise AssertionError(f"claims of Synapse at us gave {got}")
    play.stage.shown("one-time keys are claimed both ways, each once, the oldest first")


async def outages(play: Play) -> None:
    alice, bob = play.host.user_id, play.bob
    await play.synapse.stop()
    await play.engine.feed(device(alice, "OURS3"), device_gone(alice, "OURS1"))
    await play.synapse.start()
    await _ours_become(play, lambda k: set(k["devices"]) == {"OURS3"}, "Synapse knows what changed meanwhile", 40)
    await play.engine.kill9()
    fourth = await login(bob, "SYN4", "while we were away")
    await fourth.upload()
    await play.engine.start()
    await _theirs_become(play, lambda k: "SYN4" in k["devices"], "we know what changed while we were away", 90)
    play.stage.shown("what changes during an outage of either side is known after it")


async def device_lists(play: Play) -> None:
    await ours_to_synapse(play)
    await claims(play, await synapse_to_ours(play))
    await outages(play)
