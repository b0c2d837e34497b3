"""The traffic of a soak test, and the limits that it must keep."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """The amount and the mix of the traffic."""

    minutes: float = 60.0
    rate: float = 2.0
    """Utterances per second, of all conversations together; asks count."""
    conversations: int = 20
    """Conversations under way at once."""
    asks: float = 0.2
    """Share of the utterances that ask; half of these are part of the session, half are not."""
    long: float = 0.1
    """Share of the other utterances that are long: some thousand characters."""
    turns: int = 10
    """Mean number of utterances of a session."""
    sessions: int = 10
    """Sessions after which a conversation ends for good and a new one begins."""
    seed: int = 1
    settle_s: float = 120.0
    """Longest wait, after the traffic, until everything is handled and remembered."""

    @property
    def sample_s(self) -> float:
        """Seconds between two samples."""
        return max(1.0, self.minutes * 60 / 240)


@dataclass(frozen=True, slots=True)
class SoakLimits:
    """Bounds that a run must keep."""

    ask_p95_ms: float = 2_000.0
    """Bound for 95 % of the asks, over the whole run."""
    freshness_p95_s: float = 60.0
    """Bound for 95 % of the sessions: seconds from the end of a session to its memory."""
    growth: float = 1.25
    """Most that asks and freshness may grow from the second quarter to the last, as a factor."""
    memory_growth: float = 1.1
    """The same for the memory of each worker and of the gateway."""
    memory_slack_mb: float = 20.0
    """Growth of a process that is no growth, in MB."""
    slack_ms: float = 250.0
    """The same of asks, in milliseconds; of freshness in hundredths of a second."""
    lag: int = 200
    """Most records that may be left at the median of the last quarter."""
