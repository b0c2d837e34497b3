"""Cases: a stage, a language, an input, and the gold answer that decides without a judge."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import orjson
from pydantic import Field, ValidationError

from eunoe.schemas.base import Value
from eunoe.schemas.errors import Refused
from eunoe.schemas.versions import describe

BUNDLED = "cases.jsonl"


class PromptCase(Value):
    """One case. ``input`` and ``gold`` have the fields of `eunoe.deploy.evaluate.prompts.inputs`, by stage."""

    id: str
    stage: str
    """``segment``, ``summarize``, ``update``, ``link``, ``tree``, ``question``, ``blend`` or ``respond``."""
    language: str
    """Two letters of ISO 639-1, or ``code`` for a chat about code."""
    input: dict[str, Any]
    gold: dict[str, Any] = Field(min_length=1)


def read_cases(path: Path | None = None) -> list[PromptCase]:
    """The cases of a file of JSON lines, or those of the package; raises `Refused` with the line at fault."""
    try:
        data = (resources.files(__package__).joinpath(BUNDLED) if path is None else path).read_bytes()
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror}") from None
    rows = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    cases = [_case(line, f"{path or BUNDLED}, line {number}") for number, line in rows]
    names = [case.id for case in cases]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not cases:
        raise Refused(f"{path or BUNDLED}: {f'several cases are called {twice[0]}' if twice else 'holds no case'}")
    return cases


def _case(line: bytes, where: str) -> PromptCase:
    try:
        return PromptCase.model_validate(orjson.loads(line))
    except orjson.JSONDecodeError as error:
        raise Refused(f"{where}: not JSON: {error.msg}") from None
    except ValidationError as error:
        raise Refused(f"{where}: {describe(error)}") from None


def chosen(cases: Sequence[PromptCase], stages: Sequence[str], languages: Sequence[str]) -> list[PromptCase]:
    """The cases of these stages and languages, all where none is named; raises `Refused` where none is left."""
    for what, wanted, known in (
        ("stage", stages, {case.stage for case in cases}),
        ("language", languages, {case.language for case in cases}),
    ):
        if unknown := sorted(set(wanted) - known):
            raise Refused(f"no case of {what} {unknown[0]!r}; there are {', '.join(sorted(known))}")
    found = [
        case for case in cases if (not stages or case.stage in stages) and (not languages or case.language in languages)
    ]
    if not found:
        raise Refused("no case is of these stages and of these languages")
    return found
