"""Aggregates: extracts around the centroid, and a model's answers believed node by node."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.errors import AnswerInvalid
from eunoe.workers.models.questions.answer_forms import SummaryRow
from eunoe.workers.models.questions.recording import RecordedModel
from eunoe.workers.text.tokens import count_tokens
from eunoe.workers.tree.aggregates import ALSO, ELSEWHERE, FORMERLY, AggregateTask, before
from eunoe.workers.tree.model import ModelAggregator
from eunoe.workers.tree.offline import OfflineAggregator, around_centroid
from eunoe.workers.tree.prompt import (
    MANY,
    AggregateContext,
    aggregate_prompt,
    fault_of,
    split_tasks,
    words_of,
)
from eunoe.workers.tree.settings import TreeSettings
from tests.support.in_memory import HashEmbedder
from tests.support.tree import FakeModel

SETTINGS = TreeSettings(extract_tokens=20, aggregate_tokens=12)
OFFLINE = OfflineAggregator(HashEmbedder(), SETTINGS)


async def task(
    text: str = "",
    news: tuple[str, ...] = (),
    drop: tuple[str, ...] = (),
    speakers: tuple[str, ...] = (),
    id_: str = "n",
) -> AggregateTask:
    rows = await HashEmbedder().embed([*text.splitlines(), *news] or ["nothing"])
    current = len(news) or int(bool(before(text)))
    return AggregateTask(id_, text, news, drop, max(len(news), 2), current, speakers, rows.sum(axis=0))


async def test_an_extract_keeps_the_sentences_around_the_centroid_in_their_order():
    flowers = tuple(f"Ann grows {flower} in her garden" for flower in ("roses", "tulips", "lilies", "irises", "asters"))
    news = ("the train to Oslo was late", *flowers)
    aggregator = OfflineAggregator(HashEmbedder(), TreeSettings(extract_tokens=13))
    (made,) = await aggregator.aggregate([await task(news=news)], ())
    kept = made.text.splitlines()
    assert len(kept) == 2
    assert kept == [flower for flower in flowers if flower in kept]
    assert made.made_by.fallback is False


async def test_an_extract_names_every_speaker_but_is_not_embedded_for_their_names():
    (made,) = await OFFLINE.aggregate([await task(news=("Ann grows roses",), speakers=("Ann", "Ben", "Cy"))], ())
    assert made.text == f"Ann grows roses\n{ALSO}Ben, Cy."
    assert made.topic == "Ann grows roses"


async def test_the_line_of_names_is_no_sentence_of_the_next_extract():
    first = await task(text=f"Ann grows roses\n{ALSO}Ben.", news=("Ben rows",), speakers=("Ann", "Ben"))
    (made,) = await OFFLINE.aggregate([first], ())
    assert made.text == "Ann grows roses\nBen rows"


async def test_an_extract_drops_what_no_longer_holds():
    dropped = await task(
        text="Ann lives in Rome\nAnn paints", news=("Ann lives in Bern",), drop=("Ann lives in  Rome",)
    )
    (made,) = await OFFLINE.aggregate([dropped], ())
    assert made.text == "Ann paints\nAnn lives in Bern"


async def test_where_nothing_holds_the_text_says_what_was():
    (made,) = await OFFLINE.aggregate([await task(text="Ann paints", drop=("Ann paints",))], ())
    assert made.text == f"{FORMERLY}Ann paints"


async def test_an_extract_keeps_what_a_new_entry_says_in_the_words_of_an_ended_one():
    again = await task(text="Ann paints", news=("Ann paints",), drop=("Ann  paints",))
    (made,) = await OFFLINE.aggregate([again], ())
    assert made.text == "Ann paints"


async def test_what_other_entries_say_leaves_the_extract_and_is_told_from_what_no_longer_holds():
    kept = await task(text="Ann paints\nAnn rows", news=("Ann rows and paints",))
    (made,) = await OFFLINE.aggregate([replace(kept, said_anew=("Ann paints",), left=("Ann rows",))], ())
    assert made.text == "Ann rows and paints"
    (gone,) = await OFFLINE.aggregate([replace(await task(text="Ann rows"), left=("Ann rows",))], ())
    assert gone.text == f"{ELSEWHERE}Ann rows"
    (later,) = await OFFLINE.aggregate([await task(text=gone.text, news=("Ann bakes",))], ())
    assert later.text == "Ann bakes"


async def test_where_all_sentences_of_an_extract_have_ended_it_says_what_others_hold():
    some = replace(await task(text="Ann paints", drop=("Ann paints",)), others=("Ann rows",), current=1)
    (made,) = await OFFLINE.aggregate([some], ())
    assert made.text == "Ann rows"


words = st.text(alphabet="abc .!\n", min_size=1, max_size=60).filter(str.strip)


@given(
    st.lists(words, max_size=5),
    st.lists(words, max_size=3),
    st.lists(words, min_size=1, max_size=3),
    st.lists(st.sampled_from(["Ann", "Ben", "Cy"]), unique=True),
)
async def test_an_extract_is_never_empty_nor_long(present, news, drop, speakers):
    (made,) = await OFFLINE.aggregate([await task("\n".join(present), tuple(news), tuple(drop), tuple(speakers))], ())
    assert made.text.strip()
    assert count_tokens(made.topic) <= SETTINGS.extract_tokens
    if not made.text.startswith(FORMERLY):
        assert all(name.casefold() in made.text.casefold() for name in speakers)


def test_the_first_sentence_is_taken_whatever_it_costs():
    assert around_centroid([50], np.eye(1, 3, dtype=np.float32), np.ones(3, np.float32), 10) == [0]


async def test_one_question_holds_all_nodes_and_writes_an_entry_once():
    tasks = (await task("old", ("new one", "new two"), ("gone",)), await task("", ("new one",), id_="m"))
    prompt = aggregate_prompt(AggregateContext(tasks, 90))
    assert prompt.name == "tree/4"
    assert prompt.user.count("new one") == 1
    assert "[e1] new one\n[e2] new two\n[e3] gone" in prompt.user
    assert (
        "[1] Node with 2 entries below it, at most 30 words. Said before: old New: e1, e2. Must drop: e3."
        in prompt.user
    )
    assert "[2] Node with 2 entries below it, at most 30 words. Said nothing before. New: e1." in prompt.user
    assert '{"nodes": [{"n": 1, "text": "…"}]}' in prompt.system


async def test_what_is_left_to_other_entries_is_no_reason_to_drop_it():
    tasks = (replace(await task("old", ("new",)), left=("merged",), said_anew=("said",)),)
    row = aggregate_prompt(AggregateContext(tasks, 90)).user
    assert "[e1] new\n[e2] merged\n" in row
    assert "Said before: old New: e1. Left to another entry: e2." in row
    assert "drop" not in row
    assert "said" not in row.replace("Said", "")


async def test_few_entries_have_words_for_each_fact_and_many_for_their_theme():
    one = await task(news=("entry",))
    words = [words_of(replace(one, descendants=count), 160) for count in (1, 3, MANY - 1, MANY, 500)]
    assert words == [30, 45, 105, 60, 60]


async def test_a_question_stays_within_a_small_output_cap():
    tasks = [replace(await task(news=(f"entry {n}",), id_=str(n)), descendants=MANY - 1) for n in range(12)]
    assert aggregate_prompt(AggregateContext(tuple(tasks), TreeSettings().aggregate_tokens)).max_tokens <= 4096


async def test_the_budget_and_the_number_of_nodes_split_the_question():
    tasks = [await task(news=(f"entry {number}",), id_=str(number)) for number in range(40)]
    assert [len(part) for part in split_tasks(tasks, 90, 16_000)] == [12, 12, 12, 4]
    parts = split_tasks(tasks, 90, 1_000)
    assert len(parts) > 4
    assert [one for part in parts for one in part] == tasks
    assert [len(part) for part in split_tasks(tasks, 90, 1)] == [1] * 40


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a", None),
        (" \n", "its summary is empty"),
        ("w " * 13, "its summary has 13 words, at most 12 may be"),
    ],
)
def test_a_summary_is_neither_empty_nor_long(text, fault):
    assert fault_of(SummaryRow(n=1, text=text), 12) == fault


async def test_what_is_wrong_twice_falls_back_node_by_node():
    said = {"first": "theme 1", "third": "", "fourth": "theme 4"}
    model = FakeModel(lambda number, row: said.get(row.partition("Said before: ")[2].split(" ")[0]))
    nodes = ("first", "second", "third", "fourth")
    tasks = [await task(text, id_=text, news=(f"entry of {text}",)) for text in nodes]
    made = await ModelAggregator(model, OFFLINE, SETTINGS).aggregate(tasks, ())
    assert [one.text for one in made] == ["theme 1", "second\nentry of second", "third\nentry of third", "theme 4"]
    assert [one.made_by.fallback for one in made] == [False, True, True, False]
    assert [one.made_by.prompt for one in made] == ["tree/4"] * 4
    assert [prompt.user.count("Node ") for prompt in model.prompts] == [4, 2]


async def test_a_fault_that_is_corrected_leaves_no_fallback():
    texts = iter(["w " * 40, "fine", "short"])
    model = FakeModel(lambda number, row: next(texts))
    tasks = [await task(news=(f"entry {number}",), id_=str(number)) for number in range(2)]
    made = await ModelAggregator(model, OFFLINE, SETTINGS).aggregate(tasks, ())
    assert [one.text for one in made] == ["short", "fine"]
    assert not any(one.made_by.fallback for one in made)
    assert "40 words" in model.prompts[1].user


class Babble(FakeModel):
    async def answer(self, prompt, form, *, urgent=False):
        self.calls += 1
        raise AnswerInvalid("the answer is not valid JSON")


async def test_a_model_that_babbles_leaves_all_to_the_offline_twin():
    model = Babble()
    (made,) = await ModelAggregator(model, OFFLINE, SETTINGS).aggregate([await task(news=("entry",))], ())
    assert (made.text, made.made_by.fallback, model.calls) == ("entry", True, 2)


async def test_nobody_is_asked_about_a_node_below_which_nothing_is_known_to_hold():
    model = FakeModel()
    (made,) = await ModelAggregator(model, OFFLINE, SETTINGS).aggregate([await task(drop=("Ann rows",))], ())
    assert made.text == f"{FORMERLY}Ann rows"
    assert not made.made_by.fallback
    assert model.calls == 0


@pytest.mark.parametrize(("current", "asked"), [(0, 0), (1, 1)])
async def test_a_node_is_asked_about_where_something_holds_below_it(current: int, asked: int):
    model = FakeModel()
    ended = replace(await task(text="Ann has a cold", drop=("Ann has a cold",)), current=current)
    await ModelAggregator(model, OFFLINE, SETTINGS).aggregate([ended], ())
    assert model.calls == asked


class Kept(dict):
    """Answers by their hash."""

    async def get(self, key, conversation=""):
        return dict.get(self, key)

    async def put(self, key, text, conversation=""):
        self[key] = text


@pytest.mark.parametrize("missing", [0, 2])
async def test_a_replay_with_recorded_answers_believes_the_same_and_asks_nobody(missing):
    model = FakeModel(lambda number, row: None if number == missing else f"theme {number}")
    tasks = [await task(news=(f"entry {number}",), id_=str(number)) for number in range(1, 4)]
    aggregator = ModelAggregator(RecordedModel(model, Kept()), OFFLINE, SETTINGS)
    first = await aggregator.aggregate(tasks, ())
    asked = model.calls
    assert await aggregator.aggregate(tasks, ()) == first
    assert model.calls == asked
