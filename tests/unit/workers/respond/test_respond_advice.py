"""Offline replies to questions for what the one spoken to said: its own words, or that it does not remember."""

from datetime import timedelta

import pytest

from eunoe.schemas.events import Ask
from eunoe.schemas.replies import Reply
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.hints import without_asking
from eunoe.workers.respond.offline.replier import NOTHING, OfflineReplier
from tests.support.chats import local_embedder
from tests.support.in_memory import START, HashEmbedder, ended, utterance
from tests.unit.workers.respond.test_respond_replies import row, task

SQUATS = "For your knee I recommend ten slow squats a day, and ice after every run."
TANDEM = "You could try a tandem partner and half an hour of listening every day."
SLEEP = "Keep the bedroom at 18 degrees, and leave your phone in another room at night."
SAID = (
    ("Ann", "Hi, my knee hurts when I run."),
    ("agent", SQUATS),
    ("Ann", "Thanks! And I want to learn Spanish before my trip to Madrid."),
    ("agent", TANDEM),
    ("Ann", "My sister lives in Madrid. Her dog is called Pepper."),
    ("agent", "How nice!"),
    ("Ann", "I cannot sleep well since I moved."),
    ("agent", SLEEP),
)


async def told(*, marked: bool = False) -> InMemoryPipeline:
    """The chat as one session; ``marked``: the agent's lines are replies."""
    pipeline = InMemoryPipeline(local_embedder(), StageSettings())
    for number, (speaker, text) in enumerate(SAID):
        reply_id = f"u{number}" if marked and speaker == "agent" else None
        await pipeline.produce(utterance(number, text, speaker=speaker, reply_id=reply_id))
    await pipeline.produce(ended())
    return pipeline


async def answers(pipeline: InMemoryPipeline, *questions: str) -> dict[str, Reply]:
    """Question → reply, to Ann after some days."""
    asked = {f"r{place}": question for place, question in enumerate(questions)}
    for place, (id_, question) in enumerate(asked.items()):
        ask = Ask(request_id=id_, record=False)
        said = utterance(50 + place, question, speaker="Ann", at=START + timedelta(days=9), ask=ask)
        await pipeline.produce(said)
    return {asked[reply.request_id]: reply for reply in pipeline.replies()}


ADVICE = {
    "What did you recommend for my knee?": SQUATS,
    "What was your advice for my knee?": SQUATS,
    "Did you recommend squats for my knee?": SQUATS,
    "What did you suggest for learning Spanish?": TANDEM,
    "What did you tell me to do against my bad sleep?": SLEEP,
    "What temperature did you suggest for my bedroom?": SLEEP,
}
NEVER = (
    "What did you recommend for my elbow?",
    "What did you recommend for my tax return?",
    "Did you recommend a dentist?",
    "Which book did you recommend?",
    "What was your advice for my divorce?",
    "What did you say my salary should be?",
)


@pytest.mark.parametrize("marked", [False, True], ids=["lines", "replies from memory"])
async def test_advice_is_quoted_as_ones_own_and_only_where_there_was_any(*, marked: bool):
    replies = await answers(await told(marked=marked), *ADVICE, *NEVER)
    assert {question: f"On 1 January 2026 I said: “{text}”" for question, text in ADVICE.items()} == {
        question: replies[question].text for question in ADVICE
    }
    assert {replies[question].text for question in NEVER} == {NOTHING}


async def test_replies_from_memory_are_quoted_for_nothing_else():
    questions = ("What is good for Ann's knee?", "How cold should a bedroom be?", "How does one learn Spanish?")
    replies = await answers(await told(marked=True), *questions)
    assert not [reply for reply in replies.values() if "I said" in reply.text]
    assert "I said" in (await answers(await told(), questions[1]))[questions[1]].text


async def test_replies_that_were_imported_under_another_name_are_ones_own_words():
    said = (
        row(1, "what should I do about my boat that leaks?"),
        row(2, "sell it", speaker="ChatGPT", reply_id="r1"),
    )
    asked = task(*said, asked="What did you suggest about my boat that leaks?")
    reply = await OfflineReplier(HashEmbedder()).reply(asked)
    assert reply.text == "On 1 January 2026 ChatGPT said: “sell it”"
    spoken = (*said, row(3, "paint my boat", speaker="Ben"))
    reply = await OfflineReplier(HashEmbedder()).reply(task(*spoken, asked="What did you suggest about my boat?"))
    assert {one.speaker for one in reply.cited} == {"Ben"}


async def test_what_is_replied_to_says_what_a_reply_is_about():
    said = (
        row(1, "the weather in Oslo was fine"),
        row(2, "take an umbrella", speaker="Ben"),
        row(3, "my boat leaks again"),
        row(4, "call a carpenter", speaker="Ben"),
        row(5, "or sell it", speaker="Ben"),
    )
    reply = await OfflineReplier(HashEmbedder()).reply(task(*said, asked="What was your advice about my boat?"))
    assert reply.cited[0].number in {4, 5}
    assert all(one.speaker == "Ben" for one in reply.cited)


async def test_where_the_one_spoken_to_said_nothing_others_are_quoted_as_before():
    said = row(1, "you recommended a carpenter for my boat")
    reply = await OfflineReplier(HashEmbedder()).reply(task(said, asked="Who did you recommend for my boat?"))
    assert reply.cited == (said,)


async def test_a_question_that_names_somebody_else_is_not_for_ones_own_words():
    said = (row(1, "my boat leaks", speaker="Ann"), row(2, "sell it", speaker="Ben"))
    asked = task(*said, asked="What did Ann say when you told her to sell the boat that leaks?")
    assert [one.number for one in (await OfflineReplier(HashEmbedder()).reply(asked)).cited][:1] == [1]


@pytest.mark.parametrize(
    ("question", "topic"),
    [
        ("What did you recommend for my knee?", "What for my knee?"),
        ("And your last advice about the boat", "And about the boat"),
        ("What did you say?", "What did you say?"),
        ("Where is my boat?", "Where is my boat?"),
    ],
)
def test_words_of_asking_are_no_topic(question: str, topic: str):
    assert without_asking(question) == topic
