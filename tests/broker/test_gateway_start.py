"""A gateway that waits for its servers tells so, and ends when it is told to."""

import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.command import COMMAND, environment

pytestmark = pytest.mark.timeout(60)

NOWHERE = "127.0.0.1:9"


def test_it_is_live_and_not_ready_while_it_waits_and_ends_at_sigterm(tmp_path: Path) -> None:
    servers = {
        "EUNOE_KAFKA": NOWHERE,
        "EUNOE_REDIS_URL": f"redis://{NOWHERE}/0",
        "EUNOE_QDRANT_URL": f"http://{NOWHERE}",
        "EUNOE_GATEWAY__KEYS": str(tmp_path / "keys.json"),
        "EUNOE_HEALTH": "0",
    }
    with subprocess.Popen(
        [*COMMAND, "gateway"], env=environment(servers), cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            told = next(line for line in process.stderr if "/live" in line)
            url = re.findall(r"http://\S+(?=/live)", told)[0]
            next(line for line in process.stderr if "waiting for Redis" in line)
            assert httpx.get(f"{url}/live").json() == {"live": True}
            ready = httpx.get(f"{url}/ready")
            assert (ready.status_code, ready.json()["why"]) == (503, [f"starting: it waits for Redis at {NOWHERE}"])
            metrics = httpx.get(f"{url}/metrics").text.splitlines()
            assert "eunoe_gateway_streams 0.0" in metrics
            assert f'eunoe_waiting{{server="Redis at {NOWHERE}"}} 1.0' in metrics
            process.send_signal(signal.SIGTERM)
            assert "stopped before it had started" in process.stderr.read()
            assert process.wait() == 0
        finally:
            process.kill()
