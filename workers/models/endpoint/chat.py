"""Requests to the chat completions of an endpoint: slots, time limits, slow endpoints told from those that are away."""

import asyncio
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

import httpx2

from eunoe.schemas.errors import AnswerFault, AnswerInvalid, Unavailable
from eunoe.streams.tracing import step
from eunoe.workers.models.endpoint.answering_model import AnsweringModels
from eunoe.workers.models.endpoint.client import Endpoint, call_attributes, fault_of, refusal_of, status_error
from eunoe.workers.models.endpoint.completion import Completion, ErrorInBody, completion_refused
from eunoe.workers.models.endpoint.limit import InFlightLimit
from eunoe.workers.models.endpoint.refusals import RefusalKind
from eunoe.workers.models.endpoint.retrying import Transient
from eunoe.workers.models.questions.time_budget import TimeBudget, current_budget

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CHAT = "/chat/completions"
PAUSED_S = 2.0
"""A time limit that is noticed so many seconds late was not the endpoint's fault: this process stood still."""
_PROBE_S = 10.0
_FINAL = frozenset({RefusalKind.CONTENT, RefusalKind.DEPLOYMENT})
_MAX_REASON = 40
"""Characters of a finish reason in a span."""
_LENGTH_FIELDS = ("max_tokens", "max_completion_tokens")


class ChatRequests:
    """Sends requests one by one, each within the time that the endpoint and the decision have.

    ``answered_at``: the time of the last answer of each model, shared by all who ask it. ``clock`` returns seconds
    since the epoch: Retry-After may be a date.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client: "AsyncOpenAI",
        limit: InFlightLimit,
        answered_at: dict[str, float],
        clock: Callable[[], float],
    ) -> None:
        self._endpoint = endpoint
        self._client = client
        self._limit = limit
        self._answered_at = answered_at
        self._clock = clock
        self._answering = AnsweringModels(endpoint.model)

    async def send(self, body: Mapping[str, Any], *, urgent: bool) -> Completion:
        """The completion of one request.

        Raises `AnswerInvalid` where time is over and for refused content, `Transient` where it may be sent again,
        `EndpointRefused` and `Unavailable`, and ``APIStatusError`` where another request may be taken.
        """
        with step(f"chat {self._endpoint.model}", call_attributes("chat", self._endpoint)) as call:
            completion = await self._send(body, urgent=urgent)
            if completion.tokens is not None:
                call.set("gen_ai.usage.input_tokens", completion.tokens[0])
                call.set("gen_ai.usage.output_tokens", completion.tokens[1])
            if completion.model:
                call.set("gen_ai.response.model", completion.model)
            self._answering.note(completion.model, self._endpoint.server)
            call.set("gen_ai.response.finish_reasons", [completion.finish_reason[:_MAX_REASON]])
            return completion

    async def _send(self, body: Mapping[str, Any], *, urgent: bool) -> Completion:
        endpoint, budget = self._endpoint, current_budget() or TimeBudget(float("inf"))
        async with self._limit.slot(urgent=urgent):
            started, allowed_s = perf_counter(), min(endpoint.timeout_s, budget.left_s)
            if allowed_s <= 0:
                raise AnswerInvalid("the time for this decision is over", AnswerFault.SLOW)
            try:
                with budget.running():
                    completion = await self._post(body, allowed_s)
            except TimeoutError:
                fault = await self._fault_of_silence(body, started, allowed_s, urgent)
                raise fault from None
            self._answered_at[endpoint.model] = perf_counter()
            self._limit.answered(started, allowed_s)
            return completion

    async def _fault_of_silence(
        self, body: Mapping[str, Any], started: float, allowed_s: float, urgent: bool
    ) -> AnswerInvalid | Transient | Unavailable:
        """The fault where no answer to ``body`` came in ``allowed_s`` seconds; its slot serves to find out."""
        endpoint = self._endpoint
        late_s = perf_counter() - started - allowed_s
        if late_s > PAUSED_S:
            return Transient(f"this process stood still for {late_s:.0f} s while {endpoint.server} was asked")
        held = self._limit.held
        if self._limit.timed_out(started):
            fewer = f"{self._limit.total} at most are asked from now on"
            return Transient(f"{endpoint.server} answers late with {held} questions at once: {fewer}")
        # a reply waits for no short question where an answer of just before says that the endpoint is slow and not away
        alive_since = started + allowed_s - endpoint.timeout_s if urgent else started
        if self._answered_at.get(endpoint.model, float("-inf")) > alive_since or await self._answers_short(
            body, urgent
        ):
            return AnswerInvalid(f"the answer did not come in {allowed_s:g} s", AnswerFault.SLOW)
        return Unavailable(
            f"{endpoint.server} did not answer in {allowed_s:g} s, nor did it answer a short question", endpoint.server
        )

    async def _post(self, body: Mapping[str, Any], timeout_s: float) -> Completion:
        """The completion. Raises ``TimeoutError``, `Transient` and the faults of `fault_of`."""
        from openai import APIStatusError, OpenAIError  # noqa: PLC0415 - see eunoe.workers.models.endpoint.client

        try:
            async with asyncio.timeout(timeout_s):
                # like `chat.completions.create`, without its walk over the schema and its parsing of the answer
                asked = {"model": self._endpoint.model, **body}
                response = await self._client.post(CHAT, cast_to=httpx2.Response, body=asked)
            return self._read(response)
        except APIStatusError as error:
            if (refused := completion_refused(error.body)) is not None:
                return refused
            fault = fault_of(error, self._endpoint, self._clock())
            if isinstance(fault, Transient) or refusal_of(error).kind in _FINAL:
                raise fault from None
            self._answered_at[self._endpoint.model] = perf_counter()
            raise
        except (OpenAIError, ValueError) as error:
            raise fault_of(error, self._endpoint, self._clock()) from None

    def _read(self, response: httpx2.Response) -> Completion:
        """The completion; raises ``ValueError``, `Transient`, and ``APIStatusError`` for an error of status 200."""
        try:
            completion = Completion.read(response.content)
        except ErrorInBody as told:
            raise status_error(told.error, response.request) from None
        if completion is None:
            message = f"{self._endpoint.server} answered with no chat completion: is the address right?"
            raise Transient(message, may_be_of_request=True)
        return completion

    async def answers_others(self, body: Mapping[str, Any], *, urgent: bool) -> bool:
        """Whether the endpoint answers a short question: then it is the request ``body`` that is slow or fails.

        One that nobody waits for may take as long as any: some models answer nothing sooner.
        """
        async with self._limit.slot(urgent=urgent):
            return await self._answers_short(body, urgent)

    async def _answers_short(self, body: Mapping[str, Any], urgent: bool) -> bool:
        """As `answers_others`, in a slot of the caller's."""
        from openai import APIStatusError  # noqa: PLC0415 - see eunoe.workers.models.endpoint.client

        length_field = next(name for name in _LENGTH_FIELDS if name in body)
        short = {"messages": [{"role": "user", "content": "Say OK."}], length_field: 16}
        try:
            await self._post(short, min(_PROBE_S, self._endpoint.timeout_s) if urgent else self._endpoint.timeout_s)
        except APIStatusError:
            return True
        except (TimeoutError, Transient):
            return False
        return True
