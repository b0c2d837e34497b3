"""What a person tells first, in few words: home, work, age, names, likings, and what they ask to be remembered."""

import pytest

from eunoe.schemas.memory import MemoryKind
from eunoe.workers.text.lasting import asks_to_remember, is_lasting, tells_age, tells_home, tells_work, without_request
from eunoe.workers.text.salience import THRESHOLD, salience
from tests.unit.workers.text.test_vital import drafts, memories

LASTING = (
    "I live in Leeds.",
    "I'm from Pune.",
    "I still live with my parents.",
    "We moved to Lisbon.",
    "I work nights.",
    "I work at the museum.",
    "I'm a data engineer at Northwind.",
    "I'm an accountant.",
    "I'm a retired teacher and a painter.",
    "I start at Blue Harbour as a platform engineer in May.",
    "I got a new job at the hospital.",
    "I'm 34.",
    "I'm 34 years old.",
    "I turned forty-one today.",
    "My birthday is on 3 May.",
    "My name is Priya.",
    "My cat is called Miso.",
    "My new phone number is 0761 555 0199.",
    "My number is now +44 7700 900123.",
    "My email is priya@example.org.",
    "My address is 12 Mill Lane.",
    "My son's name is Tim.",
    "Our neighbour is Mr Hale.",
    "We have a puppy called Biscuit.",
    "I have two kids.",
    "I've got three sisters.",
    "We've got no children.",
    "I own a boat.",
    "I drive a Skoda.",
    "I speak Hindi and Polish.",
    "I hate coriander.",
    "I can't stand loud music.",
    "I prefer trains.",
    "I don't like videos.",
    "I never drink coffee after noon.",
    "My favourite colour is green.",
    "Please always answer in German.",
    "Always include version numbers when I ask about libraries.",
    "From now on use metric units.",
)
PASSING = (
    "I'm a bit older than you.",
    "I'm a bit under the weather.",
    "I'm a better person now.",
    "I'm a mess.",
    "I'm 5 minutes late.",
    "I'm from the future.",
    "I have a question.",
    "My number one priority is sleep.",
    "My phone is 5 years old.",
    "If my number is 7, I win.",
    "I hate it when it rains.",
    "I prefer that.",
    "I don't like how you said that.",
    "I started at 9.",
    "If I lived in Leeds, I'd be happy.",
    "Imagine I live in Leeds.",
    "Maybe I have a sister.",
    "I wish I had two kids.",
    "You live in Leeds.",
    "We read a book called Dune.",
    "Always test thoroughly to catch any unexpected behaviour.",
)


@pytest.mark.parametrize("text", LASTING)
def test_a_lasting_fact_is_remembered_however_short_it_is(text: str):
    assert is_lasting(text)
    assert salience(text, ["Ben"]) >= THRESHOLD
    assert memories(text)


@pytest.mark.parametrize("text", PASSING)
def test_what_passes_is_no_lasting_fact(text: str):
    assert not is_lasting(text)


REQUESTS = {
    "Remember that I park on level 3.": "I park on level 3.",
    "Please remember my flight is on Friday.": "My flight is on Friday.",
    "Can you remind me that the wedding is in Bath?": "The wedding is in Bath.",
    "Don't forget: we meet at the north gate.": "We meet at the north gate.",
    "FYI, I changed my number.": "I changed my number.",
    "Note that the code is 4411.": "The code is 4411.",
}


@pytest.mark.parametrize("text", REQUESTS)
def test_what_is_to_be_remembered_is_remembered_without_the_request(text: str):
    assert asks_to_remember(text)
    assert without_request(text) == REQUESTS[text]
    (memory,) = memories(text)
    assert not asks_to_remember(memory)
    assert REQUESTS[text].rstrip(".").split()[-1] in memory


@pytest.mark.parametrize(
    "text",
    [
        "Do you remember that I live in Leeds?",
        "Remember when we went to Rome?",
        "Remember to call mum.",
        "Can you remind me to buy milk?",
        "Don't forget to breathe.",
        "Remember, preparation is key.",
        "Remember that feedback is meant to help you improve.",
        "Note that you need a token.",
    ],
)
def test_other_sentences_with_such_words_ask_for_nothing_to_be_remembered(text: str):
    assert not asks_to_remember(text)
    assert without_request(text) == text


STATES = {
    "I live in Leeds": (True, False, False),
    "I'm a nurse": (False, True, False),
    "I turned 42 on Monday": (False, False, True),
    "I'm 41, I live in Porto": (True, False, True),
    "I waited 42 minutes": (False, False, False),
}


def test_an_offer_is_no_fact():
    assert salience("I will keep in mind that Anu marries on the 12th of December.", ["Ben"]) < THRESHOLD
    assert salience("I can help you to structure it: summary, timeline, causes.", ["Ben"]) < THRESHOLD


def test_a_liking_is_remembered_where_there_is_room_only():
    assert memories("I love hiking.") == []  # room for none but lasting facts
    assert salience("I love hiking.", ["Ben"]) == THRESHOLD
    assert salience("I love it.", ["Ben"]) < THRESHOLD


def test_states_are_told_apart():
    told = {text: (tells_home(text), tells_work(text), tells_age(text)) for text in (*STATES, *PASSING)}
    assert told == STATES | dict.fromkeys(PASSING, (False, False, False))


def test_two_facts_of_a_sentence_are_two_memories():
    assert memories("I'm 41 and I live in Porto.") == ["Ben is 41.", "Ben lives in Porto."]
    assert memories("I live in Porto, and I've got two kids") == ["Ben lives in Porto.", "Ben has got two kids"]
    assert memories("I moved to Porto, and I work at the harbour there.") == [
        "Ben moved to Porto, and Ben works at the harbour there."
    ]
    assert memories("I live in Porto and I met Tom there.") == ["Ben lives in Porto and Ben met Tom there."]


def test_an_employer_that_is_left_and_the_next_one_are_changes():
    told = memories("I'm leaving Northwind!", "I start at Blue Harbour as a platform engineer in May.")
    assert told == ["Ben is leaving Northwind!", "Ben starts at Blue Harbour as a platform engineer in May."]


def test_a_preference_has_its_kind_without_the_request():
    (draft,) = drafts("Please remember that I prefer trains.")
    assert (draft.text, draft.kind) == ("Ben prefers trains.", MemoryKind.PREFERENCE)
