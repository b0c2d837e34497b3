"""What nobody told as true of themself becomes no memory, and no answer: plays, jokes, texts handed over, slips."""

import pytest

from eunoe.workers.text.interjections import without_interjections
from eunoe.workers.text.supposed import takes_back, told_as_true
from eunoe.workers.text.vital import is_vital
from eunoe.workers.update.offline import OfflineOperator
from eunoe.workers.update.operator import Operation, OperationPair
from tests.support.chats import chat
from tests.unit.workers.text.test_remembered_truly import memories
from tests.unit.workers.update.test_operations_rules import memory

A, R = Operation.APPEND, Operation.REPLACE


@pytest.mark.parametrize(
    "said",
    [
        "Translate to Dutch: My name is Anna and I am allergic to nuts.",
        "Pretend I am a customer. I bought a new house last month.",
        "Act as my interviewer. I worked at Google for ten years.",
        "Let's play a game. You are a pirate. I have a parrot named Polly.",
        "Suppose I am pregnant. I quit my job in May.",
        "If I won the lottery I'd quit my job tomorrow and move to Crete.",
        "I'd quit my job if I won the lottery.",
        "I'm pregnant! Just kidding.",
        "I quit my job yesterday, just kidding.",
        "As a user, I want to reset my password since I moved to Rome.",
        "Please remember that.",
    ],
)
def test_what_is_not_told_as_true_is_not_remembered(said: str):
    assert memories(said) == []


@pytest.mark.parametrize(
    ("said", "remembered"),
    [
        ("I live in Leeds. Pretend you are a pirate.", ["Ann lives in Leeds."]),
        ("Imagine my joy: I got promoted!", ["Imagine Ann's joy: Ann got promoted!"]),
        ("I'm not kidding, I quit my job.", ["Ann is not kidding, Ann quit their job."]),
        ("The key is under the third pot. Please remember that.", ['Ann said: "The key is under the third pot."']),
        # a mark that is none, and a word that is no interjection
        ("I live at Gartenstr. 12 in Freising.", ["Ann lives at Gartenstr. 12 in Freising."]),
        ("Good news, I passed my driving exam!", ["Good news, Ann passed their driving exam!"]),
        ("No, I am not allergic to nuts.", ["Ann is not allergic to nuts."]),
        # one of two facts may change alone
        (
            "I'm not allergic to penicillin, but I am allergic to ibuprofen.",
            ["Ann is not allergic to penicillin.", "Ann is allergic to ibuprofen."],
        ),
        # what takes back, and what became of it
        ("I moved to Leeds in May. No, York.", ["Ann moved to Leeds in May. No, York."]),
        (
            "I lost my wallet on the train. I found it again at the station.",
            ["Ann lost their wallet on the train. Ann found it again at the station."],
        ),
    ],
)
def test_what_is_told_as_true_is_remembered_as_it_is_told(said: str, remembered: list[str]):
    assert memories(said) == remembered


def test_a_line_that_is_taken_back_by_the_next_one_is_not_remembered():
    assert memories("I am moving to Peru in May.", "Just kidding!", "I live in Leeds.") == ["Ann lives in Leeds."]
    assert not takes_back("I was joking about leaving my job.")
    assert told_as_true(["I never worked there.", "I moved."]) == ["I never worked there.", "I moved."]


@pytest.mark.parametrize(
    ("sentence", "bare"),
    [
        ("No more nights for me!", "No more nights for me!"),
        ("No dairy for me.", "No dairy for me."),
        ("No, I don't.", "I don't."),
        ("no i moved", "i moved"),
        ("Thanks to Tom I got it.", "Thanks to Tom I got it."),
        ("Thanks, I got it.", "I got it."),
        ("So far I lost 10 kg.", "So far I lost 10 kg."),
        ("Well-known people live here.", "Well-known people live here."),
    ],
)
def test_an_interjection_is_no_word_of_its_sentence(sentence: str, bare: str):
    assert without_interjections(sentence) == bare


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm off infliximab.", True),
        ("I take apixaban.", True),
        ("Dr. Patel stopped the azathioprine.", True),
        ("I'm on methotrexate.", True),
        ("I started in april.", False),
        ("I'm allergic to Mondays.", False),
    ],
)
def test_medicines_are_known_by_the_endings_of_their_names(text: str, expected: bool):
    assert is_vital(text) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("Ann is allergic to nuts.", 'Ann said: "Emil is not allergic to nuts."', A),  # somebody else
        ("Ann is allergic to nuts.", "Ann is not allergic to nuts.", R),
        (
            'Ann said: "Emil is allergic to nuts, so no nuts in the cake."',
            'Ann said: "Emil isn\'t allergic to nuts after all, the test was negative."',
            R,
        ),
        ("Ann is allergic to nuts.", "Ann is not allergic to latex.", A),
        ("Ann is no longer allowed to drink milk.", "Ann is drinking milk again.", R),
        ("Ann doesn't drink alcohol.", "Ann drinks coffee again.", A),
        ("Ann is on azathioprine 100 mg.", 'Ann said: "Dr. Patel stopped the azathioprine."', R),
        ("Ann is on azathioprine 100 mg.", "Ann is off azathioprine.", R),
        ("Ann takes ramipril in the morning, 5 mg.", 'Ann said: "The doctor raised the ramipril to 10 mg."', R),
        ("Ann takes ramipril in the morning, 5 mg.", 'Ann said: "The doctor raised the insulin to 10 mg."', A),
        ("Ann's telephone number is 08161 5543.", "Ann's new telephone number is 08161 7788.", R),
        ("Ann's telephone number is 08161 5543.", "Tom's telephone number is 08161 7788.", A),
        ("Ann's deadline is May 3 for the thesis.", "Ann's deadline is June 9 for the report.", A),
        ("Ann lives at Gartenstr. 12 in Freising.", "Ann moved in with Birgit in Augsburg.", R),
        ("Ann lives in Freising.", "Ann moved in with Birgit in May.", A),
        (
            "Ann's appointment with the dentist is on May 3.",
            "Ann's appointment with the dentist was moved to May 9.",
            R,
        ),
        ("Ann's appointment with the dentist is on May 3.", "Ann's appointment with the lawyer was moved to May 9.", A),
        ("Ann's exam is on May 3.", "Ann moved to the day clinic.", A),
    ],
)
async def test_what_ends_a_fact_of_health_or_of_where_somebody_is_reached(old: str, new: str, expected: Operation):
    pair = OperationPair(memory("m1", old), memory("m2", new, 2))
    (verdict,) = (await OfflineOperator().operate([pair])).verdicts
    assert verdict.operation is expected


CHAT = (
    (
        "Translate to Dutch: My name is Anna and I am allergic to nuts.",
        "Am I allergic to latex, do you think? My hands itch.",
        "They ruled out cancer, thank God.",
    ),
    ("The doctor says it isn't a latex allergy, it's just eczema.", "My temperature was 38.5 last night."),
)


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("Do I have a parrot?", "I do not remember"),
        ("Am I pregnant?", "I do not remember"),
        ("Am I allergic to latex?", "it isn't a latex allergy"),
        ("Do I have cancer?", "They ruled out cancer"),
    ],
)
async def test_a_question_whether_something_is_so_is_answered_by_what_tells_it(question: str, reply: str):
    assert reply in (await chat(CHAT, question)).replies[question].partition("”")[0]
