"""`eunoe skip`: one record of a stage is passed over, by a running stage and at the next start."""

import pytest

from eunoe.deploy.inspect.skips import parse_place
from eunoe.schemas.decisions import Decision, Wait
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import SessionSkipped
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.codec import decode, encode
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.record import RecordPlace
from eunoe.streams.topics import Topic
from eunoe.workers.runner.recorded_outcomes import is_failure
from eunoe.workers.runner.skips import Skips, skip_name
from tests.support.runner_bench import Bench, Lease, Script, closed


class Stored:
    """Stored skips, in memory."""

    def __init__(self, *places: str, epoch: int = 0) -> None:
        self.found = {skip_name(RecordPlace.parse(place), epoch): "passed over: too odd" for place in places}

    async def read(self) -> dict[str, str]:
        return self.found


async def bench_with(stage: Script, *places: str, epoch: int = 0) -> tuple[Bench, Skips]:
    bench, skips = Bench(stage), Skips(epoch)
    await skips.refresh(Stored(*places, epoch=epoch))
    bench.runner._skips = skips
    return bench, skips


async def test_a_record_is_passed_over_undecided_and_the_session_goes_on_as_skipped():
    stage = Script(Decision())
    bench, _ = await bench_with(stage, "sessions/0@0")
    await bench.handle(closed(1), closed(2))
    assert [work.number for work in stage.asked] == [2]
    (skipped,) = bench.out()
    assert isinstance(skipped, SessionSkipped)
    letter, raw = read_dead_letter(bench.log.records(Topic.DEAD_LETTERS)[0])
    assert (letter.reason, letter.error) == (DeadLetterReason.FAILED, "passed over: too odd")
    assert (letter.topic, letter.partition, letter.offset, decode(raw)) == ("sessions", 0, 0, closed(1))
    assert await bench.applied() == 2


async def test_a_rebuild_repeats_it():
    bench, _ = await bench_with(Script(Decision()), "sessions/0@0")
    await bench.handle(closed(1))
    (answer,) = bench.log.records(Topic.ANSWERS)
    assert is_failure(answer.value)


async def test_a_stage_that_waits_for_ever_passes_over_it_while_it_runs():
    stage = Script(Wait("never"))
    bench, skips = await bench_with(stage)
    stored = Stored("sessions/0@0")

    class Told(Lease):
        async def pause(self, seconds: float) -> None:
            await super().pause(seconds)
            if self.left == 995:
                await skips.refresh(stored)

    await bench.runner.handle(bench.record(closed(1)), Told())
    assert bench.letters() == [DeadLetterReason.FAILED]
    assert await bench.applied() == 1


async def test_a_record_of_a_newer_version_is_passed_over_too():
    bench, _ = await bench_with(Script(Decision()), "sessions/0@0")
    newer = encode(closed(1)).replace(b'"schema_version":1', b'"schema_version":99')
    await bench.runner.handle(bench.record(newer), Lease())
    letter, raw = read_dead_letter(bench.log.records(Topic.DEAD_LETTERS)[0])
    assert (letter.error, raw) == ("passed over: too odd", newer)


async def test_other_offsets_and_other_epochs_are_decided():
    stage = Script(Decision())
    bench, skips = await bench_with(stage, "sessions/0@7", epoch=3)
    await bench.handle(closed(1))
    skips.epoch = 4
    await skips.refresh(Stored("sessions/0@1", epoch=3))
    await bench.handle(closed(2))
    assert [work.number for work in stage.asked] == [1, 2]


@pytest.mark.parametrize(
    "text", ["", "segments", "segments/1", "segments/1@", "segments/x@1", "segments/-1@2", "a/1@2 ", "segments/1@2@3"]
)
def test_other_forms_are_refused_in_one_line(text: str):
    with pytest.raises(Refused, match=r"^[^\n]*TOPIC/PARTITION@OFFSET[^\n]*$"):
        parse_place(text)


def test_a_topic_that_no_stage_reads_is_refused():
    with pytest.raises(Refused, match="no stage reads a topic 'replies'; there are changes, conversations"):
        parse_place("replies/0@1")
