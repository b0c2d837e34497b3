"""Questions asked of two generations: how much of what one would show the other would show too."""

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
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.respond.sources import Query
from eunoe.workers.respond.strategies import recall_sources
from eunoe.workers.stage import Dependencies


class DiffQuestion(Value):
    """A line of a file of questions."""

    question: Text
    conversation: str = Field(min_length=1)
    tenant: str = DEFAULT_TENANT
    speaker: str = ""
    """Who asks; empty where nobody says."""

    @property
    def key(self) -> str:
        """The conversation's key."""
        return conversation_key(self.tenant, self.conversation)


@dataclass(frozen=True, slots=True)
class Overlap:
    """What two generations would show for one question."""

    question: DiffQuestion
    shared: float
    """Utterances behind both contexts ÷ utterances behind either; 1 where neither shows any."""
    tokens: tuple[int, int]
    """Of the contexts: (old, new)."""
    utterances: tuple[tuple[str, ...], tuple[str, ...]]
    """Behind the contexts: (old, new)."""


def read_questions(path: Path) -> list[DiffQuestion]:
    """The questions of a file of JSON lines; raises `Refused` with the line that is none."""
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
            told = '{"conversation": "…", "question": "…"}'
            raise Refused(f"{path}, line {number}: {describe(error)}; a line is {told}") from None
    if not found:
        raise Refused(f"{path}: no questions in it")
    return found


async def ask_both(
    old: Dependencies, new: Dependencies, questions: Sequence[DiffQuestion], strategy: Strategy | None
) -> list[Overlap]:
    """What each generation would show a responder, by its own settings; raises `Unavailable`."""
    found: list[Overlap] = []
    for question in questions:
        before, after = await _shown(old, question, strategy), await _shown(new, question, strategy)
        found.append(overlap(question, before, after))
    return found


def overlap(question: DiffQuestion, old: Context, new: Context) -> Overlap:
    """How far two contexts agree. Pure."""
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
