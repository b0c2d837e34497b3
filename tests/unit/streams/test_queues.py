"""Fair queues, compared with a plain model of them."""

from collections import defaultdict
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from eunoe.streams.group.fair_queues import FairQueues


@dataclass(frozen=True)
class Job:
    """A job with the place at which it was added."""

    key: object
    number: int
    urgent: bool = False
    size: int = 3


KEYS = st.sampled_from([b"a", b"b", b"c", ("topic", 0)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add", "add", "ask"]), KEYS),
        st.tuples(st.just("take"), st.integers(1, 4)),
        st.tuples(st.just("done"), st.integers(0, 3)),
        st.tuples(st.just("halt"), st.integers(0, 3)),
    ),
    max_size=60,
)


@given(STEPS)
def test_each_key_is_taken_in_order_and_one_batch_at_a_time(steps):
    queues = FairQueues()
    added, taken = defaultdict(list), defaultdict(list)
    in_work, halted = [], set()
    for number, (step, what) in enumerate(steps):
        if step in {"add", "ask"}:
            job = Job(what, number, urgent=step == "ask")
            assert queues.add(what, job) == (what not in halted)
            if what not in halted:
                added[what].append(job)
        elif step == "take" and queues.any:
            batch = queues.take(what)
            ((key,),) = ({job.key for job in batch},)
            assert 1 <= len(batch) <= what
            assert key not in in_work
            in_work.append(key)
            taken[key] += batch
        elif in_work and step in {"done", "halt"}:
            key = in_work.pop(what % len(in_work))
            if step == "done":
                queues.done(key)
            else:
                queues.halt(key)
                halted.add(key)
        left = {key: added[key][len(taken[key]) :] for key in added if key not in halted}
        assert queues.waiting == sum(map(len, left.values()))
        assert queues.waiting_bytes == 3 * queues.waiting
        assert queues.any == any(jobs for key, jobs in left.items() if key not in in_work)
        may_hurry = [key for key, jobs in left.items() if key not in in_work and any(job.urgent for job in jobs)]
        assert queues.any_urgent == bool(may_hurry)
    for key, jobs in taken.items():
        assert jobs == added[key][: len(jobs)]


def taken_keys(queues):
    """Take all that waits, job by job; the keys in their order."""
    keys = []
    while queues.any:
        (job,) = queues.take(1)
        keys.append(job.key)
        queues.done(job.key)
    return keys


def test_new_keys_alternate_with_keys_that_have_waited():
    queues = FairQueues()
    for number in range(4):
        queues.add(b"import", Job(b"import", number))
    queues.take(1)
    queues.add(b"x", Job(b"x", 4))
    queues.add(b"y", Job(b"y", 5))
    queues.done(b"import")
    assert taken_keys(queues) == [b"import", b"x", b"import", b"y", b"import"]


def test_an_urgent_key_goes_before_all_others_with_what_waits_before_it():
    queues = FairQueues()
    for number in range(100):
        queues.add(number, Job(number, number))
    for number in range(3):
        queues.add(b"asks", Job(b"asks", number, urgent=number == 2))
    keys = taken_keys(queues)
    assert [place for place, key in enumerate(keys) if key == b"asks"] == [0, 2, 4]


def test_a_key_that_becomes_urgent_while_it_is_in_work_goes_first_afterwards():
    queues = FairQueues()
    queues.add(b"asks", Job(b"asks", 0))
    queues.take(1)
    for number in range(10):
        queues.add(number, Job(number, number))
    queues.add(b"asks", Job(b"asks", 1, urgent=True))
    assert not queues.any_urgent
    queues.done(b"asks")
    assert queues.any_urgent
    assert b"asks" in taken_keys(queues)[:2]
