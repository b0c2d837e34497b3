"""Models with habits of writing, over all stages: they come to the same memory, at the same calls."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from eunoe.schemas.base import Value
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.models.questions.answer_forms import form_name
from eunoe.workers.models.questions.forms import strict_schema
from eunoe.workers.models.questions.reading import read_answer
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.tree.settings import TreeSettings
from tests.support.changes import events
from tests.support.in_memory import make_pipeline
from tests.support.model_server.server import ChatRequest
from tests.support.prompt_answers import PromptAnswers
from tests.support.whole_state import read_digest

AnswerT = TypeVar("AnswerT", bound=Value)
Answer = dict[str, Any]
SETTINGS = StageSettings(intake=IntakeSettings(blend_unasked=True), tree=TreeSettings(ask_model=True))


def items_alone(answer: Answer) -> str:
    """One item a line, without their list."""
    rows = next(iter(answer.values()))
    is_list = len(answer) == 1 and isinstance(rows, list) and rows
    return "\n".join(map(json.dumps, rows)) if is_list else json.dumps(answer)


def taken_back(answer: Answer) -> str:
    """A wrong answer before the right one."""
    wrong = {name: [_wrong(row) for row in part] if isinstance(part, list) else part for name, part in answer.items()}
    return f"{json.dumps(wrong)}\n\nWait, I made a mistake. Corrected:\n{json.dumps(answer)}"


def _wrong(row: Answer) -> Answer:
    return {name: {"op": "DELETE", "relation": "Cause", "text": "Wrong."}.get(name, part) for name, part in row.items()}


def marking(answer: Answer) -> str:
    """Numbers of lines behind the texts that rest on them."""
    marked = {
        name: [{**row, "text": f"{row['text']} [{row['lines'][0]}]"} for row in answer[name]]
        for name in ("memories", "insights")
        if name in answer
    }
    return json.dumps(answer | marked)


class Writing:
    """Answers by the prompt, in some way of writing."""

    name = "writing"

    def __init__(self, write: Callable[[Answer], str]) -> None:
        self.answers, self.write, self.calls = PromptAnswers(), write, 0

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        self.calls += 1
        request = ChatRequest(prompt.system, prompt.user, strict_schema(form), form_name(form), {})
        answer = self.answers(request)
        return read_answer(answer if isinstance(answer, str) else self.write(answer), form)


async def remembered(write: Callable[[Answer], str]) -> tuple[str, int]:
    """The digest of the memory, and the calls that it took."""
    model = Writing(write)
    pipeline = make_pipeline(SETTINGS, model)
    await pipeline.produce(*events())
    return (await read_digest(pipeline.store, "default/c", STAGES)).sha256, model.calls


async def test_a_way_of_writing_changes_no_memory():
    plain = await remembered(json.dumps)
    for write in (str, items_alone, taken_back, marking):
        assert await remembered(write) == plain, write
