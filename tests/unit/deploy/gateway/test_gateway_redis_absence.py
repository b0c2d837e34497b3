"""A Redis that hangs is waited for once, not by each request."""

import pytest

from eunoe.deploy.gateway.redis_absence import AWAY_S, RedisAbsence
from eunoe.schemas.errors import Unavailable


class Redis:
    """Fails after some seconds by a clock of its own, or answers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.takes_s: float | None = None
        self.asked = 0
        self.absence = RedisAbsence(lambda: self.now)

    def ask(self) -> None:
        with self.absence.noticed():
            self.asked += 1
            if self.takes_s is not None:
                self.now += self.takes_s
                raise Unavailable("Redis does not answer")


def test_a_redis_that_hangs_is_asked_again_after_a_while():
    redis = Redis()
    redis.takes_s = 2.0
    for _ in range(5):
        with pytest.raises(Unavailable):
            redis.ask()
    assert (redis.asked, redis.now) == (1, 2.0)
    redis.now += AWAY_S
    redis.takes_s = None
    redis.ask()
    redis.ask()
    assert redis.asked == 3


def test_a_redis_that_refuses_at_once_is_asked_each_time():
    redis = Redis()
    redis.takes_s = 0.01
    for _ in range(5):
        with pytest.raises(Unavailable):
            redis.ask()
    assert redis.asked == 5
