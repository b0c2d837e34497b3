"""Answers to requests for embeddings as servers and proxies give them, byte for byte."""

import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from eunoe.schemas.errors import Refused, Unavailable
from eunoe.workers.models.endpoint.client import Endpoint
from eunoe.workers.models.endpoint.embedding_endpoint import EndpointEmbedder, EndpointEmbedderSettings
from eunoe.workers.models.endpoint.retrying import RetryEnvironment, RetryPolicy

Answer = Callable[[Sequence[str]], web.Response]


def vector(text: str) -> list[float]:
    """A vector that tells the length of its text."""
    return [1.0, float(len(text)), 0.0]


def rows(texts: Sequence[str], *numbers: object, embedding: Callable[[str], object] = vector) -> web.Response:
    """The vectors of the texts with these indices, by default in their order."""
    indices: Sequence[object] = numbers or range(len(texts))
    data = [{"index": index, "embedding": embedding(text)} for index, text in zip(indices, texts, strict=True)]
    return web.json_response({"object": "list", "data": data})


def error(status: int, message: str, **fields: object) -> web.Response:
    return web.json_response({"error": {"message": message, **fields}}, status=status)


@asynccontextmanager
async def embedding(answer: Answer, **changes: Any) -> AsyncIterator[tuple[list[list[str]], EndpointEmbedder]]:
    """An embedder whose endpoint gives these answers, and the texts of each request."""
    asked: list[list[str]] = []

    async def embed(request: web.Request) -> web.Response:
        asked.append((await request.json())["input"])
        return answer(asked[-1])

    app = web.Application()
    app.router.add_post("/v1/embeddings", embed)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    at = Endpoint(model="m", base_url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1", timeout_s=5)
    policy, environment = RetryPolicy(attempts=2, first_s=0.001), RetryEnvironment(chance=lambda: 0.0)
    embedder = EndpointEmbedder(EndpointEmbedderSettings(at, 3, retry=policy, environment=environment, **changes))
    try:
        yield asked, embedder
    finally:
        await embedder.aclose()
        await runner.cleanup()


def lengths(found: np.ndarray) -> list[int]:
    """The lengths of the texts, as their vectors tell."""
    return [round(float(row[1] / row[0])) for row in found]


TEXTS = ["a", "bb", "ccc", "dddd"]


@pytest.mark.parametrize(
    "answer",
    [
        lambda texts: rows(texts, 0, 1, 0, 1),
        lambda texts: rows(texts, 0, 0, 0, 0),
        lambda texts: rows(texts[::-1], 3, 2, 1, 0),
        lambda texts: web.json_response({"data": [{"embedding": vector(text)} for text in texts]}),
        lambda texts: rows(
            texts, embedding=lambda text: base64.b64encode(np.array(vector(text), "<f4").tobytes()).decode()
        ),
        lambda texts: rows(texts[::-1], 4, 3, 2, 1),
        lambda texts: rows(texts[::-1], "3", "2", "1", "0"),
        lambda texts: rows(texts, [1], {}, None, "9" * 5000),
    ],
    ids=[
        *("each part counted anew", "no index", "in another order", "without index", "base64"),
        *("other order from 1", "other order in text", "index is no number"),
    ],
)
async def test_vectors_are_those_of_their_texts_however_they_come(answer: Answer):
    async with embedding(answer) as (asked, embedder):
        assert lengths(await embedder.embed(TEXTS)) == [1, 2, 3, 4]
        assert len(asked) == 1


@pytest.mark.parametrize(
    "words",
    [
        (400, "This model's maximum context length is 512 tokens, however you requested 900 tokens"),
        (500, "input (523 tokens) is too large to process. increase the physical batch size (current batch size: 512)"),
        (413, "Input validation error: `inputs` must have less than 512 tokens. Given: 600"),
    ],
)
async def test_a_text_that_is_too_long_for_a_model_is_cut_and_stops_nothing(words: tuple[int, str]):
    def answer(texts: Sequence[str]) -> web.Response:
        return error(*words) if any(len(text) > 500 for text in texts) else rows(texts)

    async with embedding(answer) as (_, embedder):
        together = await embedder.embed([*TEXTS, "x" * 1500, "y" * 500])
        assert lengths(together) == [1, 2, 3, 4, 375, 500]
        assert np.array_equal((await embedder.embed(["x" * 1500]))[0], together[4])
    async with embedding(lambda texts: error(*words)) as (_, embedder):
        with pytest.raises(Refused, match="not even a short text"):
            await embedder.embed(["some text"])


@pytest.mark.parametrize("shown", [lambda texts: texts[:1], lambda texts: ["".join(texts)]], ids=["first", "fused"])
async def test_a_server_with_one_vector_for_all_texts_is_asked_for_each(shown: Callable[[Sequence[str]], list[str]]):
    async with embedding(lambda texts: rows(shown(texts))) as (asked, embedder):
        assert lengths(await embedder.embed(TEXTS)) == [1, 2, 3, 4]
        assert len(asked) == 7
        assert lengths(await embedder.embed(TEXTS)) == [1, 2, 3, 4]
        assert len(asked) == 11


async def test_a_server_that_takes_few_texts_at_once_gets_few():
    def answer(texts: Sequence[str]) -> web.Response:
        return error(400, "at most 10 requests can be in one batch") if len(texts) > 10 else rows(texts)

    async with embedding(answer) as (asked, embedder):
        texts = ["x" * n for n in range(1, 41)]
        assert lengths(await embedder.embed(texts)) == list(range(1, 41))
        del asked[:]
        assert lengths(await embedder.embed(texts)) == list(range(1, 41))
        assert [len(part) for part in asked] == [10] * 4, "it is learned once"
    async with embedding(lambda texts: error(400, "encoding_format: unknown")) as (asked, embedder):
        with pytest.raises(Refused, match="does not understand our requests"):
            await embedder.embed(texts)
        assert len(asked) <= 7


@pytest.mark.parametrize(
    "failed",
    [
        lambda texts: error(500, "failed to encode response: json: unsupported value: NaN"),
        lambda texts: rows(texts, embedding=lambda text: [None] * 3 if "bb" in text else vector(text)),
        lambda texts: rows(texts, embedding=lambda text: None if "bb" in text else vector(text)),
        lambda texts: rows(texts, embedding=lambda text: [] if "bb" in text else vector(text)),
    ],
    ids=["500", "nulls", "no vector", "an empty one"],
)
async def test_a_text_for_which_there_is_never_a_vector_stops_nothing(failed: Answer):
    def answer(texts: Sequence[str]) -> web.Response:
        return failed(texts) if "bb" in texts else rows(texts)

    async with embedding(answer) as (asked, embedder):
        for _ in range(2):
            with pytest.raises(Unavailable):
                await embedder.embed(TEXTS)
        assert lengths(await embedder.embed(TEXTS)) == [1, 0, 3, 4]
        del asked[:]
        assert lengths(await embedder.embed(TEXTS)) == [1, 0, 3, 4]
        assert len(asked) <= 6


async def test_an_endpoint_without_any_vector_is_waited_for():
    async with embedding(lambda texts: error(500, "it failed")) as (_, embedder):
        for _ in range(5):
            with pytest.raises(Unavailable, match="said 500"):
                await embedder.embed(TEXTS)


async def test_zeros_for_every_text_are_waited_for_and_zeros_for_one_are_not():
    """All texts would be found alike, and for good."""

    def zeros(texts: Sequence[str]) -> web.Response:
        return rows(texts, embedding=lambda text: vector(text) if text == "OK" else [0.0] * 3)

    async with embedding(lambda texts: rows(texts, embedding=lambda text: [0.0] * 3)) as (_, embedder):
        with pytest.raises(Unavailable, match="zeros alone for every text"):
            await embedder.embed(TEXTS)
    async with embedding(zeros) as (asked, embedder):
        assert lengths(await embedder.embed(["xqzt", ""])) == [0, 0]
        assert asked == [["xqzt"], ["OK"]]


@pytest.mark.parametrize(
    ("embeddings", "told"),
    [
        (lambda text: [1.0] * 5, "vectors of length 5, not 3: set the embedder's dimensions to that"),
        (lambda text: [1.0] * min(3, 1 + len(text)), r"vectors of several lengths \(2, 3\)"),
    ],
)
async def test_vectors_of_other_lengths_are_refused(embeddings: Callable[[str], object], told: str):
    async with embedding(lambda texts: rows(texts, embedding=embeddings)) as (_, embedder):
        with pytest.raises(Refused, match=told):
            await embedder.embed(TEXTS)


async def test_a_refused_key_of_status_200_is_told():
    told = json.dumps({"error": {"message": "Incorrect API key provided: sk-1", "code": "invalid_api_key"}})
    async with embedding(lambda texts: web.Response(text=told, content_type="application/json")) as (_, embedder):
        with pytest.raises(Refused, match="the key") as caught:
            await embedder.embed(TEXTS)
        assert "sk-1" not in str(caught.value)
