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
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.models.questions.answer_forms import form_name
from eunoe.workers.models.questions.forms import strict_schema
from eunoe.workers.models.questions.reading import read_answer
from eunoe.workers.models.questions.recording import request_hash
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.tree.settings import TreeSettings
from tests.support.in_memory import make_pipeline
from tests.support.model_server.server import ChatRequest
from tests.support.prompt_answers import PromptAnswers
from tests.support.whole_state import read_digest

REQUESTS = {
    "blend/5": "9420e0a7dc8d6395",
    "blend/5+corrected": "329390d1a906a9be",
    "link/3": "b5a245d355448446",
    "question/4": "b43b58b4c7e79be9",
    "reply-refined/4": "afe948938c93c5bb",
    "reply/4": "e59c8ef2173e3532",
    "reply/4+corrected": "554b5cc79d1fd0cc",
    "segment/2": "b764cf5276d051b1",
    "summarize/4": "b3482418667ff05e",
    "summarize/4+corrected": "f8dca2dad3ac42c4",
    "tree/4": "33a209c0ac977376",
    "tree/4+corrected": "45f41b0b1a76e96a",
    "update/2": "2bcaf3fd5e4d4bbc",
}
"""Prompt → a hash over the hashes of all its requests."""

WITH_A_MODEL, WITHOUT = "0e76ef8b469af304", "fb8daa9378d7be92"
"""The digests of what is remembered."""

ASKED_OFTEN = 3
"""Every so many lines one is an ask, by each of these strategies in turn."""
ASKED_BY = (
    Strategy.SEGMENT,
    Strategy.TIMELINE,
    Strategy.TREE,
    Strategy.CURRENT,
    Strategy.INSIGHT,
    Strategy.FUSED,
)
"""Fixed, so that the hashes do not move when a strategy is added."""


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
        answer = self.answers(ChatRequest(prompt.system, prompt.user, schema, form_name(form), {}))
        return read_answer(answer if isinstance(answer, str) else json.dumps(answer), form)


def sha256(rows: object) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16]


async def played(language: Listening | None) -> InMemoryPipeline:
    settings = StageSettings(tree=TreeSettings(ask_model=True))
    pipeline, asks = make_pipeline(settings, language), 0
    for number, event in enumerate(load_conversation(CONVERSATION).events):
        if isinstance(event, Utterance) and number % ASKED_OFTEN == 0:
            wish = Ask(request_id=f"r{number}", strategy=ASKED_BY[asks % len(ASKED_BY)])
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
