"""Answers of endpoints, gateways and proxies as they come over HTTP, byte for byte."""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
from aiohttp import web

from eunoe.schemas.errors import AnswerFault, AnswerInvalid, Refused, Unavailable
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.models.endpoint.answering_model import is_another
from eunoe.workers.models.endpoint.client import Endpoint
from eunoe.workers.models.endpoint.dialect import Dialect, Formatting, Sampling
from eunoe.workers.models.endpoint.language_model import OpenAIModel, OpenAISettings
from eunoe.workers.models.endpoint.profile import Profile
from eunoe.workers.models.endpoint.retrying import RetryEnvironment, RetryPolicy
from eunoe.workers.models.questions.answer_forms import QuestionForm, SummariesForm, SummaryRow, answer_like
from eunoe.workers.models.questions.asking import ask_checked
from eunoe.workers.models.questions.items import ItemQuestion, ask_items

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
async def answering(
    *bodies: Body | Callable[[dict[str, Any]], Body],
) -> AsyncIterator[tuple[list[object], OpenAIModel]]:
    """A model whose endpoint gives these answers, the last one again and again; what it was asked is listed."""
    asked: list[object] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(body := await request.json())
        given = bodies[min(len(asked), len(bodies)) - 1]
        return (given if isinstance(given, Body) else given(body)).response()

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
    ("status", "error"),
    [
        (429, {"message": "You exceeded your current quota, please check your plan", "code": "insufficient_quota"}),
        (400, {"message": "Billing hard limit has been reached", "code": "billing_hard_limit_reached"}),
        (400, {"message": "Your credit balance is too low to access the API.", "type": "invalid_request_error"}),
        (402, {"message": "Insufficient Balance"}),
    ],
)
async def test_an_account_without_credit_is_told_at_once_and_decides_nothing(status: int, error: dict[str, str]):
    async with answering(Body({"error": error}, status)) as (asked, model):
        with pytest.raises(Refused, match="no credit left") as caught:
            await model.answer(WHO, QuestionForm)
        assert isinstance(caught.value, Unavailable), "it must not cost a session its memory"
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


@pytest.mark.parametrize("arguments", ['{"question": "Who?"}', {"question": "Who?"}])
async def test_an_answer_may_come_as_the_call_of_a_tool(arguments: object):
    calls = [{"id": "1", "type": "function", "function": {"name": "Question", "arguments": arguments}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    called = Body({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    async with answering(called) as (asked, model):
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"
        assert len(asked) == 1


def refused(message: str, status: int = 400, **more: object) -> Body:
    return Body({"error": {"message": message, "type": "invalid_request_error", **more}}, status)


@pytest.mark.parametrize(
    ("message", "refuses"),
    [
        ("Unrecognized request argument supplied: seed", lambda body: "seed" in body),
        ("No endpoints found that can handle the requested parameters.", lambda body: "response_format" in body),
    ],
)
async def test_what_an_endpoint_does_not_know_is_left_out(message: str, refuses: Callable[[dict[str, Any]], bool]):
    status = 404 if message.startswith("No") else 400

    def answer(body: dict[str, Any]) -> Body:
        return refused(message, status) if refuses(body) else completion()

    async with answering(answer) as (asked, plain):
        settings = replace(plain.settings, sampling=Sampling(seed=7))
        model = OpenAIModel(settings)
        for _ in range(2):
            assert (await model.answer(WHO, QuestionForm)).question == "Who?"
        await model.aclose()
        assert len(asked) == (3 if status == 400 else 5)


async def test_an_answer_that_an_endpoint_refuses_itself_is_read_or_corrected():
    damaged = refused("Failed to validate JSON.", code="json_validate_failed", failed_generation='{"question": "Wh')
    almost = refused("Failed to validate JSON.", code="json_validate_failed", failed_generation="{'question': 'Who?'}")
    async with answering(damaged, almost) as (asked, model):
        found = await ask_checked(model, WHO, QuestionForm, lambda answer: None)
        assert found.answer == QuestionForm(question="Who?")
        assert len(asked) == 2
        assert model.profile.now.dialect == Dialect()


async def test_an_answer_that_an_endpoint_refuses_because_it_was_cut_is_cut():
    message = "Failed to generate JSON: max completion tokens reached before generating a valid document"
    cut = refused(message, code="json_validate_failed", failed_generation='{"question": "Wh')
    async with answering(cut) as (_, model):
        with pytest.raises(AnswerInvalid) as caught:
            await model.answer(WHO, QuestionForm)
    assert caught.value.fault is AnswerFault.CUT


async def test_an_answer_may_come_as_a_stream_of_events_that_nobody_asked_for():
    def event(finish_reason: str | None, **delta: str) -> str:
        return f"data: {json.dumps({'choices': [{'delta': delta, 'finish_reason': finish_reason}]})}\n\n"

    stream = event(None, content='{"question": ') + event("stop", content='"Who?"}') + "data: [DONE]\n\n"
    async with answering(Body(stream, type="text/event-stream")) as (asked, model):
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"
        assert len(asked) == 1


@pytest.mark.parametrize("calls", [[], [None], {}, [{"function": None}], [{"function": {"arguments": 7}}]])
async def test_no_call_of_a_tool_is_an_empty_answer(calls: object):
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    async with answering(Body({"choices": [{"index": 0, "message": message}]})) as (_, model):
        with pytest.raises(AnswerInvalid) as caught:
            await model.answer(WHO, QuestionForm)
        assert caught.value.fault is AnswerFault.EMPTY


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


# ---- one question fails, others are answered

FAILED = Body({"error": {"message": "Internal server error", "type": "server_error", "code": 500}}, 500)
NODES: ItemQuestion[str, SummaryRow] = ItemQuestion(
    form=SummariesForm,
    prompt=lambda nodes: Prompt(
        name="tree/9",
        system=answer_like(SummariesForm),
        user="\n".join(f"[{n}] {node}" for n, node in enumerate(nodes, 1)),
        max_tokens=500,
    ),
    fault=lambda row, node: None,
)


def failing_at(text: str, failed: Body, *, when: Callable[[], bool] = lambda: True) -> Callable[[dict[str, Any]], Body]:
    """Answers each question but those with the text, which fail; and a short question without nodes."""

    def answer(asked: dict[str, Any]) -> Body:
        told = asked["messages"][-1]["content"]
        if text in told and when():
            return failed
        rows = [{"n": n, "text": row} for n, row in enumerate(re.findall(r"^\[\d+\] (.*)$", told, re.MULTILINE), 1)]
        return completion(json.dumps({"nodes": rows}))

    return answer


async def decided(model: OpenAIModel, nodes: Sequence[str]) -> tuple[Sequence[str | None], int]:
    """The rows of the nodes, and how often the stage waited for the endpoint."""
    for waits in range(10):
        with suppress(Unavailable):
            rows = (await ask_items(model, NODES, [nodes])).rows
            return [None if row is None else row.text for row in rows], waits
    raise AssertionError("it waits without end")


@pytest.mark.parametrize("failed", [FAILED, Body({"choices": []}), completion("", "error")])
async def test_a_question_at_which_an_endpoint_always_fails_stops_no_stage(failed: Body):
    nodes = [f"node {n} was told" for n in range(8)]
    async with answering(failing_at("node 5", failed)) as (asked, model):
        rows, waits = await decided(model, nodes)
        assert rows == [*nodes[:5], None, *nodes[6:]]
        assert waits == 2, "a failure that may pass is waited for"
        before = len(asked)
        assert await decided(model, nodes) == (rows, 0)
        assert len(asked) - before <= 7, "what is known to fail is tried once"


async def test_an_endpoint_that_fails_at_every_schema_is_asked_without():
    def answer(asked: dict[str, Any]) -> Body:
        return FAILED if asked.get("response_format", {}).get("type") == "json_schema" else completion()

    async with answering(answer) as (_, model):
        for _ in range(2):
            with pytest.raises(Unavailable):
                await model.answer(WHO, QuestionForm)
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"
        assert model.profile.now.dialect.formatting is Formatting.TEXT
        assert (await model.answer(WHO, QuestionForm)).question == "Who?"


async def test_an_endpoint_that_fails_at_all_questions_is_waited_for():
    left = [True] * 20
    fails = failing_at("", FAILED, when=lambda: bool(left and left.pop()))
    async with answering(fails) as (_, model):
        rows, waits = await decided(model, ["one", "two"])
        assert rows == ["one", "two"]
        assert waits >= 3


async def test_a_question_that_fails_now_and_then_is_answered():
    left = [True] * 3
    fails = failing_at("node", FAILED, when=lambda: bool(left and left.pop()))
    async with answering(fails) as (_, model):
        assert await decided(model, ["node 1"]) == (["node 1"], 1)


@pytest.mark.parametrize("streamed", [False, True])
async def test_another_model_that_answers_is_logged_once(streamed: bool, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "eunoe.workers.models.endpoint.answering_model")

    def named(name: object) -> Body:
        whole = {**completion().content, "model": name}
        return Body(f"data: {json.dumps(whole)}\n\n", type="text/event-stream") if streamed else Body(whole)

    bodies = [named(name) for name in ("m", "small-1", "small-1", None, "p/M", "m-2026-08-06", "m-mini", 7)]
    async with answering(*bodies) as (asked, model):
        for _ in bodies:
            assert (await model.answer(WHO, QuestionForm)).question == "Who?"
    assert len(asked) == len(bodies)
    assert [message.partition("name ")[2] for message in caplog.messages] == [
        "another model: 'small-1'",
        "another model: 'm-mini'",
    ]


@pytest.mark.parametrize(
    ("asked", "named", "another"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06", False),
        ("openai/gpt-4o", "gpt-4o", False),
        ("llama3.2", "llama3.2:latest", False),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku-20241022", False),
        ("mistral-small", "mistral-small-2503", False),
        ("Qwen/Qwen3-8B", "qwen3-8b", False),
        ("gpt-4o", "", False),
        ("gpt-4o", "gpt-4o-mini-2024-07-18", True),
        ("gpt-4", "gpt-4o", True),
        ("qwen3-8b", "qwen3-32b", True),
    ],
)
def test_a_date_or_a_provider_makes_no_other_model(asked: str, named: str, another: bool):
    assert is_another(asked, named) is another
