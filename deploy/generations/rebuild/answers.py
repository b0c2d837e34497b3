"""Reads recorded answers from their topic into their look-up in Redis, or into a local file."""

import sqlite3
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.generations.rebuild.spool import ReadUpTo, Spool
from eunoe.deploy.inspect.answers import read_answers
from eunoe.deploy.progress import ReportCount
from eunoe.deploy.settings import Settings
from eunoe.streams.reader import read_all
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.stores.records.answers import RedisAnswers

_BATCH = 500
_SERVER, _READ = "server", "read"


async def fill_lookup(settings: Settings, answers: RedisAnswers, places: Spool, report: ReportCount) -> int:
    """Add the answers that the look-up lacks; returns the number of answers in the topic.

    ``places`` keeps how far the topic was read, and no record: an interrupted run is continued there, as long as the
    same process of Redis holds what it wrote. Raises `Unavailable` when broker or Redis are down, `Refused` where there
    is no topic.
    """
    places.create()
    filling = _Filling(answers, places, await answers.server())
    reading = read_all(settings.kafka_settings, settings.names, Topic.ANSWERS, begin=filling.begin())
    async with aclosing(reading) as records:
        async for record in records:
            await filling.take(record)
            if len(filling.batch) >= _BATCH:
                await filling.flush()
                report(filling.read)
    await filling.flush()
    report(filling.read)
    return filling.read


@dataclass(slots=True)
class _Filling:
    """A filling of the look-up under way."""

    answers: RedisAnswers
    places: Spool
    server: str
    """Id of the process of Redis; '' where it is not known, and nothing is continued."""
    read: int = 0
    batch: dict[str, str | bytes] = field(default_factory=dict)
    last: dict[tuple[str, int], ReadUpTo] = field(default_factory=dict)

    def begin(self) -> dict[int, int]:
        """Partition → the first offset that an earlier run has not filled in."""
        if not self.server or self.places.noted(_SERVER) != self.server:
            self.places.clear()
            self.places.note(_SERVER, self.server)
        self.read = int(self.places.noted(_READ) or 0)
        return {partition: one.next for (_, partition), one in self.places.places().items()}

    async def take(self, record: Record) -> None:
        """Add an answer to the batch. Raises `Unavailable`."""
        with suppress(ValueError):
            if (entry := await self.answers.entry(record)) is not None:
                self.batch.update([entry])
        self.last[record.topic, record.partition] = ReadUpTo(record.offset + 1, b"")
        self.read += 1

    async def flush(self) -> None:
        """Write the batch, then how far that is. Raises `Unavailable`."""
        await self.answers.fill(self.batch)
        self.places.note(_READ, str(self.read))
        self.places.add((), places=self.last)
        self.batch.clear()
        self.last.clear()


class AnswersFile:
    """`eunoe.workers.models.questions.recording.Answers` in a file, for a process that must not write the look-up."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path)
        self._file.execute("PRAGMA journal_mode = OFF")
        columns = "request TEXT, conversation TEXT, text TEXT, PRIMARY KEY (request, conversation)"
        self._file.execute(f"CREATE TABLE answers ({columns}) WITHOUT ROWID")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    async def read(self, settings: Settings, report: ReportCount) -> None:
        """Read all answers of the topic; raises `Unavailable`, or `Refused` where there is no topic."""
        read = 0
        async with open_data_keys(settings) as keys, aclosing(read_answers(settings, keys)) as answers:
            async for answer, conversation in answers:
                await self.put(answer.request, answer.text, conversation)
                read += 1
                if read % _BATCH == 0:
                    report(read)
        report(read)

    async def get(self, key: str, conversation: str = "", /) -> str | None:
        """The text of an answer: the conversation's own, else a plain one; `None` where there is none."""
        question = "SELECT text FROM answers WHERE request = ? AND conversation IN (?, '') ORDER BY conversation DESC"
        row = self._file.execute(question, (key, conversation)).fetchone()
        return None if row is None else str(row[0])

    async def put(self, key: str, text: str, conversation: str = "", /) -> None:
        """Store an answer; replaces an earlier one of the same hash."""
        self._file.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (key, conversation, text))
