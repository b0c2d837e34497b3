"""The fixed forms of answers: one table for all stages, whatever is asked.

An endpoint compiles a schema once and keeps it. Speakers, lines and memories are numbers, which the stages check; words
to choose from are the same in every question. Reading is lenient: ``"3"`` and ``"[3]"`` are 3, a missing text is empty,
and so is one that says "none"; a number that may be left out is 0 where it is none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from eunoe.schemas.base import Value
from eunoe.workers.models.questions.numbering import (
    lines_listed,
    memories_listed,
    number_of,
    number_or_0,
    numbers_listed,
    speaker_or_0,
)

_KINDS = re.compile(r"state|event|preference|plan")
_LEFT_OUT = ("…", "...")
_NOTHING = frozenset({"", "none", "null", "nil", "n/a", "-", "–", *_LEFT_OUT})
"""Texts of models that have nothing to say, the "…" of an example among them."""


def is_nothing(text: str) -> bool:
    """Whether a text only says that there is none."""
    return text.strip().removesuffix(".").casefold() in _NOTHING


def _words(value: object) -> object:
    """A text, empty where it only says that there is none."""
    text = _text(value)
    return "" if isinstance(text, str) and is_nothing(text) else text


def _text(value: object) -> object:
    """An empty text for none; a number as its text."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) else value


def _said(value: object) -> object:
    """A text, empty where it is the "…" of an example."""
    return "" if value in _LEFT_OUT else _text(value)


def _word(value: object) -> object:
    return "None" if value is None else value


def _capitals(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


def _memory_kind(value: object) -> object:
    """One of the four kinds in any case, also ``"a plan"``; an empty text for all else: the rules decide then."""
    named = _KINDS.search(value.casefold()) if isinstance(value, str) else None
    return named.group() if named else ""


def _camel(value: object) -> object:
    """``same_topic``, ``Same topic`` and ``SAMETOPIC`` as ``SameTopic``."""
    bare = re.sub(r"[^a-z]", "", value.casefold()) if isinstance(value, str) else ""
    return _WORDS.get(bare, value)


Number = Annotated[int, BeforeValidator(number_of)]
NumberOr0 = Annotated[int, BeforeValidator(number_or_0)]
SpeakerOr0 = Annotated[int, BeforeValidator(speaker_or_0)]
Numbers = Annotated[tuple[int, ...], BeforeValidator(numbers_listed)]
LineNumbers = Annotated[tuple[int, ...], BeforeValidator(lines_listed)]
MemoryIds = Annotated[tuple[str, ...], BeforeValidator(memories_listed)]
Words = Annotated[str, BeforeValidator(_words)]
Text = Annotated[str, BeforeValidator(_said)]
"""Words that may be "None", as a reply may."""
RelationWord = Annotated[
    Literal["Changed", "Cause", "Reason", "HinderedBy", "React", "Want", "SameTopic", "None"],
    BeforeValidator(_camel),
    BeforeValidator(_word),
]
MemoryKindWord = Annotated[Literal["state", "event", "preference", "plan", ""], BeforeValidator(_memory_kind)]
KindWord = Annotated[Literal["New", "Redundant", "Updated"], BeforeValidator(_camel)]
OperationWord = Annotated[Literal["PASS", "REPLACE", "APPEND", "DELETE", "FUSE"], BeforeValidator(_capitals)]

_WORDS: Final = {
    word.casefold(): word
    for word in (
        *("Changed", "Cause", "Reason", "HinderedBy", "React", "Want", "SameTopic", "None"),
        *("New", "Redundant", "Updated"),
    )
}


class StartRow(Value):
    """The first row of a topic segment."""

    row: Number
    topic: Words = ""


class StartsForm(Value):
    """The first rows of all segments."""

    starts: tuple[StartRow, ...]


class MemoryRow(Value):
    """A sentence to remember."""

    speaker: SpeakerOr0 = Field(default=0, description="The number of the participant who told it.")
    kind: MemoryKindWord = Field(default="", description="The kind of what it tells.")
    text: Words
    until: Words = Field(default="", description="The last day on which it holds, where the lines name one.")
    own: NumberOr0 = Field(default=0, description="The number of a line that this participant said.")
    lines: Numbers = Field(default=(), description="The numbers of all lines that it rests on.")


class MemoriesForm(Value):
    """The sentences to remember."""

    memories: tuple[MemoryRow, ...]


class OperationRow(Value):
    """The operation of a numbered pair."""

    n: Number
    why: Words = ""
    op: OperationWord
    merged: Words = Field(default="", description="The one sentence, for FUSE only.")


class OperationsForm(Value):
    """The operations of all pairs."""

    pairs: tuple[OperationRow, ...]


class RelationRow(Value):
    """The relation of a numbered pair."""

    n: Number
    why: Words = ""
    relation: RelationWord


class RelationsForm(Value):
    """The relations of all pairs."""

    pairs: tuple[RelationRow, ...]


class SummaryRow(Value):
    """The summary of a numbered node."""

    n: Number
    text: Words


class SummariesForm(Value):
    """The summaries of all nodes."""

    nodes: tuple[SummaryRow, ...]


class QuestionForm(Value):
    """A question to memory."""

    question: Words


class InsightRow(Value):
    """An insight about one speaker."""

    kind: KindWord
    speaker: SpeakerOr0 = Field(default=0, description="The number of the speaker that it is about.")
    text: Words
    lines: LineNumbers = Field(default=(), description="The numbers of the lines that it rests on.")
    replaces: MemoryIds = Field(default=(), description="The ids of the memories that it stands for, such as m2.")


class InsightsForm(Value):
    """The insights of a turn."""

    insights: tuple[InsightRow, ...]


class NoteRow(Value):
    """A note that a reply can use."""

    text: Words
    cited: Numbers = Field(default=(), description="The numbers of the rows that it rests on.")


class ReplyForm(Value):
    """Notes, and the reply that rests on the cited rows."""

    notes: tuple[NoteRow, ...] = ()
    cited: Numbers = ()
    text: Text = ""


class VerdictForm(Value):
    """The verdict of a judge of evaluations, after its reasons."""

    why: Text = ""
    verdict: Text


@dataclass(frozen=True, slots=True)
class FormSpec:
    """A fixed form: its name and version, and its shortest valid example, which stands in the prompts."""

    name: str
    version: int
    form: type[Value]
    example: str

    @property
    def tag(self) -> str:
        """Name and version, as part of the hash of a request."""
        return f"{self.name}/{self.version}"


FORMS: Final = (
    FormSpec("Starts", 1, StartsForm, '{"starts": [{"row": 1, "topic": "…"}, {"row": 5, "topic": "…"}]}'),
    FormSpec(
        "Memories",
        2,
        MemoriesForm,
        '{"memories": [{"speaker": 1, "kind": "state", "text": "…", "until": "", "own": 3, "lines": [2, 3]}]}',
    ),
    FormSpec("Operations", 1, OperationsForm, '{"pairs": [{"n": 1, "why": "…", "op": "APPEND", "merged": ""}]}'),
    FormSpec("Relations", 1, RelationsForm, '{"pairs": [{"n": 1, "why": "…", "relation": "None"}]}'),
    FormSpec("Summaries", 1, SummariesForm, '{"nodes": [{"n": 1, "text": "…"}]}'),
    FormSpec("Question", 1, QuestionForm, '{"question": "…"}'),
    FormSpec(
        "Insights",
        2,
        InsightsForm,
        '{"insights": [{"kind": "Updated", "speaker": 1, "text": "…", "lines": [7], "replaces": ["m2"]}]}',
    ),
    FormSpec("Reply", 1, ReplyForm, '{"notes": [{"text": "…", "cited": [1, 2]}], "cited": [1], "text": "…"}'),
    FormSpec("Verdict", 1, VerdictForm, '{"why": "…", "verdict": "…"}'),
)
"""All forms. A change of a form raises its version."""

_BY_CLASS: Final[Mapping[type[Value], FormSpec]] = {spec.form: spec for spec in FORMS}


def spec_of(form: type[Value]) -> FormSpec | None:
    """The entry of a form in the table; `None` for one of an evaluation."""
    return _BY_CLASS.get(form)


def form_name(form: type[Value]) -> str:
    """The name that an endpoint gets for the form's schema."""
    spec = spec_of(form)
    return form.__name__ if spec is None else spec.name


def answer_like(form: type[Value]) -> str:
    """The sentence of a prompt that names the fields; an endpoint without schemas answers by it alone."""
    example = _BY_CLASS[form].example
    return f"Answer with one JSON object of this form and with nothing else:\n{example}"
