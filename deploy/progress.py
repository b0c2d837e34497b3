"""Types of the callbacks with which long operations report their progress."""

from collections.abc import Callable

ReportProgress = Callable[[str, int, int], None]
"""Called with a phase, the units done and the units in all; 0 in all where the total is not known yet."""

ReportCount = Callable[[int], None]
"""Called with a count: the units done so far or, of a lag, the records left."""

Advance = Callable[[], None]
"""Called once for each finished unit."""
