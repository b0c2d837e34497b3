"""Strategies `current`, `insight` and `fused`: which memories and utterances are shown, and which never."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from sys import getsizeof

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.schemas.decisions import Commit, Put, Scope
from eunoe.schemas.events import Ask, Insight, InsightKind, Line, Provenance, Strategy
from eunoe.schemas.identity import derive_id
from eunoe.schemas.memory import Ending, Memory, MemoryStatus, Segment
from eunoe.schemas.replies import LeftOutReason, Reply
from eunoe.workers.compress.reads import read_line_features, read_segments, read_stats
from eunoe.workers.compress.segments import SegmentStats
from eunoe.workers.compress.segments import build_point as segment_point
from eunoe.workers.compress.settings import CompressSettings
from eunoe.workers.compress.tables import NAME as COMPRESS
from eunoe.workers.compress.tables import SEGMENTS
from eunoe.workers.compress.tables import STATS as SEGMENT_STATS
from eunoe.workers.link.settings import TimelineSettings
from eunoe.workers.respond.context import Context, fold
from eunoe.workers.respond.fused.scoring import QuestionFeatures, score_passages
from eunoe.workers.respond.fused.scoring_input import ScoringInput
from eunoe.workers.respond.fused.source import FusedSource
from eunoe.workers.respond.fused.weights import FeatureWeights
from eunoe.workers.respond.hints import read_question
from eunoe.workers.respond.recall.feature_cache import FeatureCache
from eunoe.workers.respond.recall.memories import CurrentSource, InsightSource, MemorySearch
from eunoe.workers.respond.recall.parse_cache import COPIES, ParseCache
from eunoe.workers.respond.recall.passages import WINDOW, add_neighbours, positions
from eunoe.workers.respond.recall.sources import HybridSearch, Query, RecallSource
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.respond.times import MAX_TIMES, TimeHint, read_times, time_fit
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from eunoe.workers.text.terms import terms
from eunoe.workers.text.tokens import count_tokens
from eunoe.workers.update.memories import CurrentRef, MemoryStats
from eunoe.workers.update.memories import build_point as memory_point
from eunoe.workers.update.settings import UpdateSettings
from eunoe.workers.update.tables import CURRENT, MEMORIES, STATS
from eunoe.workers.update.tables import NAME as UPDATE
from tests.support.in_memory import HashEmbedder, ended, make_pipeline, utterance

START = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "default/c"
SPEAKERS = ("Ann", "Ben")
CACHE_BYTES = 1 << 20
BY_TWIN = Provenance(code="test", model="extract")
BY_MODEL = Provenance(code="test", model="m", prompt="summarize/1")


class Shelf:
    """Stores filled by hand: what was said, and what is remembered of it."""

    def __init__(self) -> None:
        self.store, self.index, self.embedder = MemoryStore(), MemoryIndex(), HashEmbedder()
        self.memories: list[Memory] = []
        self.segments: list[Segment] = []

    def said(self, session: int, *texts: str, index: int = 0, reply_id: str | None = None) -> None:
        lines = tuple(
            Line(
                utterance_id=f"u{session}.{index}.{place}",
                speaker="Ann" if place % 2 == 0 else "Ben",
                text=text,
                at=START + timedelta(days=10 * session, minutes=10 * index + place),
                reply_id=reply_id,
            )
            for place, text in enumerate(texts)
        )
        self.segments.append(
            Segment(
                segment_id=derive_id(KEY, session, COMPRESS, index),
                session=session,
                index=index,
                lines=lines,
                denoised=" ".join(texts),
                known_from=START,
                made_by=BY_TWIN,
            )
        )

    def noted(self, name: str, text: str, cites: str, *, by: str | None = None, made_by: Provenance = BY_TWIN) -> None:
        """A memory; ``by`` names its successor (``-``: it was retired)."""
        line = next(one for segment in self.segments for one in segment.lines if one.utterance_id == cites)
        session = int(cites[1:].split(".", maxsplit=1)[0])
        status = MemoryStatus.RETIRED if by == "-" else MemoryStatus.SUPERSEDED
        successor = None if by == "-" else by
        ending = by and Ending(
            status=status, by=successor, session=session + 1, at=line.at + timedelta(days=9), because=""
        )
        self.memories.append(
            Memory(
                memory_id=name,
                session=session,
                index=len(self.memories),
                speaker=line.speaker,
                text=text,
                evidence=(line,),
                at=line.at,
                known_from=START,
                made_by=made_by,
                ending=ending or None,
            )
        )

    async def fill(self) -> None:
        stats = SegmentStats(segments=len(self.segments), session=9, speakers=SPEAKERS)
        writes = [Put.of(SEGMENTS, one.segment_id, one) for one in self.segments]
        await self._commit(COMPRESS, [*writes, Put.of(SEGMENT_STATS, SEGMENT_STATS, stats)])
        held = [one for one in self.memories if one.ending is None]
        holding = Counter(one.speaker for one in held)
        kept = MemoryStats(memories=len(self.memories), session=9, speakers=SPEAKERS, holding=holding)
        refs = [(one.memory_id, CurrentRef(session=one.session, index=one.index, speaker=one.speaker)) for one in held]
        rows = [
            *(Put.of(MEMORIES, one.memory_id, one) for one in self.memories),
            *(Put.of(CURRENT, id_, ref) for id_, ref in refs),
        ]
        await self._commit(UPDATE, [*rows, Put.of(STATS, STATS, kept)])
        for segment in self.segments:
            (vector,) = await self.embedder.embed([segment.denoised])
            words = terms(segment.denoised, drop=SPEAKERS)
            await self.index.upsert([segment_point(KEY, segment, vector, words, CompressSettings())])
        for memory in self.memories:
            (vector,) = await self.embedder.embed([memory.text])
            await self.index.upsert([memory_point(KEY, memory, vector, terms(memory.text), UpdateSettings())])

    async def _commit(self, name: str, writes: list[Put]) -> None:
        assert await self.store.commit(Scope(name, KEY), Commit(expect=0, applied=1, writes=tuple(writes)))

    async def ask(
        self, kind: Strategy, text: str, budget: int = 500, insights: tuple[Insight, ...] = (), max_lines: int = 1000
    ) -> Context:
        finder = HybridSearch(self.index, self.embedder, RespondSettings())
        search = MemorySearch(self.store, finder)
        sources: dict[Strategy, RecallSource] = {
            Strategy.CURRENT: CurrentSource(search, 5),
            Strategy.INSIGHT: InsightSource(search, 10),
            Strategy.FUSED: FusedSource(
                self.store, finder, FeatureCache(self.embedder, CACHE_BYTES), TimelineSettings(), max_lines
            ),
        }
        context = await sources[kind].recall(Query(KEY, text, SPEAKERS, budget, "Ann", 9, insights))
        assert context.tokens == count_tokens(context.text) <= budget
        assert [row.number for row in context.rows] == list(range(1, len(context.rows) + 1))
        return context


def insight(text: str, *replaces: str, number: int = 1) -> Insight:
    line = Line(utterance_id=f"now{number}", speaker="Ann", text=text, at=START + timedelta(days=100))
    kind = InsightKind.UPDATED if replaces else InsightKind.NEW
    return Insight(kind=kind, speaker="Ann", text=text, evidence=(line,), replaces=replaces)


async def moved(made_by: Provenance = BY_TWIN) -> Shelf:
    shelf = Shelf()
    shelf.said(1, "I live in Paris these days", "how nice")
    shelf.said(2, "we cooked a soup with leeks", "I prefer bread")
    shelf.said(3, "I live in Lyon since monday", "good luck there")
    shelf.noted("m1", "Ann lives in Paris", "u1.0.0", by="m3", made_by=made_by)
    shelf.noted("m2", "Ann cooked a soup with leeks", "u2.0.0", made_by=made_by)
    shelf.noted("m3", "Ann lives in Lyon", "u3.0.0", made_by=made_by)
    await shelf.fill()
    return shelf


def texts(context: Context) -> list[str]:
    return [row.text for row in context.rows]


@pytest.mark.parametrize(
    ("max_lines", "sessions"), [(1, {1}), (4, {1}), (5, {1}), (6, {1, 3}), (7, {1, 2}), (9, {1, 2, 3})]
)
async def test_segments_are_considered_best_first_as_long_as_their_lines_fit(max_lines: int, sessions: set[int]):
    shelf = Shelf()
    shelf.said(1, "the boat", "is a red boat", "what a boat", "boat boat")
    shelf.said(2, "the boat is here", "a harbour full of fish", "and gulls")
    shelf.said(3, "no word of it", "at all")
    await shelf.fill()
    context = await shelf.ask(Strategy.FUSED, "boat", max_lines=max_lines)
    assert {source.session for source in context.sources} == sessions


async def test_no_segments_are_read_where_there_is_no_room_left(monkeypatch: pytest.MonkeyPatch):
    shelf = Shelf()
    for index in range(40):
        shelf.said(1, f"the boat of day {index}", "is red", index=index)
    await shelf.fill()
    read: list[int] = []
    fetch = shelf.store.fetch

    async def counted(stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        read.extend([len(ids)] * (table == SEGMENTS))
        return await fetch(stage, key, table, ids)

    monkeypatch.setattr(shelf.store, "fetch", counted)
    assert await shelf.ask(Strategy.FUSED, "boat", max_lines=20)
    few = sum(read)
    read.clear()
    assert await shelf.ask(Strategy.FUSED, "boat")
    assert few < sum(read)  # where there is no room, nothing more is read


async def test_current_shows_what_holds_in_time_order_with_days():
    context = await (await moved()).ask(Strategy.CURRENT, "where do I live?")
    assert context.text == "21 January 2026\n1 Ann cooked a soup with leeks\n31 January 2026\n2 Ann lives in Lyon"
    assert [source.memory_ids for source in context.sources] == [("m2",), ("m3",)]
    assert {source.kind for source in context.sources} == {Strategy.CURRENT}
    assert [(one.reason, one.memory_ids) for one in context.left_out] == [(LeftOutReason.SUPERSEDED, ("m1",))]


async def test_current_shows_no_more_than_its_limit():
    shelf = Shelf()
    shelf.said(1, *(f"the boat number {number} is red" for number in range(12)))
    for number in range(12):
        shelf.noted(f"m{number:02}", f"the boat number {number} is red", f"u1.0.{number}")
    await shelf.fill()
    assert len((await shelf.ask(Strategy.CURRENT, "which boat is red?")).rows) == 5
    assert len((await shelf.ask(Strategy.INSIGHT, "which boat is red?")).rows) == 10


@pytest.mark.parametrize("kind", [Strategy.CURRENT, Strategy.INSIGHT])
async def test_what_was_said_time_and_again_does_not_crowd_out_what_holds(kind: Strategy):
    """A repeated sentence is kept, superseded by the memory that it repeats."""
    shelf = Shelf()
    shelf.said(1, "my boat is red", "my old boat lies at the pier")
    for number in range(120):
        shelf.noted(f"a{number:03}", "Ann's boat is red", "u1.0.0", by="m1")
    shelf.noted("m1", "Ann's boat is red", "u1.0.0")
    shelf.noted("m2", "Ann's old boat lies at the pier", "u1.0.1")
    await shelf.fill()
    context = await shelf.ask(kind, "which boat is red?")
    assert texts(context) == ["Ann's boat is red", "Ann's old boat lies at the pier"]
    assert {one.reason for one in context.left_out} <= {LeftOutReason.SUPERSEDED}


async def test_insights_come_last_and_what_they_replace_is_not_shown():
    new = (insight("Ann lives in Nice", "m3"), insight("Ann likes soup", number=2))
    context = await (await moved()).ask(Strategy.INSIGHT, "where do I live?", insights=new)
    assert texts(context) == ["Ann cooked a soup with leeks", "Ann lives in Nice", "Ann likes soup"]
    assert context.rows[1].cites == ("now1",)
    assert context.rows[1].is_memory


async def test_under_a_small_budget_the_latest_insight_stays():
    new = (insight("Ann lives in Nice", "m3"), insight("Ann likes soup", number=2))
    context = await (await moved()).ask(Strategy.INSIGHT, "where do I live?", 8, new)
    assert texts(context) == ["Ann likes soup"]


async def test_an_insight_told_twice_stands_once():
    twice = (insight("Ann lives in Nice"), insight("Ann lives in Nice", number=2))
    context = await (await moved()).ask(Strategy.INSIGHT, "soup?", insights=twice)
    assert texts(context).count("Ann lives in Nice") == 1


@pytest.mark.parametrize("made_by", [BY_TWIN, BY_MODEL])
async def test_what_holds_no_more_stands_in_a_timeline_only(made_by):
    context = await (await moved(made_by)).ask(Strategy.FUSED, "where do I live?")
    assert "I live in Paris these days" not in texts(context)
    before, timeline = context.text.split("Timeline\n")
    assert "Paris" not in before
    assert timeline.splitlines()[0].endswith("Ann lives in Paris (11 January 2026, held until 20 January 2026)")
    assert timeline.splitlines()[1] == "Changed"
    assert timeline.splitlines()[2].endswith(" Ann lives in Lyon (31 January 2026)")
    (source,) = (source for source in context.sources if source.kind is Strategy.TIMELINE)
    assert source.memory_ids == ("m1", "m3")


async def test_a_model_s_memory_stands_for_its_utterance_and_an_extract_does_not():
    asked = "what was cooked?"
    by_model = texts(await (await moved(BY_MODEL)).ask(Strategy.FUSED, asked))
    assert "Ann cooked a soup with leeks" in by_model
    assert "we cooked a soup with leeks" not in by_model
    by_twin = texts(await (await moved()).ask(Strategy.FUSED, asked))
    assert "we cooked a soup with leeks" in by_twin
    assert "Ann cooked a soup with leeks" not in by_twin


async def test_fused_shows_insights_last_and_drops_what_they_replace():
    context = await (await moved()).ask(Strategy.FUSED, "soup?", insights=(insight("Ann hates soup", "m2"),))
    assert texts(context)[-1] == "Ann hates soup"
    assert "we cooked a soup with leeks" not in texts(context)


async def test_the_responder_s_own_words_are_not_shown():
    shelf = Shelf()
    shelf.said(1, "my boat is in Oslo", "fine")
    shelf.said(1, "the boat is in Rome", index=1, reply_id="r1")
    await shelf.fill()
    question = "where is the boat?"
    assert texts(await shelf.ask(Strategy.FUSED, question, 12)) == ["my boat is in Oslo"]
    context = await shelf.ask(Strategy.FUSED, question)
    assert "(an earlier reply): the boat is in Rome" in context.text


def long_answer() -> str:
    steps = [
        f"{number}. Check the valve number {number}, then write down what the gauge shows." for number in range(40)
    ]
    steps[20] = "20. Grease the rudder with tallow before the first frost comes."
    return "\n".join(["Here is what I would do.", *steps])


async def test_of_a_long_utterance_the_passages_that_fit_are_shown_with_their_gaps():
    shelf = Shelf()
    shelf.said(1, "How do I keep the boat?", long_answer())
    await shelf.fill()
    context = await shelf.ask(Strategy.FUSED, "when is the rudder greased with tallow?", 150)
    (row,) = (row for row in context.rows if row.cites == ("u1.0.1",))
    assert "Grease the rudder with tallow" in row.text
    assert row.text.removesuffix(" …") == f"… {' … '.join(row.excerpts)}"
    assert len(row.excerpts) > 1
    assert all(part in long_answer() for part in row.excerpts)
    whole = await shelf.ask(Strategy.FUSED, "when is the rudder greased with tallow?", 5000)
    assert fold(long_answer()) in whole.text
    assert all(row.excerpts == () for row in whole.rows)


async def test_a_context_is_filled_where_candidates_are_left():
    shelf = Shelf()
    for session in range(1, 4):
        shelf.said(session, "How do I keep the boat?", long_answer())
    await shelf.fill()
    for budget in (200, 500, 1000):
        assert (await shelf.ask(Strategy.FUSED, "how is the boat kept?", budget)).tokens >= 0.8 * budget


async def test_what_you_said_is_asked_of_the_other():
    shelf = Shelf()
    shelf.said(1, "I use tallow on my rudder.", "Tallow is best for a rudder, of all greases.")
    for session in range(2, 8):
        shelf.said(session, "I like my garden.", "A garden is a fine thing.")
    await shelf.fill()
    question = "What did you recommend for my rudder?"
    assert texts(await shelf.ask(Strategy.FUSED, question, 18)) == ["Tallow is best for a rudder, of all greases."]
    assert texts(await shelf.ask(Strategy.FUSED, "What do I use on my rudder?", 14)) == ["I use tallow on my rudder."]


async def test_a_standing_instruction_comes_before_other_lines_that_are_about_something_else():
    shelf = Shelf()
    told = "Always name the price when I ask about tools."
    for session in range(1, 7):
        shelf.said(session, told if session == 2 else f"I saw {session} birds on my roof", "noted")
    shelf.said(7, "the saw is on the bench")
    await shelf.fill()
    shown = texts(await shelf.ask(Strategy.FUSED, "where is the bench?", budget=40))
    assert set(shown) - {"noted"} == {told, "the saw is on the bench"}


async def test_an_order_of_events_is_shown_by_what_was_begun_in_each_session():
    shelf = Shelf()
    for session in range(1, 6):
        detail = " ".join(f"The boat has plank {number} of oak and it is planed." for number in range(30))
        shelf.said(session, f"I'm now at work on part {session} of the boat. {detail}", "good")
    await shelf.fill()
    shown = await shelf.ask(Strategy.FUSED, "In what order did I work on my boat?", budget=600)
    own = [row.text for row in shown.rows if row.speaker == "Ann"]
    assert [f"part {number} of" in text for number, text in enumerate(own, 1)] == [True] * 5


async def test_nothing_is_remembered_of_an_empty_conversation():
    shelf = Shelf()
    for kind in (Strategy.CURRENT, Strategy.INSIGHT, Strategy.FUSED):
        assert await shelf.ask(kind, "where do I live?") == Context()


async def test_an_answer_is_found_by_the_question_before_it():
    shelf = Shelf()
    shelf.said(1, "did you sell the sailing boat in spring", "to a man from Oslo")
    for session in range(2, 9):
        shelf.said(session, "we spoke of the garden again", "and of bread and cheese")
    await shelf.fill()
    context = await shelf.ask(Strategy.FUSED, "who bought the sailing boat in spring?", 24)
    assert "to a man from Oslo" in texts(context)


async def test_lines_that_cannot_fit_keep_no_place_from_those_that_can():
    shelf = Shelf()
    for session in range(1, 6):
        shelf.said(session, "the sailing boat in spring, " * 40)
    shelf.said(6, "the sailing boat", "a lantern on the pier")
    await shelf.fill()
    context = await shelf.ask(Strategy.FUSED, "what of the sailing boat in spring?", 60)
    assert texts(context) == ["the sailing boat", "a lantern on the pier"]


async def test_of_what_fits_alike_what_tells_more_comes_first():
    shelf = Shelf()
    told = ("Wow, that is so great of you!", "I bought my boat in Oslo last May.", "What will you do then?")
    shelf.said(1, *told)
    cache = FeatureCache(shelf.embedder, CACHE_BYTES)
    (read,) = await cache.read_segments(stored_in(cache, shelf.segments), SPEAKERS, {})
    around = np.asarray([1.75, 2, 1.75], dtype=np.float32)
    packed = replace(read.packed, levels=np.ones((3, 4), dtype=np.int8), around=around)
    material = ScoringInput([read._replace(packed=packed)], {})
    sought = QuestionFeatures(read_question("Soup?", SPEAKERS), {"soup": 1}, np.full(4, 0.5, dtype=np.float32), 2)
    assert score_passages(material, sought, FeatureWeights(length=0)).argmax() == 1
    nothing = FeatureWeights(length=0, states=0, particulars=0, reaction=0, question=0, answer=0)
    assert score_passages(material, sought, nothing).tolist() == [0, 0, 0]


@settings(max_examples=25)
@given(st.integers(1, 60), st.sampled_from(["where do I live now?", "soup", "", "?", "Paris Lyon leeks"]))
def test_no_budget_is_exceeded(budget, asked):
    async def run() -> None:
        shelf = await moved()
        for kind in (Strategy.CURRENT, Strategy.INSIGHT, Strategy.FUSED):
            context = await shelf.ask(kind, asked, budget, (insight("Ann lives in Nice", "m3"),))
            assert len({id_ for row in context.rows for id_ in row.cites}) <= len(context.rows) + 2

    asyncio.run(run())


# ---- what a question says


def test_a_question_names_people_times_and_kinds():
    asked = read_question("When did Ann go to Oslo in May 2023?", SPEAKERS)
    assert (asked.speakers, asked.times, asked.when) == (frozenset({"Ann"}), (TimeHint(2023, 5),), True)
    assert read_question("where do I live now?", SPEAKERS, "Ben").speakers == {"Ben"}
    assert read_question("where do I live now?", SPEAKERS, "Ben").present
    assert not read_question("where was I before now?", SPEAKERS).present
    assert read_question("how many dogs?", SPEAKERS).count
    asked = read_question("what did you tell me?", SPEAKERS, "Ben")
    assert (asked.replies, asked.named, asked.asker, asked.is_own) == (True, frozenset(), "Ben", True)
    assert not read_question("what would you recommend?", SPEAKERS, "Ben").replies


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("on 7 May 2023", [TimeHint(2023, 5, 7)]),
        ("on May 7th, 2023", [TimeHint(2023, 5, 7)]),
        ("on the 7th of may", [TimeHint(None, 5, 7)]),
        ("in June", [TimeHint(None, 6)]),
        ("2023-05-07", [TimeHint(2023, 5, 7)]),
        ("in 2022", [TimeHint(2022)]),
        ("you may march on", []),
        ("nothing", []),
    ],
)
def test_times_are_read(text, times):
    assert read_times(text) == times


def test_a_question_has_a_bounded_number_of_times():
    assert len(read_question("on 7 May 2023, " * 100, []).times) == MAX_TIMES


def test_days_near_a_named_time_fit_it():
    named = (TimeHint(2023, 5, 7),)
    fits = [time_fit(named, date(2023, 5, day)) for day in (7, 8, 16, 30)]
    assert fits[0] == 1
    assert fits == sorted(fits, reverse=True)
    assert fits[-1] == 0
    assert time_fit((TimeHint(None, 5),), date(2023, 5, 20)) == 1
    assert time_fit((TimeHint(2023, 2, 31),), date(2023, 2, 28)) == 0
    assert time_fit((), date(2023, 5, 7)) == 0


# ---- neighbours


def test_neighbours_count_within_touching_segments_only():
    shelf = Shelf()
    shelf.said(1, "a", "b")
    shelf.said(1, "c", index=1)
    shelf.said(1, "d", index=3)
    shelf.said(2, "e")
    where = positions([(one.session, one.index, len(one.lines)) for one in shelf.segments])
    blended = add_neighbours(np.eye(5), where, (0.3, 0.6, 1.0, 0.4, 0.2))
    assert blended[2].tolist() == [0.3, 0.6, 1.0, 0.0, 0.0]
    assert blended[0].tolist() == [1.0, 0.4, 0.2, 0.0, 0.0]
    assert blended[3].tolist() == [0, 0, 0, 1.0, 0]
    assert blended[4].tolist() == [0, 0, 0, 0, 1.0]
    assert WINDOW == 2
    assert positions([]).shape == (0,)


def stored_in(cache, segments, speakers=SPEAKERS):
    """The segments as the cache knows them by their stored texts."""
    return [cache.stored(one.to_json().decode(), speakers) for one in segments]


async def read_by(cache, segments, speakers, stored):
    """The features of segments."""
    return await cache.read_segments(stored_in(cache, segments, speakers), speakers, stored)


async def test_a_text_is_embedded_once():
    counted: list[int] = []

    class Counting(HashEmbedder):
        async def embed(self, texts):
            counted.append(len(texts))
            return await super().embed(texts)

    cache = FeatureCache(Counting(), CACHE_BYTES)
    first = await cache.read_vectors(["a boat", "a dog"], SPEAKERS)
    again = await cache.read_vectors(["a dog", "a cat"], SPEAKERS)
    assert counted == [2, 1]
    assert np.array_equal(again["a dog"], first["a dog"])
    await cache.read_vectors(["a dog"], ("Dog",))
    assert counted == [2, 1, 1]


async def test_a_segment_is_read_once_and_again_when_it_is_another():
    counted: list[int] = []

    class Counting(HashEmbedder):
        async def embed(self, texts):
            counted.append(len(texts))
            return await super().embed(texts)

    shelf = Shelf()
    shelf.said(1, "a boat", "a dog")
    shelf.said(2, "as the responder said", reply_id="r1")
    boat, reply = shelf.segments
    cache = FeatureCache(Counting(), CACHE_BYTES)
    first = await cache.read_segments(stored_in(cache, [boat, reply]), SPEAKERS, {})
    again = stored_in(cache, [reply, boat])
    assert cache.missing(again) == []
    for one, other in zip(await cache.read_segments(again, SPEAKERS, {}), first[::-1], strict=True):
        assert one.passages == other.passages
        assert np.array_equal(one.packed.levels, other.packed.levels)
    assert counted == [3]
    costs = [one.tokens + one.row_tokens for one in first[0].passages]
    assert costs == [count_tokens("1 Ann: a boat"), count_tokens("2 Ben: a dog")]
    changed = boat.model_copy(update={"lines": boat.lines[:1]})
    known = stored_in(cache, [changed, reply])
    assert cache.missing(known) == known[:1]
    assert [len(one.passages) for one in await cache.read_segments(known[:1], SPEAKERS, {})] == [1]
    assert len(cache.missing(stored_in(cache, [boat], ("Zoe",)))) == 1


async def test_what_was_read_when_it_came_in_is_not_embedded_again_and_gives_the_same():
    pipeline = make_pipeline()
    await pipeline.produce(
        utterance(1, "I moved to Lyon last week with my dog Rex."), utterance(2, "Wow, great!"), ended()
    )
    key, store = KEY, pipeline.store
    speakers = (await read_stats(store, key)).speakers
    segments = await read_segments(store, key, [derive_id(key, 1, COMPRESS, index) for index in range(9)])
    stored = await read_line_features(store, key, [segment.segment_id for segment in segments])
    assert sorted(stored) == sorted(segment.segment_id for segment in segments)
    counted: list[int] = []

    class Counting(HashEmbedder):
        async def embed(self, texts):
            counted.append(len(texts))
            return await super().embed(texts)

    again = await read_by(FeatureCache(Counting(), CACHE_BYTES), segments, speakers, stored)
    assert counted == []
    fresh = await read_by(FeatureCache(Counting(), CACHE_BYTES), segments, speakers, {})
    assert counted == [2]
    for one, other in zip(again, fresh, strict=True):
        assert np.array_equal(one.packed.levels, other.packed.levels)
        assert np.array_equal(one.packed.features, other.packed.features)
        assert one.passages == other.passages
    others = await read_by(FeatureCache(Counting(), CACHE_BYTES), segments, ("Zoe",), stored)
    assert len(others) == len(segments)
    assert len(counted) == 2


def test_parses_are_equal_bounded_and_kept():
    asked: list[str] = []

    def parse(text: str) -> int:
        asked.append(text)
        return int(text)

    cached = ParseCache(parse, 2 * COPIES * getsizeof("1"))
    assert [cached(text) for text in ("1", "2", "1", "3", "1", "2")] == [1, 2, 1, 3, 1, 2]
    assert asked == ["1", "2", "3", "2"]  # 2 was forgotten: 1 was used after it


# ---- the whole pipeline


async def answered(question: str) -> Reply:
    pipeline = make_pipeline()
    told = ("I live in Paris.", "We had soup with leeks.", "I live in Lyon.", "The garden is green.")
    for number, text in enumerate(told):
        await pipeline.produce(utterance(2 * number + 1, text), utterance(2 * number + 2, "I see."), ended())
    await pipeline.produce(utterance(9, question, ask=Ask(request_id="r1", speak_as="Ben")))
    (reply,) = pipeline.replies()
    assert reply.strategy is Strategy.FUSED
    return reply


async def test_where_do_i_live_now_cites_the_new_fact_only():
    assert (await answered("Where do I live now?")).cited == ("u5",)


async def test_where_did_i_live_before_cites_the_old_fact_too():
    reply = await answered("Where did I live before?")
    assert "u1" in reply.cited
    assert "u3" not in reply.cited
