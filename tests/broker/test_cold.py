"""Idle conversations on real servers: they go by themselves, come back, and nothing of them stays after an erasure."""

import json
from pathlib import Path

import pytest

from eunoe.deploy.clients.shared import open_redis, open_store, store_keys
from eunoe.deploy.generations.cold import cold_status
from eunoe.deploy.inspect.view import view_conversation
from eunoe.deploy.process.draining import drained
from eunoe.deploy.settings.sections import ColdSettings
from eunoe.workers.registry import MEMORY_STAGES, STAGES
from eunoe.workers.stores.cold.conversations import object_name
from eunoe.workers.stores.cold.snapshot import Snapshot, Stub
from eunoe.workers.stores.state.redis_store import RedisStore
from tests.broker.test_erase import digest, end, said, sessions
from tests.broker.test_repair import applied, held, letters, names_of_one_partition, session, told
from tests.support.command import until
from tests.support.pipeline import Pipeline
from tests.support.whole_state import read_digest

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(300)]

SPECS = {name: STAGES[name] for name in MEMORY_STAGES}


def with_cold_store(pipeline: Pipeline, after_days: float) -> Pipeline:
    folder = pipeline.cwd / "cold"
    folder.mkdir()
    cold = ColdSettings(store=str(folder), after_days=after_days, settle_seconds=1.0, sweep_seconds=0.2)
    own = {
        "EUNOE_COLD__STORE": str(folder),
        "EUNOE_COLD__AFTER_DAYS": str(after_days),
        "EUNOE_COLD__SETTLE_SECONDS": "1",
        "EUNOE_COLD__SWEEP_SECONDS": "0.2",
    }
    return Pipeline(pipeline.cwd, pipeline.base.model_copy(update={"cold": cold}), {**pipeline.variables, **own})


def snapshots(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("store-")]


async def digests(pipeline: Pipeline, generation: str, *names: str) -> list[str]:
    settings = pipeline.settings.model_copy(update={"generation": generation})
    async with open_redis(settings) as redis:
        store = RedisStore(redis, store_keys(settings))  # without a cold store: all must be there
        return [(await read_digest(store, f"default/{name}", SPECS)).sha256 for name in names]


async def test_idle_conversations_go_and_come_back_as_they_were(pipeline: Pipeline) -> None:
    own = with_cold_store(pipeline, 1 / 86_400)
    names = ("one", "two", "three")

    async def all_cold() -> bool:
        return (await cold_status(own.settings)).cold == len(names)

    async def earlier_ones_are_gone() -> bool:  # they go after the stub is set
        return len(snapshots(own.cwd / "cold")) == len(names)

    async with own.up():
        await own.produce(*(line for name in names for line in sessions(name)))
        for name in names:
            await own.remembered(2, name)
        await drained(own.settings, 60, lambda *_: None)  # a stage that is late brings a conversation back
        await until(all_cold)
        await until(earlier_ones_are_gone)
        view = await own.shown("two")  # a look leaves it where it is
        assert (view.remembered, await all_cold()) == (2, True)
        await own.produce(*(line for name in names for line in (said(name, 4), end(name, 3))))
        for name in names:
            await own.remembered(3, name)
        await until(all_cold)
        asked = await own.eunoe("ask", "one", "Where did Ann move?", "--json")
        assert (asked.code, "Zanzibar" in asked.out) == (0, True)
        await until(all_cold)
        await until(earlier_ones_are_gone)
    for name in names:
        assert (await own.eunoe("cold", "thaw", name)).out == f"{name}: in Redis\n"
    assert len(snapshots(own.cwd / "cold")) == len(names), "each stays until the next one of its conversation"
    built = await own.eunoe("rebuild", "--into", "v2")
    assert built.code == 0, built.err
    assert await digests(own, "v2", *names) == await digests(own, "v1", *names)

    async def all_of_the_new_generation_are_cold() -> bool:
        return (await cold_status(own.settings.model_copy(update={"generation": "v2"}))).cold == len(names)

    async with own.up(EUNOE_GENERATION="v2"):  # where nothing was said since it was built
        await until(all_of_the_new_generation_are_cold)


async def test_an_open_session_that_was_moved_by_hand_ends_by_itself(pipeline: Pipeline) -> None:
    own = with_cold_store(pipeline, 30)

    async def taken_in() -> bool:
        async with open_store(own.settings) as store:
            view = await view_conversation(store, "default/one")
        return view is not None and view.open_lines == 1

    async with own.up(EUNOE_INTAKE__IDLE_SECONDS="15"):
        await own.produce(said("one", 0))
        await until(taken_in)
        frozen = await own.eunoe("cold", "freeze", "one")
        assert (frozen.code, (await cold_status(own.settings)).cold) == (0, 1), frozen.err
        assert (await own.remembered(1, "one")).remembered == 1
        assert (await cold_status(own.settings)).cold == 0


@pytest.mark.embedded("stops and starts the embedded stack")
async def test_they_stay_where_they_are_when_the_log_is_played_back(standalone: Pipeline) -> None:
    names = ("one", "two", "three")
    quick = {"AFTER_DAYS": str(1 / 86_400), "SETTLE_SECONDS": "1", "SWEEP_SECONDS": "0.2"}

    async def cold() -> int:
        return (await cold_status(standalone.settings)).cold

    async def all_cold() -> bool:
        return await cold() == len(names)

    async with standalone.up(**{f"EUNOE_COLD__{name}": value for name, value in quick.items()}):
        await standalone.produce(*(line for name in names for line in sessions(name)))
        for name in names:
            await standalone.remembered(2, name)
        await until(all_cold)
        before = (await digest(standalone.settings, "three")).sha256
    async with standalone.up():  # nothing goes to the cold store there: it takes 30 days
        await drained(standalone.settings, 60, lambda *_: None)
        assert await all_cold()
        await standalone.produce(said("two", 4), end("two", 3))
        await standalone.remembered(3, "two")
        asked = await standalone.eunoe("ask", "one", "Where did Ann move?", "--json")
        assert (asked.code, "Zanzibar" in asked.out) == (0, True)
        assert await cold() == 1
        assert (await digest(standalone.settings, "three")).sha256 == before
        assert (await standalone.eunoe("cold", "thaw", "three")).out == "three: in Redis\n"
        assert (await digest(standalone.settings, "three")).sha256 == before


async def test_snapshots_are_moved_by_hand_and_go_with_what_is_erased_or_dropped(pipeline: Pipeline) -> None:
    own = with_cold_store(pipeline, 30.0)
    folder = own.cwd / "cold"
    ledger = {"EUNOE_ERASURES": str(own.cwd / "ledger.sqlite")}
    async with own.up(**ledger):
        await own.produce(*sessions("mine"), *sessions("other"))
        for name in ("mine", "other"):
            await own.remembered(2, name)
            assert (await own.eunoe("cold", "freeze", name)).out == f"{name}: in the cold store\n"
        assert (await own.eunoe("cold", "freeze", "mine")).out == "mine: in the cold store already\n"
        again = await own.eunoe("cold", "freeze", "mine", "--json")
        assert again.json == {"key": "default/mine", "cold": True, "moved": False}
        adopted = await own.eunoe("cold", "adopt", "--json")
        assert adopted.json == {"generation": "v1", "store": str(folder)}
        status = json.loads((await own.eunoe("cold", "status", "--json")).out)
        assert (status["conversations"], status["cold"]) == (2, 2)
        assert status["snapshot_bytes"] == sum(path.stat().st_size for path in snapshots(folder))
        before = [path.read_bytes() for path in snapshots(folder)]
        erased = await own.eunoe("erase", "run", "mine", "--utterance", "u0", **ledger)
        assert erased.code == 0, erased.err
        assert "cold store" in {place["place"] for place in json.loads(erased.out)["not_covered"]}
        assert len(snapshots(folder)) == 1
        assert snapshots(folder)[0].read_bytes() in before
        await came_late(own, before, erased.out, **ledger)
        assert (await own.eunoe("cold", "thaw", "mine")).out == "mine: in Redis already\n"
        thawed = await own.eunoe("cold", "thaw", "mine", "--json")
        assert thawed.json == {"key": "default/mine", "cold": False, "moved": False}
    assert (await own.eunoe("rebuild", "--into", "v2", **ledger)).code == 0
    assert (await own.eunoe("cold", "freeze", "other", EUNOE_GENERATION="v2")).code == 0
    assert len(snapshots(folder)) == 2
    (own.cwd / "empty").mkdir()
    for elsewhere in ("", str(own.cwd / "empty")):
        left = await pipeline.eunoe("drop", "v2", "--yes", EUNOE_COLD__STORE=elsewhere)
        assert (left.code, "EUNOE_COLD__STORE" in left.err) == (69, True)
    dropped = await own.eunoe("drop", "v2", "--yes")
    assert dropped.code == 0, dropped.err
    (kept,) = snapshots(folder)
    assert "/v1/" in str(kept)


async def test_a_lost_snapshot_keeps_no_command_from_the_other_conversations(pipeline: Pipeline) -> None:
    own = with_cold_store(pipeline, 30.0)
    ledger = {"EUNOE_ERASURES": str(own.cwd / "ledger.sqlite")}
    async with own.up(**ledger):
        await own.produce(*sessions("fine"), *sessions("gone"))
        for name in ("fine", "gone"):
            await own.remembered(2, name)
        assert (await own.eunoe("cold", "freeze", "gone")).code == 0
        for one in snapshots(own.cwd / "cold"):
            one.unlink()
        shown = await own.eunoe("show", "gone")
        assert (shown.code, "run `EUNOE_GENERATION=v1 eunoe repair gone`" in shown.err) == (69, True)
        states = await own.eunoe("state", "--all", "--json")
        assert (states.code, states.json["lost_snapshots"]) == (1, ["default/gone"])
        assert [one["key"] for one in states.json["conversations"]] == ["default/fine"]
        indexed = await own.eunoe("reindex", "--json")
        assert (indexed.code, indexed.json["conversations"], indexed.json["lost"]) == (1, 1, 1)
        assert (await own.eunoe("retention", "set", "36500", **ledger)).code == 0
        kept = await own.eunoe("retention", "run", "--json", **ledger)
        assert (kept.code, kept.json) == (0, []), kept.err
        status = await own.eunoe("cold", "status", "--json")
        assert status.json["repairs"] == ["EUNOE_GENERATION=v1 eunoe repair gone"]
        repaired = await own.eunoe("repair", "gone", EUNOE_GENERATION="v1", **ledger)
        assert repaired.code == 0, repaired.err
        assert (await own.shown("gone")).remembered == 2
        assert (await own.eunoe("state", "--all")).code == 0


async def came_late(own: Pipeline, snapshots_before: list[bytes], receipt: str, **ledger: str) -> None:
    """A late snapshot of what was erased is found by `eunoe erase verify`, and then deleted by a worker."""
    (own.cwd / "receipt.json").write_text(receipt)
    verify = ("erase", "verify", str(own.cwd / "receipt.json"))
    assert (await own.eunoe(*verify, **ledger)).code == 0
    (data,) = [one for one in snapshots_before if Snapshot.unpack(one).key == "default/mine"]
    late = own.cwd / "cold" / object_name(store_keys(own.settings), "default/mine", Stub.of(data))
    late.parent.mkdir(parents=True, exist_ok=True)
    late.write_bytes(data)
    found = await own.eunoe(*verify, **ledger)
    assert (found.code, "1 stray snapshot in the cold store" in found.out) == (1, True)

    async def deleted() -> bool:
        return not late.exists()

    await until(deleted)
    assert (await own.eunoe(*verify, **ledger)).code == 0


async def test_a_conversation_whose_snapshot_is_lost_is_held_while_the_others_go_on(pipeline: Pipeline) -> None:
    own = with_cold_store(pipeline, 30.0)
    lost, other, _ = names_of_one_partition()
    folder = own.cwd / "cold"
    ledger = {"EUNOE_ERASURES": str(own.cwd / "ledger.sqlite")}
    async with own.up(**ledger):
        for number in (1, 2):
            await own.produce(*session(lost, number), *session(other, number))
        for name in (lost, other):
            await applied(own, name, 2)
        assert (await own.eunoe("cold", "freeze", lost)).code == 0
        (snapshot,) = snapshots(folder)
        kept = snapshot.read_bytes()
        snapshot.write_bytes(kept[:-1])
        planned = await own.eunoe("erase", "plan", lost, "--utterance", "ghost", **ledger)
        assert (planned.code, "no such utterance" in planned.err) == (2, True)  # and changes nothing
        await own.produce(*session(lost, 3), *session(other, 3))
        await applied(own, other, 3)
        await held(own, 1)
        found = await letters(own, "--conversation", f"default/{lost}")
        assert {(letter["stage"], letter["reason"], letter["closed"]) for letter in found} == {("intake", "held", None)}
        asked = await own.eunoe("ask", lost, "Where does Ann live?", "--json")
        assert asked.code != 0
        assert f"eunoe repair {lost}" in asked.out + asked.err
        snapshot.write_bytes(kept)  # what was refused meanwhile is missing in it
        await own.produce(*session(lost, 4), *session(other, 4))
        await applied(own, other, 4)
        status = json.loads((await own.eunoe("cold", "status", "--json")).out)
        assert (status["cold"], status["lost"]) == (1, 1)
        repaired = await own.eunoe("repair", "--all-held", **ledger)
        assert repaired.code == 0, repaired.err
        await own.produce(*session(lost, 5), *session(other, 5))
        for name in (lost, other):
            await applied(own, name, 5)
        assert await told(own, lost) == await told(own, other)
        assert await letters(own) == []


async def test_what_was_set_aside_a_moment_before_a_repair_is_derived_in_it(pipeline: Pipeline) -> None:
    own, (lost, *_) = with_cold_store(pipeline, 30.0), names_of_one_partition()
    slow = {"EUNOE_BROKER__COMMIT_INTERVAL_MS": "8000"}  # what is handled is stored half of that later
    async with own.up(**slow):
        await own.produce(*session(lost, 1))
        await applied(own, lost, 1)
        await drained(own.settings, 60, lambda *_: None)
        assert (await own.eunoe("cold", "freeze", lost, **slow)).code == 0
        (snapshot,) = snapshots(own.cwd / "cold")
        snapshot.write_bytes(b"torn")
        await own.produce(*session(lost, 2), *session(lost, 3))
        await held(own, 6)
        repaired = await own.eunoe("repair", "--all-held", "--json")
        (report,) = repaired.json
        assert (report["sessions"], report["letters"]) == (3, 6), repaired.err
        await own.produce(*session(lost, 4))
        await applied(own, lost, 4)
        assert await letters(own) == []
