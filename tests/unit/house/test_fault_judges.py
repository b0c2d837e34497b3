"""The judges of the fault suite notice what they are there for."""

from dataclasses import replace

import pytest

from eunoe.schemas.base import write_time
from eunoe.schemas.events import CloseReason, Line, SessionClosed
from eunoe.streams.codec import encode
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from tests.faults.findings import Findings, judge_states, judge_topic
from tests.faults.load import Load, Size, make_load
from tests.faults.run import Outcome, differences
from tests.faults.table import Row
from tests.support.in_memory import START, ended, make_pipeline, utterance
from tests.support.whole_state import ConversationState, StateDigest, read_states

KEY = "default/c"


def closed(session: int, offset: int, text: str = "hello", key: str = "c") -> Record:
    line = Line(utterance_id=f"u{session}", speaker="Ann", text=text, at=START)
    event = SessionClosed(
        conversation_id=key, session=session, lines=(line,), known_from=START, reason=CloseReason.ENDED
    )
    return Record(Topic.SESSIONS, 0, offset, event.key.encode(), encode(event), 0)


def judged(*records: Record) -> Findings:
    findings = Findings()
    judge_topic(Topic.SESSIONS, records, findings)
    return findings


def test_a_topic_in_order_is_in_order_and_conversations_mix() -> None:
    found = judged(closed(1, 0), closed(1, 1, key="d"), closed(2, 2), closed(2, 3, key="d"))
    assert (found.redelivered, found.duplicated, found.disorder) == (0, [], [])


def test_the_same_bytes_again_are_a_redelivery_wherever_they_stand() -> None:
    found = judged(closed(1, 0), closed(2, 1), closed(1, 2), closed(2, 3))
    assert (found.redelivered, found.duplicated, found.disorder) == (2, [], [])


def test_other_bytes_under_the_same_name_are_a_second_truth() -> None:
    found = judged(closed(1, 0), closed(1, 1, "something else"))
    assert (found.redelivered, len(found.duplicated)) == (0, 1)


def test_a_session_after_a_later_one_is_disorder() -> None:
    assert len(judged(closed(2, 0), closed(1, 1)).disorder) == 1


async def _states() -> dict[str, ConversationState]:
    pipeline = make_pipeline()
    for number in (1, 2, 3):
        await pipeline.produce(utterance(number, session_id="s"))
    await pipeline.produce(ended("s"))
    (state,) = await read_states(pipeline.store, pipeline.index, [KEY])
    return {KEY: state}


def _load(*ids: str) -> Load:
    whole = make_load(1, Size(1, 1, 1), 4)
    return replace(whole, utterances={KEY: frozenset(ids)})


async def test_every_utterance_in_one_segment_is_as_it_should_be() -> None:
    findings = Findings(states=await _states())
    judge_states(findings, _load("u1", "u2", "u3"))
    assert (findings.lost, findings.duplicated) == ([], [])


async def test_an_utterance_in_no_segment_is_lost_and_so_is_an_unknown_conversation() -> None:
    findings = Findings(states=await _states())
    judge_states(findings, _load("u1", "u2", "u3", "u4"))
    assert findings.lost == [f"{KEY}: utterance u4 is in no segment"]
    nothing = Findings()
    judge_states(nothing, _load("u1"))
    assert len(nothing.lost) == 1


async def test_an_utterance_in_two_segments_is_duplicated() -> None:
    (state,) = (await _states()).values()
    tables = state.digest.state["compress"]["tables"]
    (segment, *_) = tables["segments"].values()
    tables["segments"]["again"] = segment
    findings = Findings(states={KEY: state})
    judge_states(findings, _load("u1", "u2", "u3"))
    assert findings.duplicated


@pytest.mark.parametrize("told", ["lost", "duplicated", "disorder", "letters"])
def test_a_row_is_not_good_where_anything_is_wrong(told: str) -> None:
    reference, outcome = Outcome(), Outcome()
    setattr(outcome.findings, told, ["something"])
    row = Row("x")
    row.add(outcome, reference, _load("u1"), 1)
    assert not row.good


def test_another_digest_is_told_with_the_place_where_it_differs() -> None:
    one = ConversationState(StateDigest(KEY, {"link": {"applied": 1, "at": write_time(START)}}), (), ())
    two = ConversationState(StateDigest(KEY, {"link": {"applied": 2, "at": write_time(START)}}), (), ())
    found = [Findings({KEY: state.digest.sha256}, {KEY: state}) for state in (one, two)]
    assert differences(*found) == [f"{KEY}: /link/applied: 1 became 2"]
    assert differences(found[0], found[0]) == []
    row = Row("x")
    row.add(Outcome(found[1]), Outcome(found[0]), _load("u1"), 1)
    assert (row.good, row.digest_equal) == (False, False)
