"""Reads recorded answers from their topic into their look-up in Redis, or into a local file."""

import sqlite3
from contextlib import suppress
from pathlib import Path

from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.inspect.answers import read_answers
from eunoe.deploy.progress import ReportCount
from eunoe.deploy.settings import Settings
from eunoe.streams.reader import read_all
from eunoe.streams.topics import Topic
from eunoe.workers.stores.answers import RedisAnswers

_BATCH = 500


async def fill_lookup(settings: Settings, answers: RedisAnswers, report: ReportCount) -> int:
    """Add the answers that the look-up lacks; returns the number of answers in the topic.

    Raises `Unavailable` when broker or Redis are down, `Refused` where there is no topic.
    """
    read, batch = 0, dict[str, str | bytes]()
    async for record in read_all(settings.kafka_settings, settings.names, Topic.ANSWERS):
        with suppress(ValueError):
            if (entry := await answers.entry(record)) is not None:
                batch.update([entry])
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
        columns = "request TEXT, conversation TEXT, text TEXT, PRIMARY KEY (request, conversation)"
        self._file.execute(f"CREATE TABLE answers ({columns}) WITHOUT ROWID")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    async def read(self, settings: Settings, report: ReportCount) -> None:
        """Read all answers of the topic; raises `Unavailable`, or `Refused` where there is no topic."""
        read = 0
        async with open_data_keys(settings) as keys:
            async for answer, conversation in read_answers(settings, keys):
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
