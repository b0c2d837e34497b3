"""The bound on keys in work, by the lag of the event loop and by asks."""

from dataclasses import dataclass

import pytest

from eunoe.deploy.process.backpressure import ASKED_FOR_S, ASKED_LAG_S, FEW, LAG_S, LagBackpressure

FEWEST = 1


@dataclass
class World:
    lag_s: float = 0.0
    asked: bool = False
    now: float = 100.0

    def backpressure(self) -> LagBackpressure:
        return LagBackpressure(lambda: self.lag_s, lambda: self.asked, few_asked=FEWEST, clock=lambda: self.now)


@pytest.mark.parametrize(
    ("lag_s", "asked", "most"),
    [
        (LAG_S, False, None),
        (LAG_S * 1.01, False, FEW),
        (ASKED_LAG_S, True, None),
        (ASKED_LAG_S * 1.01, True, FEWEST),
        (LAG_S * 10, True, FEWEST),
    ],
)
def test_fewer_keys_are_in_work_where_the_loop_lags(lag_s: float, asked: bool, most: int | None) -> None:
    assert World(lag_s, asked).backpressure().most_in_work() == most


def test_after_an_ask_another_one_is_expected_for_a_while() -> None:
    world = World(lag_s=LAG_S / 2, asked=True)
    backpressure = world.backpressure()
    assert backpressure.most_in_work() == FEWEST
    world.asked = False
    world.now += ASKED_FOR_S / 2
    assert backpressure.most_in_work() == FEWEST
    world.now += ASKED_FOR_S
    assert backpressure.most_in_work() is None


def test_a_stage_whose_keys_wait_for_a_model_keeps_as_many_while_somebody_asks() -> None:
    assert LagBackpressure(lambda: LAG_S * 10, lambda: True).most_in_work() == FEW


def test_nobody_has_asked_when_a_process_begins() -> None:
    world = World(lag_s=LAG_S / 2, now=0.0)
    assert world.backpressure().most_in_work() is None
