"""What the offline rules make of plain sentences: memories that are true, and what ends them, and what does not."""

from datetime import timedelta

import pytest

from eunoe.schemas.events import Line
from eunoe.schemas.memory import MemoryKind
from eunoe.workers.text.extraction import choose, with_corrections
from eunoe.workers.text.kinds import kind_of
from eunoe.workers.text.lasting import tells_age, tells_former_work, tells_home, tells_no_work, tells_work
from eunoe.workers.text.sentences import sentence_spans
from eunoe.workers.text.statements import statements_in
from eunoe.workers.text.vital import is_vital
from eunoe.workers.update.offline import OfflineOperator
from eunoe.workers.update.operator import Operation, OperationPair
from tests.support.chats import chat
from tests.support.in_memory import START
from tests.unit.workers.update.test_operations_rules import memory

A, R = Operation.APPEND, Operation.REPLACE


def memories(*said: str) -> list[str]:
    """The texts of the memories of Ann's lines, whose language a first one shows."""
    lines = [
        Line(utterance_id=f"u{number}", speaker="Ann", text=text, at=START + timedelta(minutes=number))
        for number, text in enumerate(["What is it that we do in the evening?", *said])
    ]
    statements = statements_in(lines)
    return [draft.text for draft in with_corrections(choose(statements, 0, 40), statements)]


@pytest.mark.parametrize(
    ("said", "remembered"),
    [
        ("I'm Ann, I teach physics in Leeds.", ["Ann teaches physics in Leeds."]),
        ("Hi, my name is Ann and I live in Leeds.", ["Ann lives in Leeds."]),
        ("I'm Tom, I live in Leeds.", ["Ann is Tom, Ann lives in Leeds."]),
        ("My name is Ann.", ["Ann's name is Ann."]),
        (
            "My boss is called Schneider. I mean Schmidt.",
            ["Ann's boss is called Schneider. Ann means Schmidt."],
        ),
        ("It turns out that Nora is allergic to eggs.", ['Ann said: "Nora is allergic to eggs."']),
    ],
)
def test_a_memory_says_who_it_is_of_once_and_what_was_meant(said: str, remembered: list[str]):
    assert memories(said) == remembered


@pytest.mark.parametrize(
    ("said", "remembered"),
    [
        ("hey, i'm 29 and i live in cork", ["Ann is 29.", "Ann lives in cork"]),
        ("im allergic to shellfish", ["Ann is allergic to shellfish"]),
        ("i dont eat meat", ["Ann doesn't eat meat"]),
        ("I live near the I.M. Pei building im Park.", ['Ann said: "I live near the I.M. Pei building im Park."']),
        ("I live with my cat, i.e. alone.", ["Ann lives with their cat, i.e. alone."]),
        ("I live at node i/2 of loop i.", ["Ann lives at node i/2 of loop i."]),
    ],
)
def test_what_is_written_in_haste_is_remembered_as_it_is_spelled(said: str, remembered: list[str]):
    assert memories(said) == remembered


def test_what_is_taken_back_right_behind_is_told_with_it():
    assert memories("My sister's birthday is March 12.", "No wait, March 21.") == [
        "Ann's sister's birthday is March 12. Ann corrected: \"No wait, March 21.\""
    ]
    assert memories("My sister's birthday is March 12.", "Nice weather.", "No wait, March 21.") == [
        "Ann's sister's birthday is March 12."
    ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Die Prüfung ist am 14. März. Ich freue mich.", ["Die Prüfung ist am 14. März.", "Ich freue mich."]),
        ("Wir waren 14. Mir ist kalt.", ["Wir waren 14.", "Mir ist kalt."]),
        ("I am 14. March is cold.", ["I am 14.", "March is cold."]),
    ],
)
def test_the_mark_of_a_german_day_ends_no_sentence(text: str, sentences: list[str]):
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Penicillin gives me a rash.", True),
        ("The doctor prescribed ramipril, 2.5 mg in the morning.", True),
        ("I stopped the atorvastatin, my legs hurt.", True),
        ("Dr. Weiss took me off ramipril.", True),
        ("Candesartan stays at 8 mg.", True),
        ("Bruno had to be put down on Tuesday.", True),
        ("The app gives me a headache.", False),
        ("I stopped the car.", False),
        ("I put down my phone.", False),
        ("We put down a deposit.", False),
        ("I put the kids to sleep at eight.", False),
        ("The doctor changed the appointment.", False),
        ("Maybe penicillin gives me a rash.", False),
        ("I was put down by my boss.", False),
    ],
)
def test_medicines_what_harms_and_the_death_of_a_pet_are_vital(text: str, expected: bool):
    assert is_vital(text) is expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Ann has three children.", MemoryKind.STATE),
        ("Ann has a red car.", MemoryKind.STATE),
        ("Ann has kids.", MemoryKind.STATE),
        ("Ann has taken up golf.", MemoryKind.EVENT),
        ("Ann has never eaten fish.", MemoryKind.EVENT),
        ("Nora doesn't want to do gymnastics any more.", MemoryKind.STATE),
        ("Nora wants to do gymnastics.", MemoryKind.PLAN),
    ],
)
def test_what_one_has_is_no_perfect_and_what_one_does_not_want_no_plan(text: str, kind: MemoryKind):
    assert kind_of(text) is kind


def test_homes_and_work_in_other_words():
    assert tells_home("I moved from Rome to Munich.")
    assert tells_home("We moved in together, a small flat in Ulm.")
    assert not tells_home("I moved in with Bea.")  # it does not say where
    assert tells_home("i moved to dublin last week")
    assert tells_home("i'm from cork")
    assert not tells_home("i moved to the sofa")
    assert not tells_home("I moved to tears")  # who writes an I, writes names with capitals
    assert tells_age("I turned 30 yesterday")
    assert not tells_age("I turned 30 pages")
    assert tells_work("I teach physics.")
    assert not tells_work("I teach you physics.")
    assert tells_work("I run a small startup with Mark.")
    assert not tells_work("I run a small risk.")
    assert not tells_work("I run three times a week.")
    assert tells_former_work("I was a bus driver for 35 years.")
    assert not tells_former_work("I was a bit older.")
    assert tells_no_work("I quit last week")
    assert tells_no_work("I left Siemens, I'm between jobs.")
    assert not tells_no_work("I quit smoking last week")
    assert not tells_no_work("I was let down")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # the employer is named behind the profession
        ("Ann works as a data engineer at Siemens.", "Ann left Siemens.", R),
        ("Ann works as a data engineer at Siemens.", "Ann left Bosch.", A),
        # a sister and her name
        ("Ann's sister Amy lives in Bristol.", 'Ann said: "Amy moved to Cardiff."', R),
        ("Ann's sister Amy lives in Bristol.", 'Ann said: "Eva moved to Cardiff."', A),
        ("Ann lives in Bristol.", 'Ann said: "Amy moved to Cardiff."', A),
        # a medicine
        ("Ann takes 20 mg of atorvastatin at night.", "Ann stopped the atorvastatin.", R),
        ('Ann said: "The doctor prescribed ramipril."', "Dr. Weiss took Ann off ramipril.", R),
        ("Ann takes 20 mg of atorvastatin at night.", "Ann stopped the ramipril.", A),
        ("Ann takes the bus to work.", "Ann stopped the car.", A),
        # the wedding
        ('Ann said: "Daniel and I are getting married on June 20."', 'Ann said: "We cancelled the wedding."', R),
        ('Ann said: "Daniel and I are getting married on June 20."', 'Ann said: "We cancelled the caterer."', A),
        # another subject is no job, and moving in with somebody no other town
        ("Ann works in a bike shop on Saturdays.", "Ann switched to computer science.", A),
        ("Ann works in a bike shop on Saturdays.", "Ann switched jobs to a bakery.", R),
        ("Ann moved to Lisbon in May.", "Ann moved in with their girlfriend Bea.", A),
        ("Ann lives in a small flat in Alfama.", "Ann moved in with their girlfriend Bea.", R),
        # a mother in a nursing home
        ('Ann said: "My mother lives with us."', "Ann's mother went into a nursing home.", R),
        ('Ann said: "My mother lives with us."', "Ann's mother moved the sofa.", A),
        ('Ann said: "My sister lives with us."', "Ann's mother went into a nursing home.", A),
        # one word in common is no repetition
        ("Ann applied for a day job at a practice.", "Ann got the job!", A),
        # what is to come ends nothing
        ("Ann lives in Ulm.", "Ann is moving to a flat in Berlin next month.", A),
    ],
)
async def test_what_ends_a_memory_and_what_does_not(old: str, new: str, expected: Operation):
    pair = OperationPair(memory("m1", old), memory("m2", new, 2))
    (verdict,) = (await OfflineOperator().operate([pair])).verdicts
    assert verdict.operation is expected


@pytest.mark.parametrize(("new", "suspect"), [("Ann Lee quit last week.", True), ("Ann Lee quit smoking.", False)])
async def test_who_quit_may_have_quit_the_job(new: str, suspect: bool):
    pair = OperationPair(memory("m1", "Ann Lee works at the hospital."), memory("m2", new, 2))
    (verdict,) = (await OfflineOperator().operate([pair])).verdicts
    assert (verdict.operation, verdict.suspect) == (A, suspect)


QUIT = (
    (
        "I was a bus driver for 35 years.",
        "I work at the city hospital.",
        "I moved to Lisbon in May.",
        "Penicillin gives me a rash.",
    ),
    ("I quit last week.", "I moved in with my girlfriend Bea.", "We moved the wedding to August 15."),
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where do I work?", "I quit last week"),
        ("Where do I live?", "Lisbon"),
        ("What am I allergic to?", "Penicillin"),
    ],
)
async def test_the_last_that_tells_the_state_answers(question: str, answer: str):
    assert answer in (await chat(QUIT, question)).replies[question].partition("”")[0]


async def test_who_lived_somewhere_is_told_where_that_was_though_the_line_is_hidden():
    sessions = (("I live in Porto.",), ("I moved to Lisbon.",), ("I turned 42.",))
    question = "Where did I live before?"
    assert "Porto" in (await chat(sessions, question)).replies[question]


async def test_who_was_something_is_told_that():
    question = "What did I do for a living?"
    told = await chat((("I'm 68 and retired since last year. I was a bus driver for 35 years.",),), question)
    assert "bus driver" in told.replies[question]
