"""The faults: each a name, and what it does to a house that works."""

import asyncio
import contextlib
import importlib.util
import os
import platform
import random
import resource
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from eunoe.deploy.exits import Exit
from eunoe.deploy.local.servers import ServerProcess
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.identity import split_key
from eunoe.workers.registry import STAGES
from tests.faults.house import COLD, SESSION_TIMEOUT_S, House, Plan
from tests.faults.load import Load
from tests.faults.run import Fault
from tests.faults.workers import Worker, start_apart
from tests.support.command import eunoe, until
from tests.support.kafka.jars import fetch_jars, find_java
from tests.support.model_server.faults import Fault as ModelFault
from tests.support.model_server.faults import by_rate, no_faults
from tests.support.prompt_answers import PromptAnswers

UNREACHABLE_S = 20.0
TERMINATED_S = 60.0
"""A worker that is told to stop has 30 s for it; the rest is for a machine with other work."""


async def nothing(house: House, load: Load, chance: random.Random) -> None:
    """The undisturbed run."""


# ---- worker processes


async def kill_workers(house: House, load: Load, chance: random.Random) -> None:
    """SIGKILL to the process of each stage, twice, at random moments."""
    for _ in range(2):
        for stage in chance.sample(sorted(STAGES), len(STAGES)):
            await asyncio.sleep(chance.uniform(0.1, 1.0))
            house.worker(stage).send(signal.SIGKILL)
        await asyncio.sleep(chance.uniform(2.0, 5.0))


async def scale_workers(house: House, load: Load, chance: random.Random) -> None:
    """A second process of each stage joins; then the first or the second of each leaves, and joins again."""
    seconds = {stage: house.begin(stage) for stage in chance.sample(sorted(STAGES), len(STAGES))}
    await asyncio.gather(*(house.joined(worker) for worker in seconds.values()))
    for stage in chance.sample(sorted(STAGES), len(STAGES)):
        await asyncio.sleep(chance.uniform(0.1, 0.8))
        chance.choice([house.worker(stage), seconds[stage]]).send(signal.SIGTERM)


async def terminate_workers(house: House, load: Load, chance: random.Random) -> None:
    """SIGTERM to the process of each stage, at random moments: each finishes or gives back within its deadline."""
    ends = []
    for stage in chance.sample(sorted(STAGES), len(STAGES)):
        await asyncio.sleep(chance.uniform(0.1, 1.0))
        ends.append(asyncio.create_task(_terminate(house.worker(stage))))
    await asyncio.gather(*ends)


async def _terminate(worker: Worker) -> None:
    before = worker.exits.copy()
    worker.send(signal.SIGTERM)

    async def ended() -> bool:
        return worker.exits != before or worker.pid is None

    await until(ended, TERMINATED_S, lambda: f"{worker.stage} did not stop after SIGTERM")
    ill = {code for code in worker.exits - before if code != 0}
    assert not ill, f"{worker.stage} was told to stop and ended with {ill}"


async def pause_workers(house: House, load: Load, chance: random.Random) -> None:
    """SIGSTOP for longer than the session timeout, while a second process takes over; then SIGCONT."""
    for stages in _halves(chance):
        seconds = [house.begin(stage) for stage in stages]
        await asyncio.gather(*(house.joined(worker) for worker in seconds))
        for stage in stages:
            await asyncio.sleep(chance.uniform(0.0, 0.3))
            house.worker(stage).send(signal.SIGSTOP)
        await asyncio.sleep(SESSION_TIMEOUT_S + chance.uniform(3.0, 5.0))
        for stage in stages:
            house.worker(stage).send(signal.SIGCONT)


def _halves(chance: random.Random) -> Sequence[Sequence[str]]:
    stages = chance.sample(sorted(STAGES), len(STAGES))
    return stages[: len(stages) // 2], stages[len(stages) // 2 :]


async def jump_clocks(house: House, load: Load, chance: random.Random) -> None:
    """A process of every other stage whose wall clock jumps by hours and days, forth and back."""
    clock = house.directory / "clock"
    clock.write_text("+0")
    variables = {
        "LD_PRELOAD": str(_faketime()),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    chosen = {"intake", *chance.sample(sorted(set(STAGES) - {"intake"}), 3)}
    workers = [house.begin(stage, start_apart, variables) for stage in sorted(chosen)]
    for worker in workers:
        first = house.worker(worker.stage)
        house.workers.remove(first)
        await first.stop()
    await asyncio.gather(*(house.joined(worker) for worker in workers))
    for jump in ("+2h", "-90m", "+40d", "-1d", "+0"):
        clock.write_text(jump)
        await asyncio.sleep(chance.uniform(0.5, 2.0))


def _faketime() -> Path | None:
    """The library of the package libfaketime; that of Debian 12 is older and breaks the sleep of threads."""
    found = importlib.util.find_spec("libfaketime") if platform.machine() == "x86_64" else None
    (folder,) = found.submodule_search_locations or () if found else (".",)
    library = Path(folder, "vendor/libfaketime/src/libfaketime.so.1")
    return library if library.exists() else None


def _lacks_faketime() -> str | None:
    return None if _faketime() else "no libfaketime here (the package of that name; x86-64)"


# ---- servers


async def restart_redis(house: House, load: Load, chance: random.Random) -> None:
    """SIGKILL to Redis, twice; it comes back over its append-only file."""
    assert house.redis is not None
    for _ in range(2):
        await asyncio.sleep(chance.uniform(1.0, 4.0))
        await _crash(house.redis, chance)


async def lose_redis_nodes(house: House, load: Load, chance: random.Random) -> None:
    """SIGKILL to each node of a cluster, one after the other; each comes back over its append-only file."""
    assert house.cluster is not None
    for node in chance.sample(house.cluster.nodes, len(house.cluster.nodes)):
        await asyncio.sleep(chance.uniform(1.0, 3.0))
        node.kill()
        await asyncio.sleep(chance.uniform(0.5, 4.0))
        await asyncio.to_thread(node.start)


async def roll_back_redis(house: House, load: Load, chance: random.Random) -> None:
    """Redis ends and comes back over an older copy of its files, twice, while the workers live."""
    assert house.redis is not None
    for _ in range(2):
        await asyncio.sleep(chance.uniform(1.0, 2.0))
        with _older_files(house.directory / "valkey"):
            await asyncio.sleep(chance.uniform(1.0, 4.0))
            assert house.redis.pid is not None
            os.kill(house.redis.pid, signal.SIGKILL)
            await house.redis.stop()
        await asyncio.sleep(chance.uniform(0.0, 1.0))
        await house.redis.start()


async def roll_back_redis_nodes(house: House, load: Load, chance: random.Random) -> None:
    """Each node of a cluster, one after the other, ends and comes back over an older copy of its files."""
    assert house.cluster is not None
    for node in chance.sample(house.cluster.nodes, len(house.cluster.nodes)):
        await asyncio.sleep(chance.uniform(0.5, 1.5))
        with _older_files(node.directory / "appendonlydir"):
            await asyncio.sleep(chance.uniform(1.0, 3.0))
            node.kill()
        await asyncio.sleep(chance.uniform(0.0, 1.0))
        await asyncio.to_thread(node.start)


@contextlib.contextmanager
def _older_files(directory: Path) -> Iterator[None]:
    """Copies a folder, and puts the copy in its place at the end; a file that grows meanwhile is cut."""
    copied = directory.with_name(f"{directory.name}-copied")
    shutil.copytree(directory, copied)
    yield
    shutil.rmtree(directory)
    copied.rename(directory)


async def fail_over_redis(house: House, load: Load, chance: random.Random) -> None:
    """A replica falls behind for seconds, then the master ends and the sentinel promotes the replica as it is."""
    sentinel = house.sentinel
    assert sentinel is not None
    await asyncio.sleep(chance.uniform(2.0, 4.0))
    sentinel.replica.kill()
    await asyncio.sleep(chance.uniform(1.0, 3.0))
    sentinel.master.kill()
    await asyncio.to_thread(sentinel.replica.start)

    async def moved() -> bool:
        return await asyncio.to_thread(sentinel.moved)

    await until(moved, 60, lambda: "the sentinel does not promote the replica")


async def restart_qdrant(house: House, load: Load, chance: random.Random) -> None:
    """SIGKILL to Qdrant, twice."""
    for _ in range(2):
        await asyncio.sleep(chance.uniform(1.0, 4.0))
        await _crash(house.qdrant, chance)


async def _crash(server: ServerProcess, chance: random.Random) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await server.stop()
    await asyncio.sleep(chance.uniform(0.5, 3.0))
    await server.start()


async def lose_sight_of_redis(house: House, load: Load, chance: random.Random) -> None:
    """Redis takes connections and answers nothing for twenty seconds."""
    assert house.redis is not None
    await asyncio.sleep(chance.uniform(1.0, 3.0))
    async with _stopped(house.redis):
        await asyncio.sleep(UNREACHABLE_S)


@asynccontextmanager
async def _stopped(server: ServerProcess) -> AsyncIterator[None]:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


async def fill_disk(house: House, load: Load, chance: random.Random) -> None:
    """The disk under Redis is full: it may write nothing more and ends; later it comes back over what it has."""
    await asyncio.sleep(chance.uniform(1.0, 3.0))
    server = house.redis
    assert server is not None
    assert server.pid is not None
    size = max(path.stat().st_size for path in (house.directory / "valkey").rglob("*") if path.is_file())
    hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size + chance.randrange(2_000, 60_000), hard))

    async def ended() -> bool:
        return not server.running

    await until(ended, 60, lambda: "Redis goes on with a full disk")
    await asyncio.sleep(chance.uniform(1.0, 4.0))
    await server.start()


async def restart_broker(house: House, load: Load, chance: random.Random) -> None:
    """SIGKILL to the only broker; it comes back over its log."""
    assert house.kafka is not None
    await asyncio.sleep(chance.uniform(2.0, 4.0))
    await house.kafka.kill(1)
    await asyncio.sleep(chance.uniform(0.5, 3.0))
    await house.kafka.restart(1)


async def lose_a_broker(house: House, load: Load, chance: random.Random) -> None:
    """SIGKILL to one of three brokers; it comes back after the others have gone on without it."""
    assert house.kafka is not None
    await asyncio.sleep(chance.uniform(2.0, 4.0))
    lost = chance.choice(sorted(house.kafka.pids))
    await house.kafka.kill(lost)
    await asyncio.sleep(chance.uniform(8.0, 12.0))
    await house.kafka.restart(lost)


def _lacks_kafka() -> str | None:
    try:
        find_java()
        fetch_jars()
    except (Refused, Unavailable) as fault:
        return str(fault).splitlines()[0]
    return None


# ---- the model's endpoint

_STORMS = ({ModelFault.TOO_MANY: 0.9}, {ModelFault.ERROR: 0.6}, {ModelFault.DROP: 0.5})
_HANGING = {ModelFault.HANG: 0.2}


async def storm_model(house: House, load: Load, chance: random.Random) -> None:
    """One storm after the other: 429s, 500s, cut connections."""
    await _storm(house, chance, _STORMS)


async def storm_and_hang_model(house: House, load: Load, chance: random.Random) -> None:
    """The same, and answers that come too late: the time limits of questions decide what is asked again, or offline."""
    await _storm(house, chance, (*_STORMS, _HANGING))


async def _storm(house: House, chance: random.Random, storms: Sequence[Mapping[ModelFault, float]]) -> None:
    quiet = house.model.settings
    try:
        for rates in chance.sample(storms, len(storms)):
            house.model.settings = replace(quiet, faults=by_rate(rates))
            await asyncio.sleep(chance.uniform(3.0, 5.0))
    finally:
        house.model.settings = replace(quiet, faults=no_faults)


# ---- idle conversations


async def freeze_and_kill(house: House, load: Load, chance: random.Random) -> None:
    """Conversations go to the cold store and come back all the time; workers are killed, the store is away twice."""
    killing = asyncio.create_task(kill_workers(house, load, chance))
    cold = house.directory / COLD
    away = cold.with_name("unmounted")
    try:
        for _ in range(2):
            await asyncio.sleep(chance.uniform(2.0, 4.0))
            cold.rename(away)
            await asyncio.sleep(chance.uniform(1.0, 3.0))
            away.rename(cold)
    finally:
        await killing

    async def frozen() -> bool:
        return any(cold.rglob(f"{'[0-9a-f]' * 32}-*"))

    await until(frozen, 60, lambda: "no conversation went to the cold store")


# ---- erasures


async def erase_parts(house: House, load: Load, chance: random.Random) -> None:
    """An utterance or a session of every tenth conversation is erased while more is said and workers are killed."""
    killing = asyncio.create_task(kill_workers(house, load, chance))
    keys = sorted(load.sessions)[1:]  # the first one's broken records stay
    try:
        for place, key in enumerate(chance.sample(keys, len(load.sessions) // 10)):
            session = sorted(load.said_in(key, "s0"))
            ids = session[:1] if place % 2 else session
            await _erase(house, key, [f"--utterance={id_}" for id_ in ids])
            house.erased[key] = set(ids)
    finally:
        await killing


async def _erase(house: House, key: str, words: Sequence[str]) -> None:
    """Erase as soon as intake has handled what is to go."""
    tenant, name = split_key(key)
    told = ""

    async def erased() -> bool:
        nonlocal told
        result = await eunoe(
            "erase", "run", "--tenant", tenant, *words, name, cwd=house.directory, timeout_s=120, **house.variables
        )
        told = result.err
        later = result.code == Exit.UNAVAILABLE and "nothing is erased there yet" in told
        assert later or result.code in (Exit.OK, Exit.USAGE), f"eunoe erase {key} ended with {result.code}: {told}"
        return result.code == 0

    await until(erased, 240, lambda: f"{key} is not erased: {told}")


# ---- all together


async def anything(house: House, load: Load, chance: random.Random) -> None:
    """Three faults that need nothing special, one after the other."""
    kinds = [kill_workers, terminate_workers, restart_redis, restart_qdrant, storm_model, lose_sight_of_redis]
    for act in chance.sample(kinds, 3):
        with contextlib.suppress(ProcessLookupError):
            await act(house, load, chance)


IMPATIENT = {
    "EUNOE_BLEND__WAIT_S": "0.2",
    "EUNOE_BLEND__WAIT_UNASKED_S": "0.3",
    "EUNOE_MODEL_TIMEOUT_SECONDS": "4",
    "EUNOE_MODEL_DECISION_SECONDS": "120",
    "EUNOE_MODEL_REPLY_SECONDS": "20",
}
"""Turns go on without memory of the session before where it is late; decisions go on without a slow model."""

REFERENCE = Fault("none", nothing)

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("kill9", kill_workers),
        Fault("join-leave", scale_workers),
        Fault("sigterm", terminate_workers),
        # a group of the embedded broker whose members end while it rebalances may never come together again
        Fault("sigstop", pause_workers, Plan(brokers=1), _lacks_kafka),
        Fault("clock", jump_clocks, lacking=_lacks_faketime),
        Fault("redis-restart", restart_redis),
        Fault("redis-away", lose_sight_of_redis),
        Fault("disk-full", fill_disk),
        Fault("redis-cluster", lose_redis_nodes, Plan(cluster=True)),
        Fault("redis-rollback", roll_back_redis, goes_back=True),
        Fault("redis-failover", fail_over_redis, Plan(sentinel=True), goes_back=True),
        Fault("redis-node-rollback", roll_back_redis_nodes, Plan(cluster=True), goes_back=True),
        Fault("qdrant-restart", restart_qdrant),
        Fault("model-storm", storm_model),
        Fault("model-malformed", nothing, Plan(answers=PromptAnswers(malformed=0.2))),
        Fault(
            "rebuild",
            storm_and_hang_model,
            Plan(answers=PromptAnswers(malformed=0.2), variables=IMPATIENT),
            rebuilt=True,
        ),
        Fault("freeze", freeze_and_kill, Plan(cold=True)),
        Fault("freeze-sealed", freeze_and_kill, Plan(cold=True, sealed=True)),
        Fault("erase", erase_parts, Plan(sealed=True), erases=True),
        Fault("broker-restart", restart_broker, Plan(brokers=1), _lacks_kafka),
        Fault("broker-loss", lose_a_broker, Plan(brokers=3), _lacks_kafka),
    )
}
ANYTHING = Fault("anything", anything)
