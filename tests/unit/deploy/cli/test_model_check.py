"""A wrong key, model or address is named by every command that waits for a model."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from eunoe.deploy.cli.evalmodels import open_checked_models
from eunoe.deploy.cli.model_check import keep_model_fault, model_checked, model_fault_named, refuse_wrong_model
from eunoe.deploy.local.lock import DirectoryLock
from eunoe.deploy.local.notice import StackUrls, read_model_fault, write_notice
from eunoe.deploy.settings import read_settings
from eunoe.schemas.errors import Refused, Unavailable
from tests.support.model_server.behaviour import Behaviour
from tests.support.model_server.server import ModelServer, ServerSettings

URLS = StackUrls(kafka="127.0.0.1:1", redis_url="redis://127.0.0.1:2", qdrant_url="http://127.0.0.1:3", epoch=1, pid=1)

WRONG = {
    "key": (ServerSettings(key="right"), "the key is missing or wrong"),
    "model": (ServerSettings(model="another"), "has no model 'm'; it has another"),
    "no endpoint": (ServerSettings(behaviour=Behaviour(status=405)), "is no OpenAI-compatible endpoint"),
}


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    monkeypatch.setenv("EUNOE_MODEL", "m")


@pytest.fixture(params=WRONG)
async def said(request, monkeypatch):
    """What a message must say of an endpoint that refuses the deployment."""
    settings, text = WRONG[request.param]
    async with ModelServer(settings) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield text


async def test_a_command_that_begins_with_the_model_is_refused(said):
    with pytest.raises(Refused, match=said):
        await refuse_wrong_model(read_settings())


async def test_an_evaluation_is_refused_before_anything_is_read(said):
    async with AsyncExitStack() as closing:
        with pytest.raises(Refused, match=said):
            await open_checked_models(read_settings(), closing)


async def test_a_command_that_waits_for_workers_names_it_meanwhile(said, capsys):
    printed = ""
    async with model_fault_named(read_settings()), asyncio.timeout(30):
        while "fault" not in printed:
            await asyncio.sleep(0.01)
            printed += capsys.readouterr().err
    assert said in " ".join(printed.split())


async def test_an_ask_names_what_the_running_stack_found_at_its_start(said, capsys, tmp_path, monkeypatch):
    async with model_checked(read_settings()) as checking:
        keep_model_fault(tmp_path, checking)
        await checking
    monkeypatch.delenv("OPENAI_BASE_URL")
    capsys.readouterr()
    assert read_model_fault(tmp_path) == "", "no stack runs here"
    with DirectoryLock(tmp_path):
        write_notice(tmp_path, URLS)
        assert said in read_model_fault(tmp_path)
        async with model_fault_named(read_settings(), tmp_path):
            pass
    assert said in " ".join(capsys.readouterr().err.split())


async def test_a_model_that_answers_leaves_nothing_to_name(capsys, tmp_path, monkeypatch):
    async with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        async with model_checked(read_settings()) as checking:
            keep_model_fault(tmp_path, checking)
            found = await checking
    assert {one.level for one in found} == {"ok"}
    with DirectoryLock(tmp_path):
        write_notice(tmp_path, URLS)
        assert read_model_fault(tmp_path) == ""


async def test_an_endpoint_that_is_away_is_told_from_one_that_refuses(monkeypatch):
    async with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    with pytest.raises(Unavailable) as away:
        await refuse_wrong_model(read_settings())
    assert not isinstance(away.value, Refused)
