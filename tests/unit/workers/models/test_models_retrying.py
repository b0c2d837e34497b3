from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.errors import Unavailable
from eunoe.workers.models.endpoint.client import retry_after_of
from eunoe.workers.models.endpoint.retrying import RetryEnvironment, Retrying, RetryPolicy, Transient


class World:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def surroundings(self, chance: float = 0.0) -> RetryEnvironment:
        return RetryEnvironment(self.sleep, lambda: chance, lambda: 0.0)


def failing(*faults: Transient):
    left = list(faults)

    async def attempt() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return attempt


async def test_pauses_grow_and_each_retry_is_told():
    world, told = World(), []
    retrying = Retrying(RetryPolicy(first_s=1, longest_s=3), world.surroundings())
    assert await retrying.run(failing(*[Transient("away")] * 4), lambda: told.append(1)) == "done"
    assert world.slept == [1, 2, 3, 3]
    assert len(told) == 4


async def test_the_last_fault_is_told_when_the_policy_gives_up():
    world = World()
    with pytest.raises(Unavailable, match=r"second \(attempt 2 of 2\)"):
        await Retrying(RetryPolicy(attempts=2), world.surroundings()).run(
            failing(Transient("first"), Transient("second")), lambda: None
        )
    assert len(world.slept) == 1


async def test_a_servers_wish_is_honoured_and_an_endless_one_is_not():
    world = World()
    retrying = Retrying(RetryPolicy(max_retry_after_s=30), world.surroundings())
    assert await retrying.run(failing(Transient("busy", 7.0)), lambda: None) == "done"
    assert world.slept == [7.0]
    with pytest.raises(Unavailable):
        await retrying.run(failing(Transient("busy", 31.0)), lambda: None)
    assert world.slept == [7.0]


@given(st.integers(1, 50), st.floats(0, 0.999), st.none() | st.floats(0, 60))
def test_no_pause_is_shorter_than_wished_or_longer_than_allowed(attempt: int, chance: float, retry_after: float | None):
    policy = RetryPolicy(attempts=100)
    pause = policy.pause(attempt, retry_after, chance)
    assert pause is not None
    if retry_after is None:
        assert policy.first_s * (1 - policy.jitter) <= pause <= policy.longest_s
    else:
        assert retry_after <= pause <= retry_after + policy.first_s


@pytest.mark.parametrize(
    ("headers", "retry_after"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": formatdate(1010, usegmt=True)}, 10.0),
        ({"retry-after": formatdate(900, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-4"}, None),
    ],
)
def test_retry_after_is_read(headers: dict[str, str], retry_after: float | None):
    assert retry_after_of(headers, now=1000.0) == retry_after
