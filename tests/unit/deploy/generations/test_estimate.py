"""What a rebuild would ask: counted without asking, and scaled from a sample."""

from dataclasses import replace
from typing import TypeVar

import pytest

from eunoe.deploy.cli.rebuild import estimate_lines
from eunoe.deploy.generations.rebuild.counting import GUESSED_TOKENS, CountingEmbedder, CountingModel, ModelCallCounts
from eunoe.deploy.generations.rebuild.estimate import SAMPLE, Counted, choose, scaled
from eunoe.deploy.generations.rebuild.spool import Spooled
from eunoe.deploy.settings import Settings
from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerInvalid
from eunoe.schemas.model_ports import Prompt
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.derive.pipeline import Derived, Deriver
from eunoe.workers.models.questions.recording import RecordedModel
from eunoe.workers.registry import StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.stores.records.answers import MemoryAnswers
from tests.support.in_memory import HashEmbedder, Stores, make_dependencies, make_pipeline
from tests.support.talk import talk

KEY = "default/c"
MODEL = "model-1"
AnswerT = TypeVar("AnswerT", bound=Value)


class Refusing:
    """A model none of whose answers is of the form; counts what it is asked for the first time."""

    name = MODEL

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        if not prompt.name.endswith("+corrected"):
            self.prompts.append(prompt)
        raise AnswerInvalid("no")


async def live() -> tuple[InMemoryPipeline, MemoryAnswers, Refusing, int]:
    """A pipeline whose model's answers (that none passed) are all recorded; last, how many questions there were."""
    answers, model = MemoryAnswers(), Refusing()
    recorded = RecordedModel(model, answers)
    pipeline = make_pipeline(StageSettings(), language=recorded)
    for event in talk(asks=False):
        await pipeline.produce(event)
    return pipeline, answers, model, len(model.prompts) + recorded.found


async def derive(pipeline: InMemoryPipeline, model: CountingModel, settings: StageSettings | None = None) -> Derived:
    dependencies = replace(make_dependencies(Stores(), settings or StageSettings()), language=model)
    return await Deriver(dependencies, RunnerSettings(), RecordedOutcomes()).derive(
        KEY, pipeline.log.records(Topic.CONVERSATIONS), 0
    )


async def test_with_nothing_changed_nothing_would_be_asked():
    pipeline, answers, model, questions = await live()
    counting = CountingModel(MODEL, answers, "", ask_again=False)
    derived = await derive(pipeline, counting)
    assert (counting.counts.calls, counting.counts.prompt_tokens) == (0, 0)
    assert counting.counts.recorded == questions >= len(model.prompts) > 0
    assert derived.sessions == 5


async def test_asked_again_everything_counts_and_the_same_is_decided():
    pipeline, answers, _, questions = await live()
    counting = CountingModel(MODEL, answers, "", ask_again=True)
    await derive(pipeline, counting)
    assert counting.counts.calls == questions
    assert counting.counts.recorded == 0
    assert counting.counts.prompt_tokens > 20 * counting.counts.calls


async def test_without_recorded_answers_each_question_counts_once_and_none_is_recorded():
    pipeline, _, model, _ = await live()
    empty = MemoryAnswers()
    counting = CountingModel(MODEL, empty, "", ask_again=False)
    await derive(pipeline, counting)
    assert counting.counts.calls == len(model.prompts)
    assert counting.counts.completion_tokens == GUESSED_TOKENS * counting.counts.calls
    assert counting.counts.guessed == sorted({prompt.name for prompt in model.prompts})
    again = CountingModel(MODEL, empty, "", ask_again=False)
    await derive(pipeline, again)
    assert again.counts.calls == counting.counts.calls


class Said(Value):
    words: str


async def test_answers_are_as_long_as_the_recorded_ones_of_the_same_prompt():
    answers = MemoryAnswers()
    asked = Prompt(name="p/1", system="s", user="known")

    class Answering(Refusing):
        async def answer(self, prompt, form, *, urgent=False):
            return form(words="one two three")

    await RecordedModel(Answering(), answers).answer(asked, Said)
    counting = CountingModel(MODEL, answers, "", ask_again=False)
    kept = await counting.recall(asked, Said)
    assert kept is not None
    assert kept.answer == Said(words="one two three")
    length = counting.counts.known_tokens["p/1"][0]
    other = asked.model_copy(update={"user": "unknown to all"})
    assert await counting.recall(other, Said) is None
    with pytest.raises(AnswerInvalid):
        await counting.model.answer(other, Said)
    assert (counting.counts.calls, counting.counts.prompt_tokens) == (1, 4)
    assert counting.counts.completion_tokens == length
    assert counting.counts.guessed == []


def test_the_sample_is_bounded_and_always_the_same():
    many = [Spooled(str(number).encode(), 10) for number in range(500)]
    chosen = choose(many)
    assert len({one.key for one in chosen}) == SAMPLE
    assert choose(list(reversed(many))) == chosen
    assert choose(many[:3]) == sorted(many[:3], key=lambda one: one.key)


async def test_counts_are_scaled_by_events_and_priced():
    counting = CountingModel(MODEL, MemoryAnswers(), "", ask_again=False)
    counting.counts.calls, counting.counts.prompt_tokens = 4, 1000
    counting.counts.by_prompt["p/1"] = 4
    embedder = CountingEmbedder(HashEmbedder())
    await embedder.embed(["a", "b", "c"])
    counted = Counted(make_dependencies(Stores(), StageSettings()), None, counting, embedder)
    there = [Spooled(b"a", 30), Spooled(b"b", 70)]
    settings = Settings(model_prompt_price=1.0, model_completion_price=2.0)
    found = scaled(settings, there, there[:1], 3, counted)
    assert (found.events, found.sampled_events, found.sessions, found.embedded) == (100, 30, 10, 10)
    assert (found.calls, found.prompt_tokens, found.completion_tokens) == (13, 3333, 1600)
    assert found.cost == pytest.approx((3333 + 2 * 1600) / 1e6)
    assert not found.is_exact
    assert "scaled from 1 of them (30 events)" in estimate_lines(found)[0]
    free = scaled(Settings(), there, there, 3, counted)
    assert (free.cost, free.is_exact) == (None, True)
    assert any("cost unknown" in line for line in estimate_lines(free))


async def test_of_a_partial_rebuild_only_what_is_made_again_is_counted():
    pipeline, _, model, _ = await live()
    counting = CountingModel(
        MODEL, MemoryAnswers(), "", ask_again=False, counts=ModelCallCounts(("update", "link", "tree"))
    )
    await derive(pipeline, counting)
    wanted = {prompt.name for prompt in model.prompts} - {"segment/2", "summarize/4"}
    assert set(counting.counts.by_prompt) == wanted
