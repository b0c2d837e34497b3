"""Traces: one from an utterance to memory and to the reply, without a word of users; none unless an endpoint is set."""

import threading
import time
from contextlib import closing as closing_socket
from dataclasses import replace
from pathlib import Path
from socket import socket

import pytest
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from eunoe.deploy.observability.otlp import open_tracer
from eunoe.schemas.decisions import Decision
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import Ask, ConversationEvent, Provenance, SessionSegmented
from eunoe.schemas.events import Span as TopicSpan
from eunoe.streams import tracing
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.publisher import excess_of
from eunoe.streams.publisher import traced as in_trace
from eunoe.streams.record import Message, Record, Revoked
from eunoe.streams.settings import TraceSettings
from eunoe.streams.topics import DEFAULT_MAX_BYTES, Topic
from eunoe.streams.tracer import OpenTelemetryTracer, read_traceparent
from eunoe.streams.tracing import MAX_LINKS, TRACE_HEADER, current, processing, span, step
from eunoe.workers.derive.in_memory import InMemoryPipeline, as_message
from eunoe.workers.registry import STAGES
from tests.support.gateway import make_gateway
from tests.support.in_memory import HashEmbedder, ended, utterance
from tests.support.runner_bench import Bench, Lease, Script, closed
from tests.support.spans import Spans, traced
from tests.support.whole_state import read_digest

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def pipeline() -> InMemoryPipeline:
    return InMemoryPipeline(HashEmbedder(), log=MemoryLog(1))


def said(*events: ConversationEvent) -> list[Message]:
    """The events as a client sends them, in its current span."""
    return [in_trace(as_message(event), current().traceparent) for event in events]


def stages_of(spans: Spans, trace_id: int) -> set[str]:
    found = (span for span in spans.ended() if span.context.trace_id == trace_id)
    return {str(span.attributes["eunoe.stage"]) for span in found if span.name.startswith("process")}


async def test_one_trace_goes_from_an_utterance_to_memory_and_to_the_reply():
    played = pipeline()
    with traced() as spans:
        with span("chat") as chat:
            await played.send(
                *said(utterance(1, "I moved to Lyon in spring."), utterance(3, "I work at the harbour."), ended())
            )
            await played.send(*said(utterance(5, "Where do I live now?", ask=Ask(request_id="r"))))
        trace_id = int((chat.traceparent or "")[3:35], 16)
    assert "Lyon" in played.replies()[0].text
    assert {span.context.trace_id for span in spans.ended()} == {trace_id}
    assert stages_of(spans, trace_id) == set(STAGES)
    by_id = {span.context.span_id: span for span in spans.ended()}
    decided = spans.one("decide respond")
    names = []
    while decided.parent is not None:
        decided = by_id[decided.parent.span_id]
        names.append(decided.name)
    assert names == ["process reply-contexts", "process reply-requests", "process conversations", "chat"]


async def test_a_session_is_linked_to_the_utterances_that_it_gathers():
    played = pipeline()
    with traced() as spans:
        for number in range(1, 2 * MAX_LINKS + 10, 2):
            with span("say"):
                await played.send(*said(utterance(number)))
        with span("end") as end:
            await played.send(*said(ended()))
    linked = [span for span in spans.ended("process conversations") if span.links]
    assert [len(span.links) for span in linked] == [MAX_LINKS]
    assert linked[0].context.trace_id == int((end.traceparent or "")[3:35], 16)
    read = [span.context for span in spans.ended("process conversations")]
    assert {link.context.span_id for link in linked[0].links} == {one.span_id for one in read[-MAX_LINKS - 1 : -1]}


async def test_spans_hold_no_words_of_users_and_no_keys():
    with traced() as spans:
        await pipeline().send(
            *said(utterance(1, "My secret is xylophone."), ended(), utterance(3, "Hm", ask=Ask(request_id="rq")))
        )
        with pytest.raises(ValueError, match="xylophone"), span("fails"):
            raise ValueError("xylophone")
    words = "".join(told(spans))
    assert not [word for word in ("xylophone", "Ann", "default/c", '"c"', "rq", "u1") if word in words]
    names = {span.attributes["eunoe.conversation"] for span in spans.ended("process sessions")}
    assert [len(str(name)) for name in names] == [16]
    assert spans.one("fails").attributes == {"error.type": "ValueError"}


async def test_without_a_secret_no_conversation_is_named():
    with traced(secret=None) as spans:
        await pipeline().send(*said(utterance(1)))
    assert "eunoe.conversation" not in spans.one("process conversations").attributes


async def test_traces_change_no_state():
    events = [utterance(1, "I moved to Lyon in spring."), ended(), utterance(3, "I sold the house in Lyon."), ended()]
    plain, watched = pipeline(), pipeline()
    await plain.produce(*events)
    with traced(), span("chat"):
        await watched.send(*said(*events))
    same = [await read_digest(one.store, "default/c", STAGES) for one in (plain, watched)]
    assert same[0].state == same[1].state
    assert TRACE_HEADER not in repr(watched.store)
    assert any(TRACE_HEADER in record.headers for record in watched.log.records(Topic.CHANGES))


async def test_an_outbox_that_is_sent_again_keeps_its_trace():
    bench = Bench(Script(Decision(events=(segmented(1),))))
    record = replace(bench.record(closed(1)), headers={TRACE_HEADER: GIVEN.encode()}, timestamp_ms=_now_ms())
    publish, bench.log.publish = bench.log.publish, _away
    with traced(), pytest.raises(Revoked):
        await bench.runner.handle(record, Lease(pauses=2))
    bench.log.publish = publish
    assert bench.log.records(Topic.SEGMENTS) == []
    await bench.handle(closed(1))  # in another process, which traces nothing
    (sent,) = bench.log.records(Topic.SEGMENTS)
    assert sent.headers[TRACE_HEADER].decode()[:36] == GIVEN[:36]


def test_a_record_that_is_delivered_again_gets_another_span_in_its_trace():
    record = Record(Topic.SESSIONS, 0, 7, b"default/c", b"", _now_ms() - 5000, {TRACE_HEADER: GIVEN.encode()})
    with traced() as spans:
        for _ in range(2):
            with processing(record, "segment"):
                pass
    found = spans.ended("process sessions")
    assert {f"{one.context.trace_id:032x}" for one in found} == {GIVEN[3:35]}
    assert [f"{one.parent.span_id:016x}" for one in found] == [GIVEN[36:52]] * 2
    assert len(spans.ended("wait sessions")) == 2
    assert found[0].attributes["messaging.kafka.offset"] == 7


def test_an_old_record_begins_a_trace_that_is_linked_to_the_old_one():
    record = Record(Topic.SESSIONS, 0, 7, b"default/c", b"", 0, {TRACE_HEADER: GIVEN.encode()})
    with traced() as spans, processing(record, "segment"):
        pass
    (made,) = spans.ended()
    assert made.parent is None
    assert [f"{link.context.trace_id:032x}" for link in made.links] == [GIVEN[3:35]]


def test_a_record_without_a_trace_begins_one_whatever_runs_around_it():
    record = Record(Topic.SESSIONS, 0, 7, None, b"", _now_ms(), {TRACE_HEADER: b"00-zz"})
    with traced() as spans, span("around"), processing(record, "segment"):
        pass
    assert spans.one("process sessions").parent is None


@pytest.mark.parametrize("text", [GIVEN, GIVEN[:-2] + "03", "01" + GIVEN[2:] + "-later"])
def test_a_traceparent_is_read(text: str):
    found = read_traceparent(text)
    assert found is not None
    assert (f"{found.trace_id:032x}", found.trace_flags.sampled) == (GIVEN[3:35], True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        GIVEN[:-1],
        GIVEN.upper(),
        "ff" + GIVEN[2:],
        GIVEN.replace("b7ad6b7169203331", "0" * 16),
        GIVEN + "-" * 300,
    ],
)
def test_what_is_no_traceparent_is_none(text: str):
    assert read_traceparent(text) is None


def test_a_message_at_its_limit_is_sent_without_a_trace():
    small = Message(Topic.SESSIONS, b"k", b"x")
    assert dict(in_trace(small, GIVEN).headers)[TRACE_HEADER] == GIVEN.encode()
    full = Message(Topic.SESSIONS, b"k", b"x" * (DEFAULT_MAX_BYTES - 100))
    assert excess_of(full) is None
    assert in_trace(full, GIVEN) is full
    named = replace(small, headers=((TRACE_HEADER, b"own"),))
    assert in_trace(named, GIVEN) is named


def test_a_trace_that_is_not_recorded_tells_so_to_those_behind_it():
    with traced(sampler=ParentBased(TraceIdRatioBased(0.0))) as spans, span("chat") as chat:
        assert not int((chat.traceparent or "")[-2:], 16) & 1
        with span("inside"):
            pass
    assert spans.ended() == []


def test_a_call_outside_of_a_trace_makes_none():
    with traced() as spans:
        with step("GET redis"):
            pass
        with span("work"), step("GET redis"):
            pass
    assert [one.name for one in spans.ended()] == ["GET redis", "work"]


def test_without_a_tracer_nothing_happens():
    with span("a") as one, step("b") as other:
        one.set("x", 1)
        other.link([GIVEN])
        assert current().traceparent is None
    assert tracing.current_ids() is None


@pytest.mark.timeout(20)
def test_a_collector_that_never_answers_holds_up_nobody(caplog: pytest.LogCaptureFixture):
    with closing_socket(socket()) as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        tracer, close = open_tracer(TraceSettings(endpoint=f"http://127.0.0.1:{deaf.getsockname()[1]}"), "worker", "p")
        tracing.install(tracer)
        try:
            for _ in range(4000):  # more than the queue holds
                with span("work"):
                    pass
        finally:
            tracing.install(None)
        close()
    assert not [thread for thread in threading.enumerate() if "traces" in thread.name and not thread.daemon]
    assert len([one for one in caplog.records if one.name.startswith("opentelemetry")]) <= 4
    for thread in threading.enumerate():  # their retries draw random numbers, which hypothesis does not allow beside it
        if thread.name.startswith(("Otel", "traces")):
            thread.join(15.0)
            assert not thread.is_alive(), thread.name


def test_in_a_program_without_an_sdk_nothing_is_traced():
    tracing.install(OpenTelemetryTracer())
    try:
        with span("ask") as one:
            assert one.traceparent is None
            assert current().traceparent is None
    finally:
        tracing.install(None)


def segmented(session: int) -> SessionSegmented:
    said = closed(session)
    return SessionSegmented(
        conversation_id="c",
        session=session,
        lines=said.lines,
        known_from=said.known_from,
        spans=(TopicSpan(first=0, last=0),),
        made_by=Provenance(code="segment/1", model="none"),
    )


def _now_ms() -> int:
    return round(time.time() * 1000)


async def _away(*_messages: object) -> None:
    raise Unavailable("no broker", "Kafka")


async def test_a_request_to_the_gateway_goes_on_with_the_trace_of_its_caller(tmp_path: Path):
    gateway = make_gateway(tmp_path)
    event = {"type": "utterance", "speaker": "Ann", "text": "My secret is xylophone."}
    with traced() as spans:
        async with gateway.client() as client:
            answer = await client.post("/v1/conversations/very-own/events", json=event, headers={TRACE_HEADER: GIVEN})
            missing = await client.get("/v1/nothing-like-it")
    assert (answer.status_code, missing.status_code) == (202, 404)
    made = spans.one("POST /v1/conversations/{conversation}/events")
    assert (f"{made.context.trace_id:032x}", f"{made.parent.span_id:016x}") == (GIVEN[3:35], GIVEN[36:52])
    assert made.attributes["http.response.status_code"] == 202
    assert spans.one("none").parent is None
    assert not [word for word in ("xylophone", "very-own", "nothing-like") if word in "".join(told(spans))]


def told(spans: Spans) -> list[str]:
    return [one.to_json() for one in spans.ended()]
