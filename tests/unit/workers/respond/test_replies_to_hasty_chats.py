"""Replies without a model from chats as people write them: small letters, no subject, months apart."""

import pytest

from tests.support.chats import chat

SAM = (
    (
        "hey! im sam, 34, i live in leeds with my girlfriend nina",
        "i work nights at a bakery so im always tired :D",
        "yeah i drink way too much coffee tbh",
        "my doctor is dr patel, she says my blood pressure is too high",
        "i have a cat now she is called minnie",
        "i'm vegetarian as you know",
        "my son goes to the waldorf school",
    ),
    ("nina is pregnant!!! due in august", "I've switched from coffee to green tea :)"),
    (
        "got the job at Greggs HQ!! no more nights",
        "we moved to york last weekend, our place is on Heslington Road",
        "new doctor here, dr okafor",
        "i eat fish again so im not really veggie any more",
    ),
    ("otis was born on tuesday!! 3.4 kg", "minnie had to be put down poor thing", "i got a parrot... kidding lol"),
)


@pytest.mark.parametrize(
    ("question", "part", "other"),
    [
        ("Where do I live?", "york", "leeds"),
        ("What street do I live on?", "Heslington", "leeds"),
        ("Where do I work?", "Greggs", "bakery"),
        ("Who is my doctor?", "okafor", "patel"),
        ("How old am I?", "34", "otis"),
        ("Do I drink coffee?", "green tea", "bakery"),
        ("Is Nina pregnant?", "born", "leeds"),
        ("Do I have a cat?", "put down", "leeds"),
        ("Am I a vegetarian?", "fish again", "leeds"),
        ("What is my daughter called?", "I do not remember", "waldorf"),
        ("Do I have a parrot?", "I do not remember", "parrot"),
    ],
)
async def test_the_last_that_was_told_is_quoted(question: str, part: str, other: str):
    reply = (await chat(SAM, question, speaker="Sam")).replies[question]
    assert part in reply
    assert other not in reply


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        (("My doctor says I have arthritis.", "I have a new doctor, Dr. Okafor."), "Okafor"),
        (("My doctor is Dr. Brandt.", "My new doctor is Dr. Okafor."), "Okafor"),
        (("Dr. Weiss is my doctor.", "I've got a new doctor, her name is Dr. Lind."), "Lind"),
        (("The doctor ruled out a fracture.", "My doctor is Dr. Brandt."), "Brandt"),
    ],
)
async def test_who_holds_a_role_is_quoted_before_what_they_did(said: tuple[str, ...], reply: str):
    question = "Who is my doctor?"
    first = (await chat([[one] for one in said], question)).replies[question].partition("”")[0]
    assert reply in first


async def test_what_a_doctor_says_of_oneself_answers_for_oneself():
    question = "Do I have diabetes?"
    sessions = (("Dr. Weiss is my doctor. He says that I have diabetes.",),)
    assert "I have diabetes" in (await chat(sessions, question)).replies[question]
