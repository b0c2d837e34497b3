"""Whose turn it is, against a plain account of what came and went."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from eunoe.streams.group.fair_queues import FairQueues

CHAINS = st.sampled_from([b"a", b"b", b"c", ("topic", 0)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), CHAINS),
        st.tuples(st.just("take"), st.integers(1, 4)),
        st.tuples(st.just("done"), st.integers(0, 3)),
        st.tuples(st.just("halt"), st.integers(0, 3)),
    ),
    max_size=60,
)


@given(STEPS)
def test_each_chain_is_taken_in_order_and_once_at_a_time(steps):
    queues = FairQueues()
    added, taken = defaultdict(list), defaultdict(list)
    in_work, halted = [], set()
    for number, (step, what) in enumerate(steps):
        if step == "add":
            assert queues.add(what, (what, number)) == (what not in halted)
            if what not in halted:
                added[what].append((what, number))
        elif step == "take" and queues.any:
            run = queues.take(what)
            ((chain,),) = ({job[0] for job in run},)
            assert 1 <= len(run) <= what
            assert chain not in in_work
            in_work.append(chain)
            taken[chain] += run
        elif in_work and step in {"done", "halt"}:
            chain = in_work.pop(what % len(in_work))
            if step == "done":
                queues.done(chain)
            else:
                queues.halt(chain)
                halted.add(chain)
        left = {chain: len(added[chain]) - len(taken[chain]) for chain in added if chain not in halted}
        assert queues.waiting == sum(left.values())
        assert queues.any == any(count for chain, count in left.items() if chain not in in_work)
    for chain, jobs in taken.items():
        assert jobs == added[chain][: len(jobs)]


def test_who_comes_anew_takes_turns_with_who_has_waited():
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
