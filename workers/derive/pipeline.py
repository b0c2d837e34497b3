"""Derives a conversation's memory from its records in memory, as the live stages do; nothing outside is touched.

The result can replace what a store keeps (a repair), or go into another generation (a rebuild).
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from eunoe.schemas.decisions import Collection, Ledger, Point, Timer
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.ports import StoredConversation
from eunoe.schemas.versions import ContractError
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.position import LAST_EPOCH, Headers, copy_headers
from eunoe.streams.record import Message, Record
from eunoe.streams.topics import TOPICS, Topic
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.derive.erased import start_of, without_erased
from eunoe.workers.derive.in_memory import InMemoryPipeline, select_stages
from eunoe.workers.derive.made import MadeRecords
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.state import HEAD
from eunoe.workers.registry import MEMORY_STAGES, STAGES, StageSettings
from eunoe.workers.runner.batches import MAX_BATCH
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.state.spilling import SpillingStore
from eunoe.workers.stores.vectors.spilling_index import SpillingIndex

TABLES: Mapping[str, Sequence[str]] = {name: STAGES[name].tables.all for name in MEMORY_STAGES}
"""Stage → its tables; intake, whose ledger holds the progress of a conversation, comes first."""

_MOVES_ON = re.compile(rb'"ask"\s*:\s*\{|"(?:session_ended|erase|utterance_erased)"')
"""Found in each record that closes a session or is a turn, and in few others."""


@dataclass(frozen=True, slots=True)
class Derived:
    """The memory of one conversation, and the events that its stages emitted."""

    key: str
    standing: StoredConversation
    points: Mapping[Collection, Sequence[Point]]
    """Each is made when somebody asks for it: all of a long conversation take more memory than the rest of it."""
    timer: Timer | None
    """The idle timer of its open session. It names no utterance where none is open: it tells then when the last one
    closed, by which the conversation is listed and goes to the cold store. `None` where it has no session."""
    records: MadeRecords
    """The events of the stages, topic by topic, each in its order."""
    failed: int
    """Decisions that raised at every attempt; their sessions are skipped."""

    @property
    def sessions(self) -> int:
        """The number of closed sessions."""
        return self.records.count(Topic.SESSIONS)

    @classmethod
    async def of(cls, pipeline: InMemoryPipeline, key: str, made: MadeRecords | None = None) -> Self:
        """All that a pipeline holds of a conversation now; ``made``: what was drained from its log, if anything was."""
        if made is None:
            made = MadeRecords.of(record for topic in TOPICS for record in pipeline.log.records(topic))
        standing = await pipeline.store.export(key, TABLES)
        return cls(
            key=key,
            standing=standing,
            points={collection: pipeline.index.view(collection, key) for collection in Collection},
            timer=pipeline.log_positions.timer(0, key) if _has_session(standing) else None,
            records=made,
            failed=made.failed,
        )


@dataclass(frozen=True, slots=True)
class Deriver:
    """Derives conversations, each in a pipeline of its own: several at once share only the models.

    ``dependencies`` gives models and settings; its stores are not used.
    """

    dependencies: Dependencies
    settings: RunnerSettings
    outcomes: RecordedOutcomes
    stages: Sequence[str] = MEMORY_STAGES

    async def derive(
        self,
        key: str,
        records: Iterable[Record],
        epoch: int,
        done: Callable[[], None] = lambda: None,
        erased: ErasedPart | None = None,
    ) -> Derived:
        """Run the records of ``conversations`` of one key, in log order, to their end.

        ``epoch`` is that of the log that they were read from; ``done`` is called after each record. What is ``erased``
        of the conversation counts as never said. All count as replayed: no ask is answered. Raises `Unavailable` when
        a model's endpoint stays away, `eunoe.streams.memory_log.Deadlock` when a stage waits forever.
        """
        derivation = Derivation(self, key, epoch, erased)
        await derivation.go_on(records, done)
        return await derivation.derived()

    def set_up(self, store: SpillingStore | None = None) -> InMemoryPipeline:
        """A pipeline that has handled nothing yet; ``store`` is empty, `None` means one of its own."""
        given = self.dependencies
        return InMemoryPipeline(
            embedder=given.embedder,
            settings=_without_time_limits(given.settings),
            language=given.language,
            compressor=given.compressor,
            stages=select_stages(self.stages),
            runner_settings=self.settings,
            outcomes=self.outcomes,
            log=MemoryLog(partitions=1),
            store=store or SpillingStore(),
            index=SpillingIndex(),
            place=LogPlace(LAST_EPOCH, partitions=1, is_first=False),
            sleep=asyncio.sleep,
            in_batches=True,
        )


class Derivation:
    """The derivation of one conversation, which can go on with what was said meanwhile; see `Deriver.derive`."""

    def __init__(self, deriver: Deriver, key: str, epoch: int, erased: ErasedPart | None) -> None:
        self._key, self._epoch, self._erased = key, epoch, erased
        store = SpillingStore()
        self._pipeline = deriver.set_up(store)
        self._made = MadeRecords(store.blocks)

    async def go_on(self, records: Iterable[Record], done: Callable[[], None] = lambda: None, behind: int = 0) -> None:
        """Run more records, in log order. ``behind`` is the position of the last one before them, 0 at first.

        No erased record may stand between the records of two calls. Raises as `Deriver.derive` does.
        """
        pipeline = self._pipeline
        if not behind and (start := start_of(self._erased)) is not None:
            await pipeline.store.swap(self._key, TABLES, start, Ledger())
        for together in _stretches(without_erased(records, self._erased, self._epoch, behind)):
            for record in together:
                headers = _copied(record, self._epoch)
                if headers is not None:
                    pipeline.log.append(Message(Topic.CONVERSATIONS, record.key, record.value, headers))
            await pipeline.run_until_idle()
            self._made.take(pipeline.log.drain())
            for _ in together:
                done()

    async def derived(self) -> Derived:
        """The memory now; it is read from the derivation, which must not go on while it is used."""
        return await Derived.of(self._pipeline, self._key, self._made)


def _stretches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """The records in parts that end where a stage behind intake may have something to do.

    Intake decides a part in one commit. A part that ends too late is decided as workers decide records that waited.
    """
    part: list[Record] = []
    for record in records:
        part.append(record)
        if len(part) >= MAX_BATCH or _MOVES_ON.search(record.value):
            yield part
            part = []
    if part:
        yield part


def _copied(record: Record, epoch: int) -> Headers | None:
    """The headers of the record's copy; `None` for an invalid place, which the live intake dead-lettered."""
    try:
        return copy_headers(record, epoch)
    except ContractError:
        return None


def _without_time_limits(settings: StageSettings) -> StageSettings:
    """The settings with which each turn waits for memory as long as it takes: no client waits for it."""
    return settings.with_changes(BlendSettings, wait_s=None, wait_unasked_s=None)


def _has_session(standing: StoredConversation) -> bool:
    """Whether anything is left of a conversation: what was erased whole is not listed."""
    text = standing.tables.get((MEMORY_STAGES[0], HEAD), {}).get(HEAD)
    head = Head() if text is None else Head.from_json(text)
    return bool(head.closed or head.open)
