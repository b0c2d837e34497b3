"""The profile that `eunoe show` prints: of somebody of whom something holds, and as it was at a time."""

from datetime import UTC, datetime

import pytest

from eunoe.deploy.cli.show_profile import profile_of
from eunoe.deploy.datasets.load import load_conversation
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.schemas.errors import Refused
from eunoe.workers.update import person as profiles
from eunoe.workers.update.reads import all_memories
from tests.support.in_memory import ended, make_pipeline, utterance

LATE = datetime(2100, 1, 1, tzinfo=UTC)


async def test_an_unknown_person_is_refused_with_the_names_of_the_known() -> None:
    pipeline, events = make_pipeline(), load_conversation(CONVERSATION).events
    for event in events:
        await pipeline.produce(event)
    key = events[0].key
    everybody = await profile_of(pipeline.store, key, at=LATE, person=None, budget_tokens=500)
    names = sorted({item.speaker for item in everybody.items})
    of_one = await profile_of(pipeline.store, key, at=LATE, person=names[0], budget_tokens=500)
    assert {item.speaker for item in of_one.items} == {names[0]}
    with pytest.raises(Refused, match=f"no current memories of 'Nobody'; speakers: {', '.join(names)}"):
        await profile_of(pipeline.store, key, at=LATE, person="Nobody", budget_tokens=500)


TOLD = [
    ("Ann", "I live in Cork."),
    ("Ben", "I work at Siemens."),
    ("Ann", "I am allergic to peanuts."),
    ("Ann", "I moved to Lyon."),
    ("Ben", "I love hiking with my dog Rex."),
    ("Ann", "I moved to Rome."),
    ("Ben", "I started a new job at Bosch."),
    ("Ann", "I moved to Oslo."),
]


@pytest.mark.parametrize("person", [None, "Ann"])
@pytest.mark.parametrize("most", [3, 400])
async def test_a_profile_of_a_time_has_all_that_held_then(
    monkeypatch: pytest.MonkeyPatch, person: str | None, most: int
) -> None:
    monkeypatch.setattr(profiles, "MAX_READ", most)
    monkeypatch.setattr(profiles, "MAX_SESSIONS_AT_ONCE", 2)
    pipeline = make_pipeline()
    said = [utterance(number, text, speaker=speaker) for number, (speaker, text) in enumerate(TOLD)]
    for event in said:
        await pipeline.produce(event)
        await pipeline.produce(ended(at=event.at))
    key = said[0].key
    known = [one for one in await all_memories(pipeline.store, key) if person in (None, one.speaker)]
    assert any(one.ending is not None for one in known)
    for at in (event.at for event in said):
        held = {one.memory_id for one in known if one.at <= at and (one.ending is None or one.ending.at > at)}
        profile = await profile_of(pipeline.store, key, at=at, person=person, budget_tokens=16_000)
        shown = {item.memory_id for item in profile.items}
        assert shown <= held
        assert len(shown) + profile.past + profile.left_out == len(held)
        assert len(shown) + profile.past == min(most, len(held))
