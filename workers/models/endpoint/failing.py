"""Questions at which an endpoint fails again and again, while it answers others: they are at fault."""

from collections import OrderedDict
from time import monotonic
from typing import Any, Final

_ROUNDS: Final = 3
"""Rounds of retries in a row that fail, each with a short question answered after it."""
_TRUSTED_S: Final = 600.0
"""Seconds after the last question of this kind in which one round is enough: most often it is half of that question."""
_MAX_QUESTIONS: Final = 1024


class FailingQuestions:
    """Counts failed rounds of retries by question, of the last questions only."""

    def __init__(self) -> None:
        self._rounds: OrderedDict[str, int] = OrderedDict()
        self._found: OrderedDict[str, None] = OrderedDict()
        self._found_at = float("-inf")

    def __contains__(self, question: str) -> bool:
        return question in self._found

    @property
    def any_known(self) -> bool:
        """Whether a question was found to be at fault."""
        return bool(self._found)

    @property
    def any_noted(self) -> bool:
        """Whether the failures of a question are known, or were found to be its own."""
        return bool(self._rounds or self._found)

    def failed(self, question: str, *, answers_others: bool) -> bool:
        """Note a round of retries that failed, and return whether the question is at fault.

        ``answers_others``: whether the endpoint answered a short question after it.
        """
        rounds = self._rounds.pop(question, 0) + 1
        if not answers_others:
            return False
        if rounds < (1 if monotonic() - self._found_at < _TRUSTED_S else _ROUNDS):
            self._rounds[question] = rounds
            _bound(self._rounds)
            return False
        self._found_at = monotonic()
        self._found[question] = None
        _bound(self._found)
        return True

    def answered(self, question: str) -> None:
        """Forget the failures of a question that was answered."""
        self._rounds.pop(question, None)
        self._found.pop(question, None)


def _bound(kept: "OrderedDict[str, Any]") -> None:
    """Forget the oldest of too many."""
    if len(kept) > _MAX_QUESTIONS:
        kept.popitem(last=False)
