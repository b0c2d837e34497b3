"""A generation reads its log with the partitions that it began with."""

import pytest

from eunoe.deploy.exits import HOPELESS, code_of
from eunoe.schemas.errors import Refused
from eunoe.workers.stores.records.partition_record import RedisPartitionRecord
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys
from tests.contract.conftest import REDIS


@pytest.mark.parametrize("redis", REDIS[1:], indirect=True)
async def test_a_log_whose_partitions_were_changed_is_refused(redis: RedisClient | None, keys: Keys) -> None:
    assert redis is not None
    record = RedisPartitionRecord(redis, keys)
    for _ in range(2):
        await record.check(0, 0, 3)
    for found in (6, 2):
        with pytest.raises(Refused, match=f"has {found} partitions, and this generation has read it with 3") as told:
            await record.check(0, 0, found)
        assert code_of(told.value) in HOPELESS
    await record.check(0, 0, 3)
    await record.check(0, 1, 6)  # the topic was made anew: all in it is new
    await record.check(1, 0, 12)  # a repartitioned log
    with pytest.raises(Refused):
        await record.check(0, 1, 3)
