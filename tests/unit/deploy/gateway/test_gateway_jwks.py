"""The keys of an identity provider: withdrawn ones, a provider that is away, many who ask at once."""

import asyncio
import json

import httpx2
import pytest

from eunoe.deploy.gateway import jwks
from eunoe.deploy.gateway.jwks import REFETCH_S, KeySet
from eunoe.deploy.gateway.problems import Problem
from tests.unit.deploy.gateway.test_gateway_keys import Signer

MAX_AGE_S, HARD_AGE_S = 300.0, 3600.0


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path):
    Signer(tmp_path / "jwks.json", "k1")
    return tmp_path / "jwks.json"


@pytest.fixture
def keys(path, clock) -> KeySet:
    return KeySet(str(path), MAX_AGE_S, HARD_AGE_S, clock)


@pytest.mark.parametrize("rest", ["another key", "no key"])
async def test_a_key_that_was_withdrawn_is_believed_for_the_age_at_most(path, clock, keys, rest):
    assert await keys.find("k1", "ES256") is not None
    Signer(path, "k2")
    if rest == "no key":
        path.write_text(json.dumps({"keys": []}))
    clock.now += MAX_AGE_S
    assert await keys.find("k1", "ES256") is not None
    clock.now += 1
    assert await keys.find("k1", "ES256") is None
    assert (await keys.find("k2", "ES256") is not None) is (rest == "another key")


@pytest.mark.parametrize("damage", ["gone", "{", "[]", '{"keys": 1}'])
async def test_keys_that_cannot_be_read_again_serve_up_to_a_bound(path, clock, keys, damage):
    good = path.read_text()
    assert await keys.find("k1", "ES256") is not None
    path.unlink() if damage == "gone" else path.write_text(damage)
    for now in (MAX_AGE_S + 1, HARD_AGE_S - 1):
        clock.now = now
        assert await keys.find("k1", "ES256") is not None
    clock.now = HARD_AGE_S + 1
    with pytest.raises(Problem) as refused:
        await keys.find("k1", "ES256")
    assert (refused.value.status, "Retry-After" in refused.value.headers) == (503, True)
    path.write_text(good)
    clock.now += REFETCH_S
    assert await keys.find("k1", "ES256") is not None


async def test_an_entry_for_no_algorithm_takes_nothing_from_the_keys_beside_it(path, keys):
    unsigned = {"kty": "RSA", "kid": "k0", "alg": "none"}
    path.write_text(json.dumps({"keys": [unsigned, *json.loads(path.read_text())["keys"]]}))
    assert await keys.find("k1", "ES256") is not None
    assert await keys.find("k0", "none") is None


MOVED = {"Location": "https://moved/jwks"}


class Provider:
    """An identity provider that answers when ``gate`` opens, and counts."""

    status = 200

    def __init__(self, path, monkeypatch) -> None:
        self.asked, self.gate, self.body = 0, asyncio.Event(), path.read_bytes()
        own = httpx2.AsyncClient
        transport = httpx2.MockTransport(self._answer)
        monkeypatch.setattr(httpx2, "AsyncClient", lambda **more: own(transport=transport, **more))

    async def _answer(self, _request: httpx2.Request) -> httpx2.Response:
        self.asked += 1
        await self.gate.wait()
        return httpx2.Response(self.status, content=self.body, headers=MOVED if self.status == 302 else None)


async def test_all_who_ask_share_one_read_and_one_who_leaves_does_not_end_it(path, clock, monkeypatch):
    provider = Provider(path, monkeypatch)
    keys = KeySet("https://issuer/jwks", MAX_AGE_S, HARD_AGE_S, clock)
    asking = [asyncio.ensure_future(keys.find("k1", "ES256")) for _ in range(50)]
    await asyncio.sleep(0.05)
    asking.pop().cancel()
    provider.gate.set()
    assert None not in await asyncio.gather(*asking)
    assert provider.asked == 1


async def test_nobody_waits_for_a_provider_that_is_away(path, clock, monkeypatch):
    provider = Provider(path, monkeypatch)
    provider.gate.set()
    keys = KeySet("https://issuer/jwks", MAX_AGE_S, HARD_AGE_S, clock)
    assert await keys.find("k1", "ES256") is not None
    provider.body, clock.now = b"", MAX_AGE_S + 1
    assert await keys.find("k1", "ES256") is not None
    provider.gate.clear()  # and now it does not even answer
    clock.now += REFETCH_S
    async with asyncio.timeout(10):  # as long as the gate is closed, no read ends
        assert await keys.find("k1", "ES256") is not None
        assert await keys.find("k1", "ES256") is not None
        while provider.asked < 3:  # noqa: ASYNC110 - it goes on in the background
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert provider.asked == 3
    provider.gate.set()
    await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"<html>Sign in</html>", "what it holds is no JSON"),
        (200, b"\xff\xfe\xff", "what it holds is no JSON"),
        (200, b"{}", "no list of keys"),
        (302, b"", "it answered 302 and redirects to https://moved: name that address"),
        (500, b"", "it answered 500"),
        (None, b"", "no answer within 0.05 seconds"),
    ],
)
async def test_the_log_says_in_one_line_why_keys_were_not_read(path, clock, monkeypatch, caplog, status, body, reason):
    monkeypatch.setattr(jwks, "_FETCH_S", 0.05)
    provider = Provider(path, monkeypatch)
    provider.body, provider.status = body, status or 200
    if status:
        provider.gate.set()
    with pytest.raises(Problem):
        await KeySet("https://issuer/jwks", MAX_AGE_S, HARD_AGE_S, clock).find("k1", "ES256")
    assert caplog.messages == [f"JWKS not read: https://issuer/jwks: {reason}"]


async def test_a_document_that_is_too_large_is_not_read(path, clock):
    path.write_text(path.read_text() + " " * 1_000_000)
    with pytest.raises(Problem):
        await KeySet(str(path), MAX_AGE_S, HARD_AGE_S, clock).find("k1", "ES256")
