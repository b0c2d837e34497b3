"""``python -m tests.faults.gateway``: load on two gateway replicas beside an import, while servers fail.

2,000 clients follow streams, others ask and add utterances at a rate, and an import goes on. In the middle a replica is
killed, Redis restarts, and one of three brokers is killed. Afterwards everything that was answered with 202 must be in
the log, each ask must have its one reply at any replica, and no stream may have missed a session. Exits with 1
otherwise.
"""

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from eunoe.deploy.clients.shared import open_publisher, open_store
from eunoe.deploy.datasets.imports.imported import ImportSession
from eunoe.deploy.datasets.imports.run import run_import
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import SessionEnded, Utterance
from eunoe.schemas.replies import Recalled, Reply
from eunoe.streams.codec import decode
from eunoe.streams.reader import read_all
from eunoe.streams.topics import Topic
from tests.bench.load import LoadPlan, rounds
from tests.faults.clients import TRY_S, Load, Stream, add_event, ask, fetch_late
from tests.faults.replicas import Replicas, open_replicas

CONVERSATIONS = 40
IMPORTED = 20
BRIEF: dict[str, Any] = {
    "asks": 20.0, "events": 20.0, "streams": 500, "seconds": 10.0, "brokers": 0, "faults": False, "imports": False,
    "echo": True,
}  # fmt: skip
"""A load of less than a minute, of the gateways alone."""


@dataclass(frozen=True, slots=True)
class Options:
    """Of a load."""

    asks: float
    events: float
    streams: int
    seconds: float
    brokers: int
    faults: bool
    imports: bool
    echo: bool

    @property
    def stages(self) -> bool:
        """Whether there are workers."""
        return self.imports or not self.echo


def main() -> int:
    """Run what the command line asks for. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.gateway", description=__doc__)
    parser.add_argument("--asks", type=float, default=200.0, help="asks a second (default 200)")
    parser.add_argument("--events", type=float, default=20.0, help="utterances a second (default 20)")
    parser.add_argument("--streams", type=int, default=2000, help="open streams (default 2000)")
    parser.add_argument("--seconds", type=float, default=120.0, help="length of the load (default 120)")
    parser.add_argument(
        "--brokers", type=int, default=3, help="brokers of Apache Kafka; 0: the embedded one (default 3)"
    )
    parser.add_argument("--no-faults", dest="faults", action="store_false", help="nothing fails")
    parser.add_argument("--no-import", dest="imports", action="store_false", help="no import beside it")
    parser.add_argument(
        "--echo", action="store_true", help="a stand-in replies at no cost; with --no-import there are no workers"
    )
    parser.add_argument("--brief", action="store_true", help="a minute at most: --echo and so on, with few clients")
    given = vars(parser.parse_args())
    brief = given.pop("brief")
    options = replace(Options(**given), **BRIEF) if brief else Options(**given)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    report = asyncio.run(run(options))
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    return 0 if report["good"] else 1


async def run(options: Options) -> dict[str, Any]:
    """The report of one load."""
    with tempfile.TemporaryDirectory(prefix="eunoe-load-", ignore_cleanup_errors=True) as directory:
        async with open_replicas(
            Path(directory), options.brokers, echo=options.echo, stages=options.stages
        ) as replicas:
            load = Load(replicas.urls, replicas.key)
            timeout = aiohttp.ClientTimeout(total=TRY_S)
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(headers=load.headers, timeout=timeout, connector=connector) as session:
                if options.stages:
                    await _prepare(load, session)
                return await _loaded(options, replicas, load, session)


async def _prepare(load: Load, session: aiohttp.ClientSession) -> None:
    """A session in memory for each conversation that is asked about."""
    for number in range(CONVERSATIONS):
        path = f"/v1/conversations/talk-{number}"
        said = {"type": "utterance", "speaker": "Ann", "text": "I moved to Lyon in March.", "session_id": "s"}
        for body in (said, {"type": "session_ended", "session_id": "s"}):
            async with session.post(load.url(f"{path}/events"), json=body) as answer:
                assert answer.status == 202, await answer.text()
    for number in range(CONVERSATIONS):
        path = f"/v1/conversations/talk-{number}/sessions/last?wait=memory&after=0&timeout=10"
        async with session.get(load.url(path)) as answer:
            assert (await answer.json())["remembered"]


async def _loaded(options: Options, replicas: Replicas, load: Load, session: aiohttp.ClientSession) -> dict[str, Any]:
    imported = [0]
    plan = LoadPlan(IMPORTED, 2000, 6)
    sessions = [_session(events) for events in rounds(plan)] if options.imports else []  # takes ten seconds
    streams = [Stream(load, plan.conversation_id(number % IMPORTED)) for number in range(options.streams)]
    behind = [asyncio.create_task(stream.run()) for stream in streams]
    while sum(stream.open for stream in streams) < len(streams):  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.2)
    sys.stderr.write(f"{len(streams)} streams are open, {time.monotonic() - load.begun:.0f} s after the first event\n")
    if options.imports:
        behind.append(asyncio.create_task(_import_on(replicas, sessions, imported)))
    load.begun = time.monotonic()
    before = _used(replicas)
    sending = [
        *([asyncio.create_task(_faults(options, replicas))] if options.faults else []),
        asyncio.create_task(_at_rate(options.asks, options.seconds, lambda number: ask(load, session, _talk(number)))),
        asyncio.create_task(
            _at_rate(options.events, options.seconds, lambda number: add_event(load, session, _talk(number)))
        ),
    ]
    for sent in sending:
        await sent
    seconds = time.monotonic() - load.begun
    used = _used(replicas)
    sys.stderr.write(f"all was sent after {seconds:.0f} s; {len(load.answered)} of {len(load.asked)} are answered\n")
    in_time = len(load.answered)
    await fetch_late(load, session)
    sys.stderr.write(f"{len(load.answered)} of {len(load.asked)} are answered; reading the log\n")
    for task in behind:
        task.cancel()
    done = await asyncio.gather(*behind, return_exceptions=True)
    faults = [repr(one) for one in done if isinstance(one, Exception)]
    logged, replies = await _in_the_log(replicas)
    lost = load.accepted - logged.keys()
    unanswered = load.asked.keys() - load.answered
    twice = [id_ for id_, times in replies.items() if times > 1]
    missed = sum(stream.missed for stream in streams)
    return {
        "good": not (lost or unanswered or twice or missed or faults),
        "seconds": round(seconds, 1),
        "asks": len(load.asked),
        "asks_per_s": round(len(load.asked) / seconds, 1),
        "answered_at_once": in_time,
        "ask_ms": _percentiles([ms for _, ms in load.ask_ms]),
        "events": len(load.event_ms),
        "event_ms": _percentiles([ms for _, ms in load.event_ms]),
        "gateway_cores": None if options.faults else round((used[0] - before[0]) / seconds, 2),
        "gateway_mb": round(used[1]),
        "refused": {str(status): times for status, times in sorted(load.refused.items())},
        "imported_sessions": imported[0],
        "stream_events": sum(len(stream.sessions) for stream in streams),
        "stream_connects": sum(stream.connects for stream in streams),
        "accepted": len(load.accepted),
        "lost": len(lost),
        "accepted_twice_in_the_log": sum(logged[id_] > 1 for id_ in load.accepted),
        "unanswered": len(unanswered),
        "answered_twice": len(twice),
        "missed_by_streams": missed,
        "faults": faults,
    }


def _talk(number: int) -> str:
    return f"talk-{number % CONVERSATIONS}"


async def _at_rate(rate: float, seconds: float, work: Callable[[int], Awaitable[None]]) -> None:
    """Begin work at a rate, whatever the earlier ones do; returns when all is done."""
    begun, tasks, number = time.monotonic(), set[asyncio.Task[None]](), 0
    while rate and (now := time.monotonic() - begun) < seconds:
        while number < now * rate:
            tasks.add(asyncio.ensure_future(work(number)))
            number += 1
        await asyncio.sleep(0.005)
    await asyncio.gather(*tasks)


async def _faults(options: Options, replicas: Replicas) -> None:
    for fault in (replicas.kill_gateway, replicas.restart_redis, replicas.kill_broker):
        await asyncio.sleep(options.seconds / 5)
        sys.stderr.write(f"{fault.__name__} …\n")
        await fault()


async def _import_on(replicas: Replicas, sessions: list[ImportSession], imported: list[int]) -> None:
    """An import that goes on, begun again where a server fails, as a person does."""
    while True:
        with suppress(Unavailable):
            async with open_store(replicas.settings) as store, open_publisher(replicas.settings) as publisher:
                await run_import(store, publisher, sessions, lambda done: imported.__setitem__(0, done))
        await asyncio.sleep(1)


def _session(events: Any) -> ImportSession:
    """The events as an imported session."""
    *said, end = events
    name = f"{end.conversation_id}-{said[0].utterance_id}"
    lines = tuple(one.model_copy(update={"session_id": name}) for one in said if isinstance(one, Utterance))
    assert isinstance(end, SessionEnded)
    return ImportSession(name, lines, end.model_copy(update={"session_id": name}))


async def _in_the_log(replicas: Replicas) -> tuple[Counter[str], Counter[str]]:
    """How often each utterance is in the log, and how often each request was answered."""
    kafka, names = replicas.settings.kafka_settings, replicas.settings.names
    said = [decode(record.value) async for record in read_all(kafka, names, Topic.CONVERSATIONS)]
    answers = [decode(record.value) async for record in read_all(kafka, names, Topic.REPLIES)]
    return (
        Counter(event.utterance_id for event in said if isinstance(event, Utterance)),
        Counter(event.request_id for event in answers if isinstance(event, Reply | Recalled)),
    )


def _used(replicas: Replicas) -> tuple[float, float]:
    """Processor seconds of the gateways since they started, and their memory now, in MB."""
    processes = [psutil.Process(one.process.pid) for one in replicas.gateways if one.process is not None]
    times, memory = ([process.cpu_times() for process in processes], [process.memory_info() for process in processes])
    return sum(one.user + one.system for one in times), sum(one.rss for one in memory) / 1_000_000


def _percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        f"p{percent}": round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 1)
        for percent in (50, 90, 99)
        if ordered
    }


if __name__ == "__main__":
    sys.exit(main())
