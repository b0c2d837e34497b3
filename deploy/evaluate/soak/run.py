"""Runs a soak test against a system: traffic, samples, and the wait until all of it is remembered."""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

from eunoe.deploy.clients.shared import open_store
from eunoe.deploy.evaluate.soak.plan import SoakPlan
from eunoe.deploy.evaluate.soak.samples import SoakRecord, SoakSample, Timed
from eunoe.deploy.evaluate.soak.traffic import EndedSession, Traffic
from eunoe.deploy.inspect.view import remembered_session
from eunoe.deploy.observability.process_costs import process_name, sample_tree
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.ports import StateStore
from eunoe.streams.cancelling import cancelled
from eunoe.streams.client import Connection
from eunoe.streams.lag import lag
from eunoe.streams.reader import topic_size
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES

LOOK_S = 0.5
"""Seconds between two looks for sessions that became memory."""

Report = Callable[[SoakSample], None]
"""Called with each sample."""


async def run_soak(settings: Settings, plan: SoakPlan, pid: int | None, report: Report) -> SoakRecord:
    """Run the traffic on a system with workers; returns what was seen.

    ``pid``: the process whose descendants are measured; `None`: none. Raises `Unavailable` where the servers do not
    answer at the begin.
    """
    record = SoakRecord()
    async with AsyncExitStack() as closing:
        store = await closing.enter_async_context(open_store(settings))
        connection = await closing.enter_async_context(Connection(settings.kafka_settings, settings.names))
        traffic = Traffic(plan, connection, record, f"soak-{secrets.token_hex(4)}")
        watch = _Watch(settings, traffic, store, pid, report)
        await watch.begin()
        looking, sampling = asyncio.create_task(watch.look()), asyncio.create_task(watch.sample())
        closing.push_async_callback(cancelled, looking, sampling)
        await traffic.run()
        await watch.settle(plan.settle_s)
    return record


@dataclass(slots=True)
class _Watch:
    """Looks at the system beside the traffic."""

    settings: Settings
    traffic: Traffic
    store: StateStore
    pid: int | None
    report: Report
    _letters: int = 0
    """Dead letters before the begin."""
    _cpu_s: Mapping[int, float] = field(default_factory=dict)
    _at_s: float = 0.0

    async def begin(self) -> None:
        self._letters = await self._dead_letters()

    async def sample(self) -> None:
        """Sample for as long as the run lasts."""
        while True:
            await asyncio.sleep(self.traffic.plan.sample_s)
            with suppress(Unavailable):
                await self.sample_once()

    async def sample_once(self) -> None:
        traffic = self.traffic
        left, letters, now_s = await self._lag(), await self._dead_letters() - self._letters, traffic.now_s
        memory, cpu = self._processes(now_s)
        sample = SoakSample(round(now_s, 1), traffic.sent, left, letters, memory, cpu)
        traffic.record.samples.append(sample)
        self.report(sample)

    async def look(self) -> None:
        """Note when ended sessions are in memory, for as long as the run lasts."""
        while True:
            await asyncio.sleep(LOOK_S)
            with suppress(Unavailable):
                await self._look_once()

    async def _look_once(self) -> None:
        waiting: dict[str, list[EndedSession]] = defaultdict(list)
        for session in self.traffic.ended:
            waiting[session.key].append(session)
        for key, sessions in waiting.items():
            known, now_s = await remembered_session(self.store, key), self.traffic.now_s
            for session in sessions:
                if session.number <= known:
                    self.traffic.record.fresh.append(Timed(now_s, now_s - session.at_s))
                    self.traffic.ended.remove(session)

    async def settle(self, limit_s: float) -> None:
        """Wait until every session is in memory and no record is left, at most ``limit_s``; then sample once more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self.traffic.ended or await self._lag():  # noqa: ASYNC110 - other processes end it
                    await asyncio.sleep(LOOK_S)
        self.traffic.record.unremembered = len(self.traffic.ended)
        await self.sample_once()

    async def _lag(self) -> int:
        stages = {name: spec.inputs for name, spec in STAGES.items()}
        return sum((await lag(self.settings.kafka_settings, self.settings.names, stages)).values())

    async def _dead_letters(self) -> int:
        return await topic_size(self.settings.kafka_settings, self.settings.names, Topic.DEAD_LETTERS)

    def _processes(self, now_s: float) -> tuple[dict[str, float], dict[str, float]]:
        """Memory and processor time by process, this since the sample before."""
        found = [] if self.pid is None else sample_tree(self.pid)
        passed_s = max(now_s - self._at_s, 1e-3)
        memory = {process_name(one.command): round(one.pss_mb, 1) for one in found}
        cpu = {
            process_name(one.command): round(100 * (one.cpu_s - self._cpu_s[one.pid]) / passed_s, 1)
            for one in found
            if one.pid in self._cpu_s
        }
        self._cpu_s, self._at_s = {one.pid: one.cpu_s for one in found}, now_s
        return memory, cpu
