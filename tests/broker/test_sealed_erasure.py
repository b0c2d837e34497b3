"""Erasures with a key store, on real servers: the keys are destroyed, and what remains is read from the sealed log."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.generations.erase.loop import work_off
from eunoe.deploy.generations.erase.receipt import Receipt
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.erase.verify import verify_receipt
from eunoe.deploy.generations.repair import Repairer
from eunoe.schemas.erasure import ErasureRequest
from eunoe.schemas.keys import Destruction, KeyRecord, KeyState
from eunoe.streams.admin import create_topics, open_admin
from eunoe.streams.publisher import KafkaPublisher
from eunoe.streams.record import Record
from eunoe.streams.sealed.records import key_id_of, open_record
from eunoe.streams.topics import Topic
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures
from eunoe.workers.stores.state.transplants import RedisTransplants
from tests.broker.test_erase import Killed, digest, end, killed_at, request, said, sessions, told
from tests.support.pipeline import Pipeline, sealed_pipeline

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(500)]


async def keys_of(pipeline: Pipeline, name: str) -> list[KeyRecord]:
    async with open_data_keys(pipeline.settings) as keys:
        assert keys is not None
        return await keys.keys(f"default/{name}")


async def readable(pipeline: Pipeline, name: str) -> list[bytes]:
    """What of a conversation's sealed log anybody can still read."""
    async with open_data_keys(pipeline.settings) as keys:
        found = [await open_record(one, keys) for one in await copies(pipeline, name)]
    return [one.value for one in found if one is not None]


async def copies(pipeline: Pipeline, name: str) -> list[Record]:
    return [one for one in await pipeline.records(Topic.LOG) if one.key == f"default/{name}".encode()]


KILLS: tuple[tuple[type, str, int], ...] = (
    (CachedKeys, "replace", 1),
    (CachedKeys, "replace", -1),
    (KafkaPublisher, "publish", 1),
    (KafkaPublisher, "publish", -1),
    (RedisTransplants, "swap", 1),
    (RedisTransplants, "swap", -1),
    (CachedKeys, "destroy", 1),
    (CachedKeys, "destroy", -1),
    (SqliteErasures, "finish", 1),
)


@contextmanager
def killed_in(owner: type, name: str, call: int) -> Iterator[None]:
    """The process ends before or (negative) after this call of a method."""
    real, calls = getattr(owner, name), 0

    async def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        found = await real(self, *args, **kwargs)
        if calls == -call:
            raise Killed
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, counted)
        yield


async def test_an_unsaid_conversation_is_sealed_anew_and_its_old_key_destroyed(
    pipeline: Pipeline,
) -> None:
    sealed = sealed_pipeline(pipeline)
    ledger = pipeline.cwd / "ledger.sqlite"
    eraser = Eraser(sealed.settings.model_copy(update={"generation": "v1"}), SqliteErasures(ledger))
    async with sealed.up():
        await sealed.produce(*sessions("mine"), *sessions("other"), *sessions("twin")[1:])
        for name in ("mine", "other", "twin"):
            await sealed.remembered(2, name)
        assert Counter(one.key for one in await sealed.records(Topic.LOG)) == {
            b"default/mine": 6,
            b"default/other": 6,
            b"default/twin": 5,
        }
        assert any(b"Zanzibar" in value for value in await readable(sealed, "mine"))
        (old,) = await keys_of(sealed, "mine")
        untouched = (await digest(sealed.settings, "other")).sha256
        erasure = await eraser.begin(request("mine", "u0"))
        assert erasure.keys == (old.id,)
        for owner, name, call in KILLS:
            with killed_in(owner, name, call), pytest.raises((Killed, BaseExceptionGroup)):
                await eraser.carry_out(erasure)
        for call in (3, 20, 45, 80, 110):
            with killed_at(call), pytest.raises((Killed, BaseExceptionGroup)):
                await eraser.carry_out(erasure)
        assert await eraser.unfinished() == [erasure]
        receipt = await eraser.carry_out(erasure)
        assert [(one.id, one.why) for one in receipt.keys] == [(old.id, Destruction.REPLACED)]
        assert [one.state for one in await keys_of(sealed, "mine")] == [KeyState.DESTROYED, KeyState.CURRENT]
        assert not any(b"Zanzibar" in value for value in await readable(sealed, "mine"))
        under_old = [one for one in await copies(sealed, "mine") if key_id_of(one) == old.id]
        assert len(under_old) == 6
        assert "kafka: conversations" in {one.place for one in receipt.not_covered}
        assert not any("Zanzibar" in text for text in await told(sealed.settings, "mine"))
        assert (await digest(sealed.settings, "other")).sha256 == untouched

        await eraser.carry_out(await eraser.begin(request("other")))
        assert await readable(sealed, "other") == []
        assert (await keys_of(sealed, "other"))[0].why is Destruction.ERASED
        # the next utterances begin under the new keys; a retry of the erased one is not taken
        await sealed.produce(said("mine", 0), said("mine", 6), end("mine", 3), said("other", 6), end("other", 3))
        await sealed.remembered(3, "mine")
        await sealed.remembered(3, "other")
        before = [(await digest(sealed.settings, name)).state for name in ("mine", "other", "twin")]
        assert await sealed.records(Topic.DEAD_LETTERS) == []

    for into in ("v2", "v3"):
        built = await sealed.eunoe("rebuild", "--into", into)
        assert built.code == 0, built.err
        rebuilt = sealed.settings.model_copy(update={"generation": into})
        assert [(await digest(rebuilt, name)).state for name in ("mine", "other", "twin")] == before
        await empty_door(sealed)  # as after its retention
    # in all generations at once, from the sealed log alone
    receipt = await eraser.carry_out(await eraser.begin(request("twin", "u2")))
    assert ({one.generation for one in receipt.remains}, len(receipt.keys)) == ({"v1", "v2", "v3"}, 1)
    generations = [sealed.settings.model_copy(update={"generation": name}) for name in ("v1", "v2", "v3")]
    first, *others = [(await digest(one, "twin")).state for one in generations]
    assert others == [first, first] != [before[2], before[2]]
    assert not any(b"sold my boat" in value for value in await readable(sealed, "twin"))
    refused = await pipeline.eunoe("rebuild", "--into", "v4", EUNOE_ERASURES=str(ledger))
    assert (refused.code, "EUNOE_KEYS__STORE" in refused.err, refused.err) == (2, True, refused.err)
    rows = await pipeline.eunoe("generations", "--json")
    assert "v4" not in rows.out


BEGINNINGS: tuple[tuple[type, str, int], ...] = ((SqliteErasures, "begin", 1), (SqliteErasures, "begin", -2))
ENDS: tuple[tuple[type, str, int], ...] = ((SqliteErasures, "finish", -1), (SqliteErasures, "finish", 2))
"""Where a process is killed between the entries of two erasures in the ledger."""


def named(name: str, number: int, id_: str) -> ErasureRequest:
    return request(name, id_).model_copy(update={"request_id": f"{name}-{number}"})


async def test_erasures_that_wait_for_one_conversation_derive_it_once(pipeline: Pipeline) -> None:
    sealed = sealed_pipeline(pipeline)
    ledger = SqliteErasures(pipeline.cwd / "ledger.sqlite")
    eraser = Eraser(sealed.settings.model_copy(update={"generation": "v1"}), ledger)
    derived: list[str] = []
    repair = Repairer.repair

    async def counted(self: Repairer, key: str, *given: Any) -> Any:
        derived.append(key)
        return await repair(self, key, *given)

    async with sealed.up():
        await sealed.produce(*sessions("mine"), *sessions("twin"))
        for name in ("mine", "twin"):
            await sealed.remembered(2, name)
        for number, id_ in enumerate(("u0", "u2", "u3", "u2")):
            await ledger.request(named("mine", number, id_))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Repairer, "repair", counted)
            for owner, name, call in (*BEGINNINGS, *KILLS, *ENDS):
                with killed_in(owner, name, call), pytest.raises((Killed, BaseExceptionGroup)):
                    await work_off(eraser)
            await work_off(eraser)
            derived.clear()
            for number, id_ in enumerate(("u0", "u2", "u3")):
                await ledger.request(named("twin", number, id_))
            outcome = await work_off(eraser)
        assert (outcome.waiting, derived) == (None, ["default/twin"])
        refused = await ledger.refusals()
        assert [(one.request_id, one.reason) for one in refused] == [("mine-3", "default/mine: already erased: u2")]
        done = {one.request_id: Receipt.from_json(one.receipt) for one in await ledger.done()}
        assert sorted(done) == ["mine-0", "mine-1", "mine-2", "twin-0", "twin-1", "twin-2"]
        assert await eraser.unfinished() == []
        for receipt in done.values():
            assert (await verify_receipt(eraser, receipt.to_json())).holds
        assert not any("Zanzibar" in text or "boat" in text for text in await told(sealed.settings, "mine"))
        assert not any(b"Zanzibar" in value for value in await readable(sealed, "mine"))
        mine = (await digest(sealed.settings, "mine")).state
    built = await sealed.eunoe("rebuild", "--into", "v2")
    assert built.code == 0, built.err
    assert (await digest(sealed.settings.model_copy(update={"generation": "v2"}), "mine")).state == mine


async def empty_door(pipeline: Pipeline) -> None:
    """Remove what `conversations` holds, as its retention does; on the embedded broker, which cannot, the topic."""
    settings = pipeline.settings
    name = settings.names.name(Topic.CONVERSATIONS)
    async with open_admin(settings.kafka_settings) as admin:
        if not settings.broker.embedded:
            everything = RecordsToDelete(before_offset=-1)
            await admin.delete_records({TopicPartition(name, at): everything for at in range(settings.partitions)})
            return
        await admin.delete_topics([name])
    await create_topics(settings.kafka_settings, settings.names, settings.partitions, settings.replication)
    assert await pipeline.records(Topic.CONVERSATIONS) == []
