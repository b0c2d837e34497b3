"""A language model behind an OpenAI-compatible endpoint."""

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import httpx2
from openai import APIStatusError, BadRequestError, OpenAIError, UnprocessableEntityError

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerInvalid
from eunoe.schemas.ports import Prompt
from eunoe.workers.models.asking import is_correcting
from eunoe.workers.models.completion import Completion
from eunoe.workers.models.dialect import Dialect, Sampling, adapt, request_body
from eunoe.workers.models.endpoint import Endpoint, code_of, fault_of
from eunoe.workers.models.forms import read_answer
from eunoe.workers.models.limit import InFlightLimit
from eunoe.workers.models.metering import Prices, Usage
from eunoe.workers.models.retrying import RetryEnvironment, Retrying, RetryPolicy, Transient
from eunoe.workers.text.tokens import count_tokens

log = logging.getLogger(__name__)
AnswerT = TypeVar("AnswerT", bound=Value)
CHAT = "/chat/completions"
_NOT_UNDERSTOOD = (BadRequestError, UnprocessableEntityError)


@dataclass(frozen=True, slots=True)
class OpenAISettings:
    """An endpoint and the bounds, parameters and prices of its calls."""

    endpoint: Endpoint
    reserved: int = 20
    """Calls in flight that are reserved for urgent ones."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    sampling: Sampling = field(default_factory=Sampling)
    prices: Prices = field(default_factory=Prices)
    environment: RetryEnvironment = field(default_factory=RetryEnvironment)

    @property
    def parameters(self) -> str:
        """The sampling parameters; part of the hash that answers are recorded under."""
        return f"temperature={self.sampling.temperature} seed={self.sampling.seed}"


class OpenAIModel:
    """Structured outputs over chat completions, with retries, bounds and counts outside the SDK.

    A field that the endpoint does not support (json_schema, a length field, a temperature) is learned from its first
    refusal and avoided from then on.
    """

    def __init__(self, settings: OpenAISettings) -> None:
        in_flight = settings.endpoint.in_flight
        self._settings = settings
        self._client = settings.endpoint.open()
        self._limit = InFlightLimit(in_flight, min(settings.reserved, in_flight - 1))
        self._retrying = Retrying(settings.retry, settings.environment, settings.endpoint.server)
        self._usage = Usage()
        self._dialect = Dialect()
        self._understood: set[type[Value]] = set()
        """Forms that the endpoint has answered: a later refusal of one concerns the prompt, not the form."""

    @property
    def name(self) -> str:
        """The model's name at the endpoint."""
        return self._settings.endpoint.model

    @property
    def usage(self) -> Usage:
        """The counts so far; read-only."""
        return self._usage

    @property
    def cost(self) -> float:
        """Dollars spent so far, by the prices that are set."""
        return self._usage.cost(self._settings.prices)

    @property
    def peak_in_flight(self) -> int:
        """The largest number of calls that were in flight at once."""
        return self._limit.peak

    @property
    def in_flight_s(self) -> float:
        """Seconds in flight, summed over all calls."""
        return self._limit.held_s

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        """Ask the model and parse its answer.

        Raises `AnswerInvalid` for an answer that is not of the form. Raises `Unavailable` when the endpoint does not
        answer after all retries, `EndpointRefused` when it refuses key, model or request.
        """
        if is_correcting(prompt):
            self._usage.corrections += 1
        else:
            self._usage.calls += 1
        try:
            completion = await self._ask(prompt, form, urgent)
            self._count(prompt, completion)
            return read_answer(_content(completion, prompt), form)
        except AnswerInvalid:
            self._usage.invalid += 1
            raise

    async def _ask(self, prompt: Prompt, form: type[Value], urgent: bool) -> Completion:
        while True:
            dialect = self._dialect
            body = request_body(prompt, form, dialect, self._settings.sampling)
            try:
                completion = await self._retrying.run(partial(self._attempt, body, urgent), self._on_retry)
            except _NOT_UNDERSTOOD as refusal:
                self._learn(refusal, dialect, form)
                self._on_retry()
                continue
            self._understood.add(form)
            return completion

    async def _attempt(self, body: dict[str, Any], urgent: bool) -> Completion:
        endpoint = self._settings.endpoint
        try:
            async with self._limit.slot(urgent=urgent), asyncio.timeout(endpoint.timeout_s):
                # like `chat.completions.create`, without its walk over the schema and its parsing of the answer
                asked = {"model": endpoint.model, **body}
                response = await self._client.post(CHAT, cast_to=httpx2.Response, body=asked)
            completion = Completion.read(response.content)
        except TimeoutError:
            raise Transient(f"{self.name} at {endpoint.base_url} did not answer in {endpoint.timeout_s:g} s") from None
        except _NOT_UNDERSTOOD:
            raise
        except (OpenAIError, ValueError) as error:
            raise fault_of(error, endpoint, self._settings.environment.clock()) from None
        if completion is None:
            raise Transient(
                f"{self.name} at {endpoint.base_url} answered with no chat completion: is the address right?"
            )
        return completion

    def _learn(self, refusal: APIStatusError, dialect: Dialect, form: type[Value]) -> None:
        """Change the dialect after a refusal, or raise the fault that the refusal means."""
        fault = fault_of(refusal, self._settings.endpoint, self._settings.environment.clock())
        if isinstance(fault, AnswerInvalid):
            raise fault from None
        if self._dialect != dialect:  # another call has adapted it meanwhile: try that first
            return
        if form in self._understood:
            raise AnswerInvalid(
                f"the endpoint refused this prompt ({code_of(refusal) or refusal.status_code})"
            ) from None
        learned = adapt(dialect, f"{refusal.param or ''} {refusal.message}")
        if learned is None:
            raise fault from None
        log.warning("dialect changed after a refusal: %s: %s", self.name, learned)
        self._dialect = learned

    def _on_retry(self) -> None:
        self._usage.retries += 1

    def _count(self, prompt: Prompt, completion: Completion) -> None:
        asked, answered = completion.tokens or (
            count_tokens(prompt.system + "\n" + prompt.user),
            count_tokens(completion.content),
        )
        self._usage.prompt_tokens += asked
        self._usage.completion_tokens += answered


def _content(completion: Completion, prompt: Prompt) -> str:
    """The text of a complete answer; raises `AnswerInvalid` for one that is cut off, filtered, refused or empty."""
    if completion.finish_reason == "length":
        raise AnswerInvalid(f"the answer was cut off after {prompt.max_tokens} tokens; answer more briefly")
    if completion.finish_reason == "content_filter":
        raise AnswerInvalid("the endpoint's content filter cut the answer")
    if completion.refusal:
        raise AnswerInvalid("the model refused to answer")
    if not completion.content.strip():
        raise AnswerInvalid("the answer is empty")
    return completion.content
