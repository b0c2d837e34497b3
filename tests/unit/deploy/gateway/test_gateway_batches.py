"""Batches that cost more than they hold, and numbers beyond all offsets."""

import pytest

from eunoe.deploy.gateway.routes import events
from eunoe.deploy.settings.sections import GatewaySettings
from tests.support.gateway import make_gateway, told

C = "/v1/conversations/c"
SLOW = GatewaySettings(rate=0.001, burst=100)


class Unsplit(bytes):
    """A body that must not be split."""

    def split(self, *_: object) -> list[bytes]:
        raise AssertionError


async def test_a_batch_is_bounded_before_it_is_split_and_blank_lines_count(tmp_path, monkeypatch):
    async def body(*_: object) -> bytes:
        return Unsplit(b"\n" * 1001)

    gateway = make_gateway(tmp_path, SLOW)
    headers = {"Content-Type": "application/x-ndjson"}
    async with gateway.client() as client:
        blank = [(await client.post("/v1/events", content=b"\n" * 1000, headers=headers)).status_code for _ in "123"]
        monkeypatch.setattr(events, "read_body", body)
        assert (await client.post("/v1/events", content=b"", headers=headers)).status_code == 413
    assert blank == [202, 429, 429]


async def test_a_batch_is_charged_by_size_too(tmp_path):
    gateway = make_gateway(tmp_path, SLOW)
    async with gateway.client() as client:
        large = {"content": b" " * 4_000_000, "headers": {"Content-Type": "application/x-ndjson"}}
        assert [(await client.post("/v1/events", **large)).status_code for _ in "123"] == [202, 202, 429]


@pytest.mark.parametrize("after", [2**40 - 1, 10**30])
async def test_an_offset_beyond_all_positions_is_422(tmp_path, after):
    gateway = make_gateway(tmp_path)
    async with gateway.client() as client:
        await told(client)
        assert (await client.get(f"{C}/sessions/last", params={"after": after})).status_code == 422
        last = {"after": 2**40 - 2, "timeout": 0}
        assert (await client.get(f"{C}/sessions/last", params=last)).json()["status"] == "accepted"
