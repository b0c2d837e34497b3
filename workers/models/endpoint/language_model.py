"""A language model behind an OpenAI-compatible endpoint."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.schemas.model_ports import Prompt
from eunoe.streams.tracing import step
from eunoe.workers.models.endpoint.answer_bounds import AnswerBounds, prompt_text
from eunoe.workers.models.endpoint.chat import ChatRequests
from eunoe.workers.models.endpoint.client import Endpoint, refusal_of
from eunoe.workers.models.endpoint.completion import Completion, answer_text, content_of
from eunoe.workers.models.endpoint.dialect import Dialect, Sampling, request_body
from eunoe.workers.models.endpoint.dialect_choice import DialectChoice
from eunoe.workers.models.endpoint.failing import FailingQuestions
from eunoe.workers.models.endpoint.limit import InFlightLimit
from eunoe.workers.models.endpoint.profile_keeper import ProfileKeeper
from eunoe.workers.models.endpoint.refusals import RefusalKind
from eunoe.workers.models.endpoint.retrying import RequestFailing, RetryEnvironment, Retrying, RetryPolicy, Transient
from eunoe.workers.models.questions.answer_forms import form_name
from eunoe.workers.models.questions.asking import is_correcting
from eunoe.workers.models.questions.metering import ItemCounts, Prices, StageCalls, Usage, stage_of
from eunoe.workers.models.questions.reading import is_whole, read_answer
from eunoe.workers.models.questions.recording import request_hash
from eunoe.workers.text.tokens import count_tokens

if TYPE_CHECKING:
    from openai import AsyncOpenAI

log = logging.getLogger(__name__)
AnswerT = TypeVar("AnswerT", bound=Value)
_MAX_TRIES = 8


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
    memory_limit_s: float = 120.0
    """Seconds in flight for one decision about memory, all retries included; then it is made offline."""
    reply_limit_s: float = 20.0
    """The same for a reply."""

    @property
    def parameters(self) -> str:
        """All that shapes an answer besides model, prompt and form; part of the hash it is recorded under."""
        return " ".join(f"{name}={value}" for name, value in asdict(self.sampling).items())


@dataclass(frozen=True, slots=True)
class SharedClient:
    """The connections of an endpoint, and the counts of its models."""

    client: "AsyncOpenAI"
    limit: InFlightLimit
    answered_at: dict[str, float] = field(default_factory=dict)
    """Model → the time of its last answer, as of ``perf_counter``."""
    usage: Usage = field(default_factory=Usage)
    items: ItemCounts = field(default_factory=ItemCounts)
    stages: StageCalls = field(default_factory=StageCalls)

    @classmethod
    def open(cls, settings: OpenAISettings) -> "SharedClient":
        """Open the connections; raises `Refused` where a key is missing."""
        in_flight = settings.endpoint.in_flight
        limit = InFlightLimit(in_flight, min(settings.reserved, in_flight - 1))
        return cls(settings.endpoint.open(), limit)

    def counted_apart(self) -> "SharedClient":
        """The same connections and limit with counts of their own."""
        return replace(self, usage=Usage(), items=ItemCounts(), stages=StageCalls())

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.close()


class OpenAIModel:
    """Structured outputs over chat completions, with retries, bounds and counts outside the SDK.

    What the endpoint does not support or allow (json_schema, a length field, more tokens) is learned from its refusals
    and kept in its profile. ``shared``: the connections of other models at the same endpoint.
    """

    def __init__(
        self,
        settings: OpenAISettings,
        profile: ProfileKeeper | None = None,
        shared: SharedClient | None = None,
    ) -> None:
        self._settings = settings
        self._profile = profile or ProfileKeeper()
        self._shared = shared or SharedClient.open(settings)
        self._retrying = Retrying(settings.retry, settings.environment, settings.endpoint.server)
        self._understood: set[str] = set()
        """Names of the forms that the endpoint has answered: a later refusal of one concerns the prompt."""
        self._failing = FailingQuestions()
        self._bounds = AnswerBounds(self._profile, settings.sampling)
        self._requests = ChatRequests(
            settings.endpoint,
            self._shared.client,
            self._shared.limit,
            self._shared.answered_at,
            settings.environment.clock,
        )

    @property
    def name(self) -> str:
        """The model's name at the endpoint."""
        return self._settings.endpoint.model

    @property
    def server(self) -> str:
        """The model and its address, as faults name them."""
        return self._settings.endpoint.server

    @property
    def settings(self) -> OpenAISettings:
        """The settings."""
        return self._settings

    @property
    def profile(self) -> ProfileKeeper:
        """The profile of the endpoint."""
        return self._profile

    @property
    def usage(self) -> Usage:
        """The counts so far; read-only."""
        return self._shared.usage

    @property
    def items(self) -> ItemCounts:
        """The items decided so far, by stage and outcome."""
        return self._shared.items

    @property
    def stages(self) -> StageCalls:
        """Durations and tokens of the questions so far, by stage."""
        return self._shared.stages

    @property
    def cost(self) -> float:
        """Dollars spent so far, by the prices that are set."""
        return self.usage.cost(self._settings.prices)

    @property
    def peak_in_flight(self) -> int:
        """The largest number of calls that were in flight at once."""
        return self._shared.limit.peak

    @property
    def in_flight_s(self) -> float:
        """Seconds in flight, summed over all calls."""
        return self._shared.limit.held_s

    def limit_s(self, *, urgent: bool) -> float | None:
        """Seconds in flight that a decision may take."""
        return self._settings.reply_limit_s if urgent else self._settings.memory_limit_s

    async def aclose(self) -> None:
        """Close the connections."""
        await self._shared.aclose()

    async def fits(self, prompt: Prompt) -> bool:
        """Whether prompt and answer are within what is known of the model's limits."""
        await self._profile.load()
        if not self._bounds.fits(prompt):
            await self._bounds.hold_back(prompt)
        return self._bounds.fits(prompt)

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        """Ask the model and parse its answer.

        Raises `AnswerInvalid` with the fault where no valid answer comes. Raises `Unavailable` when the endpoint does
        not answer after all retries, `EndpointRefused` when it refuses key, account, model or address.
        """
        await self._profile.load()
        if is_correcting(prompt):
            self.usage.corrections += 1
        else:
            self.usage.calls += 1
        asked_at = perf_counter()
        try:
            with step(f"question {prompt.name}"):
                completion = await self._ask(prompt, form, urgent)
            return read_answer(content_of(completion), form)
        except AnswerInvalid:
            self.usage.invalid += 1
            raise
        finally:
            self.stages.answered(stage_of(prompt.name), perf_counter() - asked_at)

    async def _ask(self, prompt: Prompt, form: type[Value], urgent: bool) -> Completion:
        """A complete answer. Asks again as long as a refusal tells how to ask otherwise."""
        thoughts = 0
        await self._bounds.hold_back(prompt)
        for _ in range(_MAX_TRIES):
            completion = await self._understandable(prompt, form, urgent, thoughts)
            await self._count(prompt, completion)
            if completion.finish_reason != "length" or is_whole(answer_text(completion)):
                if thoughts:
                    await self._profile.learn(thinking_tokens=thoughts)
                return completion
            more = self._bounds.more_thoughts(prompt, completion, thoughts)
            if more is None:
                raise AnswerInvalid(
                    f"the answer was cut off after {prompt.max_tokens} tokens; answer more briefly",
                    AnswerFault.CUT,
                    answer_text(completion),
                )
            thoughts = more
            self._on_retry()
        raise AnswerInvalid("the answer was cut off while the model was thinking", AnswerFault.CUT)

    async def _understandable(self, prompt: Prompt, form: type[Value], urgent: bool, thoughts: int) -> Completion:
        """The completion of a request that the endpoint takes: fewer tokens, or another dialect, where it refuses."""
        from openai import APIStatusError  # noqa: PLC0415 - see eunoe.workers.models.endpoint.client

        choice = DialectChoice(self._profile.now.dialect, form, self._understood)
        for _ in range(_MAX_TRIES):
            bound = self._bounds.tokens(prompt, thoughts)
            if bound is None:
                raise AnswerInvalid("the question is longer than the model takes", AnswerFault.TOO_LARGE)
            body = request_body(prompt, form, choice.now, self._settings.sampling, bound)
            try:
                completion = await self._sent(partial(request_hash, self.name, prompt, form), body, urgent)
            except _FailsAlone:
                choice.simplify()
                continue
            except APIStatusError as error:
                refusal = refusal_of(error)
                await self._bounds.learn(prompt, refusal, thoughts, bound)
                if refusal.kind is not RefusalKind.TOO_LARGE:
                    choice.change(error, learned=self._profile.now.dialect)
                self._on_retry()
                continue
            self._bounds.took(completion, bound)
            await self._keep_dialect(choice.now)
            self._understood.add(form_name(form))
            return completion
        raise AnswerInvalid("the endpoint refused the request in every form", AnswerFault.UNSUPPORTED)

    async def _sent(self, question: Callable[[], str], body: Mapping[str, Any], urgent: bool) -> Completion:
        """The completion of a request, after retries; raises `_FailsAlone` where it fails at this question alone.

        ``question`` gives the hash of the whole question: it is asked for where one has failed.
        """
        send, failing = partial(self._requests.send, body, urgent=urgent), self._failing
        fails = failing.any_known and question() in failing
        try:
            completion = await (send() if fails else self._retrying.run(send, self._on_retry))
        except RequestFailing as fault:
            if not failing.failed(question(), answers_others=await self._requests.answers_others(body, urgent=urgent)):
                raise
            log.warning("a question is decided without it, and others are answered: %s", fault)
            raise _FailsAlone from None
        except Transient:
            raise _FailsAlone from None
        if failing.any_noted:
            failing.answered(question())
        return completion

    async def _keep_dialect(self, dialect: Dialect) -> None:
        """Keep a dialect that has helped."""
        if dialect != self._profile.now.dialect:
            log.warning("dialect changed after a refusal: %s: %s", self.name, dialect)
            await self._profile.learn(dialect=dialect)

    def _on_retry(self) -> None:
        self.usage.retries += 1

    async def _count(self, prompt: Prompt, completion: Completion) -> None:
        text = prompt_text(prompt)
        if completion.tokens is not None:
            await self._profile.count(text, completion.tokens[0])
        asked, answered = completion.tokens or (count_tokens(text), count_tokens(completion.content))
        self.usage.prompt_tokens += asked
        self.usage.completion_tokens += answered
        self.stages.read(stage_of(prompt.name), asked, answered)


class _FailsAlone(Exception):
    """The endpoint fails at this request, and answers others."""
