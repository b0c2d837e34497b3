"""The time of day of a process, undisturbed by clocks that are set while it runs."""

from datetime import UTC, datetime, timedelta
from time import monotonic

_STARTED = datetime.now(UTC)
_STARTED_AT = monotonic()


def steady_now() -> datetime:
    """The wall clock at the start of the process, advanced by the monotonic clock; in UTC."""
    return _STARTED + timedelta(seconds=monotonic() - _STARTED_AT)
