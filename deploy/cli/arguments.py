"""Checks of the values on a command line, before a command runs; each error is one line that names the option."""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from pydantic import TypeAdapter, ValidationError

from eunoe.schemas.base import Identifier, Name
from eunoe.schemas.errors import Refused

MAX_BYTES: Final = 32_768
"""UTF-8 bytes of one word: an utterance has no more."""
MAX_NUMBER: Final = 2**31 - 1
_IDENTIFIERS: Final = frozenset({"conversation", "conversations", "tenant"})
_NAMES: Final = frozenset({"speaker", "speak_as"})
_WAITS: Final = frozenset({"timeout"})
_GENERATIONS: Final = frozenset({"generation", "into", "old", "new"})
_IDENTIFIER: Final = TypeAdapter[str](Identifier)
_NAME: Final = TypeAdapter[str](Name)

P = ParamSpec("P")
R = TypeVar("R")


def check_words(words: Sequence[str]) -> None:
    """Raise `Refused` for a word that is empty, too long or not UTF-8."""
    for number, word in enumerate(words, 1):
        option, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
        before = option or (words[number - 2] if number > 1 else "eunoe")
        if not value.strip() and (sign or not option):
            raise Refused(f"argument {number}, after {_shown(before)}, is empty")
        try:
            size = len(word.encode())
        except UnicodeEncodeError:
            raise Refused(f"argument {number}, after {_shown(before)}, is not UTF-8") from None
        if size > MAX_BYTES:
            raise Refused(f"argument {number}, after {_shown(before)}, has {size} bytes; the limit is {MAX_BYTES}")


def checked(command: Callable[P, R]) -> Callable[P, R]:
    """The command, with its values checked before it runs; raises `Refused`, which names the option."""
    parameters = inspect.signature(command).parameters

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in kwargs.items():
            default = parameters[name].default
            if value is not None and value != default:
                for one in value if isinstance(value, list | tuple) else (value,):
                    _check(name, one)
        return command(*args, **kwargs)

    return run


def _check(name: str, value: Any) -> None:  # noqa: ANN401 - of any parameter
    fault: str | None = None
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        fault = "must be over 0 seconds" if value == 0 and name in _WAITS else _number_fault(value)
    elif isinstance(value, str) and name in _IDENTIFIERS | _NAMES:
        fault = _text_fault(_IDENTIFIER if name in _IDENTIFIERS else _NAME, value)
    elif isinstance(value, str) and name in _GENERATIONS and not _is_generation(value):
        fault = "use 1 to 40 letters, digits, _ and -, a letter or digit first"
    if fault is not None:
        raise Refused(f"{_option(name)} {_shown(str(value))}: {fault}")


def _number_fault(value: float) -> str | None:
    if not math.isfinite(value):
        return "must be a finite number"
    if value < 0:
        return "must not be negative"
    return f"must be at most {MAX_NUMBER}" if value > MAX_NUMBER else None


def _text_fault(adapter: TypeAdapter[str], value: str) -> str | None:
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        return error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
    return None


def _is_generation(value: str) -> bool:
    return len(value) <= 40 and value.isascii() and value[:1].isalnum() and not set(value) - _GENERATION_LETTERS


_GENERATION_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def _option(name: str) -> str:
    return f"--{name.strip('_').replace('_', '-')}" if name not in _IDENTIFIERS else name


def _shown(text: str) -> str:
    """A text for a message: short, printable."""
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
