"""Chats of several sessions through the pipeline without a model: what becomes of them, and what is replied."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

from eunoe.schemas.events import Ask
from eunoe.schemas.memory import Memory, MemoryStatus
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.models.local.embedding import WordLlamaEmbedder
from eunoe.workers.registry import StageSettings
from eunoe.workers.update.reads import all_memories
from tests.support.in_memory import START, ended, utterance

DAYS = 30
"""Days from one session to the next, and from the last one to the questions."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of a chat."""

    replies: dict[str, str]
    """Question → the text of the reply."""
    memories: list[Memory]
    """All memories in their order."""

    @property
    def current(self) -> list[str]:
        """The texts of the memories that hold."""
        return [memory.text for memory in self.memories if memory.status is MemoryStatus.CURRENT]


async def chat(sessions: Sequence[Sequence[str]], *questions: str, speaker: str = "Ann") -> Outcome:
    """Play the sessions of one speaker, the first on `START`, then ask the questions."""
    pipeline = InMemoryPipeline(local_embedder(), StageSettings())
    number = 0
    for place, session in enumerate(sessions):
        for text in session:
            number += 1
            at = START + timedelta(days=DAYS * place, seconds=40 * number)
            await pipeline.produce(utterance(number, text, speaker=speaker, at=at))
        await pipeline.produce(ended(at=START + timedelta(days=DAYS * place, hours=1)))
    at = START + timedelta(days=DAYS * len(sessions))
    for place, question in enumerate(questions, 1):
        ask = Ask(request_id=f"r{place}", record=False)
        await pipeline.produce(utterance(number + place, question, speaker=speaker, at=at, ask=ask))
    texts = {reply.request_id: reply.text for reply in pipeline.replies()}
    memories = await all_memories(pipeline.store, "default/c")
    replies = {question: texts[f"r{place}"] for place, question in enumerate(questions, 1)}
    return Outcome(replies, sorted(memories, key=lambda memory: memory.order))


@cache
def local_embedder() -> WordLlamaEmbedder:
    """The one of all tests of this process: its tokenizer takes 0.2 s to load, and it remembers vectors."""
    return WordLlamaEmbedder()
