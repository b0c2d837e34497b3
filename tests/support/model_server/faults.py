"""The faults of model endpoints, and which request gets which."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Fault(StrEnum):
    """What may go wrong with one request."""

    INVALID_JSON = "invalid-json"
    PROSE = "prose"
    WRONG_IDS = "wrong-ids"
    CUT = "cut"
    """Half an answer, finish_reason length."""
    TOO_MANY = "429"
    ERROR = "500"
    HANG = "hang"
    DROP = "drop"
    """The connection breaks."""


ANSWER_FAULTS = frozenset({Fault.INVALID_JSON, Fault.PROSE, Fault.WRONG_IDS, Fault.CUT})


@dataclass(frozen=True, slots=True)
class FaultRequest:
    """One request, as a plan of faults sees it."""

    hash: str
    seen: int
    """How often the same request came before."""
    number: int
    """How many requests came before."""


class Plan(Protocol):
    """Chooses the fault of a request."""

    def __call__(self, arrival: FaultRequest) -> Fault | None: ...


def no_faults(arrival: FaultRequest) -> Fault | None:
    """All goes well."""
    return None


def by_schedule(*faults: Fault | None) -> Plan:
    """The first request gets the first fault, and so on; after the last all goes well."""

    def plan(arrival: FaultRequest) -> Fault | None:
        return faults[arrival.number] if arrival.number < len(faults) else None

    return plan


def by_rate(rates: Mapping[Fault, float]) -> Plan:
    """Each fault for its share of requests, chosen by the request's hash: the same run gets the same faults.

    A request that comes again is drawn again, so that a retry may go well.
    """
    if sum(rates.values()) > 1:
        raise ValueError("the rates add up to more than 1")

    def plan(arrival: FaultRequest) -> Fault | None:
        digest = hashlib.sha256(f"{arrival.hash} {arrival.seen}".encode()).digest()
        drawn = int.from_bytes(digest[:8], "big") / 2**64
        for fault, rate in rates.items():
            drawn -= rate
            if drawn < 0:
                return fault
        return None

    return plan


MIXED: Mapping[Fault, float] = {
    Fault.INVALID_JSON: 0.05,
    Fault.PROSE: 0.05,
    Fault.WRONG_IDS: 0.05,
    Fault.CUT: 0.05,
    Fault.TOO_MANY: 0.05,
    Fault.ERROR: 0.05,
    Fault.DROP: 0.03,
}
"""A bad day: a third of all requests go wrong, a fifth of all answers."""


def parse_rates(text: str) -> Mapping[Fault, float]:
    """``none``, ``mixed``, or ``cut=0.1,500=0.05``."""
    if text == "none":
        return {}
    if text == "mixed":
        return MIXED
    pairs: Sequence[tuple[str, str, str]] = [part.partition("=") for part in text.split(",")]
    return {Fault(name): float(rate) for name, _, rate in pairs}
