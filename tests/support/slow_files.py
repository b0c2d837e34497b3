"""Files of tests that a run of the slow tests, or of all others, need not import: imports take most of its start."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SLOW: Final = "slow"
NOT_SLOW: Final = "not slow"
_MARK: Final = b"pytest.mark.slow"
_WHOLE: Final = re.compile(rb"^pytestmark = [^\n]*\bpytest\.mark\.slow\b", re.MULTILINE)


def selects_none(expression: str, text: bytes) -> bool:
    """Whether a run with ``-m expression`` runs no test of the file that has this text, as far as the text says so."""
    if expression == SLOW:
        return _MARK not in text
    return expression == NOT_SLOW and _WHOLE.search(text) is not None


def unnamed(files: Iterable[Path]) -> list[Path]:
    """The files of slow tests whose text does not name the mark: `selects_none` would leave these out."""
    return sorted(path for path in set(files) if _MARK not in path.read_bytes())
