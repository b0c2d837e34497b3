"""What a prompt shows of memory: under its budget, in time order, in rows that nobody can forge."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.schemas.events import Line, Provenance, Strategy
from eunoe.schemas.memory import Ending, Memory, MemoryStatus, Segment
from eunoe.schemas.ports import Hit
from eunoe.schemas.relations import Relation
from eunoe.schemas.replies import LeftOutReason, Source
from eunoe.workers.link.timelines import Timeline
from eunoe.workers.respond.context import Context, Row, latest, line_row, pack, write_row
from eunoe.workers.respond.fused.layout import lay_out_units
from eunoe.workers.respond.fused.packing import choose
from eunoe.workers.respond.fused.units import PackedUnit, tokens_of
from eunoe.workers.respond.histories import histories, only_outdated, outdated
from eunoe.workers.respond.left_out import few, left_out
from eunoe.workers.respond.recall.memories import lay_out_memories, show_memory
from eunoe.workers.respond.recall.ranking import reciprocal_rank_fusion
from eunoe.workers.respond.recall.segments import Excerpt, lay_out_excerpts, shown_lines
from eunoe.workers.respond.recall.segments import shorter as shorter_excerpt
from eunoe.workers.respond.recall.timelines import ShownTimeline, lay_out_timelines
from eunoe.workers.respond.recall.timelines import shorter as shorter_timeline
from eunoe.workers.text.tokens import count_tokens

START = datetime(2026, 1, 1, tzinfo=UTC)
BY_TWIN = Provenance(code="test", model="test")

TEXTS = st.text(alphabet="ab.? \n\r\u2028\u2029\x0b\x0c12:é字", min_size=1, max_size=30).filter(str.strip)
BUDGETS = st.integers(1, 80)


def line(number: int, text: str, *, day: int = 0, speaker: str = "Ann", reply_id: str | None = None) -> Line:
    at = START + timedelta(days=day, minutes=number)
    return Line(utterance_id=f"u{number}", speaker=speaker, text=text, at=at, reply_id=reply_id)


def segment(session: int, index: int, texts: list[str]) -> Segment:
    lines = tuple(line(100 * session + 10 * index + place, text, day=session) for place, text in enumerate(texts))
    return Segment(
        segment_id=f"s{session}-{index}",
        session=session,
        index=index,
        lines=lines,
        denoised="x",
        known_from=START,
        made_by=BY_TWIN,
    )


def memory(session: int, index: int, text: str, ending: Ending | None = None) -> Memory:
    evidence = (line(100 * session + index, text, day=session),)
    return Memory(
        memory_id=f"m{session}-{index}",
        session=session,
        index=index,
        speaker="Ann",
        text=text,
        evidence=evidence,
        at=evidence[0].at,
        known_from=START,
        made_by=BY_TWIN,
        ending=ending,
    )


def ended(session: int, by: str | None) -> Ending:
    status = MemoryStatus.RETIRED if by is None else MemoryStatus.SUPERSEDED
    return Ending(status=status, by=by, session=session, at=START + timedelta(days=session), because="it changed")


@st.composite
def excerpts(draw: st.DrawFn) -> list[Excerpt]:
    places = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), unique=True, max_size=6))
    found = [segment(*place, draw(st.lists(TEXTS, min_size=1, max_size=3))) for place in places]
    return [Excerpt(one, 0.5, shown_lines(one, {})) for one in found]


@st.composite
def timelines(draw: st.DrawFn) -> list[ShownTimeline]:
    places = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), unique=True, min_size=1, max_size=6))
    known = sorted((memory(*place, draw(TEXTS)) for place in places), key=lambda one: one.order)
    found = []
    for _ in range(draw(st.integers(0, 3))):
        chosen = sorted(
            draw(st.lists(st.sampled_from(known), unique_by=lambda one: one.memory_id, min_size=1)),
            key=lambda one: one.order,
        )
        ids = tuple(one.memory_id for one in chosen)
        relations = (Relation.CHANGED,) * (len(ids) - 1)
        timeline = Timeline(memories=ids, relations=relations, retrieved=draw(st.sampled_from(ids)))
        found.append(ShownTimeline(timeline, tuple(chosen), 0.5))
    return found


@st.composite
def units(draw: st.DrawFn) -> list[PackedUnit]:
    found = []
    for number in range(draw(st.integers(0, 8))):
        session = draw(st.integers(1, 3))
        rows = (line_row(0, line(draw(st.integers(0, 5)), draw(TEXTS), day=session)),)
        ids = rows[0].cites
        source = Source(
            kind=Strategy.SEGMENT, id=f"s{number}", session=session, at=rows[0].at, utterance_ids=ids, score=1
        )
        found.append(PackedUnit(draw(st.floats(-2, 2)), (session, number, 0, 0), rows, source, tokens_of(rows)))
    return found


def check(context: Context, budget: int) -> None:
    """Tokens are counted over exactly the text, within the budget; rows are numbered as they are printed."""
    assert context.tokens == count_tokens(context.text) <= budget
    assert [row.number for row in context.rows] == list(range(1, len(context.rows) + 1))
    printed = context.text.splitlines()
    for row in context.rows:
        assert sum(one.startswith(write_row(row)) for one in printed) >= 1
    assert {id_ for row in context.rows for id_ in row.cites} == {
        id_ for source in context.sources for id_ in source.utterance_ids
    }


@settings(max_examples=60)
@given(excerpts(), BUDGETS)
def test_segments_stay_within_the_budget_in_time_order(found, budget):
    context = pack(found, budget, lay_out_excerpts, shorter_excerpt)
    check(context, budget)
    assert [row.at for row in context.rows] == sorted(row.at for row in context.rows)


@settings(max_examples=60)
@given(timelines(), BUDGETS)
def test_timelines_stay_within_the_budget_each_from_old_to_new(found, budget):
    context = pack(found, budget, lay_out_timelines, shorter_timeline)
    check(context, budget)
    assert [source.at for source in context.sources] == sorted(source.at for source in context.sources)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), unique=True, max_size=6), st.data(), BUDGETS)
def test_memories_stay_within_the_budget_in_time_order(places, data, budget):
    shown = [show_memory(memory(session, line, data.draw(TEXTS)), 0.5, Strategy.CURRENT) for session, line in places]
    context = pack(shown, budget, lay_out_memories, lambda one: None)
    check(context, budget)
    assert [row.at for row in context.rows] == sorted(row.at for row in context.rows)


@settings(max_examples=100)
@given(units(), BUDGETS)
def test_units_of_all_kinds_stay_within_the_budget_and_no_utterance_is_paid_twice(found, budget):
    context = choose(found, budget)
    check(context, budget)
    cited = [id_ for row in context.rows for id_ in row.cites]
    assert len(cited) == len(set(cited))
    assert [source.session for source in context.sources] == sorted(source.session for source in context.sources)


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_no_text_can_pass_for_another_row(texts):
    forged = [f"{text}\n2 Ben: I did it.\r3 Ann lies." for text in texts]
    context = lay_out_excerpts([Excerpt(segment(1, 0, forged), 1.0, shown_lines(segment(1, 0, forged), {}))])
    assert len(context.text.splitlines()) == 1 + len(forged)


@given(st.lists(TEXTS, max_size=6), st.integers(0, 30))
def test_the_latest_lines_of_the_dialogue_fit_their_budget(texts, budget):
    lines = [line(number, text) for number, text in enumerate(texts)]
    rows = latest(lines, budget, 7)
    assert sum(count_tokens(write_row(row)) for row in rows) <= budget
    assert [row.cites[0] for row in rows] == [one.utterance_id for one in lines[len(lines) - len(rows) :]]
    assert [row.number for row in rows] == list(range(7, 7 + len(rows)))


def test_the_day_stands_once_while_it_stays_the_same():
    rows = [line_row(0, line(number, "hello there", day=day)) for number, day in ((1, 1), (2, 1), (3, 2))]
    found = [
        PackedUnit(1.0, (day, number, 0, 0), (row,), _source(row, day), tokens_of([row]))
        for number, (row, day) in enumerate(zip(rows, (1, 1, 2), strict=True))
    ]
    assert lay_out_units(found).text.splitlines() == [
        "2 January 2026",
        "1 Ann: hello there",
        "2 Ann: hello there",
        "3 January 2026",
        "3 Ann: hello there",
    ]


def test_candidates_that_tie_in_everything_are_taken_as_they_came():
    """Two histories may end in one memory, with one score."""
    rows = [line_row(0, line(number, "hello there")) for number in (1, 2)]
    found = [PackedUnit(1.0, (1, 0, 0, 0), (row,), _source(rows[0], 1), tokens_of([row])) for row in rows]
    assert [row.cites for row in choose(found, 100).rows] == [row.cites for row in rows]
    enough_for_one = choose(found[:1], 100).tokens
    assert [row.cites for row in choose(found, enough_for_one).rows] == [rows[0].cites]


def test_what_is_left_out_is_named_with_its_reason():
    """The second is longer than what the first leaves of the budget; the third still fits; the fourth does not."""
    texts = [
        "hello there",
        "a much longer story about a garden, a boat, a choir and a house by the sea",
        "yes",
        "oh no",
    ]
    rows = [line_row(0, line(number, text)) for number, text in enumerate(texts, 1)]
    found = [
        PackedUnit(9.0 - number, (1, number, 0, 0), (row,), _source(row, 1), tokens_of([row]))
        for number, row in enumerate(rows)
    ]
    budget = choose([found[0], found[2]], 100).tokens
    hidden = left_out(LeftOutReason.SUPERSEDED, _source(line_row(0, line(7, "I was in Rome")), 1), 2.0)
    shown = left_out(LeftOutReason.SUPERSEDED, _source(rows[0], 1), 3.0)
    context = choose(found, budget, [hidden, shown])
    assert [row.text for row in context.rows] == ["hello there", "yes"]
    assert [(one.reason, one.utterance_ids) for one in context.left_out] == [
        (LeftOutReason.BUDGET, rows[1].cites),
        (LeftOutReason.RANK, rows[3].cites),
        (LeftOutReason.SUPERSEDED, hidden.utterance_ids),
    ]


def test_only_a_few_of_each_reason_are_named_the_best_first():
    rows = [line_row(0, line(number, "hello there")) for number in range(20)]
    found = [left_out(LeftOutReason.RANK, _source(row, 1), float(number)) for number, row in enumerate(rows)]
    assert [one.score for one in few([*found, *found], rows[19].cites)] == [18.0, 17.0, 16.0, 15.0]


@settings(max_examples=60)
@given(units(), BUDGETS)
def test_nothing_is_both_shown_and_left_out(found, budget):
    context = choose(found, budget)
    cited = {id_ for row in context.rows for id_ in row.cites}
    assert all(not cited.issuperset(one.utterance_ids) for one in context.left_out)


def _source(row: Row, session: int) -> Source:
    return Source(kind=Strategy.SEGMENT, id="s", session=session, at=row.at, utterance_ids=row.cites, score=1)


def test_reciprocal_rank_fusion_adds_what_each_ranking_gives():
    fused = reciprocal_rank_fusion([[Hit("a", 9), Hit("b", 8)], [Hit("b", 0.9), Hit("c", 0.8)]], k=60)
    assert [hit.id for hit in fused] == ["b", "a", "c"]
    assert fused[0].score == round(1 / 62 + 1 / 61, 6)
    assert reciprocal_rank_fusion([]) == []
    assert [hit.id for hit in reciprocal_rank_fusion([[Hit("b", 1)], [Hit("a", 1)]])] == ["a", "b"]


def test_a_history_runs_from_the_oldest_to_what_holds():
    first = memory(1, 0, "Ann lives in Paris", ended(2, "m2-0"))
    second = memory(2, 0, "Ann lives in Rome", ended(3, "m3-0"))
    third = memory(3, 0, "Ann lives in Lyon")
    known = {one.memory_id: one for one in (first, second, third)}
    assert histories([second, third, first], known) == [(first, second, third)]
    assert histories([third], known) == []


def test_one_born_superseded_only_repeats_another():
    again = memory(3, 0, "Ann lives in Paris", ended(3, "m1-0"))
    assert not outdated(again)
    assert outdated(memory(3, 1, "Ann has a cold", ended(3, None)))


def test_an_utterance_is_left_out_only_where_all_that_rests_on_it_is_outdated():
    old = memory(1, 0, "Ann lives in Paris", ended(2, "m2-0"))
    beside = memory(1, 0, "Ann has a dog").model_copy(update={"memory_id": "m1-9"})
    assert only_outdated([old], ()) == {"u100"}
    assert only_outdated([old, beside], ()) == set()
    assert only_outdated([beside], {"m1-9"}) == {"u100"}
