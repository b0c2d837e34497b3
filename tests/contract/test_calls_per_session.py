"""Model calls of a session and of a turn, told by the endpoint's own counters: the same however much is remembered."""

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from eunoe.schemas.events import Ask, ConversationEvent
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.models.endpoint import Endpoint
from eunoe.workers.models.openai import OpenAIModel, OpenAISettings
from eunoe.workers.registry import StageSettings
from eunoe.workers.update.reads import read_memory_stats
from tests.support.in_memory import ended, make_pipeline, utterance
from tests.support.model_server.server import ChatRequest, ModelServer, ServerSettings

PER_SESSION = 10
MOST = 40
WORDS = ["harbour", "violin", "glacier", "orchard", "lantern", "compass", "meadow", "anvil", "saffron", "turbine"]


class Answers:
    """What a model would say, by form; counts questions by form."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.told = 0
        self.per_session = PER_SESSION

    def segments(self, question: ChatRequest) -> Any:
        self.asked["segment"] += 1
        last = max(int(number) for number in re.findall(r"^\[(\d+)\]", question.user, re.MULTILINE))
        return {"segments": [{"start": 1, "end": last, "count": last}]}

    def memories(self, question: ChatRequest) -> Any:
        self.asked["summarize"] += 1
        return {"memories": [self._memory() for _ in range(self.per_session)]}

    def _memory(self) -> dict[str, Any]:
        self.told += 1
        word = WORDS[self.told % len(WORDS)]
        return {"speaker": "Ann", "text": f"Ann saw {word} number {self.told} at place {self.told * 7}.", "cites": [1]}

    def relations(self, question: ChatRequest) -> Any:
        self.asked["link"] += 1
        pairs = int(re.search(r"There are (\d+) pairs", question.user)[1])  # type: ignore[index]
        return {"pairs": [{"pair": n, "explanation": "x", "relation": "SameTopic"} for n in range(1, pairs + 1)]}

    def operations(self, question: ChatRequest) -> Any:
        self.asked["update"] += 1
        pairs = int(re.search(r"^The (\d+) pairs", question.user, re.MULTILINE)[1])  # type: ignore[index]
        append = {"reason": "x", "operation": "APPEND", "fused": ""}
        return {"pairs": [{"pair": n, **append} for n in range(1, pairs + 1)]}

    def summaries(self, question: ChatRequest) -> Any:
        self.asked["tree"] += 1
        nodes = int(re.search(r"^(\d+) nodes", question.user, re.MULTILINE)[1])  # type: ignore[index]
        return {"summaries": [{"node": n, "summary": "Ann saw many things."} for n in range(1, nodes + 1)]}

    def question(self, question: ChatRequest) -> Any:
        self.asked["blend"] += 1
        return {"question": "What did Ann see at the harbour?"}

    def insights(self, question: ChatRequest) -> Any:
        self.asked["blend"] += 1
        last, speaker = re.findall(r"^\[(\d+)\] (\w+)", question.user, re.MULTILINE)[-1]
        self.told += 1
        text = f"{speaker} heard of number {self.told}."
        return {"insights": [{"kind": "New", "speaker": speaker, "text": text, "cites": [int(last)], "replaces": []}]}

    def reply(self, question: ChatRequest) -> Any:
        self.asked["respond"] += 1
        return {"notes": [], "cited": [], "text": "I see."}

    @property
    def scripts(self) -> dict[str, Any]:
        return {
            "SegmentsAnswer": self.segments,
            "MemoriesAnswer": self.memories,
            "OperationsAnswer": self.operations,
            "RelationsAnswer": self.relations,
            "SummariesAnswer": self.summaries,
            "QuestionAnswer": self.question,
            "BlendAnswer": self.insights,
            "ReplyAnswer": lambda question: {k: v for k, v in self.reply(question).items() if k != "notes"},
            "RefinedReplyAnswer": self.reply,
        }


class Told:
    """A pipeline whose model calls are counted twice: by the form of their answer, and by the server itself."""

    def __init__(self, answers: Answers, server: ModelServer, pipeline: InMemoryPipeline) -> None:
        self.answers, self.server, self.pipeline = answers, server, pipeline

    async def cost(self, *events: ConversationEvent) -> Counter[str]:
        """What these events cost, by stage."""
        before, calls = self.answers.asked.copy(), self.server.stats["chat"]
        await self.pipeline.produce(*events)
        spent = self.answers.asked - before
        assert sum(spent.values()) == self.server.stats["chat"] - calls
        return spent


@asynccontextmanager
async def telling(settings: StageSettings) -> AsyncIterator[Told]:
    answers = Answers()
    async with ModelServer(ServerSettings(scripts=answers.scripts)) as server:
        model = OpenAIModel(OpenAISettings(Endpoint(model="m", base_url=server.base_url)))
        yield Told(answers, server, make_pipeline(settings, language=model))
        await model.aclose()
        assert server.stats["corrections"] == 0


@pytest.mark.slow
async def test_a_session_costs_five_calls_at_ten_and_at_a_thousand_memories():
    async with telling(StageSettings()) as told:
        cost = {
            session: await told.cost(utterance(2 * session - 1), utterance(2 * session), ended())
            for session in range(1, 102)
        }
        assert (await read_memory_stats(told.pipeline.store, "default/c")).memories == 1010
    assert cost[2] == cost[101] == dict.fromkeys(("segment", "summarize", "update", "link", "tree"), 1)


@pytest.mark.slow
async def test_a_turn_costs_two_calls_of_blend_at_ten_and_at_a_thousand_memories():
    async with telling(StageSettings(intake=IntakeSettings(blend_unasked=True))) as told:
        turns: dict[int, tuple[Counter[str], ...]] = {}
        known: dict[int, int] = {}
        for session in range(1, 28):
            known[session] = (await read_memory_stats(told.pipeline.store, "default/c")).memories
            first, second = utterance(2 * session - 1), utterance(2 * session, ask=Ask(request_id=f"r{session}"))
            turns[session] = (await told.cost(first), await told.cost(second), await told.cost(ended()))
            told.answers.per_session = MOST
    assert (known[1], known[2], known[27] >= 1000) == (0, PER_SESSION + 2, True)
    assert turns[1][:2] == ({"blend": 1}, {"blend": 1, "respond": 1})
    assert turns[2][:2] == turns[27][:2] == ({"blend": 2}, {"blend": 2, "respond": 1})
    assert turns[2][2]["update"] == turns[27][2]["update"] == 1
