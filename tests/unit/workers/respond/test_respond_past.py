"""What an ask sees of things that have an end: before it they hold, after it they are shown as past."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from eunoe.schemas.events import Line, Provenance, Strategy
from eunoe.schemas.memory import Ending, Memory, MemoryKind, MemoryStatus
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.link.reads import Timeline
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.context import PARTLY, Context, line_row, mark_past, memory_row, past_words, write_row
from eunoe.workers.respond.hints import read_question
from eunoe.workers.respond.histories import end_words, note, past_notes
from eunoe.workers.respond.offline.line_choice import choose_lines
from eunoe.workers.respond.recall.sources import Query
from eunoe.workers.respond.recall.timelines import ShownTimeline, lay_out_timelines
from eunoe.workers.respond.recall.trees import ShownNode, without_repeats
from eunoe.workers.respond.strategies import recall_sources
from eunoe.workers.text.expiry import end_of_day
from eunoe.workers.text.tokens import count_tokens
from eunoe.workers.tree.retrieve import TreeHit
from eunoe.workers.update.reads import all_memories
from tests.support.chats import local_embedder
from tests.support.in_memory import ended, utterance

KEY = "default/c"
SAID = datetime(2026, 3, 4, 12, tzinfo=UTC)
FRIDAY = end_of_day(datetime(2026, 3, 6, tzinfo=UTC).date())
STAYS = "I am in Rome with my aunt until Friday."


def memory(name: str, text: str, expires_at: datetime | None = None, cites: str = "u1") -> Memory:
    line = Line(utterance_id=cites, speaker="Ann", text=text, at=SAID)
    made_by = Provenance(code="test", model="m", prompt="summarize/4")
    fields = {"memory_id": name, "session": 1, "index": 0, "speaker": "Ann", "text": text, "evidence": (line,)}
    return Memory(**fields, at=SAID, known_from=SAID, made_by=made_by, kind=MemoryKind.STATE, expires_at=expires_at)


async def talked(*texts: str) -> tuple[InMemoryPipeline, list[Memory]]:
    """Each text in a session of its own, said on one day."""
    pipeline = InMemoryPipeline(local_embedder(), StageSettings())
    for place, text in enumerate(texts):
        said = utterance(2 * place + 1, text).model_copy(update={"at": SAID + timedelta(minutes=place)})
        await pipeline.produce(said, ended())
    return pipeline, await all_memories(pipeline.store, KEY)


async def asked(pipeline: InMemoryPipeline, strategy: Strategy, question: str, at: datetime | None) -> Context:
    source = recall_sources(pipeline.dependencies)[strategy]
    context = await source.recall(Query(KEY, question, ("Ann",), 300, "Ben", at=at))
    assert context.tokens == count_tokens(context.text) <= 300
    return context


@pytest.mark.parametrize(
    "strategy", [Strategy.FUSED, Strategy.CURRENT, Strategy.INSIGHT, Strategy.TREE, Strategy.TIMELINE]
)
async def test_what_has_ended_by_the_time_of_the_ask_is_shown_as_past(strategy: Strategy):
    pipeline, memories = await talked(STAYS, "I have a brown dog in Lyon.")
    (stay,) = [one for one in memories if "Rome" in one.text]
    assert stay.expires_at == FRIDAY
    before, after = [await asked(pipeline, strategy, "Where is Ann, in Rome?", FRIDAY + step) for step in (-DAY, DAY)]
    for context, holds in ((before, True), (after, False)):
        (row,) = [row for row in context.rows if "Rome" in row.text]
        assert row.is_current is holds
        assert ("held until 6 March 2026" in context.text) is not holds
        assert all(row.is_current for row in context.rows if "dog" in row.text)
    assert await all_memories(pipeline.store, KEY) == memories


DAY = timedelta(days=1)


async def test_an_end_passes_in_the_first_instant_of_the_next_day():
    pipeline, _ = await talked(STAYS)
    last = FRIDAY - timedelta(microseconds=1)
    texts = [(await asked(pipeline, Strategy.FUSED, "Where is Ann?", at)).text for at in (None, last, FRIDAY)]
    assert ["held until" in text for text in texts] == [False, False, True]


async def test_of_several_sentences_only_a_part_is_past():
    pipeline, _ = await talked(f"{STAYS} My brown dog Rex lives in Lyon with my sister Maria.")
    context = await asked(pipeline, Strategy.FUSED, "Where is Ann?", FRIDAY)
    (row,) = context.rows
    assert row.is_current
    assert row.past == "a part of it held until 6 March 2026"


def test_an_utterance_is_past_where_all_that_rests_on_it_is():
    over, later = memory("a", "Ann is in Rome.", FRIDAY), memory("b", "Ann is off work.", FRIDAY + DAY)
    lasting = memory("c", "Ann likes Rome.")
    at, until = FRIDAY + 2 * DAY, "held until {} March 2026".format
    assert past_notes([over], (), at) == {"u1": until(6)}
    assert past_notes([over, later], (), at) == {"u1": until(7)}
    assert past_notes([over, lasting], (), at) == {"u1": PARTLY + until(6)}
    assert past_notes([over, lasting], {"c"}, at) == {"u1": until(6)}
    assert past_notes([over, later], (), FRIDAY) == {"u1": PARTLY + until(6)}
    assert past_notes([over, later], (), SAID) == past_notes([over], (), None) == {}


def test_a_history_names_the_earlier_end():
    held = memory("a", "Ann is in Rome.", FRIDAY)
    ending = Ending(status=MemoryStatus.SUPERSEDED, by="b", session=2, at=FRIDAY + DAY, because="")
    assert note(held, FRIDAY) == "4 March 2026, held until 6 March 2026"
    assert note(held, FRIDAY - DAY) == note(held) == "4 March 2026"
    assert note(held.model_copy(update={"ending": ending}), FRIDAY + DAY) == note(held, FRIDAY)
    early = ending.model_copy(update={"at": FRIDAY - 2 * DAY})
    assert note(held.model_copy(update={"ending": early}), FRIDAY + DAY) == "4 March 2026, held until 5 March 2026"


def test_a_timeline_names_the_end_of_what_is_over():
    memories = (memory("a", "Ann is in Rome.", FRIDAY), memory("b", "Ann likes Rome.", cites="u2"))
    timeline = Timeline(memories=("a", "b"), relations=("SameTopic",), retrieved="b")
    shown = ShownTimeline(timeline, memories, 1.0, FRIDAY)
    assert lay_out_timelines([shown]).text.splitlines()[1::2] == [
        "1 Ann is in Rome. (4 March 2026, held until 6 March 2026)",
        "2 Ann likes Rome. (4 March 2026)",
    ]
    assert "held" not in lay_out_timelines([replace(shown, at=None)]).text


def test_offline_a_question_about_the_present_quotes_nothing_that_is_over():
    line = memory("a", STAYS).evidence[0]
    rows = [
        mark_past(line_row(1, line), past_words(line.text, FRIDAY, partly=False)),
        memory_row(2, memory("b", "Ann lives in Lyon."), FRIDAY),
    ]
    assert write_row(rows[0]) == f"1 Ann: {STAYS} (held until 6 March 2026)"
    assert mark_past(line_row(1, line), "") == line_row(1, line)
    hints = read_question("Where is Ann now?", ("Ann",), "Ben")
    assert choose_lines(rows, np.array([0.9, 0.5]), hints) == [1]


@pytest.mark.parametrize("strategy", [Strategy.TREE, Strategy.TIMELINE])
async def test_a_memory_that_another_ended_is_shown_as_past(strategy: Strategy):
    pipeline, memories = await talked("I bought a blue bike in Lyon.", "I sold the blue bike.")
    (bought,) = [one for one in memories if "bought" in one.text]
    assert bought.status is not MemoryStatus.CURRENT
    context = await asked(pipeline, strategy, "Who has a blue bike?", FRIDAY)
    (row,) = [row for row in context.rows if "bought" in row.text]
    assert not row.is_current
    assert row.past == "held until 4 March 2026"
    assert "held until 4 March 2026)" in context.text
    assert all(not row.past for row in context.rows if "sold" in row.text)


async def test_a_tree_shows_a_repeated_memory_once_and_as_current():
    said = "I live in Lyon with my cat Tom."
    pipeline, memories = await talked(said, said, said)
    assert len(memories) > 1
    context = await asked(pipeline, Strategy.TREE, "Where does Ann live?", FRIDAY)
    (row,) = [row for row in context.rows if "Lyon" in row.text]
    assert row.is_current
    assert row.past == ""


def test_leaves_that_say_the_same_are_shown_once_as_the_current_one_with_all_that_they_cite():
    rows = [memory_row(0, memory(name, "Ann lives in Lyon.", cites=cites), SAID) for name, cites in SAYS_SO.items()]
    rows[0] = replace(rows[0], is_current=False, past="held until 4 March 2026")
    nodes = [
        ShownNode(TreeHit(name, name, 0.5, 2, row.text, 1), (memory(name, row.text),), row)
        for name, row in zip(SAYS_SO, rows, strict=True)
    ]
    (node,) = without_repeats(nodes)
    assert node.row == replace(rows[1], cites=("u1", "u3", "u5"))


SAYS_SO = {"a": "u1", "b": "u3", "c": "u5"}


def test_what_repeats_another_memory_has_not_ended():
    ending = Ending(status=MemoryStatus.SUPERSEDED, by="b", session=1, at=SAID, because="")
    assert end_words(memory("a", "Ann lives in Rome.").model_copy(update={"ending": ending})) == ""
    later = ending.model_copy(update={"session": 2})
    assert (
        end_words(memory("a", "Ann lives in Rome.").model_copy(update={"ending": later})) == "held until 4 March 2026"
    )
