"""The examples' own functions, without the libraries that they are for (`make test-examples` runs them with these)."""

from datetime import UTC, datetime

from eunoe.schemas.events import Utterance
from eunoe.streams.codec import decode
from eunoe.streams.http_client import HttpMemoryClient
from eunoe.streams.topics import Topic
from tests.support.examples import example
from tests.support.gateway import SESSION, make_gateway, told


async def test_the_nodes_of_langgraph_recall_and_remember(tmp_path):
    shown: list[tuple[str, str]] = []

    async def model(question: str, memory: str) -> str:
        shown.append((question, memory))
        return "In Lyon."

    gateway = make_gateway(tmp_path)
    async with gateway.served() as http:
        await told(http)
        key = http.headers["authorization"].split()[1]
        async with HttpMemoryClient(str(http.base_url), key=key, conversation_id="c") as memory:
            nodes = example("langgraph_nodes").MemoryNodes(memory, model)
            turn = {"turn_id": "t1", "at": datetime.now(UTC), "speaker": "Ben", "question": "Where does Ann live?"}
            for node in (nodes.recall, nodes.answer, nodes.remember, nodes.remember):
                turn |= await node(turn)
    ((question, found),) = shown
    assert question == "Where does Ann live?"
    assert "Lyon" in found
    events = [decode(record.value) for record in gateway.log.log.records(Topic.CONVERSATIONS)]
    said = [event for event in events if isinstance(event, Utterance) and event.ask is None][len(SESSION) - 1 :]
    assert [(event.speaker, event.text, event.reply_id) for event in said] == [
        ("Ben", "Where does Ann live?", None),
        ("agent", "In Lyon.", "t1-answer"),
    ]


async def test_the_functions_of_the_agent_recall_and_remember(tmp_path):
    gateway = make_gateway(tmp_path)
    async with gateway.served() as http:
        key = http.headers["authorization"].split()[1]
        async with HttpMemoryClient(str(http.base_url), key=key, conversation_id="c") as memory:
            tools = example("agents_tools").MemoryTools(memory, "Ann")
            assert await tools.recall("Where does Ann live?") == "Nothing is remembered."
            assert (await tools.remember("I moved to Lyon in March.")).startswith("remembered as ")
            assert await tools.recall("Where does Ann live?") == "Ann: I moved to Lyon in March."
