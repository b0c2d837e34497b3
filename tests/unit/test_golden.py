"""Requests to models and memory of one fixed conversation, as hashes that a change of the layout must not move.

A prompt whose words or whose schema change loses its recorded answers: such a change comes alone, with a new version in
the prompt's name, and writes its hash here.
"""

import hashlib
import json
from collections import defaultdict
from typing import TypeVar

from eunoe.deploy.datasets.load import load_conversation
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.schemas.base import Value
from eunoe.schemas.events import Ask, Strategy, Utterance
from eunoe.schemas.ports import Prompt
from eunoe.workers.derive.digest import read_digest
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.models.forms import read_answer, strict_schema
from eunoe.workers.models.recording import request_hash
from eunoe.workers.registry import STAGES
from tests.support.in_memory import make_pipeline
from tests.support.model_server.server import ChatRequest
from tests.support.prompt_answers import PromptAnswers

REQUESTS = {
    "blend/1": "56783ad02aa259e3",
    "blend/1+corrected": "050188d77696eb04",
    "link/1": "464ecedecf099a4b",
    "question/1": "efe544f5b3b286c2",
    "question/1+corrected": "de7365ae855fd46f",
    "reply-refined/1": "7b8e675ef7726b51",
    "reply/1": "e3119a8fcbaf42b6",
    "segment/1": "fead06443732eda7",
    "segment/1+corrected": "f407b2abf3499265",
    "summarize/1": "dc1e702e8b8f2841",
    "tree/1": "e0a708469f0048e2",
    "update/1": "0a6be57d816cb69b",
}
"""Prompt → a hash over the hashes of all its requests."""

WITH_A_MODEL, WITHOUT = "cc960fb5f56e3570", "2c26b334170810d2"
"""The digests of what is remembered."""

ASKED_OFTEN = 3
"""Every so many lines one is an ask, by each strategy in turn."""


AnswerT = TypeVar("AnswerT", bound=Value)


class Listening:
    """A model that answers by the prompt, and keeps the hash of every request."""

    name = "listening"

    def __init__(self) -> None:
        self.answers = PromptAnswers()
        self.hashes: dict[str, set[str]] = defaultdict(set)

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        self.hashes[prompt.name].add(request_hash(self.name, prompt, form))
        schema = strict_schema(form)
        answer = self.answers(ChatRequest(prompt.system, prompt.user, schema, form.__name__, {}))
        return read_answer(answer if isinstance(answer, str) else json.dumps(answer), form)


def sha256(rows: object) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16]


async def played(language: Listening | None) -> InMemoryPipeline:
    pipeline, asks = make_pipeline(language=language), 0
    for number, event in enumerate(load_conversation(CONVERSATION).events):
        if isinstance(event, Utterance) and number % ASKED_OFTEN == 0:
            strategies = tuple(Strategy)
            wish = Ask(request_id=f"r{number}", strategy=strategies[asks % len(strategies)])
            await pipeline.produce(event.model_copy(update={"ask": wish}))
            asks += 1
        else:
            await pipeline.produce(event)
    return pipeline


async def digest_of(pipeline: InMemoryPipeline) -> str:
    key = load_conversation(CONVERSATION).events[0].key
    return (await read_digest(pipeline.store, key, STAGES)).sha256[:16]


async def test_what_models_are_asked() -> None:
    language = Listening()
    pipeline = await played(language)
    assert {name: sha256(sorted(hashes)) for name, hashes in sorted(language.hashes.items())} == REQUESTS
    assert await digest_of(pipeline) == WITH_A_MODEL


async def test_what_is_remembered_without_a_model() -> None:
    assert await digest_of(await played(None)) == WITHOUT
