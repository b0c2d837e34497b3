"""Model calls of a session and of a turn, told by the endpoint's own counters: the same however much is remembered."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from eunoe.schemas.events import Ask, ConversationEvent
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.models.endpoint.client import Endpoint
from eunoe.workers.models.endpoint.language_model import OpenAIModel, OpenAISettings
from eunoe.workers.registry import StageSettings
from eunoe.workers.tree.settings import TreeSettings
from eunoe.workers.update.reads import read_memory_stats
from tests.support.blend import speaker_number
from tests.support.in_memory import ended, make_pipeline, utterance
from tests.support.model_server.server import ChatRequest, ModelServer, ServerSettings

PER_SESSION = 10
WORDS = ["harbour", "violin", "glacier", "orchard", "lantern", "compass", "meadow", "anvil", "saffron", "turbine"]


class Answers:
    """What a model would say, by form; counts questions by form."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.judged: list[list[str]] = []
        """The questions of stage update: of each pair its new sentence."""
        self.nodes: list[int] = []
        """The questions of stage tree: the number of nodes in each."""
        self.told = 0
        self.per_session = PER_SESSION

    def segments(self, question: ChatRequest) -> Any:
        self.asked["segment"] += 1
        return {"starts": [{"row": 1, "topic": "all"}]}

    def memories(self, question: ChatRequest) -> Any:
        self.asked["summarize"] += 1
        return {"memories": [self._memory() for _ in range(self.per_session)]}

    def _memory(self) -> dict[str, Any]:
        self.told += 1
        word = WORDS[self.told % len(WORDS)]
        return {"text": f"Ann saw {word} number {self.told} at place {self.told * 7}.", "own": 1, "lines": [1]}

    def relations(self, question: ChatRequest) -> Any:
        self.asked["link"] += 1
        pairs = int(re.search(r"There are (\d+) pairs", question.user)[1])
        return {"pairs": [{"n": n, "why": "x", "relation": "SameTopic"} for n in range(1, pairs + 1)]}

    def operations(self, question: ChatRequest) -> Any:
        self.asked["update"] += 1
        pairs = int(re.search(r"^There are (\d+) pairs", question.user, re.MULTILINE)[1])
        self.judged.append(re.findall(r"^    s \(.*?\): (.*)", question.user, re.MULTILINE))
        assert len(self.judged[-1]) == pairs
        append = {"why": "x", "op": "APPEND", "merged": ""}
        return {"pairs": [{"n": n, **append} for n in range(1, pairs + 1)]}

    def summaries(self, question: ChatRequest) -> Any:
        self.asked["tree"] += 1
        nodes = int(re.search(r"^(\d+) nodes", question.user, re.MULTILINE)[1])
        self.nodes.append(nodes)
        return {"nodes": [{"n": n, "text": "Ann saw many things."} for n in range(1, nodes + 1)]}

    def question(self, question: ChatRequest) -> Any:
        self.asked["blend"] += 1
        return {"question": "What did Ann see at the harbour?"}

    def insights(self, question: ChatRequest) -> Any:
        self.asked["blend"] += 1
        last, speaker = re.findall(r"^\[(\d+)\] (\w+)", question.user, re.MULTILINE)[-1]
        self.told += 1
        number = speaker_number(question.user, speaker)
        text = f"{speaker} heard of number {self.told}."
        return {"insights": [{"kind": "New", "speaker": number, "text": text, "lines": [int(last)], "replaces": []}]}

    def reply(self, question: ChatRequest) -> Any:
        self.asked["respond"] += 1
        return {"notes": [], "cited": [], "text": "I see."}

    @property
    def scripts(self) -> dict[str, Any]:
        return {
            "Starts": self.segments,
            "Memories": self.memories,
            "Operations": self.operations,
            "Relations": self.relations,
            "Summaries": self.summaries,
            "Question": self.question,
            "Insights": self.insights,
            "Reply": self.reply,
        }


class Told:
    """A pipeline whose model calls are counted twice: by the form of their answer, and by the server itself."""

    def __init__(self, answers: Answers, server: ModelServer, pipeline: InMemoryPipeline) -> None:
        self.answers, self.server, self.pipeline = answers, server, pipeline

    async def cost(self, *events: ConversationEvent) -> Counter[str]:
        """What these events cost, by stage."""
        before, calls = self.answers.asked.copy(), self.server.stats["chat"]
        self.answers.judged.clear()
        self.answers.nodes.clear()
        await self.pipeline.produce(*events)
        spent = self.answers.asked - before
        assert sum(spent.values()) == self.server.stats["chat"] - calls
        assert (spent["update"], spent["tree"]) == self._wanted()
        return +spent

    def _wanted(self) -> tuple[int, int]:
        """The questions that stages update and tree need for the pairs and nodes that they asked about."""
        pairs = Counter(sentence for question in self.answers.judged for sentence in question)
        order = sorted(pairs, key=lambda sentence: int(re.search(r"number (\d+)", sentence)[1]))
        return packed([pairs[sentence] for sentence in order], 40), packed([1] * sum(self.answers.nodes), 12)


def packed(groups: Sequence[int], most: int) -> int:
    """The questions that take groups one after the other, each whole, and at most so many items."""
    left = questions = 0
    for group in groups:
        assert group <= most
        questions, left = (questions, left - group) if group <= left else (questions + 1, most - group)
    return questions


@asynccontextmanager
async def telling(settings: StageSettings) -> AsyncIterator[Told]:
    answers = Answers()
    async with ModelServer(ServerSettings(scripts=answers.scripts)) as server:
        model = OpenAIModel(OpenAISettings(Endpoint(model="m", base_url=server.base_url)))
        yield Told(answers, server, make_pipeline(settings, language=model))
        await model.aclose()
        assert server.stats["corrections"] == 0


@pytest.mark.slow
async def test_a_session_costs_at_most_ten_calls_at_ten_and_at_a_thousand_memories():
    async with telling(StageSettings(tree=TreeSettings(ask_model=True))) as told:
        cost = {
            session: await told.cost(utterance(2 * session - 1), utterance(2 * session), ended())
            for session in range(1, 102)
        }
        assert (await read_memory_stats(told.pipeline.store, "default/c")).memories == 1010
    always = {"segment": 1, "summarize": 1}
    assert cost.pop(1) == always | {"tree": 1}
    for session, spent in cost.items():
        judged = {stage: spent[stage] for stage in ("update", "tree")}  # exactly those that `cost` found necessary
        assert spent == always | {"link": 1} | judged, session
    assert (cost[2].total(), cost[101].total()) == (7, 9)


async def test_the_tree_asks_no_model_unless_the_setting_says_so():
    async with telling(StageSettings()) as told:
        spent = [await told.cost(utterance(2 * n - 1), utterance(2 * n), ended()) for n in (1, 2, 3)]
    assert all(cost.keys() == {"segment", "summarize", "update", "link"} for cost in spent[1:])


@pytest.mark.slow
async def test_a_turn_costs_two_calls_of_blend_at_ten_and_at_a_thousand_memories():
    async with telling(StageSettings(intake=IntakeSettings(blend_unasked=True))) as told:
        turns: dict[int, tuple[Counter[str], ...]] = {}
        known: dict[int, int] = {}
        for session in range(1, 103):
            known[session] = (await read_memory_stats(told.pipeline.store, "default/c")).memories
            first, second = utterance(2 * session - 1), utterance(2 * session, ask=Ask(request_id=f"r{session}"))
            turns[session] = (await told.cost(first), await told.cost(second), await told.cost(ended()))
    assert (known[1], known[2], known[102] >= 1000) == (0, PER_SESSION + 2, True)
    assert turns[1][:2] == ({"blend": 1}, {"blend": 1, "respond": 1})
    assert turns[2][:2] == turns[102][:2] == ({"blend": 2}, {"blend": 2, "respond": 1})
    for session in (2, 102):  # the pairs of `cost`, however many turns proposed something
        judged = turns[session][2]["update"]
        assert turns[session][2] == {"segment": 1, "summarize": 1, "link": 1, "update": judged}
