"""Traces as a collector gets them: from a client over all stages, each in a process of its own, to the reply."""

import asyncio

import pytest

from eunoe.deploy.observability.otlp import open_tracer
from eunoe.streams import tracing
from eunoe.streams.client import MemoryClient
from eunoe.streams.settings import TraceSettings
from eunoe.workers.registry import STAGES
from tests.support.collector import Collector, collecting
from tests.support.command import until
from tests.support.model_server.server import PLAUSIBLE, ModelServer, ServerSettings
from tests.support.pipeline import Pipeline

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


async def test_one_trace_goes_from_a_client_to_memory_and_to_the_reply(pipeline: Pipeline):
    settings = pipeline.settings
    async with collecting() as collector, pipeline.up(EUNOE_TRACES__ENDPOINT=collector.url):
        tracer, close = await asyncio.to_thread(open_tracer, TraceSettings(endpoint=collector.url), "client", "p")
        tracing.install(tracer)
        try:
            client = MemoryClient(settings.kafka_settings, conversation_id="traced", names=settings.names)
            async with client as memory:
                with tracing.span("chat") as chat:
                    await memory.utter("I moved to Lyon in spring.", speaker="Ann")
                    await memory.end_session()
                    await pipeline.remembered(1, "traced")
                    reply = await memory.ask("Where do I live now?", speaker="Ann", timeout=60)
        finally:
            tracing.install(None)
            await asyncio.to_thread(close)
        trace = (chat.traceparent or "")[3:35]

        async def complete() -> bool:
            return stages_in(collector, trace) == set(STAGES)

        await until(complete)
    assert "Lyon" in reply.text
    spans = collector.trace(trace)
    assert {span.service for span in spans} == {"eunoe-client", "eunoe-worker"}
    ids = {span.id for span in spans}
    assert [span.name for span in spans if span.parent not in ids] == ["chat"]
    names = {span.name for span in spans}
    assert names >= {"ask", "send conversations", "wait segments", "decide update", "commit redis", "upsert qdrant"}
    assert "Lyon" not in repr(spans)
    assert "traced" not in repr(spans)


@pytest.mark.slow
async def test_requests_to_a_language_model_are_spans_with_their_tokens(pipeline: Pipeline):
    settings = pipeline.settings
    async with collecting() as collector, ModelServer(ServerSettings(scripts=PLAUSIBLE)) as model:
        variables = {"EUNOE_TRACES__ENDPOINT": collector.url, "OPENAI_BASE_URL": model.base_url}
        async with pipeline.up(OPENAI_API_KEY="sk-hidden", **variables):
            async with MemoryClient(settings.kafka_settings, conversation_id="traced", names=settings.names) as memory:
                await memory.utter("I moved to Lyon in spring.", speaker="Ann")
                await memory.end_session()
                await pipeline.remembered(1, "traced")

            async def seen() -> bool:
                return any(span.name.startswith("chat") for span in collector.spans)

            await until(seen)
    (request,) = [span for span in collector.spans if span.name.startswith("chat")]
    questions = {span.id: span.name for span in collector.spans}
    assert questions[request.parent] == "question summarize/4"
    assert request.name == f"chat {request.attributes['gen_ai.request.model']}"
    assert request.attributes["gen_ai.usage.input_tokens"] > 100
    assert request.attributes["gen_ai.usage.output_tokens"] > 10
    assert "Lyon" not in repr(collector.spans)
    assert "hidden" not in repr(collector.spans)


def stages_in(collector: Collector, trace: str) -> set[str]:
    return {span.attributes["eunoe.stage"] for span in collector.trace(trace) if span.name.startswith("process")}
