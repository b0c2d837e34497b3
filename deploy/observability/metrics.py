"""Counters and gauges of a worker: views of what it counts. Its histograms stand in `histograms` beside this."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from eunoe.deploy.observability.counters import (
    WorkerMeter,
    item_document,
    model_document,
    profile_document,
    stage_calls,
)
from eunoe.deploy.observability.health import HealthState
from eunoe.schemas.records import DeadLetterReason
from eunoe.workers.derive.index_guard import SERVER
from eunoe.workers.models.questions.metering import DecidedBy
from eunoe.workers.runner.blocked import BlockReason
from eunoe.workers.text.caches import cache_sizes

_AHEAD: Final = "records taken"
"""The kind of cache by which records count that were read from topics and are not handled yet."""
_FETCHED: Final = "batches fetched"
"""The kind of cache by which what the Kafka clients of the stages have fetched counts, before it is taken."""

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Label values and the number of each sample."""


@dataclass(frozen=True, slots=True)
class MetricSources:
    """The sources of the numbers."""

    meter: WorkerMeter
    health: HealthState


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric."""

    name: str
    """The name; that of a counter ends in ``_total``."""
    labels: tuple[str, ...]
    help: str
    read: Callable[[MetricSources], Samples]


def _live(sources: MetricSources) -> Samples:
    yield (), float(sources.health.report().live)


def _ready(sources: MetricSources) -> Samples:
    yield (), float(sources.health.report().ready)


def _lag(sources: MetricSources) -> Samples:
    for stage, progress in sources.health.progress_of.items():
        for (topic, partition), lag in progress.lag().items():
            yield (stage, topic, str(partition)), lag


def _in_work(sources: MetricSources) -> Samples:
    return (((stage,), consumer.dispatcher.in_work) for stage, consumer in sources.meter.consumers.items())


def _queued(sources: MetricSources) -> Samples:
    return (((stage,), consumer.dispatcher.queued) for stage, consumer in sources.meter.consumers.items())


def _of_stage(name: str) -> Callable[[MetricSources], Samples]:
    def read(sources: MetricSources) -> Samples:
        return (((stage,), float(getattr(meter, name))) for stage, meter in sources.meter.stages.items())

    return read


def _seconds(sources: MetricSources) -> Samples:
    for stage, meter in sources.meter.stages.items():
        for part in ("waiting", "deciding", "applying", "publishing"):
            yield (stage, part), getattr(meter, f"{part}_s")


def _given_back(sources: MetricSources) -> Samples:
    return (((stage,), progress.given_back) for stage, progress in sources.health.progress_of.items())


def _frozen(sources: MetricSources) -> Samples:
    yield (), sources.meter.cold.frozen


def _thawed(sources: MetricSources) -> Samples:
    yield (), sources.meter.cold.thawed


def _letters(sources: MetricSources) -> Samples:
    """All reasons from the start: a counter that first appears at 1 has no increase."""
    known = {(stage, reason.value): 0 for stage in sources.meter.stages for reason in DeadLetterReason}
    return {**known, **sources.health.letters}.items()


def _letter_ends(sources: MetricSources) -> Samples:
    return (((str(partition),), end) for partition, end in sources.health.letter_ends.items())


def _decisions(sources: MetricSources) -> Samples:
    """The model's name stands where it was asked."""
    for stage, meter in sources.meter.stages.items():
        for by, count in meter.decisions.items():
            if meter.model or by is DecidedBy.OFFLINE or count:
                yield (stage, by.value, "" if by is DecidedBy.OFFLINE else meter.model), count


def _sessions(sources: MetricSources) -> Samples:
    meter = sources.meter.stages.get("summarize")
    return () if meter is None else (((outcome.value,), count) for outcome, count in meter.sessions.items())


def _replies(sources: MetricSources) -> Samples:
    meter = sources.meter.stages.get("respond")
    return () if meter is None else meter.replies.items()


def _cached(sources: MetricSources) -> Samples:
    consumers = sources.meter.consumers.values()
    yield from (((name,), held) for name, (held, _) in cache_sizes().items())
    yield (_AHEAD,), sum(one.dispatcher.held_bytes for one in consumers)
    yield (_FETCHED,), sum(one.fetched_bytes()[0] for one in consumers)


def _cacheable(sources: MetricSources) -> Samples:
    consumers = sources.meter.consumers.values()
    yield from (((name,), most) for name, (_, most) in cache_sizes().items())
    yield (_AHEAD,), sum(one.dispatcher.max_held_bytes for one in consumers)
    yield (_FETCHED,), sum(one.fetched_bytes()[1] for one in consumers)


def _blocked(kind: BlockReason, place: int) -> Callable[[MetricSources], Samples]:
    def read(sources: MetricSources) -> Samples:
        return (((stage,), blocked.counts()[kind][place]) for stage, blocked in sources.health.blocked.items())

    return read


def _index_held(sources: MetricSources) -> Samples:
    yield (), float(SERVER in sources.health.held)


def _evicted(sources: MetricSources) -> Samples:
    return (((server,), count) for server, count in sources.health.evicted.items())


def _waits(sources: MetricSources) -> Samples:
    return (((server,), count) for server, count in sources.health.outages.waits.items())


def _waiting(sources: MetricSources) -> Samples:
    now = sources.health.outages.waiting()
    return (((server,), now.get(server, 0)) for server in sources.health.outages.waits)


def _of_model(*names: str) -> Callable[[MetricSources], Samples]:
    def read(sources: MetricSources) -> Samples:
        counted = model_document(sources.meter.language)
        return (((), counted[name]) for name in names if name in counted)

    return read


def _tokens(sources: MetricSources) -> Samples:
    counted = model_document(sources.meter.language)
    return (((kind,), counted[f"{kind}_tokens"]) for kind in ("prompt", "completion") if counted)


def _items(sources: MetricSources) -> Samples:
    for stage, outcomes in item_document(sources.meter.language).items():
        for outcome, count in outcomes.items():
            yield (stage, outcome), count


def _profiles(sources: MetricSources) -> Samples:
    for model, known in profile_document(sources.meter.language).items():
        for name, value in known.items():
            yield (model, name), value


def _stage_tokens(sources: MetricSources) -> Samples:
    calls = stage_calls(sources.meter.language)
    return ((labels, float(count)) for labels, count in calls.tokens.items())


def _lag_seconds(sources: MetricSources) -> Samples:
    now_ms = time.time() * 1000
    for stage, consumer in sources.meter.consumers.items():
        oldest_ms = consumer.dispatcher.oldest_ms()
        yield (stage,), 0.0 if oldest_ms is None else max(0.0, (now_ms - oldest_ms) / 1000)


METRICS: Final = (
    Definition("eunoe_live", (), "1: it makes progress; 0: it has work and makes none", _live),
    Definition("eunoe_ready", (), "1: it runs and waits for no server", _ready),
    Definition("eunoe_lag", ("stage", "topic", "partition"), "Unhandled records, of partitions of this process", _lag),
    Definition("eunoe_lag_seconds", ("stage",), "Age of the oldest record that this process has taken", _lag_seconds),
    Definition("eunoe_in_work", ("stage",), "Records whose handler runs", _in_work),
    Definition("eunoe_queued", ("stage",), "Records that wait for their conversation or for capacity", _queued),
    Definition("eunoe_events_total", ("stage",), "Records handled", _of_stage("events")),
    Definition("eunoe_ignored_total", ("stage",), "Of these, applied before: redelivered", _of_stage("ignored")),
    Definition("eunoe_expired_total", ("stage",), "Of these, asks too old to be answered", _of_stage("expired")),
    Definition("eunoe_erased_total", ("stage",), "Of these, erased: their key was destroyed", _of_stage("erased")),
    Definition("eunoe_given_back_total", ("stage",), "Records given back unacknowledged", _given_back),
    Definition("eunoe_commits_total", ("stage",), "Decisions committed", _of_stage("commits")),
    Definition("eunoe_fenced_total", ("stage",), "Commits refused: another process was first", _of_stage("fenced")),
    Definition(
        "eunoe_went_back_total", ("stage",), "Partitions whose state lost acknowledged writes", _of_stage("went_back")
    ),
    Definition("eunoe_seconds_total", ("stage", "part"), "Seconds by part of the work on records, summed", _seconds),
    Definition("eunoe_dead_letters_total", ("stage", "reason"), "Dead letters", _letters),
    Definition(
        "eunoe_dead_letters_end_offset", ("partition",), "Records of their topic, with resolutions", _letter_ends
    ),
    Definition(
        "eunoe_decisions_total",
        ("stage", "by", "model"),
        "Decisions by who made them: model, offline, fallback",
        _decisions,
    ),
    Definition(
        "eunoe_sessions_total",
        ("outcome",),
        "Sessions summarized: memories, no_evidence, none_found, skipped",
        _sessions,
    ),
    Definition(
        "eunoe_replies_total",
        ("infused", "behind"),
        "Replies: blended before, closed sessions not in memory yet",
        _replies,
    ),
    Definition("eunoe_cache_bytes", ("cache",), "Bytes that caches of this process hold", _cached),
    Definition("eunoe_cache_limit_bytes", ("cache",), "The most that they may hold", _cacheable),
    Definition("eunoe_frozen_total", (), "Idle conversations taken out of Redis, into the cold store", _frozen),
    Definition("eunoe_thawed_total", (), "Conversations brought back from there", _thawed),
    Definition("eunoe_parked", ("stage",), "Conversations that wait for an event", _blocked(BlockReason.PARKED, 0)),
    Definition("eunoe_parked_oldest_seconds", ("stage",), "Age of the oldest", _blocked(BlockReason.PARKED, 1)),
    Definition("eunoe_held", ("stage",), "Conversations held until they are repaired", _blocked(BlockReason.HELD, 0)),
    Definition("eunoe_held_oldest_seconds", ("stage",), "Age of the oldest", _blocked(BlockReason.HELD, 1)),
    Definition("eunoe_index_incomplete", (), "1: Qdrant lacks points; eunoe reindex writes them", _index_held),
    Definition("eunoe_evicted_keys", ("server",), "Keys that Redis has evicted since its start", _evicted),
    Definition("eunoe_waits_total", ("server",), "Waits for a server begun", _waits),
    Definition("eunoe_waiting", ("server",), "Current waits for a server", _waiting),
    Definition("eunoe_model_calls_total", (), "Calls of the language model", _of_model("calls")),
    Definition(
        "eunoe_model_corrections_total",
        (),
        "Calls repeated with a correction",
        _of_model("corrections"),
    ),
    Definition("eunoe_model_retries_total", (), "Requests retried", _of_model("retries")),
    Definition("eunoe_model_invalid_total", (), "Answers that did not fit their schema", _of_model("invalid")),
    Definition("eunoe_model_tokens_total", ("kind",), "Tokens of prompts and completions", _tokens),
    Definition("eunoe_model_stage_tokens_total", ("stage", "kind"), "The same by stage", _stage_tokens),
    Definition(
        "eunoe_model_items_total",
        ("stage", "outcome"),
        "Items decided: by the model, corrected, salvaged, or offline for want of a valid answer",
        _items,
    ),
    Definition(
        "eunoe_model_profile",
        ("model", "name"),
        "Learned of the endpoint: cap and context in tokens, thinking tokens, schema (1: it takes one), tokens of a"
        " script for one of ours",
        _profiles,
    ),
)
"""Counters and gauges. They start at 0 with the process."""
