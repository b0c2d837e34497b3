"""The ports of models, run on every adapter that works here; the endpoint's faults over real HTTP."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerFault, AnswerInvalid, Refused, Unavailable
from eunoe.schemas.model_ports import Compressor, Embedder, LanguageModel, Prompt
from eunoe.workers.models.endpoint import chat
from eunoe.workers.models.endpoint.client import Endpoint
from eunoe.workers.models.endpoint.embedding_endpoint import EndpointEmbedder, EndpointEmbedderSettings
from eunoe.workers.models.endpoint.language_model import OpenAIModel, OpenAISettings
from eunoe.workers.models.endpoint.retrying import RetryEnvironment, RetryPolicy
from eunoe.workers.models.local.compression import OfflineCompressor
from eunoe.workers.models.local.embedding import WordLlamaEmbedder
from eunoe.workers.models.questions.asking import ask_checked
from eunoe.workers.models.questions.metering import Prices
from eunoe.workers.models.questions.recording import RecordedModel
from eunoe.workers.models.questions.time_budget import decision_time
from eunoe.workers.stores.records.answers import MemoryAnswers
from eunoe.workers.text.tokens import count_tokens
from tests.support.command import until
from tests.support.model_server.faults import MIXED, Fault, by_rate, by_schedule
from tests.support.model_server.server import ModelServer, ServerSettings

PROMPT = Prompt(name="cite/1", system="Which line speaks of fruit?", user="[0] Ann: Hi\n[1] Bob: I bought apples")
SECRET = "sk-very-secret-0123456789"


class Cited(Value):
    line: int
    why: str


def cite(question: object) -> dict[str, object]:
    return {"line": 1, "why": "it speaks of apples"}


def offered(answer: Cited) -> str | None:
    return None if answer.line in {0, 1} else f"line {answer.line} was not offered"


SCRIPTED = ServerSettings(scripts={"Cited": cite})


class Naps:
    """Sleeps no longer than a moment, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        await asyncio.sleep(0)


def settings_for(server: ModelServer, naps: Naps | None = None, **endpoint: object) -> OpenAISettings:
    return OpenAISettings(
        endpoint=replace(Endpoint(model="test-model", base_url=server.base_url, key=SECRET, timeout_s=10), **endpoint),
        retry=RetryPolicy(attempts=4),
        prices=Prices(prompt=1.0, completion=2.0),
        environment=RetryEnvironment(sleep=naps or Naps()),
    )


@asynccontextmanager
async def serving(
    settings: ServerSettings = SCRIPTED, naps: Naps | None = None, **endpoint: object
) -> AsyncIterator[tuple[ModelServer, OpenAIModel]]:
    async with ModelServer(settings) as server:
        model = OpenAIModel(settings_for(server, naps, **endpoint))
        try:
            yield server, model
        finally:
            await model.aclose()


# ---- LanguageModel, asked directly and through the record of answers


@pytest.fixture(params=["openai", "recorded"])
def wrap(request: pytest.FixtureRequest) -> Callable[[OpenAIModel], LanguageModel]:
    return (
        (lambda model: RecordedModel(model, MemoryAnswers())) if request.param == "recorded" else (lambda model: model)
    )


async def test_a_model_answers_in_the_form(wrap: Callable[[OpenAIModel], LanguageModel]):
    async with serving() as (_, model):
        assert await wrap(model).answer(PROMPT, Cited) == Cited(line=1, why="it speaks of apples")
        assert wrap(model).name == "test-model"


@pytest.mark.parametrize(
    ("fault", "told"),
    [(Fault.INVALID_JSON, "not valid JSON"), (Fault.PROSE, "not valid JSON"), (Fault.CUT, "cut off after 1024 tokens")],
)
async def test_an_answer_that_is_no_form_is_invalid(
    wrap: Callable[[OpenAIModel], LanguageModel], fault: Fault, told: str
):
    async with serving(replace(SCRIPTED, faults=by_schedule(fault))) as (server, model):
        asked = wrap(model)
        with pytest.raises(AnswerInvalid, match=told):
            await asked.answer(PROMPT, Cited)
        assert await asked.answer(PROMPT, Cited) == Cited(line=1, why="it speaks of apples")
        assert server.stats["chat"] == 2
        assert model.usage.invalid == 1


@pytest.mark.parametrize("fault", [Fault.TOO_MANY, Fault.ERROR, Fault.DROP])
async def test_an_endpoint_that_fails_is_tried_again_and_then_unavailable(
    wrap: Callable[[OpenAIModel], LanguageModel], fault: Fault
):
    faults = by_schedule(fault, fault, None, fault, fault, fault, fault)
    async with serving(replace(SCRIPTED, faults=faults)) as (server, model):
        asked = wrap(model)
        assert (await asked.answer(PROMPT, Cited)).line == 1
        with pytest.raises(Unavailable, match="attempt 4 of 4") as caught:
            await asked.answer(PROMPT.model_copy(update={"user": "And now?"}), Cited)
        assert SECRET not in str(caught.value)
        probes = 1 if fault is Fault.ERROR else 0
        assert (server.stats["chat"], model.usage.calls, model.usage.retries) == (7 + probes, 2, 5)


async def test_a_slow_answer_of_an_endpoint_that_answers_others_is_slow_and_not_away():
    faults = by_schedule(Fault.HANG, None, Fault.HANG, Fault.HANG)
    async with serving(replace(SCRIPTED, faults=faults), timeout_s=1.0) as (_, model):
        with pytest.raises(AnswerInvalid) as caught:
            await model.answer(PROMPT, Cited)
        assert caught.value.fault is AnswerFault.SLOW
        with pytest.raises(Unavailable, match="nor did it answer a short question"):
            await model.answer(PROMPT, Cited)
        assert (await model.answer(PROMPT, Cited)).line == 1


async def test_a_short_question_takes_the_slot_of_the_call_that_was_not_answered():
    slow = replace(SCRIPTED, faults=by_schedule(Fault.HANG, Fault.HANG))
    async with serving(slow, timeout_s=0.3, in_flight=2) as (server, model):

        async def asked_until_it_failed() -> int:
            with pytest.raises(Unavailable):
                await model.answer(PROMPT, Cited)
            return server.stats["chat"]

        failing = asyncio.create_task(asked_until_it_failed())
        await asyncio.sleep(0)
        waiting = asyncio.create_task(model.answer(PROMPT, Cited))
        assert await failing == 2, "the call that waits is sent behind the question and its short one"
        assert (await waiting).line == 1


async def test_a_process_that_stood_still_asks_again_and_does_not_call_the_endpoint_slow(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(chat, "PAUSED_S", 0.2)
    async with serving(replace(SCRIPTED, faults=by_schedule(Fault.HANG)), timeout_s=1.0) as (server, model):
        asking = asyncio.create_task(model.answer(PROMPT, Cited))

        async def asked() -> bool:
            return server.stats["chat"] == 1

        await until(asked)
        time.sleep(2.0)  # noqa: ASYNC251 - the whole process stands still, as under SIGSTOP
        assert (await asking).line == 1
        assert (server.stats["chat"], model.usage.retries) == (2, 1)


async def test_a_server_of_few_slots_is_asked_no_more_at_once_than_it_answers_in_time():
    """All at once, the last would wait for nearly twice as long as a call may take."""
    async with serving(replace(SCRIPTED, slots=1, delay_s=0.1), timeout_s=0.8, in_flight=50) as (_, model):
        told = [PROMPT.model_copy(update={"user": f"[1] Bob: I bought {number} apples"}) for number in range(12)]

        async def given_up() -> int:
            """Calls that were given up while all were asked at once."""
            before, asked = model.usage.retries, (model.answer(prompt, Cited) for prompt in told)
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            return model.usage.retries - before + sum(isinstance(outcome, Exception) for outcome in outcomes)

        first = await given_up()
        assert first > 0, "some waited too long"
        assert await given_up() < first, "it was learned how many are answered in time"


async def test_the_time_of_a_decision_bounds_all_its_questions():
    faults = by_schedule(None, Fault.HANG)
    async with serving(replace(SCRIPTED, faults=faults)) as (server, model):
        with decision_time(1.0):
            assert (await model.answer(PROMPT, Cited)).line == 1
            for _ in range(2):
                with pytest.raises(AnswerInvalid) as caught:
                    await model.answer(PROMPT, Cited)
                assert caught.value.fault is AnswerFault.SLOW
        assert server.stats["chat"] == 3, "two questions and the short one; the last was not asked"


async def test_an_endpoint_that_answered_within_its_time_is_slow_where_a_reply_ends_before():
    """A short question takes such a model as long as any."""
    faults = by_schedule(None, Fault.HANG, Fault.HANG)
    async with serving(replace(SCRIPTED, faults=faults), timeout_s=5.0) as (_, model):
        with decision_time(0.5):
            assert (await model.answer(PROMPT, Cited, urgent=True)).line == 1
            with pytest.raises(AnswerInvalid) as caught:
                await model.answer(PROMPT, Cited, urgent=True)
    assert caught.value.fault is AnswerFault.SLOW


async def test_a_model_that_answers_nothing_soon_is_slow_to_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chat, "_PROBE_S", 0.0)
    async with serving(replace(SCRIPTED, faults=by_schedule(Fault.HANG)), timeout_s=2.0) as (_, model):
        with decision_time(0.2), pytest.raises(AnswerInvalid) as caught:
            await model.answer(PROMPT, Cited)
    assert caught.value.fault is AnswerFault.SLOW


async def test_a_server_that_is_not_there_is_unavailable():
    async with serving() as (server, _):
        gone = settings_for(server)
    model = OpenAIModel(gone)
    with pytest.raises(Unavailable, match="cannot be reached"):
        await model.answer(PROMPT, Cited)
    await model.aclose()


async def test_retry_after_is_honoured():
    naps = Naps()
    busy = replace(SCRIPTED, faults=by_schedule(Fault.TOO_MANY), retry_after="7")
    async with serving(busy, naps) as (_, model):
        await model.answer(PROMPT, Cited)
    assert len(naps.asked) == 1
    assert 7 <= naps.asked[0] < 8


# ---- what must be told, and what must not


@pytest.mark.parametrize(
    ("server", "told"),
    [(ServerSettings(key="another"), "OPENAI_API_KEY"), (ServerSettings(model="another"), "no such model")],
)
async def test_a_refused_deployment_is_told_what_to_do(server: ServerSettings, told: str):
    async with serving(server) as (running, model):
        with pytest.raises(Refused, match=told) as caught:
            await model.answer(PROMPT, Cited)
        assert isinstance(caught.value, Unavailable), "it must not cost a session its memory"
        assert SECRET not in str(caught.value)
        assert running.stats["chat"] == 1


def test_a_missing_key_is_refused_at_once_and_none_is_ever_shown():
    with pytest.raises(Refused, match="OPENAI_API_KEY"):
        Endpoint(model="any").open()
    assert SECRET not in repr(Endpoint(model="any", key=SECRET))


async def test_no_question_is_hashed_as_long_as_none_fails(monkeypatch: pytest.MonkeyPatch):
    hashed: list[object] = []

    def noted(*words: object) -> str:
        hashed.append(words)
        return "a hash"

    monkeypatch.setattr("eunoe.workers.models.endpoint.language_model.request_hash", noted)
    async with serving(SCRIPTED) as (_, model):
        await model.answer(PROMPT, Cited)
    assert not hashed


async def test_neither_key_nor_words_of_users_are_logged(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    faults = by_schedule(Fault.PROSE, Fault.ERROR, Fault.TOO_MANY)
    async with serving(replace(SCRIPTED, faults=faults, refuses=frozenset({"temperature"}))) as (_, model):
        await ask_checked(model, PROMPT, Cited, offered)
    assert caplog.records
    assert SECRET not in caplog.text
    assert "apples" not in caplog.text


async def test_a_strange_answer_of_a_proxy_is_unavailable():
    async with serving() as (server, _):
        base = server.base_url.removesuffix("/v1")
        model = OpenAIModel(settings_for(server, base_url=f"{base}/nowhere/v1"))
        with pytest.raises(Refused, match="OPENAI_BASE_URL"):
            await model.answer(PROMPT, Cited)
        await model.aclose()


# ---- what an endpoint does not know is learned once


@pytest.mark.parametrize(
    ("server", "formatting"),
    [
        (replace(SCRIPTED, knows_schema=False), "json_object"),
        (ServerSettings(scripts={"*": cite}, refuses=frozenset({"maxLength"})), "json_schema"),
        (replace(SCRIPTED, refuses=frozenset({"max_tokens", "temperature"})), "json_schema"),
    ],
)
async def test_an_endpoint_that_knows_less_is_asked_otherwise_from_then_on(server: ServerSettings, formatting: str):
    scripted = replace(server, scripts={"*": cite})
    async with serving(scripted) as (running, model):
        assert (await model.answer(PROMPT, Cited)).line == 1
        learned = running.stats["chat"]
        assert (await model.answer(PROMPT, Cited)).line == 1
        assert running.stats["chat"] == learned + 1
        assert running.questions[-1].body["response_format"]["type"] == formatting
        assert model.usage.calls == 2


@pytest.mark.parametrize("in_flight", [200, 3])
async def test_many_calls_at_once_learn_together(in_flight: int):
    settings = ServerSettings(scripts={"*": cite}, knows_schema=False, delay_s=0.01)
    async with serving(settings, in_flight=in_flight) as (server, model):
        answers = await asyncio.gather(*(model.answer(PROMPT, Cited) for _ in range(50)))
        assert {answer.line for answer in answers} == {1}
        assert server.stats["chat"] <= 150, "each is refused at most twice and then asked in the new way"


async def test_a_prompt_that_is_refused_after_the_form_was_understood_is_at_fault_itself():
    async with serving() as (server, model):
        await model.answer(PROMPT, Cited)
        server.settings = replace(SCRIPTED, refuses=frozenset({"messages"}))
        with pytest.raises(AnswerInvalid, match="refused this prompt"):
            await model.answer(PROMPT, Cited)


async def test_without_schema_support_the_answer_still_fits_the_form():
    async with serving(ServerSettings(knows_schema=False)) as (_, model):
        assert (await ask_checked(model, PROMPT, Cited, offered)).answer is not None


# ---- asking with a check, over the wire


@pytest.mark.parametrize("fault", [Fault.INVALID_JSON, Fault.PROSE, Fault.CUT, Fault.WRONG_IDS])
async def test_each_bad_answer_is_corrected_once_and_then_left_to_the_offline_rules(fault: Fault):
    async with serving(replace(SCRIPTED, faults=by_schedule(fault, None, fault, fault))) as (server, model):
        first = await ask_checked(model, PROMPT, Cited, offered)
        second = await ask_checked(model, PROMPT, Cited, offered)
        assert first.answer == Cited(line=1, why="it speaks of apples")
        assert (first.asked, second.asked, second.answer) == (2, 2, None)
        assert server.stats["corrections"] == model.usage.corrections == 2
        assert model.usage.calls == 2


async def test_a_recorded_answer_costs_no_call():
    kept = MemoryAnswers()
    faulty = replace(SCRIPTED, faults=by_schedule(Fault.WRONG_IDS))
    async with serving(faulty) as (server, model):
        first = await ask_checked(RecordedModel(model, kept), PROMPT, Cited, offered)
        again = await ask_checked(RecordedModel(model, kept), PROMPT, Cited, offered)
        assert (first.asked, again.asked, first.answer == again.answer) == (2, 0, True)
        assert server.stats["chat"] == 2


async def test_a_day_of_mixed_faults_ends_every_question():
    prompts = [PROMPT.model_copy(update={"user": f"[0] Ann: {n}\n[1] Bob: apples"}) for n in range(150)]
    faults = by_rate({**MIXED, Fault.HANG: 0.02})
    async with serving(ServerSettings(faults=faults), timeout_s=4.0) as (server, model):
        asked = await asyncio.gather(*(ask_checked(model, prompt, Cited, offered) for prompt in prompts))
        answered = [result for result in asked if result.answer is not None]
        assert len(answered) > 120
        assert all(offered(result.answer) is None for result in answered if result.answer is not None)
        stats = server.stats
        tried = model.usage.calls + model.usage.corrections + model.usage.retries
        assert stats["chat"] <= tried, "a request that timed out may not have arrived, but none goes uncounted"
        assert all(stats[f"fault.{fault}"] > 0 for fault in MIXED)
        assert model.usage.calls + model.usage.corrections == sum(result.asked for result in asked)


# ---- many at once


async def test_two_hundred_calls_are_in_flight_together(monkeypatch: pytest.MonkeyPatch):
    async with serving(timeout_s=60) as (server, model):
        together, answer = asyncio.Event(), server._answer

        async def held(*question: Any) -> web.StreamResponse:
            """The answer, once all 200 questions are there."""
            if server.stats["in_flight"] == 200:
                together.set()
            await together.wait()
            return await answer(*question)

        monkeypatch.setattr(server, "_answer", held)
        calls = [model.answer(PROMPT, Cited) for _ in range(180)]
        urgent = [model.answer(PROMPT, Cited, urgent=True) for _ in range(20)]
        answers = await asyncio.gather(*calls, *urgent)
        assert len(answers) == 200
        assert server.stats["peak_in_flight"] == model.peak_in_flight == 200


async def test_bulk_work_never_takes_the_places_of_replies():
    async with serving(replace(SCRIPTED, delay_s=0.2), in_flight=30) as (server, model):
        bulk = [asyncio.create_task(model.answer(PROMPT, Cited)) for _ in range(60)]
        reply = PROMPT.model_copy(update={"user": "[1] Quick"})
        await asyncio.sleep(0)
        await model.answer(reply, Cited, urgent=True)
        assert sum(task.done() for task in bulk) < 60
        await asyncio.gather(*bulk)
        assert server.stats["peak_in_flight"] <= 11, "10 for bulk and the reply"


async def test_tokens_and_cost_are_counted_as_the_endpoint_tells_them():
    async with serving() as (server, model):
        for _ in range(3):
            await model.answer(PROMPT, Cited)
        usage = model.usage
        assert (
            usage.prompt_tokens
            == server.stats["prompt_tokens"]
            == 3 * (count_tokens(PROMPT.system) + count_tokens(PROMPT.user))
        )
        assert usage.completion_tokens == server.stats["completion_tokens"]
        assert model.cost == pytest.approx((usage.prompt_tokens + 2 * usage.completion_tokens) / 1e6)


# ---- Embedder


@pytest.fixture(params=["wordllama", "endpoint"])
async def embedder(request: pytest.FixtureRequest) -> AsyncIterator[Embedder]:
    if request.param == "wordllama":
        local = WordLlamaEmbedder()
        yield local
        await local.aclose()
        return
    async with ModelServer() as server:
        remote = EndpointEmbedder(embedder_settings(server))
        yield remote
        await remote.aclose()


def embedder_settings(server: ModelServer, **changes: object) -> EndpointEmbedderSettings:
    endpoint = Endpoint(model="test-embedding", base_url=server.base_url, key=SECRET, timeout_s=5)
    settings = EndpointEmbedderSettings(endpoint, dimensions=64, environment=RetryEnvironment(sleep=Naps()))
    return replace(settings, **changes)


TEXTS = ["Ann bought apples at the market", "the stock exchange fell", "", "   ", "Ann likes apples", "日本語", "🙂"]


async def test_rows_are_unit_rows_of_the_right_shape(embedder: Embedder):
    rows = await embedder.embed(TEXTS)
    assert rows.shape == (len(TEXTS), embedder.dimensions)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert (await embedder.embed([])).shape == (0, embedder.dimensions)
    assert embedder.name


async def test_a_row_depends_on_its_text_alone(embedder: Embedder):
    together = await embedder.embed(TEXTS)
    alone = np.concatenate([await embedder.embed([text]) for text in TEXTS])
    crowd = await asyncio.gather(*(embedder.embed([text, "something else"]) for text in reversed(TEXTS)))
    assert np.array_equal(together, alone)
    assert np.array_equal(together[::-1], np.stack([rows[0] for rows in crowd]))


async def test_near_texts_are_near(embedder: Embedder):
    rows = await embedder.embed(TEXTS)
    assert rows[0] @ rows[4] > rows[0] @ rows[1] + 0.1


async def test_the_endpoint_embeds_in_bounded_batches_and_tries_again():
    faults = by_schedule(Fault.TOO_MANY, Fault.DROP, Fault.ERROR)
    async with ModelServer(ServerSettings(faults=faults)) as server:
        embedder = EndpointEmbedder(embedder_settings(server))
        rows = await embedder.embed([f"word{n} apples" for n in range(700)])
        again = await embedder.embed(["word699 apples"])
        await embedder.aclose()
        assert np.array_equal(rows[-1], again[0])
        assert server.stats["embeddings"] == 3 + 3 + 1
        assert embedder.retries == 3


async def test_vectors_of_another_length_are_refused():
    async with ModelServer(ServerSettings(dimensions=32)) as server:
        embedder = EndpointEmbedder(embedder_settings(server))
        with pytest.raises(Refused, match="vectors of length 32"):
            await embedder.embed(["apples"])
        shortened = EndpointEmbedder(embedder_settings(server, shorten=True))
        assert (await shortened.embed(["apples"])).shape == (1, 64)
        await embedder.aclose()
        await shortened.aclose()


# ---- Compressor


@pytest.fixture
def compressor() -> Compressor:
    return OfflineCompressor()


async def test_a_compressor_keeps_about_the_share_and_never_all_gone(compressor: Compressor):
    texts = ["Well, I really went to the old market in the town yesterday and it was just great", "Hi", ""]
    kept = await compressor.compress(texts, 0.75)
    assert len(kept) == len(texts)
    assert 0.7 <= count_tokens(kept[0]) / count_tokens(texts[0]) <= 0.85
    assert kept[1:] == ["Hi", ""]
    assert await compressor.compress(texts, 1.0) == texts
    assert await compressor.compress(texts, 0.75) == kept
    for share in (0.0, 1.5):
        with pytest.raises(ValueError, match="share to keep"):
            await compressor.compress(texts, share)
