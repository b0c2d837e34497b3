"""Offline replies tell what was said later of what they quote: that it is over, moved, or was wrong."""

import pytest

from eunoe.workers.text.corrections import announces_correction
from eunoe.workers.text.endings import ended_things, is_end, resumes
from tests.support.chats import chat

CHAT = (
    (
        "The doctor prescribed ramipril, 2.5 mg in the morning.",
        "I also take 20 mg of atorvastatin at night.",
        "My brother takes metformin for his diabetes.",
        "I have a dog, Bruno, he is old like me.",
        "Daniel and I are getting married on June 20 at Hartley Manor!",
        "My flight is on May 3 at 7:40 from Berlin.",
        "Sorry, it's May 4. The 3rd is the train.",
        "I don't like radishes. I'll sow spinach and peas.",
    ),
    (
        "My ramipril was raised to 5 mg.",
        "Hartley Manor double-booked us, so we moved the wedding to August 15.",
        "The flight isn't at 7:40 but at 8:40.",
    ),
    (
        "Dr. Weiss took me off ramipril because of the cough.",
        "I stopped the atorvastatin too, my legs hurt. I stopped the metformin as well.",
        "Bruno had to be put down on Tuesday.",
        "We cancelled the wedding. We're not together any more.",
        "Snails ate the peas. I gave up on peas.",
        "I can't drive at night any more, my eyes are too bad.",
    ),
    ("I had surgery. I can drive at night again.",),
)


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Do I still take ramipril?", ["took me off ramipril"]),
        ("Do I take atorvastatin?", ["stopped the atorvastatin"]),
        ("Do I have a dog?", ["I have a dog", "put down"]),
        ("Can I drive at night?", ["drive at night again"]),
        ("When is the wedding?", ["August 15", "cancelled the wedding"]),
        ("When is my flight?", ["May 3 at 7:40", "Sorry, it's May 4", "8:40"]),
    ],
)
async def test_an_answer_is_told_with_what_ended_or_corrected_it(question: str, parts: list[str]):
    reply = (await chat(CHAT, question)).replies[question]
    places = [reply.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("question", ["Do I still take ramipril?", "Do I take ramipril?"])
async def test_what_somebody_else_ended_for_one_is_told(question: str):
    sessions = (
        ("My doctor put me on ramipril, 5 mg every morning, because of my blood pressure.",),
        (
            "Dr. Brandt says it's arthritis.",
            "He took me off ramipril because of the cough, I get candesartan 8 mg now.",
        ),
    )
    assert "took me off ramipril" in (await chat(sessions, question)).replies[question]


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("What don't I like?", "gave up on peas"),  # it is told in another sentence of the line
        ("What does my brother take?", "stopped"),  # it is not the brother who did
        ("When did the doctor prescribe ramipril?", "took me off"),
    ],
)
async def test_no_end_is_told_of_something_else(question: str, part: str):
    assert part not in (await chat(CHAT, question)).replies[question]


@pytest.mark.parametrize(
    ("sentence", "things"),
    [
        ("I stopped taking the pills.", {"pill"}),
        ("The doctor took me off ramipril.", {"ramipril"}),
        ("I don't play tennis any more.", {"tenni"}),
        ("I no longer eat meat.", {"meat"}),
        ("I don't play tennis on Mondays.", set()),
        ("He took my coat off the hook.", set()),
        ("It stopped.", set()),
    ],
)
def test_what_is_stopped_or_given_up(sentence: str, things: set[str]):
    assert ended_things(sentence) == things
    assert not things or is_end(sentence)


def test_what_is_so_again():
    assert resumes("I can drive at night again.")
    assert resumes("She is well again.")
    assert not resumes("I told her again.")
    assert not resumes("I can drive at night.")


@pytest.mark.parametrize(
    ("later", "earlier", "expected"),
    [
        ("Sorry, it's May 4.", "My flight is on May 3.", True),
        ("No wait, March 21. I always mix that up.", "Her birthday is March 12.", True),
        ("Oops, make that 8:30.", "It begins at 8.", True),
        ("Sorry, it's raining.", "My flight is on May 3.", False),
        ("Sorry, it's May 4.", "My flight is soon.", False),
        ("No, 3 of them came.", "Did anybody come?", False),
        ("No 4 is the best house on Elm 2.", "I live at 12 Elm Road.", False),
        ("Sorry for the 3 mails.", "My flight is on May 3.", False),
    ],
)
def test_a_line_that_takes_back_a_figure_of_the_line_before(later: str, earlier: str, expected: bool):
    assert announces_correction(later, earlier) is expected
