"""A rebuild that is killed (SIGKILL) goes on: while it reads the log, and while it derives."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import pytest

from eunoe.deploy.clients.shared import open_store
from eunoe.deploy.generations.rebuild.share import EVENTS_AT_ONCE
from eunoe.schemas.events import SessionEnded, Utterance
from tests.support.command import COMMAND, environment
from tests.support.in_memory import START
from tests.support.pipeline import Pipeline

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(600)]

CONVERSATIONS, LINES = 40, 180
EVENTS = CONVERSATIONS * (LINES + 1)
"""More than are written to the spool at once, and more than are in work at once (`EVENTS_AT_ONCE`): the conversations
in work are all written at nearly the same moment, so that some must still be waiting when the first is there."""

TRIES = 5
"""A process that looks on may itself have to wait for the processor, while the rebuild goes on."""


def events() -> Iterator[str]:
    """A session of small talk in each of the conversations, and a sentence to remember."""
    for number in range(CONVERSATIONS):
        key = {"conversation_id": f"c{number}"}
        for line in range(LINES):
            text = f"I moved to town {number}." if line == 0 else f"Well, {line}."
            yield Utterance(**key, utterance_id=f"u{line}", speaker="Ann", text=text, at=START).model_dump_json() + "\n"
        yield SessionEnded(**key, at=START).model_dump_json() + "\n"


async def digest(pipeline: Pipeline, **more: str) -> str:
    result = await pipeline.eunoe("state", "--all", "--digest", "--log-times", **more)
    assert result.code == 0, result.err
    return result.out


def spools(folder: Path) -> list[Path]:
    return [*folder.glob("eunoe-rebuild-*/log.sqlite")]


def spooled(folder: Path) -> int:
    """The number of records that a killed run would leave."""
    for path in spools(folder):
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
            return int(file.execute("SELECT COUNT(*) FROM records").fetchone()[0])
    return 0


@asynccontextmanager
async def begun(pipeline: Pipeline) -> AsyncIterator[asyncio.subprocess.Process]:
    """A rebuild under way, which is killed at the end."""
    variables = {**pipeline.variables, "TMPDIR": str(pipeline.cwd)}
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "rebuild", "--into", "v2", "--workers", "1", cwd=pipeline.cwd, env=environment(variables),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


async def killed_while_reading(pipeline: Pipeline) -> int:
    """Kill a rebuild as soon as it has spooled something; returns how many records."""
    async with begun(pipeline) as process:
        while not spooled(pipeline.cwd) and process.returncode is None:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.002)
    return spooled(pipeline.cwd)


async def killed_while_deriving(pipeline: Pipeline) -> int:
    """Kill a rebuild as soon as it has written a conversation; returns how many are there."""
    settings = pipeline.settings.model_copy(update={"generation": "v2"})
    async with open_store(settings) as store:
        async with begun(pipeline) as process:
            while not await store.conversations() and process.returncode is None:  # noqa: ASYNC110 - it too
                await asyncio.sleep(0.01)
        return len(await store.conversations())


async def killed_twice(pipeline: Pipeline) -> int:
    """Kill a rebuild in the midst of both, from its beginning where one was over before that was seen."""
    for _ in range(TRIES):
        read = await killed_while_reading(pipeline)
        made = await killed_while_deriving(pipeline) if read < EVENTS else 0
        if 0 < read < EVENTS and 0 < made < CONVERSATIONS:
            return made
        dropped = await pipeline.eunoe("drop", "v2", "--yes", TMPDIR=str(pipeline.cwd))
        assert (dropped.code, spools(pipeline.cwd)) == (0, []), dropped.err
    raise AssertionError(f"{TRIES} times a rebuild was over before it was killed: {read}, {made}")


async def test_a_rebuild_that_was_killed_twice_does_not_start_again(pipeline: Pipeline):
    async with pipeline.up():
        await pipeline.produce(*events())
        for number in range(CONVERSATIONS):
            await pipeline.remembered(1, f"c{number}")
    before = await digest(pipeline)

    assert EVENTS > EVENTS_AT_ONCE + 2 * LINES
    made = await killed_twice(pipeline)
    assert spooled(pipeline.cwd) == EVENTS
    (path,) = spools(pipeline.cwd)
    assert path.parent.stat().st_mode & 0o077 == 0

    result = await pipeline.eunoe("rebuild", "--into", "v2", "--json", TMPDIR=str(pipeline.cwd))
    assert result.code == 0, result.err
    assert (result.json["read_before"], result.json["events"]) == (EVENTS, EVENTS)
    assert made <= result.json["kept"] < CONVERSATIONS
    assert await digest(pipeline, EUNOE_GENERATION="v2") == before
    assert spools(pipeline.cwd) == []
