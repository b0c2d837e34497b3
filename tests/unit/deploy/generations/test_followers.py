"""The notice that a conversation was derived again: followers read it, and stages of any version pass over it."""

import json

import pytest

from eunoe.deploy.generations.followers import tell_followers
from eunoe.schemas.decisions import Rejection
from eunoe.schemas.keys import Destruction
from eunoe.schemas.memory import DerivedReason, MemoriesDerived
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import CONTRACTS, read_contract
from eunoe.streams.codec import decode
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.record import Message, Record
from eunoe.streams.sealed.records import open_record, seal_message
from eunoe.streams.topics import Topic
from eunoe.workers.derive.resume import Kept, kept_messages
from eunoe.workers.registry import MEMORY_STAGES, STAGES
from eunoe.workers.runner import inbound
from eunoe.workers.runner.inbound import LogPlace, read_record
from tests.support.in_memory import ended, make_pipeline, utterance
from tests.support.memory.key_store import MemoryKeyStore
from tests.support.whole_state import read_digest

KEY = "default/c"
READERS = [name for name, spec in STAGES.items() if Topic.CHANGES in spec.inputs]
TALK = (
    utterance(1, "I moved to Lyon in March."), ended(),
    utterance(3, "I bought a red boat in Marseille."), ended(),
)  # fmt: skip


async def notice(key: str = KEY, reason: DerivedReason = DerivedReason.ERASED) -> Record:
    log = MemoryLog(partitions=1)
    await tell_followers(log, key, reason)
    (record,) = log.records(Topic.CHANGES)
    return record


async def test_a_notice_names_the_conversation_and_the_reason_alone() -> None:
    record = await notice("some%20tenant/a%2Fb", DerivedReason.REPAIRED)
    assert record.key == b"some%20tenant/a%2Fb"
    assert json.loads(record.value) == {
        "type": "memories_derived", "schema_version": 1,
        "tenant": "some tenant", "conversation_id": "a/b", "reason": "repaired",
    }  # fmt: skip
    assert decode(record.value) == MemoriesDerived(tenant="some tenant", conversation_id="a/b", reason="repaired")


async def test_stages_pass_over_it_and_go_on() -> None:
    told, silent = make_pipeline(), make_pipeline()
    for event in TALK:
        await silent.produce(event)
        await told.produce(event)
        await tell_followers(told.log, KEY, DerivedReason.ERASED)
        await told.run_until_idle()
    assert told.dead_letters() == 0
    specs = {name: STAGES[name] for name in MEMORY_STAGES}
    digests = [(await read_digest(one.store, KEY, specs)).sha256 for one in (told, silent)]
    assert digests[0] == digests[1]
    assert len(told.changes()) == 2
    assert await told._consumer.run_until_idle() == 0, "none of them is read again"


@pytest.mark.parametrize("stage", READERS)
async def test_an_earlier_version_passes_over_it_too(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not know the type: without the header it would make a dead letter of each."""
    record, place = await notice(), LogPlace(epoch=0, partitions=1)
    assert read_record(record, STAGES[stage], place) is None
    older = {tag: contract for tag, contract in CONTRACTS.items() if contract is not MemoriesDerived}
    monkeypatch.setattr(inbound, "decode", lambda value: read_contract(json.loads(value), older))
    assert read_record(record, STAGES[stage], place) is None
    bare = MemoryLog(partitions=1).append(Message(Topic.CHANGES, record.key, record.value))
    rejection = read_record(bare, STAGES[stage], place)
    assert isinstance(rejection, Rejection)
    assert rejection.reason is DeadLetterReason.UNKNOWN_TYPE


@pytest.mark.parametrize("stage", READERS)
async def test_a_notice_without_the_header_is_no_dead_letter_here(stage: str) -> None:
    record = await notice()
    bare = MemoryLog(partitions=1).append(Message(Topic.CHANGES, record.key, record.value))
    assert read_record(bare, STAGES[stage], LogPlace(epoch=0, partitions=1)) is None


async def test_it_is_sealed_with_the_key_that_an_erasure_leaves() -> None:
    keys = MemoryKeyStore()
    old = await keys.current(KEY)
    await keys.replace(KEY)
    plain = await notice()
    message = Message(Topic.CHANGES, plain.key, plain.value, tuple(plain.headers.items()))
    sealed = await seal_message(message, keys)
    assert sealed is not None
    await keys.destroy(old.id, Destruction.ERASED)
    opened = await open_record(MemoryLog(partitions=1).append(sealed), keys)
    assert opened is not None
    assert (opened.value, opened.headers) == (plain.value, plain.headers)


async def test_a_partial_rebuild_leaves_it_out() -> None:
    pipeline = make_pipeline()
    await pipeline.produce(*TALK)
    kept = Kept(await pipeline.store.export(KEY, {name: STAGES[name].tables.all for name in ("intake", "update")}))
    before = kept_messages(kept, pipeline.log.records(Topic.CHANGES))
    assert {number for _, number in before.records} == {1, 2}
    await tell_followers(pipeline.log, KEY, DerivedReason.REPAIRED)
    assert kept_messages(kept, pipeline.log.records(Topic.CHANGES)) == before
