"""Texts and lines of a dialogue in prompts: shortened, replies from memory marked, tokens estimated."""

from collections.abc import Sequence

from eunoe.schemas.events import Line
from eunoe.workers.text.printed_names import printed_name
from eunoe.workers.text.tokens import count_tokens

FROM_MEMORY = "(a reply from memory, proves nothing)"
"""Prefix of a line that is a reply from memory."""

_BYTES_PER_TOKEN = 4


def speakers_in(lines: Sequence[Line]) -> list[str]:
    """The speakers of the lines that are evidence, in order of appearance."""
    return list(dict.fromkeys(line.speaker for line in lines if line.is_evidence))


def speakers_listed(speakers: Sequence[str]) -> str:
    """The speakers with their numbers from 1, ``1 = Ann``, one a line."""
    return "\n".join(
        f"{number} = {' '.join(printed_name(speaker).split())}" for number, speaker in enumerate(speakers, 1)
    )


def shorten(line: Line, max_chars: int) -> Line:
    """The line as a prompt shows it: without the middle of a long text, a reply from memory marked as one."""
    text = " ".join(line.text.split())
    if len(text) > max_chars:
        tail = max_chars // 4
        text = f"{text[: max_chars - tail]} … {text[-tail:]}"
    shown = text if line.is_evidence else f"{FROM_MEMORY} {text}"
    return line if shown == line.text else line.model_copy(update={"text": shown})


def line_cost(line: Line, max_chars: int) -> int:
    """The estimated tokens of a line in a prompt, with its number."""
    shown = f"{line.speaker} {shorten(line, max_chars).text}"
    return 10 + prompt_tokens(shown)


def prompt_tokens(text: str) -> int:
    """The estimated tokens of a text in a prompt; scripts without spaces are counted by bytes."""
    return max(count_tokens(text), len(text.encode()) // _BYTES_PER_TOKEN)


def fold(text: str, max_chars: int) -> str:
    """The text with white space folded, so that no text can look like a row, and cut to ``max_chars``."""
    folded = " ".join(text.split())
    return folded if len(folded) <= max_chars else folded[: max_chars - 1] + "…"
