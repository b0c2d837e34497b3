"""Answers of endpoints, gateways and proxies as they come over HTTP, byte for byte."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import web

from eunoe.schemas.errors import Unavailable
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.models.answer_forms import QuestionForm, answer_like
from eunoe.workers.models.endpoint import Endpoint
from eunoe.workers.models.openai import OpenAIModel, OpenAISettings
from eunoe.workers.models.profile import Profile
from eunoe.workers.models.retrying import RetryEnvironment, RetryPolicy

WHO = Prompt(name="question/9", system=answer_like(QuestionForm), user="Ann speaks of Rex.", max_tokens=256)


@dataclass(frozen=True, slots=True)
class Body:
    """An answer; a document is written as JSON."""

    content: object
    status: int = 200
    type: str = "application/json"

    def response(self) -> web.Response:
        text = self.content if isinstance(self.content, str) else json.dumps(self.content)
        return web.Response(text=text, status=self.status, content_type=self.type)


def completion(content: object = '{"question": "Who?"}', finish_reason: str = "stop", **choice: object) -> Body:
    message = {"role": "assistant", "content": content}
    return Body({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason, **choice}]})


@asynccontextmanager
async def answering(*bodies: Body) -> AsyncIterator[tuple[list[object], OpenAIModel]]:
    """A model whose endpoint gives these answers, the last one again and again; what it was asked is listed."""
    asked: list[object] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return bodies[min(len(asked), len(bodies)) - 1].response()

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    model = OpenAIModel(
        OpenAISettings(
            Endpoint(model="m", base_url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1", timeout_s=5),
            retry=RetryPolicy(attempts=3, first_s=0.001),
            environment=RetryEnvironment(chance=lambda: 0.0),
        )
    )
    try:
        yield asked, model
    finally:
        await model.aclose()
        await runner.cleanup()


PAGE = """<!DOCTYPE html>
<html lang="en-US"><head><title>api.example.com | {status}: Bad gateway</title></head>
<body><div id="cf-wrapper"><div id="cf-browser-status">
<span class="md:block w-full truncate">You</span><h3>Browser</h3>
<p>The request window is 10 minutes; the maximum is exceeded.</p></div></div></body></html>"""


@pytest.mark.parametrize("status", [502, 503, 520, 524])
async def test_the_page_of_a_proxy_before_an_endpoint_that_is_away_tells_no_limit(status: int):
    page = Body(PAGE.format(status=status), status, "text/html")
    async with answering(page, completion()) as (asked, model):
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"
        assert (len(asked), model.profile.now) == (2, Profile())
    async with answering(page) as (_, model):
        with pytest.raises(Unavailable, match=f"said {status}"):
            await model.answer(WHO, QuestionForm)
        assert model.profile.now == Profile()
