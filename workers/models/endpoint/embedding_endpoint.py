"""Embedder over an OpenAI-compatible ``/embeddings``."""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import httpx2
import numpy as np

from eunoe.schemas.errors import AnswerInvalid, Unavailable
from eunoe.schemas.model_ports import Vectors
from eunoe.streams.tracing import step
from eunoe.workers.models.endpoint.client import (
    Endpoint,
    EndpointRefused,
    call_attributes,
    fault_of,
    refusal_of,
    status_error,
)
from eunoe.workers.models.endpoint.completion import ErrorInBody
from eunoe.workers.models.endpoint.embedding_answers import Vector, read_vectors
from eunoe.workers.models.endpoint.failing import FailingQuestions
from eunoe.workers.models.endpoint.limit import InFlightLimit
from eunoe.workers.models.endpoint.refusals import RefusalKind
from eunoe.workers.models.endpoint.retrying import RequestFailing, RetryEnvironment, Retrying, RetryPolicy, Transient
from eunoe.workers.models.local.vectors import unit_rows
from eunoe.workers.text.tokens import clip_tokens, count_tokens

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

log = logging.getLogger(__name__)
_MAX_ANSWER_BYTES: Final = 64 * 2**20
"""Bytes of an answer: 256 vectors of 8,192 numbers, of 22 digits each, have 48 million."""


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
        self._client: AsyncOpenAI = settings.endpoint.open(_MAX_ANSWER_BYTES)
        self._limit = InFlightLimit(settings.endpoint.in_flight, 0)
        self._retrying = Retrying(settings.retry, settings.environment, settings.endpoint.server)
        self._retries = 0
        self._failing = FailingQuestions()
        self._most_texts = settings.batch_texts
        """Texts of a request, as far as the endpoint has taken them."""
        self._cut = False
        """Whether a text was too long for the endpoint."""

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

        A batch that is too large is halved, and a text that is too long for the model is cut. A text at which the
        endpoint fails each time, while it embeds others, gets the first axis, too. Raises `Unavailable` when the
        endpoint does not answer after all retries. Raises `EndpointRefused` when it refuses the key or the model, or
        returns vectors of another length.
        """
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        clipped = [clip_tokens(text, self._settings.text_tokens) for text in texts]
        filled = [index for index, text in enumerate(clipped) if text.strip()]
        settings = replace(self._settings, batch_texts=min(self._settings.batch_texts, self._most_texts))
        batches = pack_batches([clipped[index] for index in filled], settings)
        parts = await asyncio.gather(*(self._embed_batch(batch) for batch in batches))
        if parts:
            rows[filled] = np.concatenate(parts)
        return unit_rows(rows)

    async def _embed_batch(self, texts: list[str]) -> Vectors:
        endpoint = self._settings.endpoint
        with step(f"embeddings {endpoint.model}", call_attributes("embeddings", endpoint)):
            try:
                if self._failing.any_known and any(_digest(text) in self._failing for text in texts):
                    return await self._without_failing(texts)
                return await self._retrying.run(partial(self._told_apart, texts), self._on_retry)
            except _TooMuch as fault:
                return await self._smaller(texts, fault)
            except RequestFailing:
                if not await self._answers_others():
                    raise
                return await self._without_failing(texts)

    async def _smaller(self, texts: list[str], fault: "_TooMuch") -> Vectors:
        """The vectors of the halves, one after the other; of a single text, that of its longest half that is taken.

        A text is halved from its own length on, so that its vector depends on it alone.
        """
        if len(texts) > 1:
            middle = (len(texts) + 1) // 2
            parts = [await self._embed_batch(part) for part in (texts[:middle], texts[middle:])]
            if not fault.may_be_of_text:
                self._most_texts = min(self._most_texts, middle)
            return np.concatenate(parts)
        shorter = texts[0][: len(texts[0]) // 2].rstrip()
        if not fault.may_be_of_text or not shorter:
            raise EndpointRefused(str(fault), self._settings.endpoint.server)
        if not self._cut:
            self._cut = True
            log.warning("%s takes no text of %d characters: what is longer is cut", self.server, len(texts[0]))
        return await self._embed_batch([shorter])

    async def _without_failing(self, texts: list[str]) -> Vectors:
        """The vectors of all texts but those at which the endpoint fails each time: they get the first axis.

        Raises `Unavailable` while a text may yet be embedded.
        """
        try:
            return await self._attempt(texts)
        except _TooMuch as fault:
            return await self._smaller(texts, fault)
        except Transient as fault:
            if len(texts) > 1:
                middle = (len(texts) + 1) // 2
                return np.concatenate([await self._without_failing(part) for part in (texts[:middle], texts[middle:])])
            if not self._failing.failed(_digest(texts[0]), answers_others=await self._answers_others()):
                raise Unavailable(fault.message, self._settings.endpoint.server) from None
        log.warning("%s gives no vector for a text, and does for others: it is found by its words alone", self.server)
        return np.zeros((1, self.dimensions), np.float32)

    async def _answers_others(self) -> bool:
        """Whether the endpoint embeds a short text."""
        try:
            await self._attempt(["OK"])
        except (Transient, Unavailable, _TooMuch):
            return False
        return True

    async def _told_apart(self, texts: list[str]) -> Vectors:
        """As `_attempt`. Zeros alone are believed of single texts, and not where they are said of every text."""
        found = await self._attempt(texts)
        if not found.any() and not (await self._attempt(["OK"])).any():
            raise Transient(f"{self.name} at {self._settings.endpoint.address} returns zeros alone for every text")
        return found

    async def _attempt(self, texts: list[str]) -> Vectors:
        """Vectors of shape (n, dimensions). Raises `_TooMuch`, `Transient` and `EndpointRefused`."""
        from openai import APIStatusError, OpenAIError  # noqa: PLC0415 - see eunoe.workers.models.endpoint.client

        endpoint, clock = self._settings.endpoint, self._settings.environment.clock
        asked: dict[str, Any] = {"dimensions": self.dimensions} if self._settings.shorten else {}
        body = {"model": endpoint.model, "input": texts, "encoding_format": "float", **asked}
        try:
            async with self._limit.slot(), asyncio.timeout(endpoint.timeout_s):
                answer = await self._client.post("/embeddings", cast_to=httpx2.Response, body=body)
            return self._read(answer, len(texts))
        except TimeoutError:
            raise Transient(f"{self.name} at {endpoint.address} did not answer in {endpoint.timeout_s:g} s") from None
        except APIStatusError as error:
            raise _fault_of(error, endpoint, clock()) from None
        except (OpenAIError, ValueError) as error:
            raise fault_of(error, endpoint, clock()) from None

    def _read(self, answer: httpx2.Response, wanted: int) -> Vectors:
        where, server = f"{self.name} at {self._settings.endpoint.address}", self._settings.endpoint.server
        try:
            found = read_vectors(answer.content, wanted)
        except ErrorInBody as told:
            raise status_error(told.error, answer.request) from None
        if found is None:
            raise Transient(f"{where} returned another number of vectors than texts", may_be_of_request=True)
        if len(found) < wanted:  # some models and proxies make one vector of all texts, or of the first alone
            raise _TooMuch(f"{where} returned fewer vectors than texts", may_be_of_text=False)
        rows = [row for row in found if row is not None]
        if any(len(row) != self.dimensions for row in rows):
            raise EndpointRefused(f"{where} returns vectors of {_lengths(rows, self.dimensions)}", server)
        if len(rows) < wanted:
            raise Transient(f"{where} returned a vector without numbers", may_be_of_request=True)
        return np.stack(rows)

    def _on_retry(self) -> None:
        self._retries += 1


class _TooMuch(Exception):
    """A request was refused for its size, or for a reason that is not known."""

    def __init__(self, message: str, *, may_be_of_text: bool) -> None:
        super().__init__(message)
        self.may_be_of_text = may_be_of_text
        """Whether a text is too long; else there may be too many of them."""


def _fault_of(error: "APIStatusError", endpoint: Endpoint, now: float) -> Exception:
    """The fault of a refused or failed request."""
    fault, kind = fault_of(error, endpoint, now), refusal_of(error).kind
    if isinstance(fault, Transient) or kind is RefusalKind.DEPLOYMENT:
        return fault
    message = f"{endpoint.server} takes not even a short text" if isinstance(fault, AnswerInvalid) else str(fault)
    return _TooMuch(message, may_be_of_text=kind is RefusalKind.TOO_LARGE)


def _lengths(rows: Sequence[Vector], wanted: int) -> str:
    """The lengths of vectors, not all of which are as wanted, and what to do."""
    lengths = sorted({len(row) for row in rows})
    if len(lengths) == 1:
        return f"length {lengths[0]}, not {wanted}: set the embedder's dimensions to that"
    return f"several lengths ({', '.join(map(str, lengths[:4]))}): its requests go to different models"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


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
