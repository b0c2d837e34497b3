"""Kinds and ends of memories by rules, and the profile that is packed from them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.memory import Ending, Memory, MemoryStatus
from eunoe.schemas.profile import MemoryKind, PersonProfile
from eunoe.workers.text.kinds import end_of, kind_of
from eunoe.workers.text.tokens import count_tokens
from eunoe.workers.update.person import pack_profile

SAID = datetime(2026, 3, 4, 18, 30, tzinfo=UTC)  # a Wednesday
STATE, PREFERENCE, PLAN, EVENT = MemoryKind


def memory(text: str, index: int = 0, speaker: str = "Ann", at: datetime = SAID, ended: bool = False) -> Memory:
    line = Line(utterance_id=f"u{index}", speaker=speaker, text=text, at=at)
    ending = Ending(status=MemoryStatus.SUPERSEDED, by="m9", session=2, at=at, because="said otherwise")
    return Memory(
        memory_id=f"m{index}",
        session=1,
        index=index,
        speaker=speaker,
        text=text,
        evidence=(line,),
        at=at,
        known_from=at,
        made_by=Provenance(code="update/1", model="rules/2"),
        ending=ending if ended else None,
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Ann lives in Cork.", STATE),
        ("Ann has a room in a shared flat.", STATE),
        ("Ann's sister works at the harbour.", STATE),
        ("Ann has been working as a nurse for ten years.", STATE),
        ('Ann said: "From August I\'m at the workshop."', STATE),
        ("Ann moved to Cork in May.", EVENT),
        ("Ann has sold the bicycle.", EVENT),
        ("Ann went to Oslo because she wants to see the fjords.", EVENT),
        ("Ann loves sourdough bread.", PREFERENCE),
        ("Ann's favourite colour is green.", PREFERENCE),
        ("Ann can't stand the noise.", PREFERENCE),
        ("Ann will start a new job on Monday.", PLAN),
        ("Ann is going to paint the kitchen.", PLAN),
        ("Ann is planning a trip to the coast.", PLAN),
        ("Ann wants to learn Portuguese.", PLAN),
        ("Ann got stuff like canned food.", EVENT),
        ("A parcel.", EVENT),
    ],
)
def test_the_kind_is_that_of_the_main_verb(text: str, kind: MemoryKind) -> None:
    assert kind_of(text) is kind


@pytest.mark.parametrize(
    ("text", "kind", "end"),
    [
        ("Ann stays in Cork until Friday.", STATE, "2026-03-06"),
        ("Ann is away until the end of the month.", STATE, "2026-03-31"),
        ("Ann works nights for the next two weeks.", STATE, "2026-03-18"),
        ("Ann keeps the car until 12 June.", STATE, "2026-06-12"),
        ("Ann keeps the car until February 2.", STATE, "2027-02-02"),
        ("Ann keeps the car until May 2030.", STATE, "2030-05-31"),
        ("Ann will call the dentist tomorrow.", PLAN, "2026-03-05"),
        ("Ann will call the dentist next Wednesday.", PLAN, "2026-03-11"),
        ("Ann is going to paint the kitchen this weekend.", PLAN, "2026-03-08"),
        ("Ann will go to Oslo in July.", PLAN, "2026-07-31"),
        ("Ann will go to Oslo next year.", PLAN, "2027-12-31"),
        ("Ann will go to Oslo some day.", PLAN, None),
        ("Ann lives in Cork since Friday.", STATE, None),
        ("Ann was in Oslo until Friday.", EVENT, "2026-03-06"),
        ("Ann keeps the car until 31 June.", STATE, None),
        ("Ann kept it until May 2020.", EVENT, None),
    ],
)
def test_an_end_is_the_one_that_the_text_names(text: str, kind: MemoryKind, end: str | None) -> None:
    found = end_of(text, kind, SAID)
    assert (None if found is None else found.date().isoformat()) == end


@given(st.text(max_size=200), st.sampled_from(list(MemoryKind)), st.datetimes(timezones=st.just(UTC)))
def test_no_end_lies_before_the_day_of_the_saying(text: str, kind: MemoryKind, said: datetime) -> None:
    kind_of(text)
    found = end_of(f"Ann stays until {text} tomorrow by Friday", kind, said)
    assert found is None or found.date() >= said.date()


def test_a_profile_holds_what_holds_by_kind_and_the_latest_first() -> None:
    later = SAID + timedelta(days=7)
    memories = [
        memory("Ann lives in Cork.", 1),
        memory("Ann lives in Oslo.", 2, ended=True),
        memory("Ann has two cats.", 3, at=later),
        memory("Ann will call the dentist tomorrow.", 4),
        memory("Ann will move to Rome in May.", 5),
        memory("Ann loves tea.", 6),
        memory("Ann sold the car.", 7),
        memory("Ben has a dog.", 8, speaker="Ben"),
    ]
    profile = pack_profile(memories, session=3, at=later, person="Ann")
    assert [item.memory_id for item in profile.items] == ["m3", "m1", "m6", "m5", "m7"]
    assert (profile.session, profile.past, profile.left_out) == (3, 1, 0)
    assert [item.sources for item in profile.items][:2] == [("u3",), ("u1",)]
    assert profile.text.splitlines() == [
        "Now:",
        "- Ann has two cats. (2026-03-11)",
        "- Ann lives in Cork. (2026-03-04)",
        "Likes and dislikes:",
        "- Ann loves tea. (2026-03-04)",
        "Plans:",
        "- Ann will move to Rome in May. (2026-03-04, until 2026-05-31)",
        "What happened last:",
        "- Ann sold the car. (2026-03-04)",
    ]
    assert len(pack_profile(memories, session=3, at=later).items) == 6
    assert pack_profile([], session=0, at=later).text == ""


SENTENCES = ("Ann lives in {}.", "Ann loves {}.", "Ann will visit {}.", "Ann saw {}.")


@given(st.lists(st.tuples(st.sampled_from(SENTENCES), st.integers(0, 400)), max_size=60), st.integers(1, 300))
def test_a_profile_keeps_to_its_budget(said: list[tuple[str, int]], budget: int) -> None:
    memories = [
        memory(form.format(f"place {days}"), index, at=SAID + timedelta(days=days))
        for index, (form, days) in enumerate(said)
    ]
    profile = pack_profile(memories, session=1, at=SAID, budget_tokens=budget)
    assert count_tokens(profile.text) == profile.tokens <= budget
    assert len(profile.items) + profile.left_out == len(memories)
    again = pack_profile(list(reversed(memories)), session=1, at=SAID, budget_tokens=budget)
    assert again == profile
    assert PersonProfile.from_json(profile.to_json()) == profile
