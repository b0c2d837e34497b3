"""A gateway that waits for its servers at its start: there, not ready, and known to be waiting."""

import asyncio
import socket

import httpx
import pytest

from eunoe.deploy.gateway.server import run_gateway
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import GatewaySettings


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.timeout(60)
async def test_a_gateway_that_waits_for_its_servers_is_not_taken_for_absent(tmp_path):
    closed, port = free_port(), free_port()
    settings = Settings(
        kafka=f"127.0.0.1:{closed}",
        redis_url=f"redis://user:secret@127.0.0.1:{closed}/0",
        health=f"127.0.0.1:{port}",
        gateway=GatewaySettings(address="127.0.0.1:0", keys=tmp_path / "keys.json"),
    )
    running = asyncio.create_task(run_gateway(settings))
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            shown = ""
            while "eunoe_waiting{" not in shown:
                assert not running.done(), running.result()
                try:
                    shown = (await client.get("/metrics")).text
                except httpx.ConnectError:
                    await asyncio.sleep(0.01)
            ready = await client.get("/ready")
    finally:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    lines = [line for line in shown.splitlines() if not line.startswith("#")]
    assert "eunoe_gateway_streams 0.0" in lines
    assert f'eunoe_waiting{{server="Redis at 127.0.0.1:{closed}"}} 1.0' in lines
    assert ready.status_code == 503
    assert ready.json()["why"] == [f"starting: it waits for Redis at 127.0.0.1:{closed}"]
