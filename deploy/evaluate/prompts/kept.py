"""A language model whose answers to the cases are kept in a file, with their cost, so that a repeat is free."""

import asyncio
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, TypeVar

import orjson

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerFault, AnswerInvalid, Refused
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.models.endpoint.language_model import OpenAIModel
from eunoe.workers.models.questions.metering import ItemCounts, Usage
from eunoe.workers.models.questions.recording import request_hash

AnswerT = TypeVar("AnswerT", bound=Value)


class KeptAnswer(Value):
    """One answer of a model, and its cost."""

    key: str
    """Hash of the request."""
    answer: str | None = None
    """JSON of the form; `None` where the answer was not of the form."""
    fault: str = ""
    kind: AnswerFault = AnswerFault.UNREADABLE
    """The kind of the fault, where there is one."""
    partial: str = ""
    """The text of an answer that was cut off."""
    seconds: float
    prompt_tokens: int
    completion_tokens: int


class AnswerFile:
    """Kept answers by request, in a file of JSON lines that only grows; `None` keeps them in memory."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._kept: dict[str, KeptAnswer] = {}
        if path is not None and path.is_file():
            for line in path.read_bytes().splitlines():
                self._remember(line)

    def _remember(self, line: bytes) -> None:
        try:
            kept = KeptAnswer.from_json(line)
        except ValueError:  # the last line of a run that was killed
            return
        self._kept[kept.key] = kept

    def get(self, key: str) -> KeptAnswer | None:
        """The answer to a request; `None` where there is none."""
        return self._kept.get(key)

    def put(self, kept: KeptAnswer) -> None:
        """Keep an answer; raises `Refused` where the file cannot be written."""
        self._kept[kept.key] = kept
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b") as file:
                begin = b"\n" if _is_torn(file) else b""  # or this answer would be lost with the half line before it
                file.write(begin + orjson.dumps(kept.model_dump(), option=orjson.OPT_APPEND_NEWLINE))
        except OSError as error:
            raise Refused(f"{self._path}: answers cannot be kept: {error.strerror}") from None


def _is_torn(file: BinaryIO) -> bool:
    """Whether the last line has no end, as a run leaves it that was killed."""
    if not file.seek(0, os.SEEK_END):
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"


@dataclass(slots=True)
class CaseCost:
    """Questions, tokens and seconds of one case, kept answers included."""

    asked: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    paid: int = 0
    """Questions that were asked now and not found in the file."""


@dataclass(slots=True)
class KeptModel:
    """A model that answers from the file where it can. One instance serves one case."""

    model: OpenAIModel
    answers: AnswerFile
    cost: CaseCost = field(default_factory=CaseCost)
    items: ItemCounts = field(default_factory=ItemCounts)
    """The items of the case by outcome."""
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def name(self) -> str:
        """The model's name at the endpoint."""
        return self.model.name

    async def fits(self, prompt: Prompt) -> bool:
        """Whether prompt and answer are within what is known of the model's limits."""
        return await self.model.fits(prompt)

    def limit_s(self, *, urgent: bool) -> float | None:
        """Seconds in flight that a decision may take."""
        return self.model.limit_s(urgent=urgent)

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        """The kept answer, else the model's; raises what `OpenAIModel.answer` raises."""
        key = request_hash(self.name, prompt, form, self.model.settings.parameters)
        async with self._one:  # tokens are told apart by call
            kept = self.answers.get(key) or await self._ask(key, prompt, form, urgent)
        self.cost.asked += 1
        self.cost.prompt_tokens += kept.prompt_tokens
        self.cost.completion_tokens += kept.completion_tokens
        self.cost.seconds += kept.seconds
        if kept.answer is None:
            raise AnswerInvalid(kept.fault, kept.kind, kept.partial)
        return form.from_json(kept.answer)

    async def _ask(self, key: str, prompt: Prompt, form: type[AnswerT], urgent: bool) -> KeptAnswer:
        before, started = replace(self.model.usage), time.monotonic()
        self.cost.paid += 1
        told: dict[str, object] = {}
        try:
            told["answer"] = (await self.model.answer(prompt, form, urgent=urgent)).model_dump_json()
        except AnswerInvalid as error:
            told.update(fault=str(error), kind=error.fault, partial=error.partial)
        kept = KeptAnswer.model_validate(
            {"key": key, "seconds": round(time.monotonic() - started, 3), **_tokens(before, self.model.usage), **told}
        )
        if kept.kind is not AnswerFault.SLOW:  # another time may be faster
            self.answers.put(kept)
        return kept


def _tokens(before: Usage, after: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": after.prompt_tokens - before.prompt_tokens,
        "completion_tokens": after.completion_tokens - before.completion_tokens,
    }
