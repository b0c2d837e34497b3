"""How long the demo waits without progress."""

import pytest

from eunoe.deploy.cli.demo import patience_to_wait_s
from eunoe.deploy.demo.play import wait_until_remembered
from eunoe.deploy.settings import read_settings
from eunoe.schemas.errors import Unavailable
from eunoe.workers.stores.state.memory_store import MemoryStore


def test_without_a_model_two_minutes_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert patience_to_wait_s(read_settings()) == 120.0


def test_a_model_may_take_its_time_for_each_decision_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("EUNOE_MODEL_DECISION_SECONDS", "300")
    assert patience_to_wait_s(read_settings()) == 1320.0


async def test_who_waits_in_vain_is_told_how_to_wait_longer() -> None:
    with pytest.raises(Unavailable, match=r"0 of 2 sessions.*--timeout"):
        await wait_until_remembered(MemoryStore(), "default/nobody", 2, lambda _: None, 0.0)
