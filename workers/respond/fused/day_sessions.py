"""Finds the sessions of the days that a question names, where neither words nor sense lead to them."""

from collections.abc import Callable, Sequence
from datetime import date
from itertools import chain

from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.reads import read_session_days
from eunoe.workers.text.periods import Period

MAX_SESSIONS = 8
"""Sessions of one period that are read; of more, so many that lie evenly between its ends."""
MAX_PERIODS = 4
"""Periods of one question whose sessions are looked for, the first ones."""
PROBES = 16
"""Sessions whose days are read at once."""


async def sessions_of_days(store: StateStore, key: str, last: int, periods: Sequence[Period]) -> list[int]:
    """The sessions, among those up to ``last``, that were spoken in on days of the periods.

    Sessions are taken to close in the order of their days: those of an import that came later may be missed.
    """
    found = [await _sessions_of(store, key, last, one) for one in periods[:MAX_PERIODS]]
    return list(dict.fromkeys(chain.from_iterable(found)))


async def _sessions_of(store: StateStore, key: str, last: int, period: Period) -> list[int]:
    begin = await _first_of(store, key, range(1, last + 1), lambda day: day >= period.first)
    end = await _first_of(store, key, range(begin, last + 1), lambda day: day > period.last)
    return spread(range(max(1, begin - 1), end))  # the one before may have gone on over midnight


async def _first_of(store: StateStore, key: str, sessions: range, is_there: Callable[[date], bool]) -> int:
    """The first of the sessions whose day is there, or else the number behind them; days are taken to rise."""
    low, high = sessions.start, sessions.stop
    while low < high:
        probes = spread(range(low, high), PROBES)
        days = await read_session_days(store, key, probes)
        if not days:
            return low
        found = next((session for session in days if is_there(days[session])), high)
        low = max([low, *(session + 1 for session in days if session < found)])
        high = found
        if len(probes) < PROBES:  # all of them were read
            return high
    return low


def spread(numbers: range, most: int = MAX_SESSIONS) -> list[int]:
    """All of the numbers, or ``most`` of them that lie evenly, the first and the last too."""
    if len(numbers) <= most:
        return list(numbers)
    return [numbers[place * (len(numbers) - 1) // (most - 1)] for place in range(most)]
