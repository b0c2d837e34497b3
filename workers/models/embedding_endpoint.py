"""Embedder over an OpenAI-compatible ``/embeddings``."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from eunoe.schemas.errors import AnswerInvalid
from eunoe.schemas.model_ports import Vectors
from eunoe.streams.tracing import step
from eunoe.workers.models.endpoint import Endpoint, EndpointRefused, call_attributes, fault_of
from eunoe.workers.models.limit import InFlightLimit
from eunoe.workers.models.retrying import RetryEnvironment, Retrying, RetryPolicy, Transient
from eunoe.workers.models.vectors import unit_rows
from eunoe.workers.text.tokens import clip_tokens, count_tokens

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import CreateEmbeddingResponse


@dataclass(frozen=True, slots=True)
class EndpointEmbedderSettings:
    """An endpoint and the bounds of its requests."""

    endpoint: Endpoint
    dimensions: int
    shorten: bool = False
    """Whether to ask the endpoint for ``dimensions``; only some models can shorten their vectors."""
    batch_texts: int = 256
    batch_tokens: int = 60_000
    text_tokens: int = 4000
    """Tokens of a text that are embedded; the rest of a longer one is cut off."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    environment: RetryEnvironment = field(default_factory=RetryEnvironment)


class EndpointEmbedder:
    """Embeds batches of texts concurrently, with the retries of a language model."""

    def __init__(self, settings: EndpointEmbedderSettings) -> None:
        self._settings = settings
        self._client: AsyncOpenAI = settings.endpoint.open()
        self._limit = InFlightLimit(settings.endpoint.in_flight, 0)
        self._retrying = Retrying(settings.retry, settings.environment, settings.endpoint.server)
        self._retries = 0

    @property
    def name(self) -> str:
        """The model's name at the endpoint, with the length of its vectors."""
        return f"{self._settings.endpoint.model}-{self._settings.dimensions}"

    @property
    def server(self) -> str:
        """The model and its address, as faults name them."""
        return self._settings.endpoint.server

    @property
    def dimensions(self) -> int:
        """The length of a vector, from the settings; vectors of another length are refused."""
        return self._settings.dimensions

    @property
    def retries(self) -> int:
        """Requests that were sent again."""
        return self._retries

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (n, dimensions); a blank text is not sent and gets the first axis.

        Raises `Unavailable` when the endpoint does not answer after all retries. Raises `EndpointRefused` when it
        refuses the key or the model, or returns vectors of another length.
        """
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        clipped = [clip_tokens(text, self._settings.text_tokens) for text in texts]
        filled = [index for index, text in enumerate(clipped) if text.strip()]
        batches = pack_batches([clipped[index] for index in filled], self._settings)
        parts = await asyncio.gather(*(self._embed_batch(batch) for batch in batches))
        if parts:
            rows[filled] = np.concatenate(parts)
        return unit_rows(rows)

    async def _embed_batch(self, texts: list[str]) -> Vectors:
        endpoint = self._settings.endpoint
        with step(f"embeddings {endpoint.model}", call_attributes("embeddings", endpoint)):
            answer = await self._retrying.run(partial(self._attempt, texts), self._on_retry)
        return np.array([entry.embedding for entry in sorted(answer.data, key=lambda entry: entry.index)], np.float32)

    async def _attempt(self, texts: list[str]) -> "CreateEmbeddingResponse":
        from openai import OpenAIError  # noqa: PLC0415 - see eunoe.workers.models.endpoint

        endpoint = self._settings.endpoint
        asked: dict[str, Any] = {"dimensions": self.dimensions} if self._settings.shorten else {}
        try:
            async with self._limit.slot(), asyncio.timeout(endpoint.timeout_s):
                answer = await self._client.embeddings.create(
                    model=endpoint.model, input=texts, encoding_format="float", **asked
                )
        except TimeoutError:
            raise Transient(f"{self.name} at {endpoint.address} did not answer in {endpoint.timeout_s:g} s") from None
        except (OpenAIError, ValueError) as error:
            raise _settings_fault(fault_of(error, endpoint, self._settings.environment.clock()), endpoint) from None
        self._check(answer, len(texts))
        return answer

    def _check(self, answer: "CreateEmbeddingResponse", wanted: int) -> None:
        from openai.types import CreateEmbeddingResponse  # noqa: PLC0415 - see eunoe.workers.models.endpoint

        where = f"{self.name} at {self._settings.endpoint.address}"
        if not isinstance(answer, CreateEmbeddingResponse) or len(answer.data or ()) != wanted:
            raise Transient(f"{where} returned another number of vectors than texts")
        lengths = {len(entry.embedding) for entry in answer.data}
        if lengths != {self.dimensions}:
            raise EndpointRefused(
                f"{where} returns vectors of length {max(lengths)}: set the embedder's dimensions to that",
                self._settings.endpoint.server,
            )

    def _on_retry(self) -> None:
        self._retries += 1


def _settings_fault(fault: Exception, endpoint: Endpoint) -> Exception:
    """The fault itself; a text that is too long becomes `EndpointRefused`, because only settings can change that."""
    if isinstance(fault, AnswerInvalid):
        return EndpointRefused(f"{endpoint.server}: {fault}; lower the tokens per text or batch", endpoint.server)
    return fault


def pack_batches(texts: Sequence[str], settings: EndpointEmbedderSettings) -> list[list[str]]:
    """Cut the texts, in order, into batches within the bounds of texts and tokens; no batch is empty."""
    batches: list[list[str]] = []
    held = 0
    for text in texts:
        size = count_tokens(text)
        if not batches or len(batches[-1]) >= settings.batch_texts or held + size > settings.batch_tokens:
            batches.append([])
            held = 0
        batches[-1].append(text)
        held += size
    return batches
