"""LangGraph: a graph that recalls before the model answers, and remembers after it."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypedDict

from eunoe.streams.http_client import HttpMemoryClient

Model = Callable[[str, str], Awaitable[str]]
"""Answers a question, given the memory as text."""


class Turn(TypedDict, total=False):
    """The state of the graph: one turn of a chat."""

    turn_id: str
    at: datetime
    speaker: str
    question: str
    memory: str
    answer: str


class MemoryNodes:
    """The nodes. A node that runs again sends the same ids and times, and changes nothing."""

    def __init__(self, memory: HttpMemoryClient, model: Model) -> None:
        self.memory = memory
        self.model = model

    async def recall(self, turn: Turn) -> Turn:
        """Get the memory that fits the question."""
        found = await self.memory.recall(turn["question"], speaker=turn["speaker"], budget_tokens=800, at=turn["at"])
        dialogue = "\n".join(f"{line.speaker}: {line.text}" for line in found.dialogue)
        return {"memory": f"{found.text}\n{dialogue}".strip()}

    async def answer(self, turn: Turn) -> Turn:
        """Ask the model."""
        return {"answer": await self.model(turn["question"], turn["memory"])}

    async def remember(self, turn: Turn) -> Turn:
        """Add question and answer to the conversation; the answer is marked as a reply, which is no evidence."""
        asked, answered = f"{turn['turn_id']}-question", f"{turn['turn_id']}-answer"
        await self.memory.utter(turn["question"], speaker=turn["speaker"], utterance_id=asked, at=turn["at"])
        await self.memory.utter(
            turn["answer"], speaker="agent", utterance_id=answered, reply_id=answered, at=turn["at"]
        )
        return {}


def make_graph(memory: HttpMemoryClient, model: Model) -> Any:
    """The graph: recall, answer, remember."""
    from langgraph.graph import END, START, StateGraph

    nodes = MemoryNodes(memory, model)
    graph = StateGraph(Turn)
    graph.add_node("recall", nodes.recall)
    graph.add_node("answer", nodes.answer)
    graph.add_node("remember", nodes.remember)
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "answer")
    graph.add_edge("answer", "remember")
    graph.add_edge("remember", END)
    return graph.compile()
