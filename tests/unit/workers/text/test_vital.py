"""Facts that matter for somebody's safety are remembered, however short the sentence and however much else is told."""

from datetime import UTC, datetime

import pytest

from eunoe.schemas.events import Line
from eunoe.schemas.memory import MemoryDraft, MemoryKind
from eunoe.workers.text.extraction import choose, draft_of
from eunoe.workers.text.fragments import is_fragment
from eunoe.workers.text.salience import THRESHOLD, salience
from eunoe.workers.text.statements import statements_in
from eunoe.workers.text.vital import is_vital

SAID = datetime(2025, 3, 20, 17, tzinfo=UTC)


def memories(*said: str) -> list[str]:
    return [draft.text for draft in drafts(*said)]


def drafts(*said: str) -> list[MemoryDraft]:
    asked = "What is it that we do in the evening?"  # enough words to show the language
    lines = [Line(utterance_id=f"u{n}", speaker="Ben", text=text, at=SAID) for n, text in enumerate([asked, *said])]
    return [draft_of(statement) for statement in choose(statements_in(lines), 0, 40)]


@pytest.mark.parametrize(
    "text",
    [
        "I am allergic to peanuts.",
        "I am not allergic to nuts.",
        "Inês is allergic to peanuts.",
        "My daughter Lea was diagnosed with diabetes.",
        "My son's allergic to penicillin.",
        "I'm vegetarian.",
        "I've been vegetarian for ten years.",
        "Inês and I are vegan now.",
        "I don't eat meat, only fish.",
        "Tom can't eat gluten.",
        "I eat meat again.",
        "I no longer drink alcohol.",
        "My dad takes blood thinners.",
        "My wife is pregnant.",
        "We're expecting a baby in May.",
        "Our son was born on Monday.",
        "Mozart died last week.",
        "My grandmother passed away.",
        "My vet is Dr. Sommer.",
        "Hanna is expecting again!",
        "I get candesartan 8 mg now.",
        "He took me off ramipril because of the cough, I get candesartan 8 mg now.",
        "She has put me on metformin.",
    ],
)
def test_a_vital_fact_is_worth_remembering(text: str):
    assert is_vital(text)
    assert salience(text, ["Ben"]) >= THRESHOLD
    assert memories(text)


@pytest.mark.parametrize(
    "text",
    [
        "Are you allergic?",
        "Imagine I was vegetarian.",
        "Imagine you were vegetarian.",
        "If I am allergic to it, what then.",
        "I wonder whether she is pregnant.",
        "I would be a vegan if I could.",
        "Some people are allergic to peanuts.",
        "Vegans don't eat meat.",
        "This recipe is vegan.",
        "I'm cooking a vegetarian lasagne.",
        "I eat fish every Friday.",
        "I'm expecting a package.",
        "I'm expecting again to hear nothing.",
        "He gave me a book.",
        "If he took me off ramipril, I would cough less.",
        "My phone died.",
        "I died laughing.",
        "Mozart died in 1791.",
        "My character is vegan.",
    ],
)
def test_talk_of_food_and_what_is_only_supposed_is_none(text: str):
    assert not is_vital(text)


def test_vital_facts_stand_beside_the_share_of_others():
    facts = [f"My brother Tom{n} lives in Town{n}." for n in range(6)]
    assert memories(*facts, "I am allergic to peanuts.") == ["Ben is allergic to peanuts."]


def test_a_fact_of_somebody_who_was_named_before_keeps_that_sentence():
    said = "I'm cooking for Inês tonight. I don't eat meat, only fish, and she is allergic to peanuts."
    assert memories(said) == [
        "Ben is cooking for Inês tonight (20 March 2025)."
        " Ben doesn't eat meat, only fish, and she is allergic to peanuts."
    ]
    assert len(memories("I don't have pets. I used to have a dog, but he passed away.")) == 1


def test_a_death_is_a_sentence_and_its_kind_a_state():
    assert not is_fragment("Mozart died last week")
    assert [draft.kind for draft in drafts("Sad news, by the way: Mozart died last week.")] == [MemoryKind.STATE]
