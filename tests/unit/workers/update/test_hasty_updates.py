"""What supersedes and ends memories in chats as people write them, and what does not."""

import pytest

from tests.support.chats import chat


@pytest.mark.parametrize(
    ("before", "after", "ended"),
    [
        ("i work nights at a bakery", "got the job at Greggs HQ!!", "Ann works nights at a bakery"),
        ("My doctor is Dr. Brandt.", "My new doctor is Dr. Okafor.", "Ann's doctor is Dr. Brandt."),
        ("My doctor is Dr. Brandt.", "I have a new doctor, Dr. Okafor.", "Ann's doctor is Dr. Brandt."),
        ("My boss is called Martin.", "My new boss is mrs Hill.", "Ann's boss is called Martin."),
        ("My GP put me on ramipril 5 mg.", "She took me off ramipril bc of the cough", None),
        ("I'm vegetarian.", "I eat fish again", "Ann is vegetarian."),
        ("I'm vegan.", "I'm not vegan any more btw", "Ann is vegan."),
        ("i have a cat called minnie", "Minnie had to be put down", "Ann has a cat called minnie"),
        ("I want to go to Lisbon in September.", "My lisbon trip is off", "Ann wants to go to Lisbon in September."),
    ],
)
async def test_a_memory_ends(before: str, after: str, ended: str | None):
    outcome = await chat([[before], [after]])
    if ended is not None:
        assert ended in [memory.text for memory in outcome.memories]
        assert ended not in outcome.current


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("My doctor is Dr. Brandt.", "My sister has a new doctor.", "Ann's doctor is Dr. Brandt."),
        ("My doctor is Dr. Brandt.", "I have a new dentist, Dr. Cole.", "Ann's doctor is Dr. Brandt."),
        ("My doctor is Dr. Brandt.", "I want a new doctor.", "Ann's doctor is Dr. Brandt."),
        ("I have a cat called Minnie.", "My uncle died last week.", "Ann has a cat called Minnie."),
        (
            "I live alone in Bristol since my husband died.",
            "I moved into a flat in Clevedon.",
            "Ann lives alone in Bristol since their husband died.",
        ),
    ],
)
async def test_a_memory_stays(before: str, after: str, kept: str):
    assert kept in (await chat([[before], [after]])).current
