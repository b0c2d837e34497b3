"""The profile that is packed from current memories: by kind, the latest first, within a budget."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.memory import Ending, Memory, MemoryStatus, Suspicion
from eunoe.schemas.profile import PersonProfile
from eunoe.workers.text.tokens import count_tokens
from eunoe.workers.update.person import pack_profile

SAID = datetime(2026, 3, 4, 18, 30, tzinfo=UTC)  # a Wednesday


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


def test_a_profile_holds_what_holds_by_kind_and_the_latest_first() -> None:
    later = SAID + timedelta(days=7)
    memories = [
        memory("Ann lives in Cork.", 1),
        memory("Ann lives in Oslo.", 2, ended=True),
        memory("Ann has two cats.", 3, at=later),
        memory("Ann will call the dentist tomorrow.", 4),
        memory("Ann will visit Rome in May.", 5),
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
        "- Ann will visit Rome in May. (2026-03-04, until 2026-05-31)",
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
    profile = pack_profile(memories, session=1, at=SAID + timedelta(days=400), budget_tokens=budget)
    assert count_tokens(profile.text) == profile.tokens <= budget
    assert len(profile.items) + profile.left_out == len(memories)
    again = pack_profile(list(reversed(memories)), session=1, at=SAID + timedelta(days=400), budget_tokens=budget)
    assert again == profile
    assert PersonProfile.from_json(profile.to_json()) == profile


def test_a_profile_of_a_time_has_nothing_that_was_said_later() -> None:
    home, moved = memory("Ann lives in Cork.", 1), memory("Ann moved to Oslo.", 2, at=SAID + timedelta(days=70))
    doubted = home.model_copy(update={"suspected": (Suspicion(by="m2", session=2, because="another home"),)})
    early = pack_profile([doubted, moved], session=2, at=SAID + timedelta(days=1))
    assert early.text == "Now:\n- Ann lives in Cork. (2026-03-04)"
    assert (early.left_out, early.past) == (0, 0)


def test_a_profile_of_a_time_has_what_ended_later() -> None:
    home = memory("Ann lives in Cork.", 1).model_copy(
        update={
            "ending": Ending(
                status=MemoryStatus.SUPERSEDED, by="m2", session=2, at=SAID + timedelta(days=70), because="moved"
            )
        }
    )
    moved = memory("Ann moved to Oslo.", 2, at=SAID + timedelta(days=70))
    texts = [
        [item.text for item in pack_profile([home, moved], session=2, at=SAID + timedelta(days=days)).items]
        for days in (1, 69, 70, 71)
    ]
    assert texts == [["Ann lives in Cork."], ["Ann lives in Cork."], ["Ann moved to Oslo."], ["Ann moved to Oslo."]]


def test_what_a_later_memory_may_contradict_is_marked() -> None:
    home, moved = memory("Ann lives in Cork.", 1), memory("Ann moved to Oslo.", 2, at=SAID + timedelta(days=70))
    doubted = home.model_copy(update={"suspected": (Suspicion(by="m2", session=2, because="another home"),)})
    profile = pack_profile([doubted, moved], session=2, at=SAID + timedelta(days=71))
    assert profile.text.splitlines()[1:] == [
        "- Ann moved to Oslo. (2026-05-13)",
        "- Ann lives in Cork. (2026-03-04, perhaps outdated)",
    ]
    assert [item.perhaps_outdated for item in profile.items] == [False, True]
    assert count_tokens(profile.text) == profile.tokens
