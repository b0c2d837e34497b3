"""The table of a fault suite."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from tests.faults.load import Load
from tests.faults.run import Outcome, differences


@dataclass
class Row:
    """All runs of one fault."""

    fault: str
    broker: str = "embedded"
    runs: int = 0
    events: int = 0
    ends: Counter[int] = field(default_factory=Counter)
    """Exit codes of processes that ended while the house worked, by a fault or by themselves."""
    redelivered: int = 0
    lost: int = 0
    duplicated: int = 0
    in_order: bool = True
    letters_exact: bool = True
    digest_equal: bool = True
    erased: int = 0
    """Conversations of which a part was erased."""
    model_calls: int = 0
    seconds: float = 0.0
    seeds: list[int] = field(default_factory=list)
    not_run: str | None = None
    told: list[str] = field(default_factory=list)
    """What is wrong, in words."""

    @property
    def good(self) -> bool:
        """True: nothing is wrong; what was not run is no fault."""
        return not (self.lost or self.duplicated or self.told)

    def add(self, outcome: Outcome, reference: Outcome, load: Load, seed: int) -> list[str]:
        """Count one more run; returns what is wrong with it, in words."""
        found = outcome.findings
        differing = differences(outcome.rebuilt or reference.findings, found)
        if outcome.erased:
            differing += differences(reference.findings, found, outcome.erased)
        self.runs += 1
        self.events += load.records
        self.ends += outcome.ends
        self.redelivered += found.redelivered
        self.lost += len(found.lost)
        self.duplicated += len(found.duplicated)
        self.in_order &= not found.disorder
        self.letters_exact &= not found.letters
        self.digest_equal &= not differing
        self.erased += len(outcome.erased)
        self.model_calls += outcome.model_calls
        self.seconds += outcome.seconds
        self.seeds.append(seed)
        parts = (outcome.faults, found.lost, found.duplicated, found.disorder, found.letters)
        wrong = [told for part in parts for told in part[:5]]
        wrong += [f"another digest: {told}" for told in differing[:5]]
        if outcome.logs is not None and wrong:
            wrong.append(f"logs: {outcome.logs}")
        self.told += wrong
        return wrong

    @property
    def document(self) -> dict[str, Any]:
        """For scripts."""
        return {**asdict(self), "ends": dict(self.ends), "good": self.good, "seconds": round(self.seconds, 1)}


_WORDS = ("fault", "broker")


def draw(rows: Sequence[Row]) -> Table:
    """As people read it."""
    table = Table()
    for name in (
        "fault",
        "broker",
        "runs",
        "events",
        "ends",
        "redelivered",
        "lost",
        "duplicated",
        "order",
        "dead letters",
    ):
        table.add_column(name, justify="left" if name in _WORDS else "right", no_wrap=name in _WORDS)
    table.add_column("digest equal", justify="right")
    table.add_column("s", justify="right")
    for row in rows:
        if row.not_run:
            table.add_row(row.fault, row.broker, "[yellow]NOT RUN[/]")
            continue
        counts = (row.runs, row.events, row.ends.total(), row.redelivered, row.lost, row.duplicated)
        table.add_row(
            row.fault,
            row.broker,
            *map(str, counts),
            _said(row.in_order, "kept", "BROKEN"),
            _said(row.letters_exact, "exact", "WRONG"),
            _said(row.digest_equal, "yes", "NO"),
            f"{row.seconds:.0f}",
        )
    return table


def _said(good: bool, yes: str, no: str) -> str:
    return yes if good else f"[bold red]{no}[/]"
