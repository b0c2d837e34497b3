"""Plays a conversation through the log, waits until it is remembered, and asks about it."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from eunoe.deploy.datasets.loaded import ClientEvent, EvalQuestion, LoadedConversation, Played
from eunoe.deploy.inspect.view import remembered_session, view_conversation, view_graph
from eunoe.deploy.progress import ReportCount
from eunoe.deploy.settings import Settings
from eunoe.schemas.base import Value
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import SessionEnded, Strategy
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.memory import Segment
from eunoe.schemas.ports import StateStore
from eunoe.schemas.replies import Reply
from eunoe.streams.client import MemoryClient
from eunoe.streams.codec import encode
from eunoe.streams.conversation import AskOptions
from eunoe.streams.dead_letters import distinct_letters
from eunoe.streams.publisher import KafkaPublisher
from eunoe.streams.reader import read_all
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic

POLL_S = 0.1
BATCH = 100


class AnsweredQuestion(Value):
    """A question with its reply and its recall of evidence."""

    question: str
    reply: str
    cited: tuple[str, ...]
    evidence: tuple[str, ...]
    tokens: int
    timelines: tuple[tuple[str, ...], ...]
    """With strategy timeline: the memory ids of each timeline, oldest first."""
    recall: float | None
    """The share of the evidence in the prompt, from 0 to 1; `None` where the question has no evidence."""
    seconds: float
    fallback: bool = False
    """Whether the offline rules replied in place of a model without a valid answer in its time."""


@dataclass(frozen=True, slots=True)
class PlaySummary:
    """Counts of a conversation after it was played."""

    sessions: int
    utterances: int
    segments: int
    utterances_in_segments: int
    memories: int
    edges: dict[str, int]
    """By relation."""
    dead_letters: int


def expected_sessions(events: Sequence[Played]) -> int:
    """The number of sessions that a conversation closes; an end without an utterance before it counts for nothing."""
    return sum(
        isinstance(event, SessionEnded) and not isinstance(before, SessionEnded) for before, event in pairwise(events)
    )


async def produce(publisher: KafkaPublisher, events: Sequence[ClientEvent], report: ReportCount) -> None:
    """Produce events in order, in batches; ``report`` is called with the number produced."""
    for start in range(0, len(events), BATCH):
        batch = events[start : start + BATCH]
        await publisher.publish([Message(Topic.CONVERSATIONS, event.key.encode(), encode(event)) for event in batch])
        report(start + len(batch))


async def wait_until_remembered(
    store: StateStore, key: str, sessions: int, report: ReportCount, timeout_s: float
) -> None:
    """Wait until the memory holds session number ``sessions``; ``report`` is called with the number held.

    Raises `Unavailable` after ``timeout_s`` seconds without progress.
    """
    reached, since = -1, time.monotonic()
    while reached < sessions:
        now = await remembered_session(store, key)
        if now != reached:
            reached, since = now, time.monotonic()
            report(min(now, sessions))
        elif time.monotonic() - since > timeout_s:
            raise Unavailable(
                f"no progress for {timeout_s:.0f} s: the memory holds {now} of {sessions} sessions."
                " Check that the workers run, see `eunoe dead-letters list`, and where a model is slow wait longer"
                " (--timeout)"
            )
        else:
            await asyncio.sleep(POLL_S)


async def ask_all(
    settings: Settings,
    loaded: LoadedConversation,
    questions: Sequence[EvalQuestion],
    *,
    tenant: str,
    options: AskOptions,
    answered: Callable[[AnsweredQuestion, Reply], None],
) -> list[AnsweredQuestion]:
    """Ask each question without recording it, one after the other; ``answered`` is called with each reply."""
    asked: list[AnsweredQuestion] = []
    async with MemoryClient(
        settings.kafka_settings, conversation_id=loaded.conversation_id, tenant=tenant, names=settings.names
    ) as memory:
        unrecorded: AskOptions = {**options, "record": False}
        for question in questions:
            started = time.perf_counter()
            reply = await memory.ask(question.question, speaker=question.speaker or "user", **unrecorded)
            asked.append(_asked(question, reply, time.perf_counter() - started))
            answered(asked[-1], reply)
    return asked


def _asked(question: EvalQuestion, reply: Reply, seconds: float) -> AnsweredQuestion:
    shown = {id_ for source in reply.sources for id_ in source.utterance_ids}
    evidence = question.evidence
    return AnsweredQuestion(
        question=question.question,
        reply=reply.text,
        cited=reply.cited,
        evidence=evidence,
        tokens=reply.context_tokens,
        timelines=tuple(source.memory_ids for source in reply.sources if source.kind is Strategy.TIMELINE),
        recall=round(len(shown.intersection(evidence)) / len(evidence), 4) if evidence else None,
        seconds=round(seconds, 4),
        fallback=reply.made_by.fallback,
    )


async def count(settings: Settings, store: StateStore, tenant: str, conversation_id: str) -> PlaySummary:
    """The counts of a conversation in the stores and the dead letters."""
    key = conversation_key(tenant, conversation_id)
    view = await view_conversation(store, key)
    graph = await view_graph(store, key)
    segments: tuple[Segment, ...] = () if view is None else view.segments
    ids = [id_ for segment in segments for id_ in segment.utterance_ids]
    letters = [
        letter
        async for _, letter in distinct_letters(read_all(settings.kafka_settings, settings.names, Topic.DEAD_LETTERS))
        if letter.key == key
    ]
    return PlaySummary(
        sessions=0 if view is None else view.remembered,
        utterances=len(set(ids)),
        segments=len(segments),
        utterances_in_segments=len(ids),
        memories=0 if graph is None else len(graph.memories),
        edges={} if graph is None else dict(sorted(Counter(edge.relation.value for edge in graph.edges).items())),
        dead_letters=len(letters),
    )
