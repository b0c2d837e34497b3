"""Breaks a running pipeline and tells when the shipped alerts fire: ``python -m tests.alerts.fire FAULT…``.

A broker, Redis, Qdrant, one worker of all stages, the stand-in of a language model, five conversations with a session
every two seconds, and a Prometheus with the rules as they are. Prints a row for each alert: seconds from the fault
until it was pending, and until it fired. One run takes up to half an hour, most of which is the rules' own ``for``.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from time import monotonic

from eunoe.deploy.clients.shared import open_publisher
from eunoe.schemas.events import SessionEnded, Utterance
from eunoe.streams.codec import encode
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from tests.support.model_server.faults import Fault
from tests.support.model_server.server import PLAUSIBLE, ModelServer, ServerSettings
from tests.support.prometheus import Prometheus, prometheus
from tests.support.workers import House, Worker, house

EVERY_S = 15.0
"""Seconds between two scrapes, and between two evaluations."""
BEFORE_S = 90.0
"""Seconds of healthy traffic before the fault."""
SESSION_EVERY_S = 2.0
KEY = "right"
NO_GATEWAY = "EunoeGatewayAbsent"
"""An alert that is right here: there is no gateway."""


@dataclass(slots=True)
class Broken:
    """A pipeline that is about to break."""

    house: House
    model: ModelServer
    worker: Worker
    prometheus: Prometheus
    seen: dict[tuple[str, str], float] = field(default_factory=dict)
    """(alert with its labels, state) → seconds from the fault."""

    async def watch(self, expected: str, limit_s: float) -> None:
        """Note all alerts until the expected one fires, at most ``limit_s`` seconds."""
        begun = monotonic()
        while monotonic() - begun < limit_s and not self._fires(expected):
            for alert, state, labels in await asyncio.to_thread(alerts, self.prometheus):
                self.seen.setdefault((_named(alert, labels), state), monotonic() - begun)
            await asyncio.sleep(1)

    def _fires(self, expected: str) -> bool:
        return any(alert.startswith(expected) and state == "firing" for alert, state in self.seen)


def alerts(server: Prometheus) -> list[tuple[str, str, Mapping[str, str]]]:
    """(alert, state, labels) of all that are not silent, but for the missing gateway."""
    return [found for found in server.alerts() if found[0] != NO_GATEWAY]


def _named(alert: str, labels: Mapping[str, str]) -> str:
    own = {name: value for name, value in labels.items() if name not in ("alertname", "severity")}
    return f"{alert}{own or ''}"


async def stop_qdrant(broken: Broken) -> None:
    """Kill Qdrant, for good."""
    broken.house.qdrant.kill()


async def kill_worker(broken: Broken) -> None:
    """Kill the one worker of all stages, for good."""
    broken.worker.kill()


async def lose_points(broken: Broken) -> None:
    """Start Qdrant again over an empty directory."""
    broken.house.qdrant.kill()
    await asyncio.to_thread(shutil.rmtree, broken.house.qdrant.directory)
    await asyncio.to_thread(broken.house.qdrant.start)


async def change_key(broken: Broken) -> None:
    """Let the endpoint take another key: what was right is wrong."""
    broken.model.settings = replace(broken.model.settings, key="another")


async def late_model(broken: Broken) -> None:
    """Let every answer take longer than a call may (60 s)."""
    broken.model.settings = replace(broken.model.settings, delay_s=90.0)


async def slow_model(broken: Broken) -> None:
    """Let every answer take half of the time that a call may."""
    broken.model.settings = replace(broken.model.settings, delay_s=30.0)


async def unfit_model(broken: Broken) -> None:
    """Let every answer be prose."""
    broken.model.settings = replace(broken.model.settings, faults=lambda _: Fault.PROSE)


async def poison(broken: Broken) -> None:
    """Produce one record that is no event."""
    async with open_publisher(broken.house.settings) as publisher:
        await publisher.publish([Message(Topic.CONVERSATIONS, b"default/poison", b"{no event")])


FAULTS: Mapping[str, tuple[Callable[[Broken], Awaitable[None]], str, float]] = {
    "qdrant": (stop_qdrant, "EunoeWaitsForServer", 900.0),
    "worker": (kill_worker, "EunoeStageAbsent", 600.0),
    "points": (lose_points, "EunoeIndexIncomplete", 600.0),
    "key": (change_key, "EunoeWaitsForServer", 900.0),
    "poison": (poison, "EunoeDeadLetters", 300.0),
    "late": (late_model, "EunoeOldRecords", 1200.0),
    "slow": (slow_model, "EunoeOldRecords", 1200.0),
    "unfit": (unfit_model, "EunoeModelFallsBack", 1500.0),
}
"""Fault → what breaks, the alert that must tell it, and the seconds after which it has not."""


async def traffic(made: House) -> None:
    """End a session of two utterances every `SESSION_EVERY_S` seconds, in five conversations by turns."""
    async with open_publisher(made.settings) as publisher:
        for number in count():
            with suppress(Exception):
                await publisher.publish(_session(number))
            await asyncio.sleep(SESSION_EVERY_S)


def _session(number: int) -> list[Message]:
    name, at = f"c{number % 5}", datetime.now(UTC)
    texts = (f"My dog number {number} is called Rex{number}.", f"We moved to house {number} last week.")
    events: list[Utterance | SessionEnded] = [
        Utterance(conversation_id=name, utterance_id=f"{number}-{place}", speaker="Ann", text=text, at=at)
        for place, text in enumerate(texts)
    ]
    events.append(SessionEnded(conversation_id=name, at=at))
    return [Message(Topic.CONVERSATIONS, event.key.encode(), encode(event)) for event in events]


async def fire(fault: str, directory: Path) -> dict[tuple[str, str], float]:
    """The alerts of a fault; raises ``AssertionError`` where something fires before it."""
    work, expected, limit_s = FAULTS[fault]
    model = ModelServer(ServerSettings(delay_s=0.2, scripts=PLAUSIBLE, key=KEY))
    async with model, house(directory) as made:
        variables = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": KEY, "EUNOE_MODEL": "stand-in"}
        worker = await made.worker("all", **variables)
        with prometheus(directory / "prometheus", [f"127.0.0.1:{worker.port}"], EVERY_S) as server:
            talking = asyncio.create_task(traffic(made))
            await asyncio.sleep(BEFORE_S)
            assert not alerts(server), alerts(server)
            broken = Broken(made, model, worker, server)
            await work(broken)
            await broken.watch(expected, limit_s)
            talking.cancel()
    return broken.seen


def main() -> None:
    """Break one thing after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("faults", nargs="+", choices=sorted(FAULTS))
    for fault in parser.parse_args().faults:
        with tempfile.TemporaryDirectory(prefix="eunoe-fire-") as directory:
            for (alert, state), seconds in asyncio.run(fire(fault, Path(directory))).items():
                row = {"fault": fault, "alert": alert, "state": state, "seconds": round(seconds)}
                sys.stdout.write(json.dumps(row) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
