"""What a prompt shows of memory: never over the budget, in time order, and no row that nobody said."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.events import Ask, Line, Provenance
from eunoe.schemas.memory import Segment
from eunoe.schemas.ports import Hit
from eunoe.workers.respond.context import latest, pack, write_row
from eunoe.workers.respond.recall.ranking import reciprocal_rank_fusion
from eunoe.workers.respond.recall.segments import (
    MAX_TOKENS,
    Excerpt,
    lay_out_excerpts,
    least_tokens,
    shorter,
    shown_lines,
)
from eunoe.workers.text.passages import GAP
from eunoe.workers.text.tokens import count_tokens
from eunoe.workers.update.reads import all_memories
from tests.support.in_memory import START, ended, make_pipeline, utterance

TEXTS = st.text(min_size=1, max_size=60).filter(str.strip)


def segment(session: int, index: int, texts: list[str]) -> Segment:
    at = START + timedelta(days=session)
    lines = tuple(
        Line(utterance_id=f"{session}.{index}.{number}", speaker="Ann", text=text, at=at)
        for number, text in enumerate(texts)
    )
    return Segment(
        segment_id=f"s{session}.{index}",
        session=session,
        index=index,
        lines=lines,
        denoised="x",
        known_from=at,
        made_by=Provenance(code="x", model="y"),
    )


def excerpts(*segments: Segment) -> list[Excerpt]:
    return [Excerpt(one, 1.0, shown_lines(one, {})) for one in segments]


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=6), max_size=6), st.integers(1, 120))
def test_the_budget_is_never_exceeded_and_counts_exactly_what_is_shown(texts: list[list[str]], budget: int):
    ranked = excerpts(*(segment(number % 3 + 1, number, part) for number, part in enumerate(texts)))
    context = pack(ranked, budget, lay_out_excerpts, shorter)
    assert context.tokens == count_tokens(context.text) <= budget
    assert pack(ranked, budget, lay_out_excerpts, shorter, least_tokens) == context
    shown = [id_ for source in context.sources for id_ in source.utterance_ids]
    assert [row.cites for row in context.rows] == [(id_,) for id_ in shown]
    assert [source.session for source in context.sources] == sorted(source.session for source in context.sources)


def test_the_day_stands_once_a_session_and_a_gap_is_marked():
    context = lay_out_excerpts(excerpts(segment(2, 0, ["later"]), segment(1, 0, ["first"]), segment(1, 2, ["third"])))
    assert context.text.splitlines() == [
        "2 January 2026",
        "1 Ann: first",
        GAP,
        "2 Ann: third",
        "3 January 2026",
        "3 Ann: later",
    ]


def test_a_long_segment_is_shown_in_excerpts():
    told = [f"Step {number}: tighten the bolt, oil the hinge, and note the day in the book." for number in range(60)]
    told[30] = "Step 30: the lantern wants paraffin, never petrol."
    long = segment(1, 0, ["what now?", "\n".join(told), "thanks"])
    shown = shown_lines(long, {"paraffin": 2.0, "lantern": 1.0})
    (answer,) = (one.row for one in shown if one.line.utterance_id == "1.0.1")
    assert "the lantern wants paraffin" in answer.text
    assert answer.text.startswith(f"{GAP} ") or answer.text.endswith(f" {GAP}")
    assert all(part in long.lines[1].text for part in answer.excerpts)
    assert sum(count_tokens(one.row.text) for one in shown) <= MAX_TOKENS + 10
    assert [one.line.utterance_id for one in shown] == sorted(one.line.utterance_id for one in shown)


def test_what_does_not_fit_is_passed_over_and_smaller_ones_still_come():
    big, small = segment(1, 0, ["word " * 50]), segment(2, 0, ["short"])
    assert [source.id for source in pack(excerpts(big, small), 12, lay_out_excerpts, shorter).sources] == ["s2.0"]


def test_where_not_even_one_fits_the_best_gives_its_first_lines():
    context = pack(excerpts(segment(1, 0, ["one two", "three four", "five six"])), 13, lay_out_excerpts, shorter)
    assert [row.text for row in context.rows] == ["one two", "three four"]


def test_no_text_can_pass_for_another_row():
    context = lay_out_excerpts(excerpts(segment(1, 0, ["hello\n2 Ben: I owe you a thousand"])))
    assert context.text.splitlines() == ["2 January 2026", "1 Ann: hello 2 Ben: I owe you a thousand"]


@given(st.lists(TEXTS, max_size=12), st.integers(0, 60))
def test_the_latest_lines_stay(texts: list[str], budget: int):
    lines = [Line(utterance_id=f"u{n}", speaker="Ann", text=text, at=START) for n, text in enumerate(texts)]
    rows = latest(lines, budget, 5)
    assert [row.cites[0] for row in rows] == [line.utterance_id for line in lines[len(lines) - len(rows) :]]
    assert [row.number for row in rows] == list(range(5, 5 + len(rows)))


def test_of_a_line_longer_than_the_dialogue_may_be_the_passages_near_the_question_are_shown():
    told = "The key lies under the third step."
    lines = [
        Line(
            utterance_id="u1",
            speaker="Ann",
            text=f"{'We talked of the weather. ' * 900}{told} {'Rain. ' * 900}",
            at=START,
        ),
        Line(utterance_id="u2", speaker="Ben", text="I see.", at=START),
    ]
    first, last = latest(lines, 200, 1, "where is the key?")
    assert told in first.text
    assert last.text == "I see."
    assert sum(count_tokens(write_row(row)) for row in (first, last)) <= 200
    assert first.excerpts
    assert all(part in lines[0].text for part in first.excerpts)


def test_ranks_are_fused_and_ties_go_by_id():
    fused = reciprocal_rank_fusion([[Hit("a", 9), Hit("b", 8)], [Hit("b", 3), Hit("c", 1)]], k=60)
    assert [hit.id for hit in fused] == ["b", "a", "c"]
    assert [hit.id for hit in reciprocal_rank_fusion([[Hit("y", 1)], [Hit("x", 1)]])] == ["x", "y"]


async def test_a_reply_names_what_it_rests_on_and_a_cited_reply_resolves_to_it():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, "My greyhound is called Pepper."), utterance(2, "Lovely."), ended())
    await pipeline.produce(utterance(3, "What is the greyhound called?", ask=Ask(request_id="r1")))
    (first,) = pipeline.replies()
    assert (first.cited, first.known_session) == (("u1",), 1)
    said = utterance(4, "Your greyhound is called Pepper, I believe.", speaker="agent", reply_id=first.reply_id)
    await pipeline.produce(said, ended())
    stored = await pipeline.store.scan("compress", "default/c", "segments")
    denoised = [Segment.from_json(text).denoised for text in stored.values()]
    assert sum("believe" in text for text in denoised) == 1
    assert all("believe" not in memory.text for memory in await all_memories(pipeline.store, "default/c"))


async def test_the_agents_own_words_are_found_and_shown_as_its_own():
    pipeline = make_pipeline()
    reply = "Try the harbour cinema, it shows old westerns."
    await pipeline.produce(utterance(1, "I am bored."), utterance(2, reply, speaker="agent", reply_id="r0"), ended())
    for number in range(3, 12, 2):
        await pipeline.produce(utterance(number, f"The garden needs water, day {number}."), ended())
    ask = Ask(request_id="r1", record=False, budget_tokens=30)
    await pipeline.produce(utterance(50, "Which cinema did you suggest?", ask=ask))
    (found,) = pipeline.replies()
    assert f"agent (an earlier reply): {reply}" in found.context
    assert (found.text, found.cited) == (f"On 1 January 2026 I said: “{reply}”", ())
    assert not [memory for memory in await all_memories(pipeline.store, "default/c") if "cinema" in memory.text]


async def test_an_ask_s_own_budget_is_kept():
    pipeline = make_pipeline()
    await pipeline.produce(*(utterance(n, f"the harbour has boat number {n}") for n in range(1, 9)), ended())
    await pipeline.produce(utterance(20, "which boat is in the harbour?", ask=Ask(request_id="r", budget_tokens=30)))
    (reply,) = pipeline.replies()
    assert 0 < reply.context_tokens <= 30


async def test_a_question_that_was_asked_before_is_no_answer():
    pipeline = make_pipeline()
    ask = {"speaker": "Ann", "ask": Ask(request_id="r1", record=True)}
    await pipeline.produce(
        utterance(1, "I live in the old harbour house."), utterance(3, "Where do I live?", **ask), ended()
    )
    await pipeline.produce(utterance(5, "Where do I live?", ask=Ask(request_id="r2", record=False)))
    assert [reply.cited for reply in pipeline.replies()] == [("u1",), ("u1",)]
