"""Fair queues, compared with a plain model of them."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from eunoe.streams.group.fair_queues import FairQueues

KEYS = st.sampled_from([b"a", b"b", b"c", ("topic", 0)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS),
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
        if step == "add":
            assert queues.add(what, (what, number)) == (what not in halted)
            if what not in halted:
                added[what].append((what, number))
        elif step == "take" and queues.any:
            batch = queues.take(what)
            ((key,),) = ({job[0] for job in batch},)
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
        left = {key: len(added[key]) - len(taken[key]) for key in added if key not in halted}
        assert queues.waiting == sum(left.values())
        assert queues.any == any(count for key, count in left.items() if key not in in_work)
    for key, jobs in taken.items():
        assert jobs == added[key][: len(jobs)]


def test_new_keys_alternate_with_keys_that_have_waited():
    queues = FairQueues()
    for number in range(4):
        queues.add(b"import", number)
    taken = list(queues.take(1))
    queues.add(b"x", "x")
    queues.add(b"y", "y")
    queues.done(b"import")
    while queues.any:
        (job,) = queues.take(1)
        taken.append(job)
        queues.done(b"import" if isinstance(job, int) else str(job).encode())
    assert taken == [0, 1, "x", 2, "y", 3]
