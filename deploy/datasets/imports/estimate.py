"""Estimates what an import will cost, from a sample derived in this process; nothing is written."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eunoe.deploy.datasets.imports.imported import ImportSession
from eunoe.deploy.generations.rebuild.estimate import open_counted
from eunoe.deploy.generations.rebuild.plan import RebuildPlan
from eunoe.deploy.progress import ReportCount
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Collection
from eunoe.streams.codec import encode
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.derive.pipeline import Deriver
from eunoe.workers.models.questions.metering import Usage
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes

SAMPLE_EVENTS: Final = 200
"""Most events that are derived."""
CALL_S: Final = 1.5
"""Assumed seconds of a model call; the calls of one conversation wait for each other."""


@dataclass(frozen=True, slots=True)
class ImportEstimate:
    """The counts of an import, scaled from a sample by events."""

    sampled_events: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    cost: float | None = None
    """Dollars; `None` where no price is set."""
    memories: int | None = None
    """Those that the offline rules form; `None` where a model is set, for nobody knows what it will find."""


async def estimate_import(
    settings: Settings, sessions: Sequence[ImportSession], report: ReportCount = lambda _: None
) -> ImportEstimate:
    """Derive the first sessions of the first conversations, and scale the counts; calls no endpoint.

    ``report`` is called with the number of events derived.
    """
    sample, events = choose(sessions), sum(len(session.events) for session in sessions)
    sampled = sum(len(session.events) for session in sample)
    plan = RebuildPlan(into="import")
    with tempfile.TemporaryDirectory(prefix="eunoe-import-") as directory:
        async with open_counted(settings, plan, Path(directory) / "answers.sqlite") as counted:
            deriver = Deriver(counted.dependencies, settings.runner, RecordedOutcomes(None))
            begun, done, memories = time.monotonic(), 0, 0
            for key in dict.fromkeys(session.key for session in sample):
                records = _records([session for session in sample if session.key == key])
                derived = await deriver.derive(key, records, 0)
                memories += len(derived.points[Collection.MEMORIES])
                done += len(records)
                report(done)
            seconds = time.monotonic() - begun
            counts = None if counted.language is None else counted.language.counts
    factor = events / sampled if sampled else 0.0
    calls, prompt, completion = (
        (0, 0, 0.0) if counts is None else (counts.calls, counts.prompt_tokens, counts.completion_tokens)
    )
    usage = Usage(
        calls=round(calls * factor),
        prompt_tokens=round(prompt * factor),
        completion_tokens=round(completion * factor),
    )
    at_once = max(1, min(len({session.key for session in sessions}), 8))
    return ImportEstimate(
        sampled_events=sampled,
        calls=usage.calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        seconds=round(max(seconds * factor, usage.calls * CALL_S / at_once), 1),
        cost=usage.cost(settings.prices) if settings.prices.known else None,
        memories=round(memories * factor) if counts is None and sampled else None,
    )


def choose(sessions: Sequence[ImportSession], limit: int = SAMPLE_EVENTS) -> list[ImportSession]:
    """The first sessions, at least one of them, with at most ``limit`` events more."""
    chosen: list[ImportSession] = []
    events = 0
    for session in sessions:
        events += len(session.events)
        if chosen and events > limit:
            break
        chosen.append(session)
    return chosen


def _records(sessions: Sequence[ImportSession]) -> list[Record]:
    now = round(time.time() * 1000)
    events = [event for session in sessions for event in session.events]
    return [
        Record(Topic.CONVERSATIONS, 0, offset, event.key.encode(), encode(event), now)
        for offset, event in enumerate(events)
    ]
