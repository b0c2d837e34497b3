"""Keeps count of a stage's blocked conversations, and holds those that wait for an event that was lost."""

from eunoe.streams.group.stage_consumer import StageConsumer
from eunoe.streams.record import Revoked
from eunoe.workers.runner.blocked import BlockedConversations, BlockedStore
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import PeriodicTask

BLOCKED_EVERY_S = 5.0
"""Seconds between two looks at blocked conversations."""


def blocked_watch(
    runner: Runner, consumer: StageConsumer, blocked: BlockedConversations, store: BlockedStore
) -> PeriodicTask:
    """The task over the partitions that a consumer is assigned; ``blocked`` is what the runner notes into."""

    async def look() -> None:
        if not consumer.rebalancing:  # then nothing is assigned, and all of it may come back
            blocked.keep(consumer.assigned())
        await blocked.sync(consumer.stage, store)
        try:
            await runner.hold_lost({place for place in consumer.assigned() if consumer.caught_up(*place)})
        except Revoked:  # the state store went back
            await consumer.read_again()

    return PeriodicTask(look, BLOCKED_EVERY_S)
