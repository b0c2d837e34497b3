"""One process of a rebuild: derives conversations, as they are left, and writes them into the new generation.

`eunoe.deploy.generations.rebuild.processes` starts it with a `Share` as its argument. It writes one `ProgressLine` as
JSON to standard output for each conversation.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import orjson

from eunoe.deploy.clients.bootstrap import Clients, open_clients
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.erasures import read_erased
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.event_loop import keep_for_good, share_one_heap, use_fast_loops
from eunoe.deploy.exits import Exit
from eunoe.deploy.generations.rebuild.keeping import telling_file_faults
from eunoe.deploy.generations.rebuild.progress import ProgressLine
from eunoe.deploy.generations.rebuild.spool import Spool, Spooled
from eunoe.deploy.observability.logs import set_up_logs
from eunoe.deploy.settings import Settings
from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.errors import EunoeError, Unavailable
from eunoe.schemas.versions import ContractError
from eunoe.streams.packed_records import PackedRecords
from eunoe.streams.position import record_position
from eunoe.streams.record import Message, Record
from eunoe.streams.sealed.log import restored
from eunoe.streams.settings import partition_of
from eunoe.workers.derive.pipeline import TABLES, Derived, Deriver
from eunoe.workers.models.local.offload import inline
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes

AT_ONCE = 64
"""Conversations derived concurrently; most of them wait for models."""
EVENTS_AT_ONCE = 6_000
"""Events of all of them together: what is derived of one takes some 8 kB of memory, until it is written."""
_MESSAGES = 500


class Share(Value):
    """The work of one process: conversations of a spool, which several processes take theirs from."""

    spool: str
    partitions: int
    stages: tuple[str, ...]
    ask_again: bool = False
    ask_refused: bool = False


@dataclass(frozen=True, slots=True)
class Landing:
    """Writes derived conversations into the stores and topics of the new generation."""

    clients: Clients
    partitions: int

    async def is_there(self, key: str) -> Ledger:
        """The ledger of intake as an earlier run wrote it; empty where none did."""
        return await self.clients.store.ledger(Scope("intake", key))

    async def put(self, derived: Derived, expect: Ledger) -> None:
        """Write a conversation: topics, index, and last the state, which marks it as complete.

        Raises `Unavailable`, also where another process has written the same conversation.
        """
        for messages in _batches(derived.records):
            await self.clients.publisher.publish(messages)
        for collection, points in derived.points.items():
            await self.clients.index.load(collection, points)
        if derived.timer is not None:
            partition = partition_of(derived.key.encode(), self.partitions)
            await self.clients.log_positions.schedule(partition, derived.key, derived.timer)
        if not await self.clients.transplants.swap(derived.key, TABLES, derived.standing, expect):
            raise Unavailable(f"another process has written {derived.key} meanwhile: run only one rebuild at a time")


def _batches(records: Iterable[Record]) -> Iterator[list[Message]]:
    left = iter(records)
    while batch := list(islice(left, _MESSAGES)):
        yield [Message(one.topic, one.key, one.value, tuple(one.headers.items())) for one in batch]


async def run_share(settings: Settings, share: Share) -> None:
    """Derive conversations that are not written yet, until all are taken."""
    spool = Spool(Path(share.spool))
    async with open_clients(settings, ask_again=share.ask_again, ask_refused=share.ask_refused) as clients:
        landing = Landing(clients, share.partitions)
        outcomes = RecordedOutcomes(None if share.ask_again else clients.answers)
        deriver = Deriver(clients.dependencies, settings.runner, outcomes, share.stages)
        work = _ShareWork(settings, spool, landing, deriver, await read_erased(settings))
        keep_for_good()
        with inline():
            await work.take_all()
    spool.close()


class Room:
    """Bounds the conversations in work by their number and by their events; a long one counts as half of all."""

    def __init__(self, conversations: int, events: int) -> None:
        self._conversations = conversations
        self._events = events
        self._most = events // 2
        self._changed = asyncio.Event()

    async def wait(self) -> None:
        """Wait until there is room for a short conversation."""
        await self._until(lambda: self._conversations > 0 and self._events > 0)

    async def enter(self, events: int) -> None:
        """Wait until there is room for a conversation of that many events, and take it."""
        weight = min(events, self._most)
        await self._until(lambda: self._conversations > 0 and self._events >= weight)
        self._conversations -= 1
        self._events -= weight

    def leave(self, events: int, _done: object = None) -> None:
        """Give the room of a conversation back."""
        self._conversations += 1
        self._events += min(events, self._most)
        self._changed.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


@dataclass(frozen=True, slots=True)
class _ShareWork:
    settings: Settings
    spool: Spool
    landing: Landing
    deriver: Deriver
    erased: Mapping[str, ErasedPart]

    async def take_all(self) -> None:
        """Derive conversations, several at once, until none is left."""
        room = Room(AT_ONCE, EVENTS_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            while True:
                await room.wait()
                with telling_file_faults(self.spool.path.parent):
                    conversation = self.spool.take()
                if conversation is None:
                    return
                await room.enter(conversation.events)
                group.create_task(self._one(conversation)).add_done_callback(partial(room.leave, conversation.events))

    async def _one(self, conversation: Spooled) -> None:
        key = conversation.key.decode()
        there = await self.landing.is_there(key)
        if there.applied >= conversation.last > 0 and key not in self.erased:
            self._kept(conversation)
            return
        records = await restored(
            self.spool.records(conversation.key), self.landing.clients.data_keys, self.settings.log_epoch
        )
        if is_whole(there, records, self.settings.log_epoch):
            self._kept(conversation)
            return
        packed = PackedRecords.of(records)
        del records  # those of a long conversation take as much as all that is made of them
        derived = await self.deriver.derive(key, packed, self.settings.log_epoch, erased=self.erased.get(key))
        await self.landing.put(derived, there)
        usage = self.landing.clients.usage
        _write(
            ProgressLine(
                conversations=1,
                events=conversation.events,
                sessions=derived.sessions,
                memories=len(derived.standing.tables.get(("update", "memories"), {})),
                failed=derived.failed,
                calls=usage.calls + usage.corrections + usage.retries,
                tokens=usage.prompt_tokens + usage.completion_tokens,
                cost=usage.cost(self.settings.prices),
            )
        )

    def _kept(self, conversation: Spooled) -> None:
        events = conversation.events
        _write(ProgressLine(conversations=1, events=events, kept=1, kept_events=events))


def is_whole(there: Ledger, records: Sequence[Record], epoch: int) -> bool:
    """Whether an earlier run wrote the conversation up to the last of these records; the log may have grown."""
    if not records:
        return there.applied > 0
    try:
        return there.applied > 0 and there.applied >= record_position(records[-1], epoch)
    except ContractError:  # a dead-lettered record: derive again, which changes nothing
        return False


def _write(line: ProgressLine) -> None:
    sys.stdout.buffer.write(line.to_json() + b"\n")
    sys.stdout.buffer.flush()


async def _main(share: Share) -> None:
    await run_share(await live_settings(connected_settings()), share)


def main() -> None:
    """Run the share that the last word of the command line has; ends the process where a server stays down."""
    set_up_logs(os.environ)
    share_one_heap()
    use_fast_loops()
    try:
        asyncio.run(_main(Share.model_validate(orjson.loads(sys.argv[-1]), strict=False)))
    except* EunoeError as group:
        sys.stderr.write(f"{group.exceptions[0]}\n")
        sys.exit(Exit.UNAVAILABLE)


if __name__ == "__main__":
    main()
