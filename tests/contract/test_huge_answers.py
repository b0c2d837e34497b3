"""Answers of endpoints that are larger than any answer: packed, without an end, or counted wrongly."""

import gzip
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from eunoe.schemas.errors import AnswerInvalid, Unavailable
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.models.endpoint.client import MAX_ANSWER_BYTES, Endpoint
from eunoe.workers.models.endpoint.completion import Completion
from eunoe.workers.models.endpoint.dialect import Sampling
from eunoe.workers.models.endpoint.embedding_endpoint import EndpointEmbedder, EndpointEmbedderSettings
from eunoe.workers.models.endpoint.language_model import OpenAIModel, OpenAISettings
from eunoe.workers.models.endpoint.profile import MAX_RATIO
from eunoe.workers.models.endpoint.retrying import RetryEnvironment, RetryPolicy
from eunoe.workers.models.questions.answer_forms import QuestionForm, answer_like
from eunoe.workers.models.questions.reading import bare_json

WHO = Prompt(name="question/9", system=answer_like(QuestionForm), user="Ann speaks of Rex. " * 50, max_tokens=256)
ANSWER = '{"question": "Who?"}'
RETRY = RetryPolicy(attempts=2, first_s=0.001)
ENVIRONMENT = RetryEnvironment(chance=lambda: 0.0)


def completion(content: str = ANSWER, **usage: object) -> bytes:
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], "usage": usage}).encode()


@asynccontextmanager
async def answering(*bodies: bytes, encoding: str = "") -> AsyncIterator[tuple[list[int], Endpoint]]:
    """An endpoint that gives these answers, the last one again and again, and the bytes of each that were taken."""
    sent: list[int] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        body = bodies[min(len(sent), len(bodies) - 1)]
        sent.append(0)
        response = web.StreamResponse(headers={"Content-Encoding": encoding} if encoding else {})
        await response.prepare(request)
        place = len(sent) - 1
        for start in range(0, len(body), 65_536):
            await response.write(body[start : start + 65_536])
            sent[place] += 65_536
        return response

    app = web.Application()
    app.router.add_post("/v1/{what:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield sent, Endpoint(model="m", base_url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1", timeout_s=30)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def opened(endpoint: Endpoint, sampling: Sampling | None = None) -> AsyncIterator[OpenAIModel]:
    settings = OpenAISettings(endpoint, retry=RETRY, environment=ENVIRONMENT, sampling=sampling or Sampling())
    model = OpenAIModel(settings)
    try:
        yield model
    finally:
        await model.aclose()


BOMB = gzip.compress(b" " * (4 * MAX_ANSWER_BYTES))


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b" " * (8 * MAX_ANSWER_BYTES), ""),
        (BOMB, "gzip"),
        (gzip.compress(BOMB), "gzip, gzip"),
        (b"any", "zstd"),
    ],
    ids=["long", "packed", "packed twice", "packed otherwise"],
)
async def test_an_answer_that_is_too_long_is_not_read_and_told(body: bytes, encoding: str):
    async with answering(body, encoding=encoding) as (sent, endpoint), opened(endpoint) as model:
        with pytest.raises(Unavailable, match="sent an answer that is none: it "):
            await model.answer(WHO, QuestionForm)
        assert max(sent) < 2 * MAX_ANSWER_BYTES


async def test_an_endpoint_whose_answer_to_one_question_is_too_long_stops_no_stage():
    short = completion("OK")
    bodies = [part for _ in range(9) for part in (b" " * (MAX_ANSWER_BYTES + 1), b" " * (MAX_ANSWER_BYTES + 1), short)]
    async with answering(*bodies) as (_, endpoint), opened(endpoint) as model:
        for _ in range(2):
            with pytest.raises(Unavailable):
                await model.answer(WHO, QuestionForm)
        with pytest.raises(AnswerInvalid):
            await model.answer(WHO, QuestionForm)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_packed_answer_is_read(encoding: str):
    packed = gzip.compress(completion()) if encoding == "gzip" else zlib.compress(completion())
    async with answering(packed, encoding=encoding) as (_, endpoint), opened(endpoint) as model:
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"


async def test_vectors_may_take_more_bytes_than_words():
    rows = [{"index": place, "embedding": [0.1234567890123456789] * 2048} for place in range(256)]
    body = json.dumps({"data": rows}).encode()
    assert len(body) > MAX_ANSWER_BYTES
    async with answering(body) as (_, endpoint):
        embedder = EndpointEmbedder(EndpointEmbedderSettings(endpoint, 2048, retry=RETRY, environment=ENVIRONMENT))
        assert (await embedder.embed(["Ann"] * 256)).shape == (256, 2048)
        await embedder.aclose()


@pytest.mark.parametrize("piece", ["{", "[", '{"a":', '"', '{"', "\\", " ", "<think>"])
def test_of_a_text_that_is_longer_than_any_answer_the_beginning_is_read(piece: str):
    found = Completion.read(completion(ANSWER + piece * (2_000_000 // len(piece))))
    assert found is not None
    assert len(found.content) <= 100_000
    assert found.content.startswith(ANSWER)


def test_long_thoughts_before_an_answer_are_no_part_of_its_length():
    found = Completion.read(completion(f"<think>{'Who is Rex? ' * 20_000}</think>{ANSWER}"))
    assert found is not None
    assert found.content == ANSWER


@pytest.mark.parametrize("piece", ["{", "[", '{"a":'])
def test_a_text_of_brackets_alone_has_no_json(piece: str):
    text = piece * (100_000 // len(piece))
    assert bare_json(text) == text


@pytest.mark.parametrize("count", [10**9, 10**400, -5, 9_000_000])
async def test_a_wrong_count_of_tokens_does_not_close_the_context(count: int):
    body = completion("half of an emoji: \ud83d", prompt_tokens=count, completion_tokens=count)
    body = body.replace(b"half", ANSWER.replace('"', '\\"').encode())
    async with answering(body) as (_, endpoint), opened(endpoint, Sampling(context_window=8000)) as model:
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"
        assert await model.fits(WHO)
        assert model.profile.now.ratios.get("latin", 0.0) <= MAX_RATIO
        assert model.usage.prompt_tokens >= 0
