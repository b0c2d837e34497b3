"""Answers of endpoints, gateways and proxies as they come over HTTP, byte for byte."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import web

from eunoe.schemas.errors import AnswerFault, AnswerInvalid, Refused, Unavailable
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


@pytest.mark.parametrize(
    "failed",
    [
        Body({"error": {"message": "Provider returned error", "code": 502}}),
        Body({"error": {"message": "Provider returned error", "code": 429}}),
        Body({"error": "upstream connect error"}),
        completion('{"question": "Who', "error", error={"message": "Provider disconnected", "code": 502}),
        completion("", "error"),
        completion('{"question": "Who', "insufficient_system_resource"),
        Body({"choices": []}),
        Body({"choices": None}),
    ],
)
async def test_an_answer_that_the_provider_broke_off_is_asked_for_again(failed: Body):
    async with answering(failed, completion()) as (asked, model):
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"
        assert (len(asked), model.usage.invalid) == (2, 0)


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        ({"message": "This model's maximum context length is 300 tokens", "code": 400}, AnswerFault.TOO_LARGE),
        ({"message": "the input length exceeds the context length"}, AnswerFault.TOO_LARGE),
        ({"message": "Your input was flagged", "code": 403}, AnswerFault.REFUSED),
        ({"message": "it was filtered", "code": "content_filter"}, AnswerFault.REFUSED),
    ],
)
async def test_a_refusal_of_status_200_is_a_refusal(told: dict[str, object], fault: AnswerFault):
    long = WHO.model_copy(update={"user": "Ann speaks of Rex. " * 100})
    async with answering(Body({"error": told})) as (_, model):
        with pytest.raises(AnswerInvalid) as caught:
            await model.answer(long, QuestionForm)
        assert caught.value.fault is fault


async def test_a_refused_key_of_status_200_is_told():
    told = {"message": "Incorrect API key provided: sk-1", "code": "invalid_api_key"}
    async with answering(Body({"error": told})) as (asked, model):
        with pytest.raises(Refused, match="check the model's name and the key") as caught:
            await model.answer(WHO, QuestionForm)
        assert "sk-1" not in str(caught.value)
        assert len(asked) == 1


@pytest.mark.parametrize(
    ("reason", "fault"),
    [
        ("model_length", AnswerFault.CUT),
        ("MAX_TOKENS", AnswerFault.CUT),
        ("model_context_window_exceeded", AnswerFault.CUT),
        ("sensitive", AnswerFault.REFUSED),
        ("content_filter: PROHIBITED_CONTENT", AnswerFault.REFUSED),
    ],
)
async def test_the_end_of_an_answer_is_told_in_many_words(reason: str, fault: AnswerFault):
    async with answering(completion('{"question": "Who', reason)) as (_, model):
        with pytest.raises(AnswerInvalid) as caught:
            await model.answer(WHO, QuestionForm)
        assert caught.value.fault is fault


async def test_white_space_behind_a_whole_answer_does_not_cut_it():
    async with answering(completion('{"question": "Who?"}' + "\n" * 400, "length")) as (asked, model):
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"
        assert len(asked) == 1
    async with answering(completion('{"question": "Who' + "\n" * 400, "length")) as (_, model):
        with pytest.raises(AnswerInvalid, match="cut off"):
            await model.answer(WHO, QuestionForm)


async def test_a_filtered_answer_may_have_no_message():
    async with answering(Body({"choices": [{"index": 0, "finish_reason": "content_filter"}]})) as (asked, model):
        with pytest.raises(AnswerInvalid) as caught:
            await model.answer(WHO, QuestionForm)
        assert (caught.value.fault, len(asked)) == (AnswerFault.REFUSED, 1)


async def test_half_of_an_emoji_in_an_answer_costs_this_sign_alone():
    half = json.dumps(completion('{"question": "Who 🙂?"}').content).replace("\\ude42", "")
    assert "\\ud83d" in half
    async with answering(Body(half)) as (asked, model):
        assert (await model.answer(WHO, QuestionForm)).question == "Who ??"
        assert len(asked) == 1
