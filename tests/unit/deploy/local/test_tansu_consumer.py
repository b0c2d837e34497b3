"""The consumer for the embedded broker begins where a partition begins."""

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import OffsetResetStrategy

from eunoe.deploy.local.tansu.consumer import Offsets, Wanted, offsets_from_zero

FIRST, SECOND = TopicPartition("log", 0), TopicPartition("log", 1)


async def test_only_earliest_offsets_are_zero() -> None:
    async def answer(_node: object, wanted: Wanted) -> Offsets:
        assert set(wanted) == {"log"}
        return {FIRST: (1, 7), SECOND: (9, 8)}

    asked = {"log": [(0, OffsetResetStrategy.EARLIEST), (1, OffsetResetStrategy.LATEST), (2, -2)]}
    found = await offsets_from_zero(answer, 0, asked)
    assert found == {FIRST: (0, 7), SECOND: (9, 8)}, "no offset is made up for a partition without an answer"
