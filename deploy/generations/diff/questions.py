"""Questions asked of two generations: the overlap of the retrieved utterances."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from eunoe.schemas.base import Text, Value
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import DEFAULT_TENANT, Strategy
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.versions import describe
from eunoe.workers.compress.reads import read_stats
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.recall.sources import Query
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.respond.strategies import recall_sources
from eunoe.workers.stage import Dependencies


class DiffQuestion(Value):
    """A line of a file of questions."""

    question: Text
    conversation: str = Field(min_length=1)
    tenant: str = DEFAULT_TENANT
    speaker: str = ""
    """The asker's name; empty where unknown."""

    @property
    def key(self) -> str:
        """The conversation's key."""
        return conversation_key(self.tenant, self.conversation)


@dataclass(frozen=True, slots=True)
class Overlap:
    """The contexts of two generations for one question."""

    question: DiffQuestion
    shared: float
    """Utterances behind both contexts ÷ utterances behind either; 1 where there are none."""
    tokens: tuple[int, int]
    """Lengths of the contexts: (old, new)."""
    utterances: tuple[tuple[str, ...], tuple[str, ...]]
    """Ids of the utterances behind the contexts: (old, new)."""


def read_questions(path: Path) -> list[DiffQuestion]:
    """The questions of a file of JSON lines; raises `Refused` with the number of the first wrong line."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror}") from None
    found: list[DiffQuestion] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(DiffQuestion.from_json(line))
        except ValidationError as error:
            form = '{"conversation": "…", "question": "…"}'
            raise Refused(f"{path}, line {number}: {describe(error)}; a line is {form}") from None
    if not found:
        raise Refused(f"{path}: no questions in it")
    return found


async def ask_both(
    old: Dependencies, new: Dependencies, questions: Sequence[DiffQuestion], strategy: Strategy | None
) -> list[Overlap]:
    """The overlap of the contexts for each question, retrieved by each generation's settings; raises `Unavailable`."""
    found: list[Overlap] = []
    for question in questions:
        before, after = await _shown(old, question, strategy), await _shown(new, question, strategy)
        found.append(overlap(question, before, after))
    return found


def overlap(question: DiffQuestion, old: Context, new: Context) -> Overlap:
    """The overlap of two contexts."""
    before, after = _utterances(old), _utterances(new)
    either = {*before, *after}
    shared = len({*before} & {*after}) / len(either) if either else 1.0
    return Overlap(question, shared, (old.tokens, new.tokens), (before, after))


async def _shown(dependencies: Dependencies, question: DiffQuestion, strategy: Strategy | None) -> Context:
    settings = dependencies.settings.of(RespondSettings)
    stats = await read_stats(dependencies.store, question.key)
    query = Query(
        key=question.key,
        text=question.question,
        speakers=stats.speakers,
        budget_tokens=settings.budget_tokens,
        asker=question.speaker,
        session=stats.session + 1,
    )
    return await recall_sources(dependencies)[strategy or settings.strategy].recall(query)


def _utterances(context: Context) -> tuple[str, ...]:
    return tuple(dict.fromkeys(id_ for row in context.rows for id_ in row.cites))
