"""Hypothesis strategies for all that a hostile producer can put on the wire, and the records of a seed."""

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from typing import Any, TypeVar
from urllib.parse import quote

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from eunoe.streams.topics import TOPICS, Topic
from tests.support.in_memory import ended, make_pipeline, utterance
from tests.support.text_cost import TEXT_BYTES, UNITS, filled
from tests.support.wire import CODECS, HostileBatch, HostileRecord

T = TypeVar("T")
Document = dict[str, Any]

BYSTANDER = "default/bystander-0"
"""The key of somebody else's conversation."""
NAMES = tuple(f"hostile-{number}" for number in range(40))
_OWN_HEADERS = (
    "eunoe-position", "eunoe-log-time", "eunoe-copied", "eunoe-retry", "eunoe-late", "eunoe-dead-letter",
    "eunoe-dead-letter-closed", "eunoe-unreadable",
)  # fmt: skip
_EDGE_TIMES = (
    "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "9999-12-31T00:00:00Z", "1969-12-31T23:59:59Z", "24:00",
    "2026-01-01T00:00:00", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00+99:99",
)  # fmt: skip

texts = st.one_of(
    st.text(max_size=40),
    st.builds(filled, st.sampled_from(UNITS), st.just(" x"), st.sampled_from([100, 2_000, TEXT_BYTES])),
    st.builds(
        filled, st.text(min_size=1, max_size=4).filter(str.strip), st.just("."), st.sampled_from([500, TEXT_BYTES])
    ),
    st.sampled_from(["\ud800", "x\x00y", "\u202e", "記" * 200, "x" * 201, "a/b:{c}@", " ", ""]),
)
numbers = st.one_of(
    st.integers(-3, 300), st.integers(), st.floats(), st.sampled_from([2**31, 2**53, 2**63, -(2**63), 10**400])
)
leaves = st.one_of(st.none(), st.booleans(), numbers, texts, st.sampled_from(_EDGE_TIMES))
documents = st.recursive(
    leaves,
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=8), part, max_size=4),
    max_leaves=12,
)
deep = st.builds(
    lambda depth, inside: b"[" * depth + inside + b"]" * depth, st.sampled_from([5, 200, 3_000, 200_000]), st.just(b"1")
)


@cache
def real_events() -> Mapping[Topic, list[Document]]:
    """Events of every topic as the stages wrote them for one conversation, as JSON."""

    async def play() -> Mapping[Topic, list[Document]]:
        pipeline = make_pipeline()
        for session in range(3):
            said = [utterance(10 * session + at, f"My sister moved to Town{session}x{at}.") for at in range(1, 5)]
            ask = utterance(10 * session + 9, "Where is my sister?", ask={"request_id": f"r{session}"})
            await pipeline.produce(*said, ask, ended(f"s{session}" if session else None))
        return {
            topic: [json.loads(record.value) for record in pipeline.log.records(topic) if record.value]
            for topic in Topic
        }

    with ThreadPoolExecutor(1) as thread:  # this one may run a loop already
        return thread.submit(lambda: asyncio.run(play())).result()


@st.composite
def events(draw: st.DrawFn, topic: Topic) -> Document:
    """An event of a hostile conversation, whole or with some of its parts replaced."""
    every = real_events()
    own = every[topic] or every[Topic.CONVERSATIONS]
    found: Document = json.loads(
        json.dumps(draw(st.sampled_from(own if draw(st.integers(0, 9)) else list(chain(*every.values())))))
    )
    found["conversation_id"] = draw(st.sampled_from(NAMES))
    for _ in range(draw(st.integers(0, 3))):
        _replace_a_part(draw, found)
    if topic is not Topic.CONVERSATIONS:  # stages wait for a deploy that knows a newer version
        found.pop("schema_version", None)
    return found


def _replace_a_part(draw: st.DrawFn, document: Document) -> None:
    node: Any = document
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        if not isinstance(node[key], dict | list) or not node[key] or draw(st.integers(0, 3)) == 0:
            break
        node = node[key]
    if isinstance(node, list) and draw(st.booleans()):
        node.extend([node[key]] * draw(st.sampled_from([1, 50, 2_000])))
    elif isinstance(node, dict) and draw(st.integers(0, 4)) == 0:
        del node[key]
    else:
        node[key] = draw(documents)


def _as_json(document: object) -> bytes:
    return json.dumps(document).encode()


def values(topic: Topic) -> st.SearchStrategy[bytes]:
    """Bytes, JSON of any depth and size, and events."""
    return st.one_of(st.binary(max_size=200), deep, st.builds(_as_json, documents), st.builds(_as_json, events(topic)))


headers = st.lists(
    st.tuples(
        st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.sampled_from(_OWN_HEADERS)),
        st.one_of(
            st.binary(max_size=50),
            st.sampled_from(
                [b"0:5", b"8388607:1099511627774", b"2026-01-01T00:00:00Z", b"segment:1", b"update:2", b"{}"]
            ),
        ),
    ),
    max_size=4,
).map(tuple)


@st.composite
def records(draw: st.DrawFn) -> HostileRecord:
    """A record for any topic. An event has the key of its own conversation, or one that fits nowhere."""
    topic = draw(st.one_of(st.just(Topic.CONVERSATIONS), st.sampled_from(Topic)))
    if draw(st.booleans()):
        event = draw(events(topic))
        value, key = _as_json(event), _key_of(event)
        if draw(st.integers(0, 5)) == 0:
            key = draw(st.none() | st.binary(max_size=300))
    else:
        value = draw(st.binary(max_size=200) | deep | st.builds(_as_json, documents))
        key = draw(st.sampled_from([BYSTANDER.encode(), None]) | st.binary(max_size=300))
    own = draw(headers) if draw(st.booleans()) else ()
    if key == BYSTANDER.encode():  # what belongs to a copy or a retry would speak in its name
        own = tuple(header for header in own if header[0] not in _OWN_HEADERS)
    return HostileRecord(
        "record",
        draw(st.just(value) | st.none()) if draw(st.integers(0, 9)) == 0 else value,
        key,
        topic,
        own,
        partition=draw(st.none() | st.integers(0, 3)) if draw(st.integers(0, 5)) == 0 else None,
        timestamp_ms=draw(st.none() | st.sampled_from([0, -1, 1, 2**41, 2**53, 2**62])),
        codec=draw(st.sampled_from(CODECS)),
    )


def _key_of(event: Document) -> bytes:
    tenant, name = event.get("tenant", "default"), event.get("conversation_id")
    text = "/".join(quote(str(part).encode(errors="replace"), safe="") for part in (tenant, name))
    return text.encode()[:1000]


batches = st.builds(
    lambda topic, values, **more: HostileBatch("batch", values, b"default/hostile-0", topic, **more),
    st.sampled_from([topic for topic, spec in TOPICS.items() if not spec.compacted]),
    st.lists(st.binary(max_size=300), min_size=1, max_size=4).map(tuple),
    codec=st.sampled_from(CODECS),
    header=st.none() | st.just(("trace", b"1")),
    damage=st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), max_size=4).map(tuple),
    signed=st.integers(0, 3).map(bool),
    codec_number=st.sampled_from([None] * 30 + [3, 7]),  # the embedded broker refuses it and leaves a gap in the log
)


def drawn(strategy: st.SearchStrategy[T], number: int, count: int) -> list[T]:
    """The examples of a seed: the same seed gives the same examples."""
    found: list[T] = []
    collect: Callable[[T], None] = found.append

    @seed(number)
    @settings(max_examples=count, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def each(example: T) -> None:
        collect(example)

    each()
    return found
