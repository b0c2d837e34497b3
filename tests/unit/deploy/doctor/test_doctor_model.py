"""The doctor's check of a model's endpoint: what it names, and what it says to set."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NoReturn

import pytest
from aiohttp import web

from eunoe.deploy.doctor import model
from eunoe.deploy.doctor.checks import all_checks
from eunoe.deploy.doctor.endpoint import measures
from eunoe.deploy.doctor.findings import CheckResult, Level, exit_of, run_checks
from eunoe.deploy.exits import Exit
from eunoe.deploy.local.ports import free_port
from eunoe.deploy.settings import Settings
from tests.support.probed_endpoint import ProbedEndpoint

SETTINGS = Settings(model="m")


async def examined(
    endpoint: ProbedEndpoint, settings: Settings = SETTINGS, path: str = "/v1", **more: str
) -> list[CheckResult]:
    async with endpoint.running(path) as running:
        return await examined_at(running.url, settings, **more)


async def examined_at(url: str, settings: Settings = SETTINGS, **more: str) -> list[CheckResult]:
    environment = {"OPENAI_BASE_URL": url, **more}
    checks = all_checks(settings, environment, thorough=False, model_limit_s=60)
    return await run_checks([one for one in checks if one.part in {"model", "embedder"}], lambda *_: None)


def only(found: list[CheckResult], *words: str) -> CheckResult:
    fitting = [one for one in found if all(word in one.text for word in words)]
    assert len(fitting) == 1, f"{words}: {[(one.level.value, one.text) for one in found]}"
    return fitting[0]


async def test_a_good_endpoint_has_no_fault():
    found = await examined(ProbedEndpoint(models=({"id": "m", "max_model_len": 131_072},), cap=16_384))
    assert exit_of(found) is Exit.OK
    assert {one.level for one in found} <= {Level.OK, Level.NOTE}
    assert only(found, "json_schema").text == "json_schema is followed, with lengths and ranges"
    only(found, "answers of up to 16384 tokens")
    only(found, "a context window of 131072 tokens")
    only(found, "is read to its beginning")
    only(found, "tokens per character", "Korean")


async def test_other_checks_go_on_while_the_client_of_models_is_imported(monkeypatch: pytest.MonkeyPatch):
    gone_on = threading.Event()

    def imported() -> None:
        assert gone_on.wait(5), "the import holds up the event loop"

    monkeypatch.setattr(model, "_import_client", imported)
    asyncio.get_running_loop().call_later(0.01, gone_on.set)
    assert only(await examined(ProbedEndpoint()), "m at", "answers:").level is Level.OK


async def test_a_wrong_key_is_named_and_not_printed():
    found = await examined(ProbedEndpoint(key="right"), OPENAI_API_KEY="sk-wrong")
    (fault,) = [one for one in found if one.level is Level.FAULT]
    assert "OPENAI_API_KEY" in fault.text
    assert "sk-" not in fault.text
    assert exit_of(found) is Exit.FAILED


async def test_an_unknown_model_is_named_with_those_that_are_there():
    found = await examined(ProbedEndpoint(models=({"id": "qwen3-8b"}, {"id": "llama-3"})), Settings(model="qwen3-8"))
    fault = only(found, "has no model 'qwen3-8'")
    assert fault.level is Level.FAULT
    assert "qwen3-8b" in fault.text


async def test_an_address_without_v1_is_mended():
    async with ProbedEndpoint().running() as running:
        found = await examined_at(running.url.removesuffix("/v1"))
        assert only(found, "is no endpoint").text.endswith(f"set OPENAI_BASE_URL={running.url}")


async def test_an_address_of_something_else_is_named():
    assert only(await examined(ProbedEndpoint(models=None), path="/else/v1"), "answers:").level is Level.OK
    async with ProbedEndpoint().running() as running:
        fault = only(await examined_at(running.url.replace("/v1", "/other/v1")), "no OpenAI-compatible endpoint")
    assert fault.level is Level.FAULT


async def test_an_endpoint_that_redirects_is_a_fault_of_the_address():
    async with ProbedEndpoint(vector=8).running() as running, redirecting(running.url) as url:
        found = await examined_at(url, Settings(model="m", embedding="endpoint:e:8"))
    faults = [one for one in found if one.level is Level.FAULT]
    place = running.url.removesuffix("/v1").replace("127.0.0.1", "localhost")
    assert [one.part for one in faults] == ["model", "embedder"]
    assert all(f"redirects to {place}: " in one.text and "set OPENAI_BASE_URL" in one.text for one in faults)
    assert not running.asked


@asynccontextmanager
async def redirecting(url: str) -> AsyncIterator[str]:
    """The address of a server that redirects all requests to another host name of ``url``."""

    async def elsewhere(request: web.Request) -> NoReturn:
        raise web.HTTPTemporaryRedirect(f"{url.replace('127.0.0.1', 'localhost')}{request.path.removeprefix('/v1')}")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", elsewhere)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def test_an_endpoint_that_is_not_there_is_away():
    found = await examined_at(f"http://127.0.0.1:{free_port()}/v1")
    assert only(found, "cannot be reached").level is Level.AWAY
    assert exit_of(found) is Exit.UNAVAILABLE


@pytest.mark.parametrize(
    ("endpoint", "level", "words"),
    [
        (ProbedEndpoint(schema="ignored"), Level.WARNING, "accepted and ignored"),
        (ProbedEndpoint(schema="refused"), Level.WARNING, "json_schema is refused"),
        (ProbedEndpoint(schema="unbounded"), Level.OK, "lengths and ranges in it are refused"),
        (ProbedEndpoint(thoughts="<think>Let me see.</think>"), Level.NOTE, "thinks before it answers"),
        (ProbedEndpoint(refuses=frozenset({"seed"})), Level.NOTE, "seed is not accepted"),
        (ProbedEndpoint(refuses=frozenset({"temperature"})), Level.NOTE, "temperature is not accepted"),
        (ProbedEndpoint(answers_as="tiny"), Level.NOTE, "its answers name the model 'tiny'"),
        (ProbedEndpoint(busy=1), Level.WARNING, "too many (429)"),
        (ProbedEndpoint(cap=4096, names_limits=False), Level.OK, "answers of up to 4096 tokens"),
        (ProbedEndpoint(context=4096), Level.WARNING, "a context window of 4096 tokens"),
        (ProbedEndpoint(cap=2048, context=8192), Level.OK, "a context window of 8192 tokens"),
        (ProbedEndpoint(context=4096, cuts_beginning=True), Level.FAULT, "cut off without a word"),
        (ProbedEndpoint(length_field="max_completion_tokens", cap=9000), Level.OK, "up to 9000 tokens"),
        (ProbedEndpoint(models=None), Level.OK, "answers:"),
    ],
)
async def test_limits_and_abilities_are_found(endpoint: ProbedEndpoint, level: Level, words: str):
    assert only(await examined(replace(endpoint, asked=[])), words).level is level


async def test_the_length_of_vectors_is_set_right():
    settings = Settings(model="m", embedding="endpoint:e:5")
    fault = only(await examined(ProbedEndpoint(vector=8), settings), "vectors of 8 numbers, not 5")
    assert fault.settings == {"EUNOE_EMBEDDING": "endpoint:e:8"}
    right = Settings(model="m", embedding="endpoint:e:8")
    assert only(await examined(ProbedEndpoint(vector=8), right), "vectors of 8 numbers").level is Level.OK


async def test_a_key_alone_stays_offline_and_says_so():
    checks = all_checks(Settings(), {"OPENAI_API_KEY": "sk-x"}, thorough=False, model_limit_s=5)
    found = await run_checks([one for one in checks if one.part == "model"], lambda *_: None)
    assert only(found, "OPENAI_API_KEY alone").settings == {"OPENAI_BASE_URL": "https://api.openai.com/v1"}


async def test_without_redis_the_same_is_said_as_settings():
    found = await examined(ProbedEndpoint(models=({"id": "m", "max_model_len": 65_536},), cap=4096))
    assert only(found, "these settings say it at once").settings == {
        "EUNOE_MODEL_MAX_OUTPUT": "4096",
        "EUNOE_MODEL_CONTEXT_WINDOW": "65536",
    }


async def test_a_model_that_thinks_too_long_for_a_reply_is_named():
    settings = Settings(model="m", model_reply_seconds=0.001)
    found = await examined(ProbedEndpoint(thoughts="<think>Let me see.</think>"), settings)
    assert "EUNOE_MODEL_REPLY_SECONDS" in only(found, "a reply with its thoughts").settings


async def test_a_model_too_slow_for_replies_and_decisions_is_named_with_what_it_needs():
    endpoint = ProbedEndpoint()
    settings = Settings(model="m", model_reply_seconds=0.001, model_decision_seconds=0.001)
    found = await examined(endpoint, settings)
    assert "EUNOE_MODEL_REPLY_SECONDS" in only(found, "a reply may take").settings
    assert "EUNOE_MODEL_DECISION_SECONDS" in only(found, "a decision about memory may take").settings
    assert max(len(str(body["messages"])) for body in endpoint.asked if body["max_tokens"] == 16) > 4_000


async def test_a_slow_model_is_named_also_where_no_long_prompt_is_taken(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measures, "_READ_TOKENS", 9_000)
    settings = Settings(model="m", model_reply_seconds=0.001)
    found = await examined(ProbedEndpoint(context=4_096), settings)
    assert "EUNOE_MODEL_REPLY_SECONDS" in only(found, "a reply may take").settings


async def test_a_parameter_whose_question_failed_is_not_taken_for_refused():
    found = await examined(ProbedEndpoint(fails_at="random number"))
    assert only(found, "whether temperature is accepted is not known").level is Level.WARNING
    assert only(found, "whether seed is accepted is not known").level is Level.WARNING
    only(found, "whether the same question gets the same answer is not known")
    assert not any("left out" in one.text or "gets the same answer (" in one.text for one in found)


async def test_a_server_that_answers_nothing_in_time_and_lists_no_models_is_away():
    found = await examined(
        ProbedEndpoint(models=None, slow_over=0, slow_s=30.0), Settings(model="m", model_timeout_seconds=0.2)
    )
    assert only(found, "did not answer in 0.2 s").level is Level.AWAY
    assert exit_of(found) is Exit.UNAVAILABLE


LISTED = ({"id": "m", "meta": {"n_ctx": 16_384, "n_ctx_train": 32_768}},)


async def test_a_long_prompt_that_is_not_answered_in_time_is_not_refused_and_what_is_known_stays_known():
    endpoint = ProbedEndpoint(models=LISTED, slow_over=5_000, slow_s=30.0)
    found = await examined(endpoint, Settings(model="m", model_timeout_seconds=1.0))
    assert only(found, "about 9000 tokens", "not answered in 1 s").level is Level.WARNING
    assert only(found, "a context window of 16384 tokens").level is Level.OK
    assert not any("refused" in one.text for one in found)


async def test_a_prompt_is_not_tried_that_takes_longer_to_read_than_a_call_may_last():
    endpoint = ProbedEndpoint(models=LISTED, slow_over=500, slow_s=0.3)
    found = await examined(endpoint, Settings(model="m", model_timeout_seconds=1.0))
    assert only(found, "a prompt of 9000 tokens was not tried").level is Level.NOTE
    only(found, "a context window of 16384 tokens")
    assert max(len(str(body["messages"])) for body in endpoint.asked) < 10_000


async def test_the_speed_of_a_slow_model_is_measured_with_a_few_tokens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measures, "_SOON_S", 0.0)
    endpoint = ProbedEndpoint()
    found = await examined(endpoint)
    only(found, "tokens a second")
    counted = [body["max_tokens"] for body in endpoint.asked if "Count from" in body["messages"][-1]["content"]]
    assert counted == [48]


async def test_a_model_of_one_stage_is_asked_too():
    settings = Settings(model="m", models={"respond": {"model": "other"}, "link": {"temperature": 0.5}})
    found = await examined(ProbedEndpoint(models=({"id": "m"}, {"id": "big"})), settings)
    assert only(found, "has no model 'other'").level is Level.FAULT
    both = await examined(ProbedEndpoint(models=({"id": "m"}, {"id": "other"})), settings)
    assert only(both, "other at", "answers:").level is Level.OK


async def test_a_model_that_thinks_gets_more_room():
    endpoint = ProbedEndpoint(thoughts="<think>Let me see.</think>")
    await examined(endpoint)
    bounds = [body["max_tokens"] for body in endpoint.asked]
    assert (bounds[0], bounds[1]) == (512, 1024 + 2048)
