"""Limits and habits of endpoints over real HTTP: learned once, kept in the profile, shared by processes."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.models.endpoint.client import Endpoint
from eunoe.workers.models.endpoint.dialect import Formatting, Sampling
from eunoe.workers.models.endpoint.language_model import OpenAIModel, OpenAISettings
from eunoe.workers.models.endpoint.limit_trust import FIRST_PATIENCE
from eunoe.workers.models.endpoint.profile_keeper import ProfileKeeper
from eunoe.workers.models.questions.answer_forms import FORMS, QuestionForm, SummariesForm, SummaryRow, answer_like
from eunoe.workers.models.questions.items import ItemQuestion, ask_items
from tests.support.memory.profiles import MemoryProfiles
from tests.support.model_server.behaviour import Behaviour, Formats, Wrap
from tests.support.model_server.server import ChatRequest, ModelServer, ServerSettings


def answer(question: ChatRequest) -> object:
    rows = [line for line in question.user.splitlines() if line.startswith("[")]
    if question.form == "Question":
        return {"question": "Who?"}
    return {"nodes": [{"n": n, "text": f"{row} is summed up"} for n, row in enumerate(rows, 1)]}


QUESTION: ItemQuestion[str, SummaryRow] = ItemQuestion(
    form=SummariesForm,
    prompt=lambda items: Prompt(
        name="tree/9",
        system=answer_like(SummariesForm),
        user="\n".join(f"[{n}] {item}" for n, item in enumerate(items, 1)),
        max_tokens=100 + 40 * len(items),
    ),
    fault=lambda row, item: None,
)
WHO = Prompt(name="question/9", system=answer_like(QuestionForm), user="Ann speaks of Rex.", max_tokens=256)


@asynccontextmanager
async def serving(
    behaviour: Behaviour, profile: ProfileKeeper | None = None, sampling: Sampling | None = None
) -> AsyncIterator[tuple[ModelServer, OpenAIModel]]:
    async with ModelServer(ServerSettings(behaviour=behaviour, scripts={"*": answer})) as server:
        settings = OpenAISettings(
            Endpoint(model="m", base_url=server.base_url, timeout_s=5), sampling=sampling or Sampling()
        )
        model = OpenAIModel(settings, profile)
        try:
            yield server, model
        finally:
            await model.aclose()


def items(count: int) -> list[str]:
    return [f"what was said of thing number {n}" for n in range(count)]


async def asked(model: OpenAIModel, count: int) -> Sequence[SummaryRow | None]:
    return (await ask_items(model, QUESTION, [items(count)])).rows


@pytest.mark.parametrize("words", ["openai", "vllm", "llama.cpp", "ollama", "tgi", "litellm"])
async def test_160_items_are_answered_within_a_cap_and_a_context(words: str):
    behaviour = Behaviour(output_cap=1024, context=2048, words=words)
    async with serving(behaviour) as (server, model):
        rows = await asked(model, 160)
        assert None not in rows
        assert model.profile.now.cap is not None or model.profile.now.context is not None
        before = server.stats.get("refused", 0)
        assert None not in await asked(model, 160)
        assert server.stats.get("refused", 0) == before, "what was learned is not learned again"


@pytest.mark.parametrize(
    "behaviour",
    [Behaviour(flagged="number 23"), Behaviour(garbled="number 23")],
    ids=["refused by a filter", "answered with no JSON"],
)
async def test_the_one_item_at_fault_falls_back_alone(behaviour: Behaviour):
    async with serving(behaviour) as (server, model):
        rows = await asked(model, 40)
        assert [place for place, row in enumerate(rows) if row is None] == [23]
        assert server.stats["chat"] <= 14
        assert model.items.of("tree")["offline"] == 1


async def test_limits_are_known_to_the_next_process():
    profiles = MemoryProfiles()
    async with serving(Behaviour(output_cap=1024), ProfileKeeper("m", profiles)) as (_, model):
        await asked(model, 60)
    async with serving(Behaviour(output_cap=1024), ProfileKeeper("m", profiles)) as (server, other):
        assert None not in await asked(other, 60)
        assert server.stats.get("refused", 0) == 0
        assert other.profile.now.cap == 1024


async def test_a_set_limit_is_never_exceeded():
    sampling = Sampling(max_output=512, context_window=2000)
    async with serving(Behaviour(output_cap=512, context=2000), sampling=sampling) as (server, model):
        assert None not in await asked(model, 80)
        assert server.stats.get("refused", 0) == 0


@pytest.mark.parametrize(
    "told", [Behaviour(context=700, refusals=1), Behaviour(output_cap=8, refusals=1)], ids=["context", "output"]
)
async def test_a_refusal_that_contradicts_what_was_taken_makes_no_later_question_smaller(told: Behaviour):
    """A proxy sends one request to a small model, or an answer is forged."""
    async with serving(Behaviour()) as (server, model):
        assert None not in await asked(model, 40)
        server.settings = ServerSettings(scripts={"*": answer}, behaviour=told)
        calls = server.stats["chat"]
        assert None not in await asked(model, 40)
        assert (server.stats["chat"] - calls, server.stats["refused"]) == (2, 1), "it was asked again as it was"
        assert (model.profile.now.cap, model.profile.now.context) == (None, None)


async def test_a_limit_that_is_told_again_and_again_is_learned():
    async with serving(Behaviour()) as (server, model):
        assert None not in await asked(model, 40)
        server.settings = ServerSettings(scripts={"*": answer}, behaviour=Behaviour(context=1500))
        assert None not in await asked(model, 40)
        assert model.profile.now.context == 1500
        refused = server.stats["refused"]
        assert None not in await asked(model, 40)
        assert server.stats["refused"] == refused


@pytest.mark.parametrize("told", [Behaviour(context=100), Behaviour(output_cap=8)], ids=["context", "output"])
async def test_a_learned_limit_that_is_none_any_more_is_forgotten(told: Behaviour):
    """The first refusal of a process names a limit that is far too small."""
    async with serving(told) as (server, model):
        with pytest.raises(AnswerInvalid):
            await model.answer(WHO, QuestionForm)
        assert model.profile.now.cap or model.profile.now.context
        server.settings = ServerSettings(scripts={"*": answer})
        for _ in range(FIRST_PATIENCE - 1):
            with pytest.raises(AnswerInvalid):
                await model.answer(WHO, QuestionForm)
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"
        assert (model.profile.now.cap, model.profile.now.context) == (None, None)


@pytest.mark.parametrize(
    ("behaviour", "formatting"),
    [
        (Behaviour(formats=Formats.IGNORED, wrap=Wrap.PROSE), Formatting.BOUNDED),
        (Behaviour(formats=Formats.REFUSED), Formatting.BARE),
    ],
)
async def test_a_prompt_that_names_its_fields_needs_no_schema(behaviour: Behaviour, formatting: Formatting):
    async with serving(behaviour) as (_, model):
        assert None not in await asked(model, 5)
        assert model.profile.now.dialect.formatting is formatting


async def test_a_model_that_thinks_gets_room_and_keeps_it():
    async with serving(Behaviour(thinking_tokens=3000)) as (server, model):
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"
        calls = server.stats["chat"]
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"
        assert (calls, server.stats["chat"]) == (3, 4)
        assert model.profile.now.thinking_tokens >= 3000


@pytest.mark.parametrize(
    ("behaviour", "fault"),
    [
        (Behaviour(filters=True), AnswerFault.REFUSED),
        (Behaviour(filters_prompts=True), AnswerFault.REFUSED),
        (Behaviour(declines=True), AnswerFault.REFUSED),
        (Behaviour(blank=True), AnswerFault.EMPTY),
        (Behaviour(status=400), AnswerFault.UNSUPPORTED),
        (Behaviour(context=60), AnswerFault.TOO_LARGE),
    ],
)
async def test_each_fault_is_told_apart(behaviour: Behaviour, fault: AnswerFault):
    async with serving(behaviour) as (_, model):
        with pytest.raises(AnswerInvalid) as caught:
            await model.answer(WHO, QuestionForm)
        assert caught.value.fault is fault


async def test_a_refusal_that_helped_nothing_changes_nothing_for_others():
    async with serving(Behaviour(status=400)) as (server, model):
        with pytest.raises(AnswerInvalid):
            await model.answer(WHO, QuestionForm)
        assert model.profile.now.dialect.formatting is Formatting.BOUNDED
        server.settings = ServerSettings(scripts={"*": answer})
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"


@pytest.mark.slow
async def test_memory_does_not_grow_with_the_questions():
    async with serving(Behaviour()) as (server, model):

        async def sessions(first: int, count: int) -> None:
            for number in range(first, first + count):
                await asyncio.gather(asked(model, 2 + number % 17), model.answer(WHO, QuestionForm))

        await sessions(0, 60)
        gc.collect()
        tracemalloc.start()
        await sessions(60, 20)
        server.questions.clear()
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        await sessions(80, 150)
        server.questions.clear()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert after - before < 300_000, "2 kB a session would be 300 kB"
        assert server.schemas <= len(FORMS)
