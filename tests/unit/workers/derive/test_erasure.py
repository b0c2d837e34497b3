"""An erased utterance was never said: nothing rests on it, no number moves, and nobody can say it again."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.schemas.decisions import Scope
from eunoe.schemas.erasure import ErasedPart, Erasure, ErasureLevel, ErasureRequest, erased_parts
from eunoe.schemas.errors import RequestRefused
from eunoe.schemas.events import Ask, ConversationEvent, SessionClosed, Utterance
from eunoe.streams.codec import decode, encode
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.derive.digest import hash_of
from eunoe.workers.derive.erased import without_erased
from eunoe.workers.derive.erasing import Conversation, erasure_of
from eunoe.workers.derive.pipeline import TABLES, Derived, Deriver
from eunoe.workers.intake.settings import BlendMode, IntakeSettings
from eunoe.workers.registry import MEMORY_STAGES, StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from tests.support.in_memory import START, Stores, ended, make_dependencies, make_pipeline, produce_raw, utterance

KEY = "default/c"
MARK = "Zanzibar"
EVERY_TURN = StageSettings(intake=IntakeSettings(blend_unasked=True))
TEXTS = (
    "I moved to Oslo last week and I work as a nurse at the hospital now.",
    "My sister Clara is getting married in June and I am invited.",
    "I quit my job at the hospital because of the night shifts.",
    "I moved from Oslo to Bergen and I bought a small boat.",
    "What should I cook for dinner tonight?",
)


def log_of(events: Sequence[ConversationEvent]) -> list[Record]:
    start = int(START.timestamp() * 1000)
    return [
        Record(Topic.CONVERSATIONS, 0, offset, KEY.encode(), encode(event), start + 1000 * offset)
        for offset, event in enumerate(events)
    ]


async def derive(
    records: Sequence[Record],
    erased: ErasedPart | None = None,
    settings: StageSettings = EVERY_TURN,
    stages: Sequence[str] = MEMORY_STAGES,
) -> Derived:
    deriver = Deriver(make_dependencies(Stores(), settings), RunnerSettings(), RecordedOutcomes(), stages)
    return await deriver.derive(KEY, records, epoch=0, erased=erased)


async def read(records: Sequence[Record], erased: ErasedPart | None = None) -> Conversation:
    derived = await derive(records, erased, stages=("intake",))
    return Conversation.of(records, derived, records[-1].offset + 1, 0, erased)


async def erase(
    records: Sequence[Record], *ids: str, session: str | None = None, before: Sequence[Erasure] = ()
) -> list[Erasure]:
    part = ErasedPart.of(before)
    there = await read(records, part)
    wanted = ErasureRequest(request_id=f"e{len(before)}", key=KEY, at=START, utterance_ids=ids, session=session)
    return [*before, erasure_of(wanted, there, "salt")]


def state(derived: Derived, *, but: Sequence[str] = ()) -> str:
    tables = {
        f"{stage}/{table}": {id_: json.loads(text) for id_, text in rows.items()}
        for (stage, table), rows in derived.standing.tables.items()
        if stage not in but
    }
    ledgers = {
        stage: (ledger.applied, sorted(ledger.skipped))
        for stage, ledger in derived.standing.ledgers.items()
        if stage not in but
    }
    points = [point.model_dump(mode="json") for rows in derived.points.values() for point in rows]
    return hash_of({"tables": tables, "ledgers": ledgers, "points": points})


def everything(derived: Derived) -> str:
    """All texts that are derived, of state, points and events."""
    tables = [text for rows in derived.standing.tables.values() for row in rows.items() for text in row]
    points = [point.text for rows in derived.points.values() for point in rows]
    return "\n".join([*tables, *points, *(record.value.decode() for record in derived.records), str(derived.timer)])


def closed(derived: Derived) -> dict[int, list[str]]:
    events = (decode(record.value) for record in derived.records if record.topic == Topic.SESSIONS)
    sessions = [event for event in events if isinstance(event, SessionClosed)]
    return {one.session: [line.utterance_id for line in one.lines] for one in sessions}


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[ConversationEvent], list[str]]:
    """Some sessions side by side, with asks, replies, repeated utterances and ends; and the ids to erase."""
    events: list[ConversationEvent] = []
    for number in range(1, draw(st.integers(3, 14))):
        kind = draw(st.sampled_from(("said", "said", "said", "asked", "aside", "reply", "again", "end")))
        session_id = draw(st.sampled_from((None, "a", "b")))
        more = {
            "asked": {"ask": Ask(request_id=f"r{number}")},
            "aside": {"ask": Ask(request_id=f"r{number}", record=False)},
            "reply": {"reply_id": f"re{number}"},
        }.get(kind, {})
        said = [event for event in events if isinstance(event, Utterance)]
        if kind == "end":
            events.append(ended(session_id, at=START))
        elif kind == "again" and said:
            events.append(draw(st.sampled_from(said)))
        else:
            text = f"{MARK} {number}. {draw(st.sampled_from(TEXTS))}"
            events.append(utterance(number, text, session_id=session_id, **more))
    ids = sorted({event.utterance_id for event in events if isinstance(event, Utterance)})
    gone = draw(st.lists(st.sampled_from(ids), min_size=1, unique=True)) if ids else []
    return events, gone


SETTINGS = settings(max_examples=10)


@SETTINGS
@given(logs())
async def test_what_remains_does_not_depend_on_what_was_erased(drawn: tuple[list[ConversationEvent], list[str]]):
    """Texts, names and times of the same length in its place give the same memory: so it says nothing."""
    events, gone = drawn
    if not gone:
        return
    others = [
        event.model_copy(update={"text": "x" * len(event.text), "speaker": "Eve", "at": START})
        if isinstance(event, Utterance) and event.utterance_id in gone
        else event
        for event in events
    ]
    part = ErasedPart.of(await erase(log_of(events), *gone))
    assert state(await derive(log_of(events), part)) == state(await derive(log_of(others), part))


@SETTINGS
@given(logs())
async def test_no_number_moves_and_nothing_quotes_it(drawn: tuple[list[ConversationEvent], list[str]]):
    events, gone = drawn
    if not gone:
        return
    records = log_of(events)
    whole, part = await derive(records), ErasedPart.of(await erase(records, *gone))
    rest = await derive(records, part)
    assert {number: [id_ for id_ in ids if id_ not in gone] for number, ids in closed(whole).items()} == closed(rest)
    for stage in MEMORY_STAGES:
        assert rest.standing.ledgers[stage].applied == whole.standing.ledgers[stage].applied
    quoted = everything(rest)
    for number in (id_.removeprefix("u") for id_ in gone):
        assert f"{MARK} {number}." not in quoted
        assert f'"u{number}"' not in quoted


@SETTINGS
@given(logs(), st.randoms(use_true_random=False))
async def test_records_that_were_destroyed_leave_the_same(
    drawn: tuple[list[ConversationEvent], list[str]], rand: random.Random
):
    events, gone = drawn
    if not gone:
        return
    records, part = log_of(events), ErasedPart.of(await erase(log_of(events), *gone))
    positions = {place.position for place in part.placeholders} if part else set()
    left = [record for record in records if record.offset + 1 not in positions or rand.random() < 0.5]
    assert (await derive(left, part)).standing == (await derive(records, part)).standing


@SETTINGS
@given(logs(), logs())
async def test_after_an_erasure_a_conversation_is_what_the_log_shows_then(
    drawn: tuple[list[ConversationEvent], list[str]], more: tuple[list[ConversationEvent], list[str]]
):
    """So several erasures are planned from one reading of the log."""
    events, gone = drawn
    there, made = await read(log_of(events)) if events else None, list[Erasure]()
    for ids in (gone, sorted(set(more[1]) - set(gone))):
        known = [one.event.utterance_id for one in there.said] if there is not None else []
        if there is None or not (taken := [id_ for id_ in ids if id_ in known]):
            continue
        wanted = ErasureRequest(request_id=f"e{len(made)}", key=KEY, at=START, utterance_ids=tuple(taken))
        made.append(erasure_of(wanted, there, "salt"))
        anew = await read(log_of(events), ErasedPart.of(made))
        there = there.without(made[-1], ErasedPart.of(made))
        assert there is not None
        assert (there.said, there.sessions, there.erased) == (anew.said, anew.sessions, anew.erased)
        numbers = [(one.opened, one.closed, one.turn, one.remembered) for one in (there.head, anew.head)]
        assert numbers[0] == numbers[1]


async def test_of_a_whole_conversation_only_the_log_tells_what_is_left():
    (erasure,) = await erase(log_of(plain()))
    assert (await read(log_of(plain()))).without(erasure, ErasedPart.of([erasure])) is None


def plain(*gone: int) -> list[ConversationEvent]:
    """Three sessions, without the lines ``gone``."""
    said = [utterance(number + 1, text) for number, text in enumerate((*TEXTS, "Clara called.", "I sold the boat."))]
    kept = [None if number in gone else event for number, event in enumerate(said, 1)]
    ends = [ended(at=START.replace(second=number)) for number in (1, 2, 3)]
    return [event for event in (*kept[:3], ends[0], *kept[3:5], ends[1], *kept[5:], ends[2]) if event is not None]


@pytest.mark.parametrize("gone", [{2}, {1, 3}, {4}, {2, 5, 6}])
async def test_memory_equals_that_of_a_log_without_it(gone: set[int]):
    """Where no session is emptied and no turn is counted, numbers do not matter: the digests are equal."""
    quiet = StageSettings(intake=IntakeSettings(blend=BlendMode.OFF))
    records = log_of(plain())
    part = ErasedPart.of(await erase(records, *(f"u{number}" for number in gone)))
    left = [record for record in records if not any(f'"u{number}"'.encode() in record.value for number in gone)]
    erased, never = await derive(records, part, quiet), await derive(left, settings=quiet)
    assert state(erased, but=["intake"]) == state(never, but=["intake"])
    assert state(erased) != state(await derive(records, settings=quiet))


async def test_a_session_of_which_all_was_erased_keeps_its_number():
    records = log_of(plain())
    derived = await derive(records, ErasedPart.of(await erase(records, session="2")))
    assert closed(derived) == {1: ["u1", "u2", "u3"], 2: [], 3: ["u6", "u7"]}
    assert derived.failed == 0
    ledgers = derived.standing.ledgers
    assert {ledger.applied for stage, ledger in ledgers.items() if stage not in ("intake", "blend")} == {3}
    assert not any(ledger.skipped for ledger in ledgers.values())


async def test_a_conversation_that_was_erased_goes_on_with_its_numbers():
    records = log_of([*plain(), utterance(8, "I have an open secret.", session_id="open")])
    erasures = await erase(records)
    assert erasures[0].level is ErasureLevel.CONVERSATION
    part = ErasedPart.of(erasures)
    empty = await derive(records, part)
    assert everything(empty).count("u8") == 0
    assert not any(empty.points.values())
    assert not empty.records
    assert {(ledger.applied) for stage, ledger in empty.standing.ledgers.items() if stage == "update"} == {3}
    more = log_of([*plain(), utterance(8), utterance(9, TEXTS[0]), utterance(10, TEXTS[1]), ended(at=START)])
    assert closed(await derive(more, part)) == {4: ["u9", "u10"]}


async def test_a_second_erasure_adds_to_the_first():
    records = log_of(plain())
    first = await erase(records, "u2")
    both = await erase(records, "u4", before=first)
    once = await erase(records, "u2", "u4")
    apart, together = ErasedPart.of(both), ErasedPart.of(once)
    assert apart == together
    assert state(await derive(records, apart)) == state(await derive(records, together))


async def test_a_repeated_utterance_is_not_taken_again():
    records = log_of(plain())
    part = ErasedPart.of(await erase(records, "u2"))
    retried = log_of([*plain(), utterance(2, TEXTS[1]), utterance(2, "Another text.")])
    assert (await derive(retried, part)).standing.tables == (await derive(records, part)).standing.tables


async def test_a_producers_retry_is_refused_live_and_leaves_no_dead_letter():
    records = log_of(plain())
    derived = await derive(records, ErasedPart.of(await erase(records, "u2")), StageSettings())
    pipeline = make_pipeline(partitions=1)
    await pipeline.produce(*plain())
    assert await pipeline.store.swap(KEY, TABLES, derived.standing, await pipeline.store.ledger(Scope("intake", KEY)))
    await pipeline.produce(utterance(2, TEXTS[1]), utterance(50, "I said something else."), ended(at=START))
    assert pipeline.dead_letters() == 0
    last = [event for event in pipeline.events(Topic.SESSIONS) if isinstance(event, SessionClosed)][-1]
    assert [line.utterance_id for line in last.lines] == ["u50"]


async def test_nobody_can_produce_a_placeholder():
    records = log_of(plain())
    part = ErasedPart.of(await erase(records, "u2"))
    assert part is not None
    _, forged, *_ = without_erased(records, part, 0)
    pipeline = make_pipeline()
    await pipeline.produce(*plain()[:1])
    await produce_raw(pipeline, forged.value, KEY.encode())
    assert pipeline.dead_letters() == 1


@pytest.mark.parametrize(
    ("ids", "session", "words"),
    [
        (["u2", "nope"], None, "no such utterance in what intake has handled: nope"),
        ([], "9", "no session '9'"),
        ([], "ghost", "no session 'ghost'"),
    ],
)
async def test_what_is_unknown_is_named(ids: list[str], session: str | None, words: str):
    with pytest.raises(RequestRefused, match=words):
        await erase(log_of(plain()), *ids, session=session)


async def test_what_was_erased_is_not_erased_twice():
    records = log_of(plain())
    first = await erase(records, "u2")
    with pytest.raises(RequestRefused, match="already erased: u2"):
        await erase(records, "u2", before=first)


async def test_parts_are_kept_apart_by_conversation():
    (one,) = await erase(log_of(plain()), "u2")
    other = one.model_copy(update={"key": "default/d", "refused": ("x",)})
    assert set(erased_parts([one, other])) == {KEY, "default/d"}


async def test_a_reply_that_rests_on_it_goes_with_it():
    told = [*plain()[:2], utterance(20, "You told me that your sister marries.", reply_id="re1"), ended(at=START)]
    there = replace(await read(log_of(told)), cited={"re1": ["u2"], "re2": ["u1"]})
    request = ErasureRequest(request_id="e", key=KEY, at=START, utterance_ids=("u2",))
    erasure = erasure_of(request, there, "salt")
    assert [place.is_reply for place in erasure.placeholders] == [False, True]
    assert len(erasure.refused) == 2


TWO_SESSIONS = (
    utterance(1, TEXTS[0], session_id="a"),
    utterance(2, TEXTS[1], session_id="a"),
    ended("a", at=START),
    utterance(3, TEXTS[2], session_id="b"),
    utterance(4, TEXTS[3], session_id="b"),
    ended("b", at=START),
)


async def outdated(records: Sequence[Record], seconds: float, before: Sequence[Erasure] = ()) -> Erasure:
    wanted = ErasureRequest(request_id="r", key=KEY, at=START, older_than=START + timedelta(seconds=seconds))
    return erasure_of(wanted, await read(records, ErasedPart.of(before)), "salt")


async def test_retention_erases_whole_sessions_by_the_time_of_their_last_utterance():
    records = log_of(TWO_SESSIONS)
    (by_hand,) = await erase(records, session="a")
    old = await outdated(records, 2.5)
    assert (old.level, old.older_than) == (ErasureLevel.RETENTION, START + timedelta(seconds=2.5))
    assert (old.placeholders, old.refused, old.numbers) == (by_hand.placeholders, by_hand.refused, None)
    assert (await outdated(records, 3.5)).refused == old.refused  # session b was begun before, and spoken in since
    with pytest.raises(RequestRefused, match="no session in it is that old"):
        await outdated(records, 0.5)
    with pytest.raises(RequestRefused, match="no session in it is that old"):
        await outdated(records, 3.5, [old])


async def test_retention_keeps_an_open_session_and_erases_a_conversation_without_a_trace_of_it():
    everything = await outdated(log_of(TWO_SESSIONS), 100)
    assert everything.numbers is not None
    assert not everything.placeholders
    still_open = await outdated(log_of(TWO_SESSIONS[:-1]), 100)
    assert (still_open.numbers, len(still_open.refused)) == (None, 2)


async def test_a_conversation_is_erased_once_unless_more_is_said():
    records = log_of(TWO_SESSIONS)
    erasures = await erase(records)
    with pytest.raises(RequestRefused, match="already erased"):
        await erase(records, before=erasures)
    more = log_of((*TWO_SESSIONS, utterance(9, TEXTS[4])))
    assert len(await erase(more, before=erasures)) == 2
