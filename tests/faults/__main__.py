"""The fault suite: ``python -m tests.faults`` (make test-faults), or random faults for a time (make soak).

Every run feeds the same seeded load to a house of its own; what is remembered afterwards must be, digest for digest,
what an undisturbed run remembers. Exits with 1 where anything differs, with 2 for a fault that does not exist.
"""

import argparse
import asyncio
import json
import logging
import random
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from tests.faults.faults import ANYTHING, FAULTS, REFERENCE
from tests.faults.load import Size
from tests.faults.run import Fault, Outcome, Trial, run_fault
from tests.faults.table import Row, draw
from tests.faults.workers import Nursery

console = Console(stderr=True, highlight=False, soft_wrap=True)


def main() -> int:
    """Run what the command line asks for. Returns the exit code."""
    asked = _parser().parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a broker that is away is what we wanted
    names = list(FAULTS) if asked.faults == "all" else asked.faults.split(",")
    unknown = sorted(set(names) - set(FAULTS))
    if unknown:
        console.print(f"no fault {', '.join(unknown)}; there are {', '.join(FAULTS)}")
        return 2
    size = Size(asked.conversations, asked.sessions)
    trial = Trial(asked.seed, size, brokers=int(asked.kafka), keep=asked.keep)
    rows = asyncio.run(_soak(trial, asked.minutes) if asked.minutes else _suite(trial, names, asked.runs))
    return _report(rows, as_json=asked.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--faults", default="all", help=f"some of {','.join(FAULTS)} (default: all)")
    parser.add_argument("--runs", type=int, default=1, help="runs of each fault, each with a seed of its own")
    parser.add_argument("--conversations", type=int, default=200, help="conversations in flight (default 200)")
    parser.add_argument("--sessions", type=int, default=2, help="sessions of each (default 2)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the load and of the moments")
    parser.add_argument("--kafka", action="store_true", help="all runs on Apache Kafka, not on the embedded broker")
    parser.add_argument("--minutes", type=float, default=0.0, help="soak: random faults for so long")
    parser.add_argument("--keep", action="store_true", help="keep the logs of every run")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    return parser


async def _suite(trial: Trial, names: Sequence[str], runs: int) -> list[Row]:
    rows = []
    async with Nursery() as other, Nursery() as nursery:
        reference = await _reference(trial, other)
        for name in names:
            rows.append(row := Row(name, trial.plan_of(FAULTS[name]).broker, not_run=FAULTS[name].lacking()))
            for place in range(runs if row.not_run is None else 0):
                await _add_run(row, FAULTS[name], trial, nursery, reference, trial.seed + place)
            if row.not_run:
                console.print(f"{name}: NOT RUN: {row.not_run}", style="yellow")
    return rows


async def _soak(trial: Trial, minutes: float) -> list[Row]:
    """Random faults, single and together, until the time is up."""
    chance, until = random.Random(trial.seed), time.monotonic() + 60 * minutes
    rows: dict[str, Row] = {}
    async with Nursery() as other, Nursery() as nursery:
        reference = await _reference(trial, other)
        able = [fault for fault in (*FAULTS.values(), ANYTHING, ANYTHING) if fault.lacking() is None]
        while time.monotonic() < until:
            fault, seed = chance.choice(able), chance.randrange(10**6)
            row = rows.setdefault(fault.name, Row(fault.name, trial.plan_of(fault).broker))
            await _add_run(row, fault, trial, nursery, reference, seed)
        lacking = [
            Row(name, trial.plan_of(fault).broker, not_run=why)
            for name, fault in FAULTS.items()
            if (why := fault.lacking())
        ]
    return [*rows.values(), *lacking]


async def _reference(trial: Trial, nursery: Nursery) -> Outcome:
    """The undisturbed run; its processes have another hash seed than those of the others."""
    console.print(f"seed {trial.seed}: an undisturbed run of {trial.size.conversations} conversations …")
    reference = await run_fault(REFERENCE, trial, nursery, trial.seed)
    row = Row("none")
    wrong = row.add(reference, reference, trial.load, trial.seed)
    if wrong:
        _tell(row, wrong)
        raise SystemExit("the undisturbed run went wrong: there is nothing to compare with")
    console.print(f"  {reference.seconds:.0f} s, {len(reference.findings.digests)} digests")
    return reference


async def _add_run(row: Row, fault: Fault, trial: Trial, nursery: Nursery, reference: Outcome, seed: int) -> None:
    console.print(f"{fault.name}, seed {seed} …")
    outcome = await run_fault(fault, trial, nursery, seed)
    wrong = row.add(outcome, reference, trial.load, seed)
    told = "[bold red]NOT as undisturbed[/]" if wrong else "as undisturbed"
    ends = dict(outcome.ends) or "none"
    console.print(
        f"  {outcome.seconds:.0f} s, {told}; processes ended: {ends}; model asked {outcome.model_calls} times"
    )
    _tell(row, wrong)


def _tell(row: Row, wrong: Sequence[str]) -> None:
    for told in wrong:
        console.print(f"  {row.fault}: {told}", style="red", markup=False)


def _report(rows: Sequence[Row], *, as_json: bool) -> int:
    good = all(row.good for row in rows)
    if as_json:
        sys.stdout.write(json.dumps({"good": good, "rows": [row.document for row in rows]}) + "\n")
    else:
        Console(highlight=False, width=None if sys.stdout.isatty() else 130).print(draw(rows))
        for row in rows:
            _tell(row, row.told)
            if row.not_run:
                console.print(f"NOT RUN: {row.fault}: {row.not_run}", style="yellow")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
