"""Reads recorded answers from their topic into their look-up in Redis, or into a local file."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

from pydantic import ValidationError

from eunoe.deploy.progress import ReportCount
from eunoe.deploy.settings import Settings
from eunoe.schemas.events import RecordedAnswer
from eunoe.streams.reader import read_all
from eunoe.streams.topics import Topic
from eunoe.workers.stores.answers import RedisAnswers

_BATCH = 500


async def fill_lookup(settings: Settings, answers: RedisAnswers, report: ReportCount) -> int:
    """Add the answers that the look-up lacks; returns the number of answers in the topic.

    Raises `Unavailable` when broker or Redis are down, `Refused` where there is no topic.
    """
    read, batch = 0, dict[str, str]()
    async for answer in _recorded(settings):
        batch[answer.request] = answer.text
        read += 1
        if len(batch) >= _BATCH:
            await answers.fill(batch)
            batch.clear()
            report(read)
    await answers.fill(batch)
    report(read)
    return read


class AnswersFile:
    """`eunoe.workers.models.recording.Answers` in a local file, for a process that must not write the look-up."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path)
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("CREATE TABLE answers (request TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    async def read(self, settings: Settings, report: ReportCount) -> None:
        """Read all answers of the topic; raises `Unavailable`, or `Refused` where there is no topic."""
        read = 0
        async for answer in _recorded(settings):
            await self.put(answer.request, answer.text)
            read += 1
            if read % _BATCH == 0:
                report(read)
        report(read)

    async def get(self, key: str, /) -> str | None:
        """The text of an answer; `None` where there is none."""
        row = self._file.execute("SELECT text FROM answers WHERE request = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    async def put(self, key: str, text: str, /) -> None:
        """Store an answer; replaces an earlier one of the same hash."""
        self._file.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, text))


async def _recorded(settings: Settings) -> AsyncIterator[RecordedAnswer]:
    async for record in read_all(settings.kafka_settings, settings.names, Topic.ANSWERS):
        try:
            yield RecordedAnswer.from_json(record.value)
        except ValidationError:
            continue
