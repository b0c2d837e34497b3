"""The examples with their libraries, a real gateway over the pipeline in memory, and a scripted model endpoint."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from eunoe.streams.http_client import HttpMemoryClient
from tests.support.endpoint import asgi_served
from tests.support.examples import example
from tests.support.gateway import SESSION, make_gateway, told

QUESTION = "Where does Ann live?"


@asynccontextmanager
async def memory_of(tmp_path) -> AsyncIterator[HttpMemoryClient]:
    """The memory of a conversation that holds a session, over a real connection."""
    gateway = make_gateway(tmp_path)
    async with gateway.served() as http:
        await told(http)
        key = http.headers["authorization"].split()[1]
        async with HttpMemoryClient(str(http.base_url), key=key, conversation_id="c") as memory:
            yield memory


@asynccontextmanager
async def model_endpoint(*answers: dict[str, Any]) -> AsyncIterator[tuple[AsyncOpenAI, list[dict[str, Any]]]]:
    """A chat endpoint that gives these messages in turn; with the requests that it got."""
    seen: list[dict[str, Any]] = []

    async def chat(request: Request) -> JSONResponse:
        seen.append(await request.json())
        message = {"role": "assistant", "content": None, **answers[len(seen) - 1]}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return JSONResponse(
            {"id": "1", "object": "chat.completion", "created": 0, "model": "test", "choices": [choice], "usage": usage}
        )

    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    async with asgi_served(app) as url, AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client, seen


async def test_a_graph_recalls_answers_and_remembers(tmp_path):
    async with memory_of(tmp_path) as memory, model_endpoint({"content": "She lives in Lyon."}) as (client, seen):

        async def model(question: str, found: str) -> str:
            messages = [{"role": "system", "content": f"Memory:\n{found}"}, {"role": "user", "content": question}]
            answer = await client.chat.completions.create(model="test", messages=messages)
            return str(answer.choices[0].message.content)

        graph = example("langgraph_nodes").make_graph(memory, model)
        turn = {"turn_id": "t1", "at": datetime.now(UTC), "speaker": "Ben", "question": QUESTION}
        done = await graph.ainvoke(turn)
        recalled = await memory.recall("What did the agent say?")
    assert done["answer"] == "She lives in Lyon."
    assert SESSION[0]["text"] in seen[0]["messages"][0]["content"]
    assert [(line.speaker, line.text, line.reply_id) for line in recalled.dialogue] == [
        ("Ben", QUESTION, None),
        ("agent", "She lives in Lyon.", "t1-answer"),
    ]


def call(name: str, **arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"id": f"call-{name}", "type": "function", "function": function}]}


@pytest.mark.filterwarnings("default")  # of the library
async def test_an_agent_recalls_and_remembers_with_its_tools(tmp_path):
    from agents import OpenAIChatCompletionsModel, Runner, set_tracing_disabled  # noqa: PLC0415

    set_tracing_disabled(disabled=True)
    answers = (call("recall", query=QUESTION), call("remember", text="I visit her."), {"content": "In Lyon."})
    async with memory_of(tmp_path) as memory, model_endpoint(*answers) as (client, seen):
        agent = example("agents_tools").make_agent(
            memory, "Ben", OpenAIChatCompletionsModel(model="test", openai_client=client)
        )
        done = await Runner.run(agent, QUESTION)
        recalled = await memory.recall("Who visits?")
    assert done.final_output == "In Lyon."
    tools = {tool["function"]["name"]: tool["function"] for tool in seen[0]["tools"]}
    assert set(tools) == {"recall", "remember"}
    assert list(tools["recall"]["parameters"]["properties"]) == ["query"]
    assert SESSION[0]["text"] in seen[1]["messages"][-1]["content"]
    assert [(line.speaker, line.text) for line in recalled.dialogue] == [("Ben", "I visit her.")]
