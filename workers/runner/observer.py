"""Counts what a stage has committed: who decided it, what became of sessions and replies, and how late it was."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from eunoe.schemas.decisions import Decision, Work
from eunoe.schemas.events import (
    ConversationEvent,
    ReplyContext,
    SessionClosed,
    SessionSegmented,
    SessionSkipped,
    Utterance,
)
from eunoe.schemas.memory import MemoriesFormed
from eunoe.schemas.replies import Reply
from eunoe.streams.tracing import TraceSpan, is_on
from eunoe.workers.models.questions.metering import DecidedBy
from eunoe.workers.runner.delays import note_delays
from eunoe.workers.runner.inbound import OrderedEvent
from eunoe.workers.runner.metrics import SessionOutcome, StageMeter, behind
from eunoe.workers.stage import StageSpec

MAX_UTTERANCES: Final = 20_000
"""Utterances of open sessions whose spans are remembered; about 6 MB, and only while tracing is on."""


@dataclass(frozen=True, slots=True)
class Observer:
    """Counts the decisions of one stage."""

    spec: StageSpec
    meter: StageMeter
    now: Callable[[], datetime]
    _spans: OrderedDict[tuple[str, str], str] = field(default_factory=OrderedDict)
    """Conversation and utterance → the span in which it was read."""

    def committed(
        self,
        ordered: OrderedEvent,
        work: Work[Any],
        decided: tuple[Decision, DecidedBy],
        span: TraceSpan,
    ) -> None:
        """Count a decision that was committed, and link ``span`` to those of the utterances that it gathers."""
        decision, by = decided
        self.meter.decisions[by] += 1
        self._count_events(work, decision.events)
        if not work.late and not work.replayed:
            note_delays(self.meter, self.spec, ordered, self.now())
        if is_on() and self.spec.reads_log:
            self._link(ordered.event, decision.events, span)

    def _count_events(self, work: Work[Any], events: Iterable[object]) -> None:
        for event in events:
            if isinstance(event, MemoriesFormed):
                self.meter.sessions[_outcome(event, work)] += 1
            elif isinstance(event, SessionSkipped) and self.spec.name == "summarize":
                self.meter.sessions[SessionOutcome.SKIPPED] += 1
            elif isinstance(event, Reply) and event.freshness is not None:
                asked = work.events[0]
                infused = isinstance(asked, ReplyContext) and asked.infused
                missing = event.freshness.closed - event.freshness.session
                self.meter.replies["true" if infused else "false", behind(missing)] += 1

    def _link(self, event: ConversationEvent, events: Iterable[object], span: TraceSpan) -> None:
        if isinstance(event, Utterance) and span.traceparent is not None:
            self._spans[event.key, event.utterance_id] = span.traceparent
            if len(self._spans) > MAX_UTTERANCES:
                self._spans.popitem(last=False)
        for closed in events:
            if isinstance(closed, SessionClosed):
                found = (self._spans.pop((closed.key, line.utterance_id), None) for line in closed.lines)
                span.link([one for one in found if one is not None])


def _outcome(formed: MemoriesFormed, work: Work[Any]) -> SessionOutcome:
    if formed.drafts:
        return SessionOutcome.MEMORIES
    (asked,) = work.events
    has_evidence = isinstance(asked, SessionSegmented) and any(line.is_evidence for line in asked.lines)
    return SessionOutcome.NONE_FOUND if has_evidence else SessionOutcome.NO_EVIDENCE
