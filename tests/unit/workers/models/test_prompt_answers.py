"""The model of the fault suite: every answer passes its checks, and another prompt gets another answer."""

import asyncio
from dataclasses import replace

import pytest

from eunoe.schemas.events import Ask
from eunoe.workers.models.endpoint.client import Endpoint
from eunoe.workers.models.endpoint.language_model import OpenAIModel, OpenAISettings
from eunoe.workers.registry import STAGES
from tests.support import prompt_answers
from tests.support.in_memory import ended, make_pipeline, utterance
from tests.support.model_server.server import ChatRequest, ModelServer, ServerSettings
from tests.support.prompt_answers import PromptAnswers
from tests.support.whole_state import read_digest

KEY = "default/c"
WORDS = ("dog", "knee", "exam", "garden", "sister", "piano", "flu", "boat")


async def _remember(script: PromptAnswers, word: str = "dog") -> tuple[str, dict[str, int], str]:
    """Digest, counts and state of three sessions with asks, and the text of the state."""
    async with ModelServer(ServerSettings(scripts={"*": script})) as server:
        model = OpenAIModel(OpenAISettings(Endpoint(model="m", base_url=server.base_url, key="k")))
        pipeline = make_pipeline(language=model)
        for number in range(1, 13):
            ask = Ask(request_id=f"r{number}") if number % 3 == 0 else None
            told = f"My {WORDS[number % 8] if number != 1 else word} is on my mind, {number} times."
            await pipeline.produce(utterance(number, told, session_id=f"s{(number - 1) // 4}", ask=ask))
        await pipeline.produce(ended("s0"), ended("s1"), ended("s2"))
        await model.aclose()
        assert len(pipeline.replies()) == 4
    digest = await read_digest(pipeline.store, KEY, STAGES)
    return digest.sha256, digest.counts, str(digest.state)


@pytest.fixture
def _no_hopeless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_answers, "HOPELESS", 0.0)


@pytest.mark.usefixtures("_no_hopeless")
async def test_no_answer_falls_back_and_all_stages_have_something_to_decide() -> None:
    _, counts, state = await _remember(PromptAnswers())
    assert "'fallback': True" not in state
    for table in ("update/memories", "link/edges", "tree/nodes"):
        assert counts[table] > 1, table


async def test_malformed_first_answers_change_nothing_and_hopeless_questions_fall_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prompt_answers, "HOPELESS", 0.3)
    plain, malformed, again = await asyncio.gather(
        _remember(PromptAnswers()), _remember(replace(PromptAnswers(), malformed=0.5)), _remember(PromptAnswers())
    )
    assert plain[0] == malformed[0] == again[0]
    assert "'fallback': True" in plain[2]
    assert "'fallback': False" in plain[2]


async def test_one_other_word_changes_what_is_remembered_later() -> None:
    one, two = await asyncio.gather(_remember(PromptAnswers()), _remember(PromptAnswers(), "cat"))
    assert one[0] != two[0]


def test_the_probe_of_an_endpoint_is_answered():
    probe = ChatRequest(system="", user="Say OK.", schema=None, form="", body={})
    assert PromptAnswers()(probe) == "OK"
