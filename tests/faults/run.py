"""One run: a house, a load, a fault that acts meanwhile, and what came of it beside the reference."""

import asyncio
import random
import secrets
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from eunoe.schemas.errors import EunoeError
from tests.faults.findings import Findings, Finish, examine
from tests.faults.house import PARTITIONS, House, Plan, open_house
from tests.faults.load import Load, Size, make_load
from tests.faults.rebuilding import rebuild
from tests.faults.workers import EXPECTED, Nursery
from tests.support.command import until

_CRASHED = "eunoe crashed"
"""The line that a process logs above the traceback of a crash begins with this, after its time."""
_CRASH_CHARACTERS = 6000

Act = Callable[[House, Load, random.Random], Awaitable[None]]
"""What a fault does to a house that works off a load."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong."""

    name: str
    act: Act
    plan: Plan = field(default_factory=Plan)
    lacking: Callable[[], str | None] = lambda: None
    """Why it cannot be run here; None: it can."""
    rebuilt: bool = False
    """True: time decides what is remembered; it is compared with a rebuild, not with the undisturbed run."""
    goes_back: bool = False
    """True: Redis loses what it acknowledged. That must be noticed; asks may be answered again, in other words."""
    erases: bool = False
    """True: some is erased. All of it is compared with a rebuild, the rest with the undisturbed run, too."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What all runs of a suite have in common."""

    seed: int
    size: Size = field(default_factory=Size)
    pause_s: float = 0.7
    """Between two waves of the load."""
    finish_s: float = 400.0
    """How long a house may take, once the fault is over."""
    brokers: int = 0
    """Of Apache Kafka, for faults that name no number; 0: the embedded broker."""
    keep: bool = False
    """True: the logs of a run that went wrong stay."""

    def plan_of(self, fault: Fault) -> Plan:
        """What the house of a fault is made of in this suite."""
        return replace(fault.plan, brokers=fault.plan.brokers or self.brokers)

    @property
    def load(self) -> Load:
        """The same for every run: that is what makes their digests equal."""
        return make_load(self.seed, self.size, PARTITIONS)


@dataclass
class Outcome:
    """What a run was like."""

    findings: Findings = field(default_factory=Findings)
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)
    """What went wrong with the run itself: it did not finish, a process ended as it should not."""
    ends: Counter[int] = field(default_factory=Counter)
    """How processes ended while the house worked: exit code → times."""
    logs: Path | None = None
    rebuilt: Findings | None = None
    """What a rebuild made of the same log."""
    erased: frozenset[str] = frozenset()
    """The keys of conversations of which a part was erased."""
    model_calls: int = 0
    """How often the model was asked."""


async def run_fault(fault: Fault, trial: Trial, nursery: Nursery, seed: int) -> Outcome:
    """Run the load under the fault and judge what is left; ``seed`` draws the fault's moments."""
    begun, outcome = time.monotonic(), Outcome()
    directory = Path(tempfile.mkdtemp(prefix=f"eunoe-fault-{fault.name}-"))
    outcome.logs = directory if trial.keep else None
    try:
        plan = trial.plan_of(fault)
        name = f"f{secrets.token_hex(4)}"
        async with open_house(plan, directory / "house", name, nursery) as house:
            await _live_through(house, fault, trial, random.Random(f"{fault.name} {seed}"), outcome)
            outcome.erased, outcome.model_calls = frozenset(house.erased), house.model.stats["chat"]
            if fault.rebuilt or fault.erases:
                outcome.rebuilt = await rebuild(house, outcome.faults, by_time=fault.rebuilt)
            await _judge(house, trial.load.without(house.erased), outcome, fault)
    except (AssertionError, EunoeError, TimeoutError) as broken:
        outcome.faults.append(f"the house did not hold: {type(broken).__name__}: {broken}")
    finally:
        if not trial.keep:
            shutil.rmtree(directory, ignore_errors=True)
    outcome.seconds = time.monotonic() - begun
    return outcome


async def _judge(house: House, load: Load, outcome: Outcome, fault: Fault) -> None:
    """Stop the processes and read what they left."""
    outcome.ends = house.exits
    if not await house.stop_workers():
        outcome.faults.append("a process did not stop within its deadline")
    _judge_exits(house, outcome)
    if fault.goes_back and not _notices(house):
        outcome.faults.append("Redis went back, and no worker noticed")
    outcome.findings = await examine(house, load, goes_back=fault.goes_back)


def _notices(house: House) -> int:
    """How often a worker found that the store shows less than before."""
    logs = [worker.log.read_text(errors="replace") for worker in house.workers if worker.log.exists()]
    return sum(log.count("STATE STORE WENT BACK") + log.count("shows it handled up to") for log in logs)


async def _live_through(house: House, fault: Fault, trial: Trial, chance: random.Random, outcome: Outcome) -> None:
    load = trial.load
    producing = asyncio.create_task(_produce(house, load, trial.pause_s))
    acting = asyncio.ensure_future(fault.act(house, load, chance))
    try:
        await asyncio.gather(producing, acting)
        finish = Finish(house, load)
        await until(finish.applied, trial.finish_s, finish.tell)
        await until(finish.drained, trial.finish_s, lambda: "some records are not handled and committed")
    except (AssertionError, EunoeError, TimeoutError) as unfinished:
        outcome.faults.append(f"{type(unfinished).__name__}: {unfinished}")
    finally:
        producing.cancel()
        acting.cancel()
        await asyncio.gather(producing, acting, return_exceptions=True)


async def _produce(house: House, load: Load, pause_s: float) -> None:
    for wave in load.waves:
        await house.publish(wave)
        await asyncio.sleep(pause_s)


def _judge_exits(house: House, outcome: Outcome) -> None:
    for worker in house.workers:
        for code, times in worker.exits.items():
            if code not in EXPECTED:
                why = _why_it_ended(worker.log.read_text(errors="replace"))
                outcome.faults.append(f"{worker.stage} ended {times} times with code {code}: {why}")


def _why_it_ended(log: str) -> str:
    """What the processes of a log said of their ends: crashes with their tracebacks, else the last reasons or lines."""
    if (begin := log.find(_CRASHED)) >= 0:
        return log[begin : begin + _CRASH_CHARACTERS]
    lines = log.strip().splitlines()
    reasons = [line for line in lines if line.startswith("eunoe: ")]  # a later process may have said more
    return " | ".join((reasons or lines)[-3:])


def differences(reference: Findings, found: Findings, but: Set[str] = frozenset()) -> list[str]:
    """The conversations whose digests differ, each with the first place where it does; ``but``: those left out."""
    keys = {*reference.digests, *found.digests} - but
    differing = sorted(key for key in keys if reference.digests.get(key) != found.digests.get(key))
    return [f"{key}: {_first_difference(_state(reference, key), _state(found, key))}" for key in differing]


def _state(findings: Findings, key: str) -> object:
    state = findings.states.get(key)
    return None if state is None else state.digest.state


def _first_difference(one: object, other: object, path: str = "") -> str | None:
    if isinstance(one, dict) and isinstance(other, dict):
        parts = ((name, one.get(name), other.get(name)) for name in sorted({*one, *other}))
        return next((told for name, a, b in parts if (told := _first_difference(a, b, f"{path}/{name}"))), None)
    return None if one == other else f"{path}: {one!r:.150} became {other!r:.150}"
