"""A derivation that goes on with what was said meanwhile gives what one from the beginning gives."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.deploy.generations.catching_up import CatchingUp
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.events import ConversationEvent
from eunoe.streams.record import Record
from eunoe.workers.derive.pipeline import Derived, Deriver
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from tests.support.in_memory import Stores, make_dependencies
from tests.unit.workers.derive.test_erasure import EVERY_TURN, KEY, derive, erase, log_of, logs, plain, state


@dataclass(slots=True)
class Catching:
    """Derives the first records of a log, then more of them; notes which were derived each time."""

    derived: list[list[int]] = field(default_factory=list)
    """The number of each record, as it is reported, by attempt."""
    of: CatchingUp = field(init=False)

    def __post_init__(self) -> None:
        deriver = Deriver(make_dependencies(Stores(), EVERY_TURN), RunnerSettings(), RecordedOutcomes())
        self.of = CatchingUp(deriver, KEY, 0, lambda _key, at, _total: self.derived[-1].append(at))

    async def up(self, records: Sequence[Record], erased: ErasedPart | None = None) -> Derived:
        self.derived.append([])
        return await self.of.derive(records, erased)


def made(derived: Derived) -> list[tuple[str, bytes]]:
    """The events of the stages; two stages that write to one topic take turns as they come."""
    return sorted((one.topic, one.value) for one in derived.records)


@settings(max_examples=15)
@given(logs(), st.data())
async def test_parts_give_the_same_as_all_at_once(
    drawn: tuple[list[ConversationEvent], list[str]], data: st.DataObject
):
    records, gone = log_of(drawn[0]), drawn[1]
    erased = ErasedPart.of(await erase(records, *gone)) if gone and data.draw(st.booleans(), "erased") else None
    ends = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=3), "ends"))
    catching = Catching()
    for end in ends:
        await catching.up(records[:end], erased)
    found, whole = await catching.up(records, erased), await derive(records, erased)
    assert state(found) == state(whole)
    assert made(found) == made(whole)


async def test_only_what_is_new_is_derived():
    records, catching = log_of(plain()), Catching()
    for end in (4, 6, len(records)):
        await catching.up(records[:end])
    assert catching.derived == [[1, 2, 3, 4], [5, 6], list(range(7, len(records) + 1))]


async def test_an_erasure_between_two_attempts_begins_again():
    records, catching = log_of(plain()), Catching()
    await catching.up(records)
    part = ErasedPart.of(await erase(records, "u2"))
    assert state(await catching.up(records, part)) == state(await derive(records, part))


async def test_a_record_that_was_not_there_before_begins_again():
    records, catching = log_of(plain()), Catching()
    await catching.up([*records[:3], *records[4:6]])
    assert state(await catching.up(records)) == state(await derive(records))
    assert catching.derived[1] == list(range(1, len(records) + 1))
